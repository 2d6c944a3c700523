package lifecycle

import (
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// EventMessageDeadLettered tells that a queue has given up on a message of the run, which
// lies among the queue's dead letters now. It is told under the step whose jobs the
// message offered or, of a message to the engine itself, under the workflow. It is
// no event of any layer: it moves nothing, and names no states.
const EventMessageDeadLettered = "message.dead_lettered"

// RecordDeadLetter is the execution with the notice that a message of it has died. Nothing else
// about it changes, whatever its state: what was lost is offered again when its
// alarm rings.
func RecordDeadLetter(x *workflow.Execution, dead workflow.DeadLetter, now time.Time) (*workflow.Execution, error) {
	d := decider{execution: x.Clone(), now: now}
	e := workflow.Event{Layer: string(sm.LayerWorkflow), Type: EventMessageDeadLettered, Step: dead.Step}
	data := map[string]any{"message": dead.MessageID, "queue": dead.Queue, "reason": dead.Reason, "receives": dead.ReceiveCount}
	if dead.Pack != nil {
		e.Layer, data["pack"] = string(sm.LayerStep), dead.Pack.String()
	}
	d.record(e, data)
	d.execution.Version++
	return d.execution, d.err
}
