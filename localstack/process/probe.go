package process

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"
)

// FreePort is the one that is wanted, or with 0 one that the system picks. One that
// somebody uses is an error: whoever it is might be mistaken for our own server.
func FreePort(wanted int) (int, error) {
	listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(wanted)))
	if err != nil {
		return 0, err
	}
	return listener.Addr().(*net.TCPAddr).Port, listener.Close()
}

// ErrNotReady is the error of a server that has not answered in time.
var ErrNotReady = errors.New("it is not ready")

// probeClient asks on a connection of its own, which nobody is left to close.
var probeClient = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// WaitReady returns when a GET of the address is answered with 200. What comes over a
// channel before that ends the waiting with the error that why makes of it; when ctx
// ends, the error is ErrNotReady.
func WaitReady[T any](ctx context.Context, url string, interval time.Duration, ended <-chan T, endedError func(T) error) error {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		if reply, err := probeClient.Do(request); err == nil {
			_ = reply.Body.Close() // only the status is of interest
			if reply.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case what := <-ended:
			return endedError(what)
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ErrNotReady, ctx.Err())
		case <-tick.C:
		}
	}
}
