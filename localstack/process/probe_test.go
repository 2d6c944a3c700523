package process_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/localstack/process"
)

func TestFreePort_RejectsPortInUse(t *testing.T) {
	free, err := process.FreePort(0)
	if err != nil || free == 0 {
		t.Fatal(free, err)
	}
	if again, err := process.FreePort(free); err != nil || again != free {
		t.Errorf("%d, which nobody uses: %d, %v", free, again, err)
	}
	server := httptest.NewServer(nil)
	defer server.Close()
	if port, err := process.FreePort(server.Listener.Addr().(*net.TCPAddr).Port); err == nil {
		t.Errorf("%d is free although somebody uses it", port)
	}
}

// A server that is not ready is asked again; its end, and that of patience, are told.
func TestWaitReady_RetriesUntilReadyEndedOrTimeout(t *testing.T) {
	asked, ready := 0, 3
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if asked++; asked < ready {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer server.Close()
	noError := func(struct{}) error { return nil }
	if err := process.WaitReady(t.Context(), server.URL, time.Millisecond, nil, noError); err != nil || asked != ready {
		t.Errorf("asked %d times: %v", asked, err)
	}
	ready = 1 << 30
	ended, errEnded := make(chan error, 1), errors.New("it has ended")
	ended <- errEnded
	if err := process.WaitReady(t.Context(), server.URL, time.Hour, ended, func(err error) error { return err }); !errors.Is(err, errEnded) {
		t.Errorf("its end: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := process.WaitReady(ctx, server.URL, time.Millisecond, nil, noError); !errors.Is(err, process.ErrNotReady) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the end of patience: %v", err)
	}
}
