package localstack

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/localstack/emulator"
)

// localStack is the one LocalStack of all tests here.
var localStack *emulator.LocalStack

// TestMain brings LocalStack up for the tests and takes it down after them.
func TestMain(m *testing.M) {
	if os.Getenv("LOCKSTEP_E2E") != "localstack" {
		fmt.Println("tests/localstack: not asked for; make test-localstack runs it")
		return
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	// An interrupted test run ends what it has started, too.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	began := time.Now()
	cache := os.Getenv("LOCKSTEP_LOCALSTACK_CACHE")
	if cache == "" {
		cache = filepath.Join("..", "..", "bin", "localstack")
	}
	var err error
	localStack, err = emulator.Start(ctx, emulator.Options{Dir: cache, Mode: os.Getenv("LOCKSTEP_LOCALSTACK"), Log: os.Stderr})
	if errors.Is(err, emulator.ErrUnavailable) && os.Getenv("CI") == "" {
		fmt.Printf("tests/localstack: SKIPPED, nothing was tested: %v\n", err)
		return 0
	}
	if err != nil {
		fmt.Println("tests/localstack:", err)
		return 1
	}
	printDuration("LocalStack ready", began)
	ended := make(chan struct{})
	go func() {
		select {
		case <-ctx.Done():
			_ = localStack.Stop() // the tests fail at once, and say so
		case <-ended:
		}
	}()
	code := m.Run()
	close(ended)
	if err := localStack.Stop(); err != nil {
		fmt.Println("tests/localstack: stop:", err)
		code = max(code, 1)
	}
	return code
}

// printDuration prints how long something has taken.
func printDuration(what string, since time.Time) {
	fmt.Printf("%-32s %6.1f s\n", what, time.Since(since).Seconds())
}
