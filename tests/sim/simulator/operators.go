package simulator

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/lockstep-run/lockstep/shared/engine/scheduler"
	"github.com/lockstep-run/lockstep/shared/sim"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
	"github.com/lockstep-run/lockstep/tests/sim/oracle"
)

var ctx = context.Background()

func (w *simulation) handleWakeup(m sim.Message) error {
	w.current.wakes = m.Wakeup().Execution
	err := w.Engine.Advance(ctx, m.Wakeup())
	if err != nil {
		w.Engine.RecordFailure(ctx, m.Wakeup(), err)
	}
	return err
}

// perform performs an action.
func (w *simulation) perform(a action) {
	if w.trace != nil {
		w.trace("%s", a)
	}
	switch a.Kind {
	case actionStart, actionStartTwice:
		req := harness.NewStartRequest(a.Definition, a.Devices...)
		req.IdempotencyKey, req.Key = fmt.Sprintf("start-%d", a.Number), a.Key
		if a.StartDelay > 0 {
			req.NotBefore = w.Now().Add(a.StartDelay)
		}
		if a.Probe {
			req.Mode = views.ModeProbe
		}
		if req.Hold = a.Hold; a.Stepping {
			req.Mode = views.ModeStep
		}
		w.requests[req.IdempotencyKey] = oracle.Request{Devices: a.Devices, Probe: a.Probe, Parameters: map[string]any{"n": float64(a.Parameter)}, NotBefore: req.NotBefore, Hold: a.Hold, Stepping: a.Stepping}
		req.Parameters, _ = json.Marshal(w.requests[req.IdempotencyKey].Parameters)
		w.start(req, 1)
		if a.Kind == actionStartTwice {
			w.start(req, 1)
		}
	case actionKillWorker:
		w.killWorker(a.Choice % workerCount)
	case actionOutage:
		w.outage = outage{services[a.Choice], w.Now().Add(outageTime)}
	case actionLongQueue:
		w.beginLongQueue()
	case actionStall:
		if a.ExecutionIndex < len(w.executions) {
			w.stall = stall{w.executions[a.ExecutionIndex], stalledCalls[a.Choice], w.Now().Add(w.scenario.StallTime)}
		}
	case actionSweep:
		w.startSweep()
	case actionImport:
		w.importDevice(a)
	case actionSchedule, actionUnschedule:
		w.toggleSchedule(a)
	default:
		if a.ExecutionIndex < len(w.executions) {
			w.operateOn(a, w.executions[a.ExecutionIndex])
		}
	}
}

// maxStarts is how often a client sends an unanswered start request: once a minute, also during an
// outage.
const maxStarts = 120

// start starts an execution. The client repeats the request until it gets an answer.
func (w *simulation) start(req views.StartRequest, try int) {
	w.spawn("client", -1, func() error {
		caller := harness.Caller
		caller.CorrelationID = req.IdempotencyKey
		x, _, err := w.Engine.Start(ctx, caller, req)
		if err == nil {
			w.recordStart(req.IdempotencyKey, x.ID)
			if w.checker.ExecutionByID(x.ID) == nil && w.scenario.RestoreDrill == nil {
				w.checker.Failf("a start request succeeds", "request %s is answered with %s, which is not stored", req.IdempotencyKey, x.ID)
			}
		}
		return err
	}, func(p *process) {
		if p.err == nil && !p.task.Crashed() {
			return
		}
		if req.Key != "" && workflow.Is(p.err, workflow.CodeConflict) { // another execution has the key
			if try < 5 {
				w.after(time.Minute, func() { w.start(req, try+1) })
			}
			return
		}
		if p.err != nil && !isTransient(p.err) || try > maxStarts {
			w.checker.Failf("a start request succeeds", "request %s: %v", req.IdempotencyKey, p.err)
			return
		}
		w.tryLater(func() { w.start(req, try+1) })
	})
}

// recordStart records the answer to a start request.
func (w *simulation) recordStart(key, id string) {
	switch known := w.executionByRequest[key]; known {
	case "":
		w.executionByRequest[key] = id
		w.executions = append(w.executions, id)
	case id:
	default:
		w.checker.Failf("one execution per request", "request %s is answered with %s and %s", key, known, id)
	}
}

