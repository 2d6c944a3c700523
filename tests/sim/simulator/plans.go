package simulator

import (
	"cmp"
	"encoding/json"

	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/defgen"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
	"github.com/lockstep-run/lockstep/tests/sim/invariant"
	"github.com/lockstep-run/lockstep/tests/sim/oracle"
)

// watcher passes every write to the invariants and to the oracle.
type watcher struct {
	*invariant.Checker
	w *simulation
}

// ExecutionWritten implements sim.Observer.
func (o watcher) ExecutionWritten(before, after *workflow.Execution) {
	o.Checker.ExecutionWritten(before, after)
	plans := o.w.plans
	plans.KnownSince = plans.Now
	if p := o.w.current; p != nil {
		if plans.KnownSince = p.startedAt; !p.committedAt[after.ID].IsZero() {
			plans.KnownSince = p.committedAt[after.ID]
		}
		if at := p.locksWrittenAt; at.After(plans.KnownSince) && before != nil && before.State == sm.ExecutionLocking {
			plans.KnownSince = at
		}
		p.committedAt[after.ID], p.versionOf[after.ID] = plans.Now, after.Version
	}
	plans.ExecutionWritten(before, after)
	o.w.involvePeople(before, after)
	o.w.stepOn(before, after)
	o.w.joinFollowUp(before, after)
}

// LockWritten implements sim.Observer.
func (o watcher) LockWritten(before, after workflow.Lock) {
	o.Checker.LockWritten(before, after)
	if p := o.w.current; p != nil {
		p.locksWrittenAt = o.w.plans.Now
	}
	o.w.plans.LockWritten(after)
}

// PackWritten implements sim.Observer.
func (o watcher) PackWritten(before, after *workflow.Pack) {
	o.Checker.PackWritten(before, after)
	o.w.plans.PackWritten(after)
}

// EntityWritten implements sim.Observer.
func (o watcher) EntityWritten(before, after workflow.Entity) {
	o.Checker.EntityWritten(before, after)
	o.w.plans.EntityWritten(before, after)
}

// RowWritten implements sim.Observer.
func (o watcher) RowWritten(table string, row workflow.Row) {
	if o.w.trace != nil {
		o.w.trace("   row %s in %s: %s", row.ID, table, row.Values)
	}
	o.w.plans.RowWritten(table, row)
}

// ScheduleWritten implements sim.Observer.
func (o watcher) ScheduleWritten(before, after spec.Schedule) {
	if o.w.trace != nil && after.MadeBy != nil {
		o.w.trace("   schedule %s, off %v, by step run %d of %s", after.Name, after.Off(), after.MadeBy.StepRun, after.MadeBy.Execution)
	}
	o.w.plans.ScheduleWritten(before, after)
}

// watchPlans connects the oracle with the world.
func (w *simulation) watchPlans() {
	entities := map[string]map[string]any{}
	for i := range deviceCount {
		entities[deviceID(i)] = importedAttributes(i)
	}
	w.plans = oracle.New(entities)
	w.plans.Definition = func(name string) *defgen.Definition { return w.corpus.definition(name) }
	w.plans.Requested = func(x *workflow.Execution) (oracle.Request, bool) {
		r, ok := w.requests[cmp.Or(x.Labels[spec.LabelSchedule], x.CorrelationID)]
		return r, ok
	}
	w.plans.Groups, w.plans.Failf = groupsOf, w.checker.Failf
	w.plans.Now, w.plans.Skew = w.Now(), w.checker.Skew
	w.Observer = watcher{w.checker, w}
}

// callPlanned passes a call of a block to the oracle.
func (w *simulation) callPlanned(c harness.BlockCall, o *harness.Outcome) {
	call := oracle.Call{
		Job: c.Job, Step: c.Step, Entity: c.Entity, Execution: c.Execution, Kind: c.Kind, Attempt: c.Attempt,
		Parameters: c.Parameters, Attributes: c.Attributes, Undoes: c.Result, Set: o.SetAttributes, Acquired: o.Acquired, Answer: o.Next,
	}
	if o.Break {
		call.Answer = defgen.AnswerBreak
	}
	if o.FailCode == "" && c.Kind == workflow.JobExecute {
		_ = json.Unmarshal(o.Result, &call.Result)
	}
	w.plans.BlockCalled(call)
}

// presentAttributes returns the attributes of each device in the inventory.
func (w *simulation) presentAttributes() map[string]map[string]any {
	all := map[string]map[string]any{}
	for i := range deviceCount {
		e, err := w.Catalog.Entity(ctx, harness.Caller, workflow.EntityKey{Type: "device", ID: deviceID(i)})
		if err != nil {
			panic(err)
		}
		attributes := map[string]any{}
		if err := json.Unmarshal(e.Attributes, &attributes); err != nil {
			panic(err)
		}
		all[deviceID(i)] = attributes
	}
	return all
}
