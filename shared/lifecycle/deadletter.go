package lifecycle

import (
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// EventMessageDeadLettered is the event of a message of the execution that its queue moved to the
// dead-letter queue. It is recorded under the step whose jobs the message carried or, for a message
// to the engine, under the workflow. It belongs to no layer's transition table: it changes no state
// and names none.
const EventMessageDeadLettered = "message.dead_lettered" // a queue has given up on a message of the execution

// RecordDeadLetter returns the execution with the event of a dead-lettered message. It works in any
// state, changes nothing else, and never advances the execution: when its timer fires, the lost
// message is sent again.
func RecordDeadLetter(x *workflow.Execution, dead workflow.DeadLetter, now time.Time) (*workflow.Execution, error) {
	d := decider{execution: x.Clone(), now: now}
	e := workflow.Event{Layer: string(sm.LayerWorkflow), Type: EventMessageDeadLettered, Step: dead.Step}
	data := map[string]any{"message": dead.MessageID, "queue": dead.Queue, "reason": workflow.Truncate(dead.Reason, workflow.MaxReasonBytes), "receives": dead.ReceiveCount}
	if dead.Pack != nil {
		e.Layer, data["pack"] = string(sm.LayerStep), dead.Pack.String()
	}
	d.record(e, data)
	d.execution.Version++
	return d.execution, d.err
}
