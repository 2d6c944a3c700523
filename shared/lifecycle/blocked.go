package lifecycle

import (
	"fmt"
	"time"

	"github.com/lockstep-run/lockstep/shared/lifecycle/draft"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// ready takes VALID to READY, or to BLOCKED_WAITING if a moment or a condition
// has to be waited for. Most runs wait for neither, and learn it from what is
// known already.
func (d *decider) ready() {
	if d.F.Resolved == nil {
		d.Need(Need{Kind: NeedResolved})
		return
	}
	if c := d.Config(); d.X.NotBefore.IsZero() && c.StartWhen == "" && c.NotBefore == "" {
		d.Move(sm.EventExecutionReady, sm.ExecutionReady, "", nil)
		return
	}
	f := d.F.Ready
	switch {
	case f == nil:
		d.Need(Need{Kind: NeedReady})
	case f.Problem != nil:
		d.Fail(workflow.CauseValidation, f.Problem)
		d.Move(sm.EventExecutionBroken, sm.ExecutionFailedSafe, "", map[string]any{"reason": f.Problem.Message})
	case d.Now.Before(f.At):
		d.block(workflow.Wait{Kind: workflow.WaitTimer, Since: d.Now, Until: f.At, Condition: notBefore})
	case !f.Ready:
		d.block(d.condition(f))
	default:
		d.Move(sm.EventExecutionReady, sm.ExecutionReady, "", nil)
	}
}

// notBefore is what a run waits for that waits for a moment.
const notBefore = "notBefore"

func (d *decider) block(w workflow.Wait) {
	d.X.Wait = &w
	d.Move(sm.EventExecutionBlocked, sm.ExecutionBlockedWaiting, "",
		map[string]any{"kind": w.Kind, "condition": w.Condition, "until": w.Until})
}

// condition is the wait for startWhen, from now on.
func (d *decider) condition(f *Ready) workflow.Wait {
	patience := d.P.StartWait
	if c := d.Config(); c.StartDeadline > 0 {
		patience = c.StartDeadline.Std()
	}
	return workflow.Wait{Kind: workflow.WaitCondition, Since: d.Now, Until: d.Now.Add(patience), Condition: f.Condition}
}

// blocked drives BLOCKED_WAITING: first the moment has to come, then, judged at
// every look, the condition has to be true before its deadline.
func (d *decider) blocked() {
	w := d.X.Wait
	switch {
	case w == nil:
		d.Err = workflow.Errorf(workflow.CodeInternal, "the run waits, and does not say for what")
		return
	case w.Kind == workflow.WaitTimer && d.Now.Before(w.Until):
		d.Wait(w.Until)
		return
	case d.F.Resolved == nil:
		d.Need(Need{Kind: NeedResolved})
		return
	case d.F.Ready == nil:
		d.Need(Need{Kind: NeedReady})
		return
	}
	f := d.F.Ready
	switch {
	case f.Ready:
		d.X.Wait = nil
		d.Move(sm.EventExecutionReady, sm.ExecutionReady, "", nil)
	case w.Kind == workflow.WaitTimer:
		next := d.condition(f)
		d.X.Wait, d.Changed = &next, true
		d.Wait(draft.Earlier(d.Now.Add(d.P.Poll), next.Until))
	case d.Now.Before(w.Until):
		d.Wait(draft.Earlier(d.Now.Add(d.P.Poll), w.Until))
	default:
		d.expireStart(w, f)
	}
}

// expireStart ends a run whose condition has not become true in time.
func (d *decider) expireStart(w *workflow.Wait, f *Ready) {
	text := fmt.Sprintf("waited %s, and this has not become true: %s", w.Until.Sub(w.Since).Round(time.Millisecond), w.Condition)
	if f.Why != "" {
		text += " (" + f.Why + ")"
	}
	d.Fail(workflow.CauseTimeout, &workflow.Failure{Code: "TIMEOUT", Message: text})
	d.X.Wait = nil
	d.Move(sm.EventExecutionExpired, sm.ExecutionFailedSafe, "", map[string]any{"condition": w.Condition})
}
