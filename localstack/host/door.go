package host

import (
	"context"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
)

// Door serves a function URL under an address that everybody can call: requests go
// to LocalStack, whose host is 127.0.0.1, under the host name of the function, which
// nobody resolves. pass, which may be nil, changes each request on its way.
func (e *Emulator) Door(function string, pass func(*http.Request)) (http.Handler, error) {
	return Door(function, "127.0.0.1:"+strconv.Itoa(e.port), pass)
}

// Door does so for a LocalStack that another process has started, at host:port.
func Door(function, at string, pass func(*http.Request)) (http.Handler, error) {
	to, err := url.Parse(function)
	if err != nil {
		return nil, err
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = 32
	transport.DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, at)
	}
	return &httputil.ReverseProxy{
		Transport: transport,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(to) // and with it the Host header
			r.Out.Host = to.Host
			if pass != nil {
				pass(r.Out)
			}
		},
	}, nil
}
