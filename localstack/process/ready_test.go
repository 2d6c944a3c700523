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
		t.Errorf("free port %d: got %d, %v", free, again, err)
	}
	server := httptest.NewServer(nil)
	defer server.Close()
	if port, err := process.FreePort(server.Listener.Addr().(*net.TCPAddr).Port); err == nil {
		t.Errorf("port %d is reported free while a server listens on it", port)
	}
}

func TestWaitReady_RetriesUntilReadyEndedOrTimeout(t *testing.T) {
	requests, readyAfter := 0, 3
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if requests++; requests < readyAfter {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer server.Close()
	noError := func(struct{}) error { return nil }
	if err := process.WaitReady(t.Context(), server.URL, time.Millisecond, nil, noError); err != nil || requests != readyAfter {
		t.Errorf("%d requests: %v", requests, err)
	}
	readyAfter = 1 << 30
	ended, errEnded := make(chan error, 1), errors.New("it has ended")
	ended <- errEnded
	if err := process.WaitReady(t.Context(), server.URL, time.Hour, ended, func(err error) error { return err }); !errors.Is(err, errEnded) {
		t.Errorf("ended server: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := process.WaitReady(ctx, server.URL, time.Millisecond, nil, noError); !errors.Is(err, process.ErrNotReady) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("timeout: %v", err)
	}
}

func TestReadyLine_AcceptsPartialWrites(t *testing.T) {
	r := process.NewReadyLine()
	for _, piece := range []string{"some noise\nrea", "dy http://x", ":1\nmore\nready again\n", "still more"} {
		if n, err := r.Write([]byte(piece)); n != len(piece) || err != nil {
			t.Fatal(n, err)
		}
	}
	if url := <-r.URL(); url != "http://x:1" {
		t.Errorf("found %q", url)
	}
}
