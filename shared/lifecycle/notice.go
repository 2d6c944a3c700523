package lifecycle

import (
	"time"

	"github.com/lockstep-run/lockstep/shared/lifecycle/draft"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// NoticeMessageDead tells that a queue has given up on a message of the run, which
// lies among the queue's dead letters now. It is told under the step whose jobs the
// message offered or, of a message to the engine itself, under the workflow. It is
// no event of any layer: it moves nothing, and names no states.
const NoticeMessageDead = "message.dead_lettered"

// Died is the execution with the notice that a message of it has died. Nothing else
// about it changes, whatever its state: what was lost is offered again when its
// alarm rings.
func Died(x *workflow.Execution, dead workflow.Dead, now time.Time) (*workflow.Execution, error) {
	d := draft.Draft{X: x.Clone(), Now: now}
	e := workflow.Event{Layer: string(sm.LayerWorkflow), Type: NoticeMessageDead, Step: dead.Step}
	data := map[string]any{"message": dead.Message, "queue": dead.Queue, "reason": dead.Reason, "receives": dead.Receives}
	if dead.Pack != nil {
		e.Layer, data["pack"] = string(sm.LayerStep), dead.Pack.String()
	}
	d.Record(e, data)
	d.X.Version++
	return d.X, d.Err
}