// isTransient reports whether a caller should retry after an error.
func isTransient(err error) bool {
	return workflow.Is(err, workflow.CodeUnavailable) || workflow.Is(err, workflow.CodeConflict)
}

// operateOn performs an operator's command on an execution. It may be refused.
func (w *simulation) operateOn(a action, id string) {
	w.runOperation(string(a.Kind), func() (err error) {
		switch a.Kind {
		case actionCancel:
			req := views.CancelRequest{Reason: "enough"}
			if a.Choice%4 == 0 {
				req.Rollback = workflow.RollbackNever
			}
			if a.Choice%3 == 0 {
				req.Cascade = new(bool)
			}
			_, err = w.Engine.Cancel(ctx, harness.Caller, id, req)
			w.expectInHistory(err, id, sm.EventCancelRequested)
		case actionRetry:
			req := views.RetryRequest{Reason: "once more"}
			if a.Choice%3 == 0 {
				req.Entities = views.RetryAll
			}
			req.Force = a.Choice%4 == 1
			if w.hasFailedRollback(id) && a.Choice%2 == 0 || a.Choice%11 == 3 { // else it is refused
				req.Rollback, req.Entities = true, ""
			}
			_, err = w.Engine.Retry(ctx, harness.Caller, id, req)
			w.expectInHistory(err, id, sm.EventExecutionRetried)
		case actionRewind:
			x := w.checker.ExecutionByID(id)
			if x == nil || len(x.StepRuns) == 0 {
				return nil
			}
			to := x.StepRuns[a.Choice/2%len(x.StepRuns)].Label
			_, err = w.Engine.Rewind(ctx, harness.Caller, id, views.RewindRequest{Reason: "again", To: to, Force: a.Choice%2 == 0})
			w.expectInHistory(err, id, sm.EventExecutionRewound)
		case actionNext:
			err = w.letGoOn(id, a.Choice)
		case actionResume:
			w.plans.NextSent(id, 0, false)
			_, err = w.Engine.Resume(ctx, harness.Caller, id, "go on")
			w.expectInHistory(err, id, sm.EventExecutionResumed, sm.EventExecutionReady)
		case actionUnlock:
			_, err = w.Engine.Unlock(ctx, harness.Caller, id, "needed", w.someEntities(id, a.Choice)...)
			w.expectInHistory(err, id, sm.EventLockReleased)
		case actionAcknowledge:
			_, err = w.Engine.Acknowledge(ctx, harness.Caller, id, "seen", w.someEntities(id, a.Choice)...)
			w.expectInHistory(err, id, sm.EventExecutionAcknowledged)
		case actionRead:
			err = w.read(id)
		case actionStrayWakeup:
			err = w.Engine.Advance(ctx, workflow.Wakeup{Tenant: harness.Caller.Tenant, Execution: id})
		}
		if w.isRemoved(id) {
			return nil
		}
		return err
	})
}

// hasFailedRollback reports whether an execution has failed, and so has its rollback or a
// compensation.
func (w *simulation) hasFailedRollback(id string) bool {
	x := w.checker.ExecutionByID(id)
	return x != nil && x.State == sm.ExecutionFailedUnsafe && slices.ContainsFunc(x.StepRuns, func(r workflow.StepRun) bool {
		return r.Kind == workflow.JobRollback && r.Status != sm.StepCompleted
	})
}

// someEntities chooses the entities of an execution that an operator names: none, which means all,
// or one, or every second one.
func (w *simulation) someEntities(id string, choice int) (keys []workflow.EntityKey) {
	if choice%3 == 0 {
		return nil
	}
	var all []workflow.EntityKey
	if x := w.checker.ExecutionByID(id); x != nil {
		for _, e := range x.Scope.Inline {
			all = append(all, e.Key)
		}
		if x.Scope.Key != "" { // they are stored apart
			all = w.plans.Entities(id)
		}
	}
	for i := range all {
		if choice%3 == 1 && i == choice/3%len(all) || choice%3 == 2 && i%2 == choice/3%2 {
			keys = append(keys, all[i])
		}
	}
	return keys
}

