package simulate

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-run/lockstep/shared/sim/stage"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/simulate/invariant"
	"github.com/lockstep-run/lockstep/tests/simulate/workload"
)

// patience is within what everything has ended, whatever went wrong before.
const patience = 5 * time.Hour

// round is how often an operator acknowledges what has ended unsafely, once
// nobody does anything else.
const round = 3 * time.Minute

// end is when an operator goes round next, if anything waits for that.
func (w *world) end() (at time.Time, do func()) {
	if !w.play.Mood.Alarms {
		return w.unaided()
	}
	if len(w.acts) > 0 || w.watch.Resting() == 0 {
		return at, nil
	}
	if w.audit.IsZero() {
		w.audit = w.Now().Add(round)
		if over := w.begin.Add(w.play.Mood.Until + round); over.After(w.audit) {
			w.audit = over
		}
	}
	return w.audit, w.acknowledge
}

// unaided is the end of what goes on without the alarm clock: messages alone must
// have brought everything to an end but what waits for time, or for an operator.
func (w *world) unaided() (at time.Time, do func()) {
	if len(w.acts) > 0 || len(w.running) > 0 || w.Lifecycle().Len() > 0 || w.MakePool("default").Len() > 0 {
		return at, nil
	}
	if w.watch.Resting() > 0 {
		return w.Now(), w.acknowledge
	}
	for _, id := range w.ids() {
		if !w.excused(id, 0) {
			w.watch.Break("nobody who waits is forgotten", "no message is left, and %s", w.left())
		}
	}
	w.play.Mood.Alarms, w.play.Mood.Until = true, 0 // from now on time brings what is left
	w.swept = w.Now().Truncate(time.Minute)
	return at, nil
}

// excused reports whether a run has ended, or waits for what only time brings.
func (w *world) excused(id string, depth int) bool {
	x := w.watch.Run(id)
	switch {
	case sm.Acknowledged(x.State):
		return true
	case depth > len(w.runs)+4:
		return false
	case x.State == sm.ExecutionBlockedWaiting:
		return x.Wait.Kind == workflow.WaitCondition && !w.ready()
	case x.State == sm.ExecutionWaiting && x.Wait.Kind == workflow.WaitChild:
		return !sm.Acknowledged(w.watch.Run(x.Wait.Child).State) && w.excused(x.Wait.Child, depth+1)
	case x.State == sm.ExecutionScheduled && x.BlockedBy != nil:
		by := x.BlockedBy.Execution
		return !sm.Acknowledged(w.watch.Run(by).State) && w.excused(by, depth+1)
	}
	return false
}

// ready is the one condition on which runs of drawn definitions wait to be started.
func (w *world) ready() bool {
	e, err := w.Catalog.Entity(ctx, stage.Caller, workflow.EntityKey{Type: "device", ID: "d000"})
	var is struct{ Ready bool }
	return err == nil && json.Unmarshal(e.Attributes, &is) == nil && is.Ready
}

func (w *world) ids() (ids []string) {
	for id := range w.States(stage.Caller.Tenant) {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

func (w *world) acknowledge() {
	w.audit = time.Time{}
	states := w.States(stage.Caller.Tenant)
	for _, id := range w.ids() {
		if !invariant.Rests(states[id]) {
			continue
		}
		a := workload.Act{Kind: workload.Acknowledge, Choice: w.luck.Draw(12)}
		if w.again < 3 {
			a.Kind = []workload.Kind{a.Kind, a.Kind, a.Kind, workload.Retry, workload.Unlock}[w.luck.Draw(5)]
			w.again++
		}
		w.verb(a, id)
	}
}

// left says what has not ended, and what it waits for.
func (w *world) left() string {
	var left []string
	for _, id := range w.ids() {
		x := w.watch.Run(id)
		if sm.Acknowledged(x.State) {
			continue
		}
		text := fmt.Sprintf("%s %s is in %s", id, x.Workflow, x.State)
		if b := x.BlockedBy; b != nil {
			text += fmt.Sprintf(", blocked by %s for %s", b.Execution, b.Entity)
		}
		if x.Wait != nil {
			text += fmt.Sprintf(", waits for %s until %s", x.Wait.Kind, x.Wait.Until)
		}
		if !x.DueAt.IsZero() {
			text += fmt.Sprintf(", due %s", x.DueAt.Sub(w.begin))
		}
		left = append(left, text)
	}
	return strings.Join(left, "; ")
}

// judge is the last judgement, when nothing happens any more.
func (w *world) judge() *invariant.Violation {
	for _, id := range w.ids() {
		if x := w.watch.Run(id); !sm.Acknowledged(x.State) {
			return &invariant.Violation{Law: "everything ends", Text: "nothing happens any more: " + w.left()}
		}
	}
	if v := w.strangers(); v != nil {
		return v
	}
	w.Faults = nil
	if l := w.Locks(); len(l) > 0 {
		return &invariant.Violation{Law: "what has ended holds nothing", Text: fmt.Sprintf("%+v", l)}
	}
	for _, id := range w.ids() {
		stored := w.History(id)
		if v := w.watch.Ended(id, stored); v != nil {
			return v
		}
		if v := w.oracle(id); v != nil {
			return v
		}
	}
	return nil
}

// strangers are runs that nobody has asked for.
func (w *world) strangers() *invariant.Violation {
	for _, id := range w.ids() {
		x := w.watch.Run(id)
		if x.Parent == nil && len(x.Labels) == 0 && !w.watch.Older(id) && !slices.Contains(w.runs, id) {
			return &invariant.Violation{Law: "one run a request", Text: "nobody was told of " + id}
		}
	}
	return nil
}

// oracle asks the oracle how a run must have ended, where it knows.
func (w *world) oracle(id string) *invariant.Violation {
	x := w.watch.Run(id)
	d := w.company.Definition(x.Workflow.Name)
	if c := x.Cancellation; c != nil && c.Rollback == workflow.RollbackNever {
		return nil
	}
	if w.watch.Older(id) {
		return nil // what it did is not what the tables say
	}
	if d.Open || x.Try > 1 || x.Parent != nil || x.Cause == workflow.CauseUnclaimed || len(x.Runs) == 0 {
		return nil
	}
	var wrong []string
	s := *w.Stage
	s.TB = &jury{wrong: &wrong}
	s.Oracle(id, d.Blocks(), d.Handled(), d.Tolerance)
	if len(wrong) > 0 {
		return &invariant.Violation{Law: "runs end as their jobs say", Text: strings.Join(wrong, "\n")}
	}
	return nil
}

// jury is the testing.TB of the oracle: it notes what is wrong.
type jury struct {
	quiet
	wrong *[]string
}

func (j *jury) Errorf(f string, a ...any) { *j.wrong = append(*j.wrong, fmt.Sprintf(f, a...)) }
