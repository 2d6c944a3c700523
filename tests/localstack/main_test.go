// Package localstack deploys the real stack into LocalStack with the CDK command line and
// tests it through its API.
//
// main_test.go starts and stops LocalStack (localstack/emulator). Without
// LOCKSTEP_E2E=localstack, which make test-localstack sets, no test runs. stack_test.go
// bootstraps, deploys, updates and destroys. deployed_test.go deploys two apps: that of
// infra, on which e2e_test.go runs tests/e2e and which is updated during an execution; and
// app/, with worker pools of its own, on which the scenarios of scenarios_test.go run. Their
// workers are that of examples/fleet and faulty/, which fails as commands_test.go says.
// queues_test.go uses the AWS services directly, secrets_test.go reads secrets and seals with KMS, receivers_test.go
// sends to a bus and a topic, event_sources_test.go receives from a bus, doctor_test.go runs lockstep doctor, and
// restore_test.go sets a stack back to an earlier time.
//
// docs/aws-behaviours.md says what is verified here. LOCKSTEP_E2E_RUN selects tests of
// tests/e2e.
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

// localStack is shared by all tests.
var localStack *emulator.LocalStack

// TestMain starts LocalStack before the tests and stops it after them.
func TestMain(m *testing.M) {
	if os.Getenv("LOCKSTEP_E2E") != "localstack" {
		fmt.Println("tests/localstack: not run; make test-localstack runs it")
		return
	}
	os.Exit(runTests(m))
}

func runTests(m *testing.M) int {
	// An interrupt stops LocalStack too.
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
			_ = localStack.Stop() // the tests fail at once
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

// printDuration prints the time since a start.
func printDuration(what string, since time.Time) {
	fmt.Printf("%-32s %6.1f s\n", what, time.Since(since).Seconds())
}
