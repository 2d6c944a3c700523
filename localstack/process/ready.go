package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// FreePort checks that a port of 127.0.0.1 is free, or picks one if wanted is 0.
// A port in use is an error: whoever listens there could be taken for our server.
func FreePort(wanted int) (int, error) { return FreePortOn("127.0.0.1", wanted) }

// FreePortOn is [FreePort] for another address of this machine.
func FreePortOn(host string, wanted int) (int, error) {
	listener, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(wanted)))
	if err != nil {
		return 0, err
	}
	return listener.Addr().(*net.TCPAddr).Port, listener.Close()
}

// ErrNotReady is the error of a server that has not answered in time.
var ErrNotReady = errors.New("not ready in time")

// probeClient opens a connection for each request, so that none is left open.
var probeClient = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// WaitReady polls url with GET until the answer is 200. A value on ended stops it
// with the error that endedError returns for the value. When ctx ends, the error
// wraps ErrNotReady.
func WaitReady[T any](ctx context.Context, url string, interval time.Duration, ended <-chan T, endedError func(T) error) error {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		if reply, err := probeClient.Do(request); err == nil {
			_ = reply.Body.Close() // only the status matters
			if reply.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case value := <-ended:
			return endedError(value)
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ErrNotReady, ctx.Err())
		case <-tick.C:
		}
	}
}

// ReadyLine finds the line "ready URL" in a program's standard output and drops
// the rest. Use it as the Stdout of a command.
type ReadyLine struct {
	url chan string

	mu   sync.Mutex
	text []byte
	done bool
}

// NewReadyLine returns a writer that has seen no line yet.
func NewReadyLine() *ReadyLine { return &ReadyLine{url: make(chan string, 1)} }

// URL delivers the URL of the first ready line.
func (r *ReadyLine) URL() <-chan string { return r.url }

// Write never fails.
func (r *ReadyLine) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.done {
		return len(p), nil
	}
	r.text = append(r.text, p...)
	for {
		line, rest, whole := bytes.Cut(r.text, []byte("\n"))
		if !whole {
			return len(p), nil
		}
		r.text = rest
		if url, ok := strings.CutPrefix(string(line), "ready "); ok {
			r.done, r.text = true, nil
			r.url <- url
			return len(p), nil
		}
	}
}
