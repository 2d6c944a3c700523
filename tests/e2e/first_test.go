package e2e

import (
	"fmt"
	"testing"

	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

const global = `
package: test
name: hello
version: 1.0.0
steps:
  - {label: hello, functionBlock: test/hello:1, runOn: global}
`

// TestGlobal is N1: a global workflow visits every state in order.
func TestGlobal(t *testing.T) {
	s := start(t, setup{})
	b := serveBlocks(t)
	b.register(s, workflow.Block{Name: "hello", Pure: true})
	s.publish(global)
	id := s.begin("test/hello", "{}")
	s.rests(id, sm.ExecutionCompletedAck)
	want := "[NEW VALID READY RESOURCE_DISCOVERY RESOURCES_DISCOVERED SCHEDULED LOCKING LOCKED RUNNING COMPLETED COMPLETED_ACK]"
	if states := fmt.Sprint(s.states(id)); states != want {
		t.Errorf("visited %s, want %s", states, want)
	}
	s.unlocked(id)
}
