package e2e

import (
	"strings"
	"testing"

	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// TestHTTPBlock_UnreachableFailsSafely: a block that is neither pure nor reversible, and that could not
// be called at all, has changed nothing: the run fails safely, and says which
// setting would allow the call.
func TestHTTPBlock_UnreachableFailsSafely(t *testing.T) {
	t.Parallel()
	s := startStack(t, stackOptions{})
	b := workflow.Block{Package: "test", Name: "hello", Version: "1.0.0", HTTP: &workflow.Endpoint{URL: "http://192.0.2.1/"}}
	if _, err := s.RegisterBlock(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	s.publish(globalWorkflow)
	x := s.waitForState(s.startExecution("test/hello", "{}"), sm.ExecutionFailedSafeAck)
	if x.Error == nil || !strings.Contains(x.Error.Message, "worker.allowHosts") || x.Progress.Jobs.Failed != 1 {
		t.Errorf("error %+v, jobs %+v", x.Error, x.Progress.Jobs)
	}
}
