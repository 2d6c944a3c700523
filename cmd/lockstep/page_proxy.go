package main

import (
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
)

// forwardedHeaders are the headers of a browser's request that go on to the service. Others are
// about the browser, and would only be signed.
var forwardedHeaders = []string{"Accept", "If-None-Match", "If-Modified-Since", "Range"}

// localHosts are the names under which a browser on this machine may call. Any other has
// been led here by a page from elsewhere whose name resolves to this machine.
var localHosts = []string{"localhost", "127.0.0.1", "::1"}

// newPageProxy asks the service what a browser on this machine wants to read.
func newPageProxy(service *url.URL, send http.RoundTripper, tenant string) http.Handler {
	forward := &httputil.ReverseProxy{
		Transport:     send,
		FlushInterval: -1,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(service)
			r.Out.Header = http.Header{}
			for _, name := range forwardedHeaders {
				if values := r.In.Header.Values(name); len(values) > 0 {
					r.Out.Header[name] = values
				}
			}
			if tenant != "" {
				r.Out.Header.Set("X-Tenant", tenant)
			}
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			http.Error(w, "lockstep page: cannot reach "+service.Host+": "+err.Error(), http.StatusBadGateway)
		},
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := r.Host
		if name, _, err := net.SplitHostPort(host); err == nil {
			host = name
		}
		switch from := r.Header.Get("Sec-Fetch-Site"); {
		case !slices.Contains(localHosts, host), from == "cross-site", from == "same-site":
			http.Error(w, "lockstep page: this page is for a browser on this machine", http.StatusForbidden)
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "lockstep page: what is shown here is read, not changed", http.StatusMethodNotAllowed)
		default:
			forward.ServeHTTP(w, r)
		}
	})
}
