package planner

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/lockstep-run/lockstep/shared/engine/dispatch"
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

// pipelineStepRuns are the runs of a stretch in their order.
func pipelineStepRuns(x *workflow.Execution, pipeline int) []*workflow.StepRun {
	var stepRuns []*workflow.StepRun
	for i := range x.StepRuns {
		if r := &x.StepRuns[i]; r.Pipeline == pipeline && r.Kind == workflow.JobExecute {
			stepRuns = append(stepRuns, r)
		}
	}
	return stepRuns
}

// SendLane goes on with a lane of a run that is open, as its worker has asked for.
func (p *Planner) SendLane(ctx context.Context, x *workflow.Execution, r *workflow.StepRun, lane int, now time.Time, cost workflow.Cost) error {
	if r.Pipeline > 0 {
		_, err := p.advanceLane(ctx, x, r, lane, now, cost, true)
		return err
	}
	stepRun := p.StepRun(x, r)
	if !stepRun.Work.EngineDriven {
		return p.Dispatcher.SendLane(ctx, stepRun, lane, now)
	}
	done, err := p.Dispatcher.AdvanceLane(ctx, stepRun, lane, now, cost, true)
	if next := lane + r.Window; err == nil && done && r.Window > 0 && next < r.Lanes() {
		_, err = p.Dispatcher.AdvanceLane(ctx, stepRun, next, now, workflow.Cost{}, false)
	}
	return err
}

// CanAdvance reports whether the lanes of a run go on: it is open, or it is one of a
// stretch whose only lane has ended its visit before it was told of.
func CanAdvance(r *workflow.StepRun) bool {
	singleLane := r != nil && r.Pipeline > 0 && r.Lanes() == 1 && r.Status == sm.StepCompleted
	return (r.Open() || singleLane) && !r.Closing
}

// StartPipeline sends the first lanes. ended says that some have come to the end of
// the stretch at once, for want of anything to do, which no worker will tell.
func (p *Planner) StartPipeline(ctx context.Context, x *workflow.Execution, first *workflow.StepRun, now time.Time) (ended bool, err error) {
	lanes := first.Lanes()
	if first.Window > 0 {
		lanes = min(lanes, first.Window)
	}
	var anyEnded atomic.Bool
	err = parallel.Each(ctx, p.Dispatcher.Parallel, lanes, func(ctx context.Context, lane int) error {
		ended, err := p.advanceLane(ctx, x, first, lane, now, workflow.Cost{}, false)
		if ended {
			anyEnded.Store(true)
		}
		return err
	})
	return anyEnded.Load(), err
}

// advanceLane moves a lane on as far as it goes, from the run that tells of its end:
// through the stages that have nothing to do for any of its entities to the first
// that has. A lane that has come to the end of the stretch makes room for the next
// of its window; ended says that one has.
func (p *Planner) advanceLane(ctx context.Context, x *workflow.Execution, from *workflow.StepRun, lane int, now time.Time, cost workflow.Cost, notified bool) (ended bool, err error) {
	stages := pipelineStepRuns(x, from.Pipeline)
	for lane < from.Lanes() {
		for _, r := range stages {
			if r.Seq < from.Seq {
				continue
			}
			if r.Closing || r.Seq > from.Seq && !r.Open() {
				return ended, nil
			}
			done, err := p.Dispatcher.AdvanceLane(ctx, p.StepRun(x, r), lane, now, cost, notified)
			if err != nil || !done {
				return ended, err
			}
			cost, notified = workflow.Cost{}, false
		}
		ended = true
		if from.Window == 0 {
			return ended, nil
		}
		from, lane = stages[0], lane+from.Window
	}
	return ended, nil
}

// pipelineReport reports one run of a stretch. With an alarm it sends again what
// waits without a trace: the lanes of the run that are over in the one before it,
// and of the first run those that the window allows.
func (p *Planner) pipelineReport(ctx context.Context, x *workflow.Execution, r *workflow.StepRun, stepRun *dispatch.StepRun, now time.Time, timerFired bool) (*lifecycle.Report, error) {
	if timerFired {
		stages := pipelineStepRuns(x, r.Pipeline)
		before := stages[len(stages)-1]
		for i, s := range stages {
			if s.Seq == r.Seq && i > 0 {
				before = stages[i-1]
			}
		}
		done, err := p.Dispatcher.DoneLanes(ctx, p.StepRun(x, before))
		if err != nil {
			return nil, err
		}
		first := r.Seq == r.Pipeline
		stepRun.PredecessorEndedAt = func(ctx context.Context, lane int) (at time.Time, err error) {
			if first {
				lane -= r.Window
			}
			if lane < 0 || r.Window == 0 && first {
				return at, nil
			}
			return p.Dispatcher.LastSeen(ctx, p.StepRun(x, before), lane)
		}
		stepRun.LaneAllowed = func(lane int) bool {
			if first {
				return r.Window == 0 || lane < r.Window || done[lane-r.Window]
			}
			return done[lane]
		}
	}
	rep, err := p.Dispatcher.Report(ctx, stepRun, now, timerFired)
	var problem *dispatch.PlanError
	if errors.As(err, &problem) {
		return &lifecycle.Report{StepRunSeq: r.Seq, Cause: problem.Cause, Problem: problem.Failure}, nil
	}
	return rep, err
}
