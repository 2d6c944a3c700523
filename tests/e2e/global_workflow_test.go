package e2e

import (
	"fmt"
	"testing"

	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

const globalWorkflow = `
package: test
name: hello
version: 1.0.0
steps:
  - {label: hello, functionBlock: test/hello:1, runOn: global}
`

// TestGlobalWorkflow_VisitsEveryState is N1: a global workflow visits every state in order.
func TestGlobalWorkflow_VisitsEveryState(t *testing.T) {
	s := startStack(t, stackOptions{})
	b := serveBlocks(t)
	b.register(s, workflow.Block{Name: "hello", Pure: true})
	s.publish(globalWorkflow)
	id := s.startExecution("test/hello", "{}")
	s.waitForState(id, sm.ExecutionCompletedAck)
	want := "[NEW VALID READY RESOURCE_DISCOVERY RESOURCES_DISCOVERED SCHEDULED LOCKING LOCKED RUNNING COMPLETED COMPLETED_ACK]"
	if states := fmt.Sprint(s.stateHistory(id)); states != want {
		t.Errorf("visited %s, want %s", states, want)
	}
	s.wantNoLocks(id)
}
