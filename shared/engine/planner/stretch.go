package planner

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/lockstep-run/lockstep/shared/engine/delivery"
	"github.com/lockstep-run/lockstep/shared/lifecycle"
	"github.com/lockstep-run/lockstep/shared/parallel"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// A stretch of per-entity pipelines is several step runs that are open together
// and share their lanes. Whoever finishes a lane of one of them names it to the
// engine, which sends the lane's pack of the next. What a lane needs is known by
// then: the next step reads no more of the stretch than what came of the same
// entity.

// stages are the runs of a stretch in their order.
func stages(x *workflow.Execution, stretch int) []*workflow.StepRun {
	var runs []*workflow.StepRun
	for i := range x.Runs {
		if r := &x.Runs[i]; r.Stretch == stretch && r.Kind == workflow.JobExecute {
			runs = append(runs, r)
		}
	}
	return runs
}

// SendLane goes on with a lane of a run that is open, as its worker has asked for.
func (p *Planner) SendLane(ctx context.Context, x *workflow.Execution, r *workflow.StepRun, lane int, now time.Time, cost workflow.Cost) error {
	if r.Stretch > 0 {
		_, err := p.move(ctx, x, r, lane, now, cost, true)
		return err
	}
	run := p.Run(x, r)
	if !run.Work.Guided {
		return p.Delivery.Send(ctx, run, lane, now)
	}
	over, err := p.Delivery.Advance(ctx, run, lane, now, cost, true)
	if next := lane + r.Window; err == nil && over && r.Window > 0 && next < r.Lanes() {
		_, err = p.Delivery.Advance(ctx, run, next, now, workflow.Cost{}, false)
	}
	return err
}

// Advances reports whether the lanes of a run go on: it is open, or it is one of a
// stretch whose only lane has ended its visit before it was told of.
func Advances(r *workflow.StepRun) bool {
	only := r != nil && r.Stretch > 0 && r.Lanes() == 1 && r.Status == sm.StepCompleted
	return (r.Open() || only) && !r.Closing
}

// StartStretch sends the first lanes. ended says that some have come to the end of
// the stretch at once, for want of anything to do, which no worker will tell.
func (p *Planner) StartStretch(ctx context.Context, x *workflow.Execution, first *workflow.StepRun, now time.Time) (ended bool, err error) {
	lanes := first.Lanes()
	if first.Window > 0 {
		lanes = min(lanes, first.Window)
	}
	var some atomic.Bool
	err = parallel.Each(ctx, p.Delivery.Parallel, lanes, func(ctx context.Context, lane int) error {
		ended, err := p.move(ctx, x, first, lane, now, workflow.Cost{}, false)
		if ended {
			some.Store(true)
		}
		return err
	})
	return some.Load(), err
}

// move moves a lane on as far as it goes, from the run that tells of its end:
// through the stages that have nothing to do for any of its entities to the first
// that has. A lane that has come to the end of the stretch makes room for the next
// of its window; ended says that one has.
func (p *Planner) move(ctx context.Context, x *workflow.Execution, from *workflow.StepRun, lane int, now time.Time, cost workflow.Cost, news bool) (ended bool, err error) {
	all := stages(x, from.Stretch)
	for lane < from.Lanes() {
		for _, r := range all {
			if r.RunSeq < from.RunSeq {
				continue
			}
			if r.Closing || r.RunSeq > from.RunSeq && !r.Open() {
				return ended, nil
			}
			over, err := p.Delivery.Advance(ctx, p.Run(x, r), lane, now, cost, news)
			if err != nil || !over {
				return ended, err
			}
			cost, news = workflow.Cost{}, false
		}
		ended = true
		if from.Window == 0 {
			return ended, nil
		}
		from, lane = all[0], lane+from.Window
	}
	return ended, nil
}

// stretchReport reports one run of a stretch. With an alarm it sends again what
// waits without a trace: the lanes of the run that are over in the one before it,
// and of the first run those that the window allows.
func (p *Planner) stretchReport(ctx context.Context, x *workflow.Execution, r *workflow.StepRun, run *delivery.Run, now time.Time, rang bool) (*lifecycle.Report, error) {
	if rang {
		stages := stages(x, r.Stretch)
		before := stages[len(stages)-1]
		for i, s := range stages {
			if s.RunSeq == r.RunSeq && i > 0 {
				before = stages[i-1]
			}
		}
		over, err := p.Delivery.Over(ctx, p.Run(x, before))
		if err != nil {
			return nil, err
		}
		first := r.RunSeq == r.Stretch
		run.Before = func(ctx context.Context, lane int) (at time.Time, err error) {
			if first {
				lane -= r.Window
			}
			if lane < 0 || r.Window == 0 && first {
				return at, nil
			}
			return p.Delivery.LastSeen(ctx, p.Run(x, before), lane)
		}
		run.Allowed = func(lane int) bool {
			if first {
				return r.Window == 0 || lane < r.Window || over[lane-r.Window]
			}
			return over[lane]
		}
	}
	rep, err := p.Delivery.Report(ctx, run, now, rang)
	var problem *delivery.Problem
	if errors.As(err, &problem) {
		return &lifecycle.Report{RunSeq: r.RunSeq, Cause: problem.Cause, Problem: problem.Failure}, nil
	}
	return rep, err
}
