package simulate

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/lockstep-run/lockstep/shared/engine/sweep"
	"github.com/lockstep-run/lockstep/shared/sim/queue"
	"github.com/lockstep-run/lockstep/shared/sim/stage"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/simulate/workload"
)

var ctx = context.Background()

func (w *world) look(m queue.Message) error {
	err := w.Engine.Look(ctx, m.Look())
	if err != nil {
		w.Engine.Failed(ctx, m.Look(), err)
	}
	return err
}

// act does what somebody does.
func (w *world) act(a workload.Act) {
	if w.tell != nil {
		w.tell("%s", a)
	}
	switch a.Kind {
	case workload.Start, workload.Twice:
		req := stage.Request(a.Definition, a.Devices...)
		req.IdempotencyKey = fmt.Sprintf("start-%d", a.N)
		if a.Later > 0 {
			req.NotBefore = w.Now().Add(a.Later)
		}
		w.start(req, 1)
		if a.Kind == workload.Twice {
			w.start(req, 1)
		}
	case workload.Kill:
		w.kill(a.Choice % crew)
	case workload.Sweep:
		w.spawnSweep()
	case workload.Import:
		w.importOne(a)
	case workload.Schedule, workload.Unschedule:
		w.reschedule(a)
	default:
		if a.Run < len(w.runs) {
			w.verb(a, w.runs[a.Run])
		}
	}
}

// maxStarts is how often a client repeats a request that was not answered.
const maxStarts = 60

// start starts a run, as a client does that repeats its request until it is
// answered.
func (w *world) start(req views.StartRequest, try int) {
	w.spawn("client", -1, func() error {
		x, _, err := w.Engine.Start(ctx, stage.Caller, req)
		if err == nil {
			w.started(req.IdempotencyKey, x.ID)
		}
		return err
	}, func(p *process) {
		if p.err == nil && !p.task.Crashed() {
			return
		}
		if p.err != nil && !passing(p.err) || try == maxStarts {
			w.watch.Break("a start succeeds", "request %s: %v", req.IdempotencyKey, p.err)
			return
		}
		w.start(req, try+1)
	})
}

// started notes a run that has been answered.
func (w *world) started(key, id string) {
	switch known := w.answered[key]; known {
	case "":
		w.answered[key] = id
		w.runs = append(w.runs, id)
	case id:
	default:
		w.watch.Break("one run a request", "request %s is answered with %s and %s", key, known, id)
	}
}

// passing reports whether an error is one that goes by.
func passing(err error) bool {
	return workflow.Is(err, workflow.CodeUnavailable) || workflow.Is(err, workflow.CodeConflict)
}

// verb is what an operator does about a run. It may be refused.
func (w *world) verb(a workload.Act, id string) {
	w.operate(string(a.Kind), func() (err error) {
		switch a.Kind {
		case workload.Cancel:
			req := views.CancelRequest{Reason: "enough"}
			if a.Choice%4 == 0 {
				req.Rollback = workflow.RollbackNever
			}
			if a.Choice%3 == 0 {
				req.Cascade = new(bool)
			}
			_, err = w.Engine.Cancel(ctx, stage.Caller, id, req)
			w.carried(err, id, sm.EventCancelRequested)
		case workload.Retry:
			req := views.RetryRequest{Reason: "once more"}
			if a.Choice%3 == 0 {
				req.Entities = views.RetryAll
			}
			_, err = w.Engine.Retry(ctx, stage.Caller, id, req)
			w.carried(err, id, sm.EventExecutionRetried)
		case workload.Resume:
			_, err = w.Engine.Resume(ctx, stage.Caller, id, "go on")
			w.carried(err, id, sm.EventExecutionResumed, sm.EventExecutionReady)
		case workload.Unlock:
			_, err = w.Engine.Unlock(ctx, stage.Caller, id, "needed")
			w.carried(err, id, sm.EventLockReleased)
		case workload.Acknowledge:
			_, err = w.Engine.Acknowledge(ctx, stage.Caller, id, "seen")
			w.carried(err, id, sm.EventExecutionAcknowledged)
		case workload.Stray:
			err = w.Engine.Look(ctx, workflow.Look{Tenant: stage.Caller.Tenant, Execution: id})
		}
		return err
	})
}

// carried wants a verb that is answered without an error to stand in the history.
func (w *world) carried(err error, id string, types ...sm.Event) {
	if err == nil {
		w.watch.Done(id, stage.Caller.Actor, types...)
	}
}

// operate lets an operator try something once.
func (w *world) operate(what string, do func() error) {
	w.spawn(what, -1, do, func(p *process) {
		if err := p.err; err != nil && !passing(err) && !workflow.Is(err, workflow.CodeIllegalTransition) && !workflow.Is(err, workflow.CodeNotFound) {
			w.watch.Break("a verb is carried out or refused", "%s: %v", what, err)
		}
	})
}

func (w *world) importOne(a workload.Act) {
	w.operate("import", func() error {
		e, err := w.Catalog.Entity(ctx, stage.Caller, workflow.EntityKey{Type: "device", ID: a.Devices[0]})
		if err != nil {
			return err
		}
		e.Attributes = json.RawMessage(fmt.Sprintf(`{"name":%q,"ready":%v,"import":%d}`, e.ID, a.Choice%3 > 0, a.N))
		_, err = w.Catalog.PutEntity(ctx, stage.Caller, e)
		return err
	})
}

// reschedule switches a schedule on or off, which the catalog does when something
// is published.
func (w *world) reschedule(a workload.Act) {
	var s spec.Schedule
	do := func() error {
		name := "p/" + a.Definition
		port := w.Open().Schedules
		var err error
		if s, err = port.Schedule(ctx, stage.Caller.Tenant, name); err != nil {
			return err
		}
		s.Workflow = workflow.Ref{Package: "p", Name: a.Definition, Version: "1.0.0"}
		s.Cron, s.NextAt = nil, time.Time{}
		if a.Kind == workload.Schedule {
			s.Cron = &spec.Cron{Schedule: "* * * * *", Concurrency: a.Choice == 1, On: &workflow.Selector{Type: "device", IDs: a.Devices}}
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
			w.reschedule(a)
		case a.Kind == workload.Schedule:
			w.schedule = append(w.schedule, s.Name)
			if w.off[a.Definition] { // by somebody who was quicker: a schedule for ever has no end
				a.Kind = workload.Unschedule
				w.reschedule(a)
			}
		default:
			w.schedule, w.off[a.Definition] = nil, true
		}
	})
}

// spawnSweep rings the alarms that are due.
func (w *world) spawnSweep() {
	w.spawn("sweeper", -1, func() error {
		_, err := sweep.Run(ctx, w.Engine, stage.Silence, w.Shards)
		return err
	}, nil)
}

// sweep is the schedule of the alarm clock: now and then two sweeps overlap.
func (w *world) sweep(at time.Time) {
	w.swept = at
	w.spawnSweep()
	if w.luck.Draw(8) == 0 {
		w.spawnSweep()
	}
}

// alarm is when the next sweep has something to do.
func (w *world) alarm() (at time.Time, ok bool) {
	if !w.play.Mood.Alarms {
		return at, false
	}
	at = w.swept.Add(time.Minute)
	if len(w.schedule) > 0 {
		return at, true
	}
	due, ok := w.NextAlarm()
	if !ok {
		return at, false
	}
	if due.After(at) {
		at = due.Add(time.Minute - 1).Truncate(time.Minute)
	}
	return at, true
}
