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

// A pipeline is several step runs that are open together and share their lanes. The
// worker that finishes a lane in one of them names it to the engine, which sends the
// lane's pack of the next step run. Everything that pack needs is known by then: of the
// pipeline's step runs, a step reads only the result of the same entity.

// pipelineStepRuns returns the step runs of a pipeline in their order.
func pipelineStepRuns(x *workflow.Execution, pipeline int) []*workflow.StepRun {
	var stepRuns []*workflow.StepRun
	for i := range x.StepRuns {
		if r := &x.StepRuns[i]; r.Pipeline == pipeline && r.Kind == workflow.JobExecute {
			stepRuns = append(stepRuns, r)
		}
	}
	return stepRuns
}

// SendLane sends the next pack of a lane of an open step run, as its worker has
// requested.
func (p *Planner) SendLane(ctx context.Context, x *workflow.Execution, r *workflow.StepRun, lane int, now time.Time, cost *workflow.Cost) error {
	if r.Pipeline > 0 {
		_, err := p.advanceLane(ctx, x, r, lane, now, cost)
		return err
	}
	stepRun := p.StepRun(x, r)
	if !stepRun.Work.EngineDriven {
		return p.Dispatcher.SendLane(ctx, stepRun, lane, now)
	}
	done, err := p.Dispatcher.AdvanceLane(ctx, stepRun, lane, now, cost)
	if next := lane + r.Window; err == nil && done && r.Window > 0 && next < r.Lanes() {
		_, err = p.Dispatcher.AdvanceLane(ctx, stepRun, next, now, &workflow.Cost{})
	}
	return err
}

// CanAdvance reports whether lanes of a step run may continue: the step run is open, or
// it belongs to a pipeline and its only lane ended it, also with a failure that is handled,
// before the wake-up arrived.
func CanAdvance(r *workflow.StepRun) bool {
	singleLane := r != nil && r.Pipeline > 0 && r.Lanes() == 1 && r.Status != sm.StepCancelled
	return (r.Open() || singleLane) && !r.Closing
}

// StartPipeline sends the first lanes, and advances those that have nothing to do in the
// first step run. ended says that a lane had nothing to do at all and ended at once,
// which no worker will report.
func (p *Planner) StartPipeline(ctx context.Context, x *workflow.Execution, first *workflow.StepRun, now time.Time) (ended bool, err error) {
	lanes := first.Lanes()
	if first.Window > 0 {
		lanes = min(lanes, first.Window)
	}
	empty, err := p.Dispatcher.SendLanes(ctx, p.StepRun(x, first), lanes, now)
	if err != nil || len(empty) == 0 {
		return false, err
	}
	for _, r := range pipelineStepRuns(x, first.Pipeline) {
		// The lanes below share what is cached here and only read it.
		var tooLarge *resultsTooLargeError
		if _, err := p.scopeOf(ctx, x, r); err != nil && !errors.As(err, &tooLarge) {
			return false, err
		}
	}
	var anyEnded atomic.Bool
	err = parallel.Each(ctx, p.Dispatcher.Parallel, len(empty), func(ctx context.Context, i int) error {
		ended, err := p.advanceLane(ctx, x, first, empty[i], now, &workflow.Cost{})
		if ended {
			anyEnded.Store(true)
		}
		return err
	})
	return anyEnded.Load(), err
}

// advanceLane advances a lane as far as it goes, from the step run in which it ended
// last: past the stepRuns that have no job for any of its entities, to the first that
// has. When a lane reaches the end of the pipeline, the next lane of its window starts;
// ended says that a lane did.
func (p *Planner) advanceLane(ctx context.Context, x *workflow.Execution, from *workflow.StepRun, lane int, now time.Time, cost *workflow.Cost) (ended bool, err error) {
	stepRuns := pipelineStepRuns(x, from.Pipeline)
	for lane < from.Lanes() {
		for _, r := range stepRuns {
			if r.Seq < from.Seq {
				continue
			}
			if r.Closing || r.Seq > from.Seq && !r.Open() {
				return ended, nil
			}
			done, err := p.Dispatcher.AdvanceLane(ctx, p.StepRun(x, r), lane, now, cost)
			if err != nil || !done {
				return ended, err
			}
		}
		ended = true
		if from.Window == 0 {
			return ended, nil
		}
		from, lane = stepRuns[0], lane+from.Window
	}
	return ended, nil
}

// pipelineReport reports one step run of a pipeline. If the timer has fired, it also
// sends packs again that may have been lost: of the lanes that have ended in the step
// run before, or, in the first step run, of those that the window allows.
func (p *Planner) pipelineReport(ctx context.Context, x *workflow.Execution, r *workflow.StepRun, stepRun *dispatch.StepRun, now time.Time, timerFired bool) (*lifecycle.Report, error) {
	if timerFired {
		stepRuns := pipelineStepRuns(x, r.Pipeline)
		before := stepRuns[len(stepRuns)-1]
		for i, s := range stepRuns {
			if s.Seq == r.Seq && i > 0 {
				before = stepRuns[i-1]
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
		stepRun.PoolLastSeen = func(ctx context.Context) (at time.Time, err error) {
			for _, other := range stepRuns {
				if other.Seq == r.Seq || other.Pool != r.Pool || err != nil {
					continue
				}
				var seen time.Time
				if seen, err = p.Dispatcher.StepRunLastSeen(ctx, p.StepRun(x, other)); seen.After(at) {
					at = seen
				}
			}
			return at, err
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
	if err != nil || !rep.Complete || len(p.Program.Nodes[r.StepIndex].Assert) == 0 {
		return rep, err
	}
	planned, err := p.planLane(ctx, x, r, &laneOutcomes{lane: -1})
	rep.Unmet, rep.UnmetFailure = planned.Plan.Unmet, planned.Plan.UnmetFailure
	rep.Skipped -= rep.Unmet
	return rep, err
}