// expectInHistory requires that an accepted command is in the history.
func (w *simulation) expectInHistory(err error, id string, types ...sm.Event) {
	if err == nil {
		w.checker.ExpectEvent(id, harness.Caller.Actor, types...)
	}
}

// runOperation performs an operator's command once.
func (w *simulation) runOperation(what string, do func() error) {
	w.spawn(what, -1, do, func(p *process) {
		asked := (what == string(actionResume) || what == string(actionRewind)) && workflow.Is(p.err, workflow.CodeInvalid) // it waits for an answer, or cannot go back there
		if err := p.err; err != nil && !asked && !isTransient(err) && !workflow.Is(err, workflow.CodeIllegalTransition) && !workflow.Is(err, workflow.CodeNotFound) {
			w.checker.Failf("an operation is accepted or refused", "%s: %v", what, err)
		}
	})
}

func (w *simulation) importDevice(a action) {
	w.runOperation("import", func() error {
		e, err := w.Catalog.Entity(ctx, harness.Caller, workflow.EntityKey{Type: "device", ID: a.Devices[0]})
		if err != nil {
			return err
		}
		e.Attributes = json.RawMessage(fmt.Sprintf(`{"name":%q,"ready":%v,"import":%d}`, e.ID, a.Choice%3 > 0, a.Number))
		_, err = w.Catalog.PutEntity(ctx, harness.Caller, e)
		return err
	})
}

// toggleSchedule adds or removes a schedule, as publishing a definition does.
func (w *simulation) toggleSchedule(a action) {
	var s spec.Schedule
	if a.Kind == actionSchedule {
		w.requests["p/"+a.Definition] = oracle.Request{Devices: a.Devices}
	}
	do := func() error {
		name := "p/" + a.Definition
		port := w.Open().Schedules
		var err error
		if s, err = port.Schedule(ctx, harness.Caller.Tenant, name); err != nil {
			return err
		}
		s.Workflow = workflow.Ref{Package: "p", Name: a.Definition, Version: "1.0.0"}
		s.Cron, s.NextAt = nil, time.Time{}
		if a.Kind == actionSchedule {
			s.Cron = &spec.Cron{Schedule: "* * * * *", Concurrency: a.Choice == 1, ExecuteOnParameters: &workflow.Selector{Type: "device", IDs: a.Devices}}
			s.NextAt = w.Now().Truncate(time.Minute).Add(time.Minute)
		}
		ok, err := port.PutSchedule(ctx, s)
		if err == nil && !ok {
			err = workflow.Errorf(workflow.CodeConflict, "the schedule has changed")
		}
		return err
	}
	w.spawn("publisher", -1, do, func(p *process) {
		switch {
		case p.err != nil || p.task.Crashed():
			w.tryLater(func() { w.toggleSchedule(a) })
		case a.Kind == actionSchedule:
			w.activeSchedules = append(w.activeSchedules, s.Name)
			if w.unscheduled[a.Definition] { // unschedule first: a schedule that stays would never end
				a.Kind = actionUnschedule
				w.toggleSchedule(a)
			}
		default:
			w.activeSchedules, w.unscheduled[a.Definition] = nil, true
		}
	})
}

// startSweep starts a sweep.
func (w *simulation) startSweep() {
	w.spawn("sweeper", -1, func() error {
		_, err := scheduler.Sweep(ctx, w.Engine, harness.LivenessTimeouts, w.Shards)
		return err
	}, nil)
}

// sweepOnTimer starts the sweep of a minute; sometimes two sweeps overlap.
func (w *simulation) sweepOnTimer(at time.Time) {
	w.lastSweep = at
	w.startSweep()
	if w.faultPlan.intN(8) == 0 {
		w.startSweep()
	}
}

// nextSweep returns when the next sweep has something to do.
func (w *simulation) nextSweep() (at time.Time, ok bool) {
	if !w.scenario.FaultProfile.SweeperEnabled {
		return at, false
	}
	at = w.lastSweep.Add(time.Minute)
	if len(w.activeSchedules) > 0 {
		return at, true
	}
	due, ok := w.NextTimer()
	if !ok {
		return at, false
	}
	if due.After(at) {
		at = due.Add(time.Minute - 1).Truncate(time.Minute)
	}
	return at, true
}
