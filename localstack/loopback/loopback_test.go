package loopback_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/localstack/loopback"
)

func TestPort(t *testing.T) {
	free, err := loopback.Port(0)
	if err != nil || free == 0 {
		t.Fatal(free, err)
	}
	if again, err := loopback.Port(free); err != nil || again != free {
		t.Errorf("%d, which nobody uses: %d, %v", free, again, err)
	}
	server := httptest.NewServer(nil)
	defer server.Close()
	if port, err := loopback.Port(server.Listener.Addr().(*net.TCPAddr).Port); err == nil {
		t.Errorf("%d is free although somebody uses it", port)
	}
}

// A server that is not ready is asked again; its end, and that of patience, are told.
func TestAnswers(t *testing.T) {
	asked, ready := 0, 3
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if asked++; asked < ready {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer server.Close()
	never := func(struct{}) error { return nil }
	if err := loopback.Answers(t.Context(), server.URL, time.Millisecond, nil, never); err != nil || asked != ready {
		t.Errorf("asked %d times: %v", asked, err)
	}
	ready = 1 << 30
	ended, dead := make(chan error, 1), errors.New("it has ended")
	ended <- dead
	if err := loopback.Answers(t.Context(), server.URL, time.Hour, ended, func(err error) error { return err }); !errors.Is(err, dead) {
		t.Errorf("its end: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := loopback.Answers(ctx, server.URL, time.Millisecond, nil, never); !errors.Is(err, loopback.ErrNotReady) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the end of patience: %v", err)
	}
}
