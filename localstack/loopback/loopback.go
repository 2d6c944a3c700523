package loopback

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"
)

// Port is the one that is wanted, or with 0 one that the system picks. One that
// somebody uses is an error: whoever it is might be mistaken for our own server.
func Port(wanted int) (int, error) {
	listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(wanted)))
	if err != nil {
		return 0, err
	}
	return listener.Addr().(*net.TCPAddr).Port, listener.Close()
}

// ErrNotReady is the error of a server that has not answered in time.
var ErrNotReady = errors.New("it is not ready")

// once asks on a connection of its own, which nobody is left to close.
var once = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// Answers returns when a GET of the address is answered with 200. What comes over a
// channel before that ends the waiting with the error that why makes of it; when ctx
// ends, the error is ErrNotReady.
func Answers[T any](ctx context.Context, url string, every time.Duration, over <-chan T, why func(T) error) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		if reply, err := once.Do(request); err == nil {
			_ = reply.Body.Close() // only the status is of interest
			if reply.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case what := <-over:
			return why(what)
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ErrNotReady, ctx.Err())
		case <-tick.C:
		}
	}
}
