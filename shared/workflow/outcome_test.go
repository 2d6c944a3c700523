package workflow

import (
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/statemachines"
)

// What a cancelled execution has left without saying on which entities is on all of them, also
// after somebody has acknowledged it. One that has left nothing needs no acknowledgement.
func TestRestOutcome_AfterACancel(t *testing.T) {
	began, seen := time.Unix(1, 0), &Acknowledgements{}
	for _, c := range []struct {
		x    Execution
		want EntityOutcome
	}{
		{Execution{State: statemachines.ExecutionCancelled, StartedAt: began}, EntityFailedUnsafe},
		{Execution{State: statemachines.ExecutionCancelledAck, StartedAt: began, Acknowledged: seen}, EntityFailedUnsafe},
		{Execution{State: statemachines.ExecutionCancelledAck, StartedAt: began}, EntityFailedSafe},
		{Execution{State: statemachines.ExecutionCancelledAck, Acknowledged: seen}, EntitySkipped},
	} {
		if got := c.x.RestOutcome(); got != c.want {
			t.Errorf("%s, acknowledged %v: %s, want %s", c.x.State, c.x.Acknowledged, got, c.want)
		}
	}
}
