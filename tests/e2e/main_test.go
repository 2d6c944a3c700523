// Package e2e tests the real binaries on the local stack from outside: over HTTP, by
// killing processes, and by the logs of simulated devices.
//
//   - stack_test.go starts bin/lockstep dev with thresholds shortened by configuration.
//     blocks_test.go serves function blocks over HTTP and checks every call.
//     proxies_test.go puts a queue server and a DynamoDB of the test behind the stack,
//     whose requests can be held, rejected, duplicated and reordered.
//   - deployed_test.go: with LOCKSTEP_E2E=localstack the tests use a deployed stack, each
//     as a separate tenant; those that need their own stack are skipped with a reason.
//   - scenarios_test.go (with outcomes_test.go, views_test.go and
//     status_contract_test.go), lifecycle_test.go (with values_test.go, nested_test.go,
//     attempts_test.go, operators_test.go, inventory_test.go, language_test.go,
//     locks_and_timeouts_test.go and combinations_test.go) and schedule_test.go run
//     scenarios in parallel on one stack.
//   - crash_test.go, concurrency_test.go, engine_errors_test.go, fence_test.go and
//     workers_test.go kill, stop or hold something and have their own stacks.
//   - invalid_requests_test.go, cli_test.go, doctor_test.go, redrive_test.go,
//     transfer_test.go, telemetry_test.go and demo_test.go test the other interfaces.
//   - guides_test.go executes the commands on pages of docs.
//
// docs/scenarios.md lists which test proves which acceptance scenario.
package e2e

import (
	"flag"
	"os"
	"runtime"
	"strconv"
	"testing"
)

// TestMain looks for the secrets of all tests in what their stacks have left (secret_scan_test.go), and runs three times as many tests in parallel as there are processors, because they
// mostly wait for leases to expire. -parallel overrides it.
func TestMain(m *testing.M) {
	flag.Parse()
	isSet := false
	flag.Visit(func(f *flag.Flag) { isSet = isSet || f.Name == "test.parallel" })
	if !isSet {
		if err := flag.Set("test.parallel", strconv.Itoa(3*runtime.GOMAXPROCS(0))); err != nil {
			panic(err)
		}
	}
	os.Exit(scanSuite(m.Run()))
}
