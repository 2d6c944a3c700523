package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockstep-run/lockstep/shared/client"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// newPage takes a function that finds the service, since the flags are read later.
func newPage(find func() (address, tenant string, send http.RoundTripper, err error)) *cobra.Command {
	port := 3031
	cmd := &cobra.Command{
		Use:   "page",
		Short: "Serve the monitor page of a service on AWS to a browser on this machine",
		Long: "Serve the monitor page of a service on AWS to a browser on this machine, until Ctrl-C. A browser cannot sign\n" +
			"requests, so this command signs them with your credentials or LOCKSTEP_TOKEN. It only reads, and only this\n" +
			"machine can use it.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			address, tenant, send, err := find()
			if err != nil {
				return err
			}
			service, err := url.Parse(address)
			if err != nil || service.Host == "" {
				return fmt.Errorf("%q is not an address of a service", address)
			}
			if err := checkReachable(cmd.Context(), service, send); err != nil {
				return err
			}
			listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
			if err != nil {
				return fmt.Errorf("%w: choose another port with --port, or a free one with --port 0", err)
			}
			fmt.Fprintf(cmd.OutOrStdout(), "the page of %s is at http://localhost:%d; Ctrl-C stops it\n", service.Host, listener.Addr().(*net.TCPAddr).Port)
			return serveUntilDone(cmd.Context(), listener, newPageProxy(service, send, tenant))
		},
	}
	cmd.Flags().IntVar(&port, "port", port, "port on this machine; 0 picks a free one")
	return cmd
}

// checkReachable returns why the service cannot be reached, before a browser opens the page.
func checkReachable(ctx context.Context, service *url.URL, send http.RoundTripper) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, service.JoinPath("/health").String(), nil)
	if err != nil {
		return err
	}
	answer, err := send.RoundTrip(r)
	if refused := (*workflow.Error)(nil); errors.As(err, &refused) {
		return err
	}
	if err != nil {
		return &client.UnreachableError{URL: service.Scheme + "://" + service.Host, Err: err}
	}
	return answer.Body.Close()
}

// serveUntilDone serves until the context is cancelled, which is not an error.
func serveUntilDone(ctx context.Context, listener net.Listener, h http.Handler) error {
	server := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	shutdown, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	if err := server.Shutdown(shutdown); errors.Is(err, context.DeadlineExceeded) {
		return server.Close()
	}
	return nil
}

// forwardedHeaders are the headers of a browser's request that the proxy forwards.
// The others concern the browser only, and the proxy would have to sign them.
var forwardedHeaders = []string{"Accept", "If-None-Match", "If-Modified-Since", "Range"}

// localHosts are the Host names that the proxy accepts. Any other comes from a page
// of another site whose name resolves to this machine (DNS rebinding).
var localHosts = []string{"localhost", "127.0.0.1", "::1"}

// newPageProxy forwards the reads of a browser on this machine to the service.
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
			http.Error(w, "lockstep page: only a browser on this machine may use this page", http.StatusForbidden)
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "lockstep page: this proxy only reads", http.StatusMethodNotAllowed)
		default:
			forward.ServeHTTP(w, r)
		}
	})
}
