package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockstep-run/lockstep/shared/client"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// newPage is the verb. Where the service is, is known when the flags have been read.
func newPage(address, tenant *string, send http.RoundTripper) *cobra.Command {
	port := 3031
	cmd := &cobra.Command{
		Use:   "page",
		Short: "Show the page of a service on AWS in a browser on this machine",
		Long: "Show the page of a service on AWS in a browser on this machine, until Ctrl-C. A browser cannot sign requests; this\n" +
			"does so in its place, with your credentials or LOCKSTEP_TOKEN. It reads and never writes, and only this machine can use it.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			service, err := url.Parse(*address)
			if err != nil || service.Host == "" {
				return fmt.Errorf("%q is not the address of a service", *address)
			}
			if err := checkReachable(cmd.Context(), service, send); err != nil {
				return err
			}
			listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
			if err != nil {
				return fmt.Errorf("%w: --port names another, 0 a free one", err)
			}
			fmt.Fprintf(cmd.OutOrStdout(), "the page of %s is at http://localhost:%d; Ctrl-C ends this\n", service.Host, listener.Addr().(*net.TCPAddr).Port)
			return serveUntilDone(cmd.Context(), listener, newPageProxy(service, send, *tenant))
		},
	}
	cmd.Flags().IntVar(&port, "port", port, "port on this machine; 0 takes a free one")
	return cmd
}

// checkReachable reports why the service cannot be reached, before anybody waits for a page.
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

// serveUntilDone serves until the context ends, which is no error.
func serveUntilDone(ctx context.Context, listener net.Listener, h http.Handler) error {
	server := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	if err := server.Shutdown(end); errors.Is(err, context.DeadlineExceeded) {
		return server.Close()
	}
	return nil
}
