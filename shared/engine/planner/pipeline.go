package planner

import (
	"context"
	"errors"
	"slices"
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
// requested. decides says that the engine has to look at the step runs then.
func (p *Planner) SendLane(ctx context.Context, x *workflow.Execution, r *workflow.StepRun, lane int, now time.Time, cost *workflow.Cost) (decides bool, err error) {
	if r.Pipeline > 0 {
		p.inParts = p.LanesReadParts(x, r)
		defer func() { p.inParts = false }() // whoever plans many lanes reads the scope once
		way, err := p.goOnWithLane(ctx, x, r, lane, now, cost, false)
		return way.decides, err
	}
	stepRun := p.StepRun(x, r)
	if !stepRun.Work.EngineDriven {
		return false, p.Dispatcher.SendLane(ctx, stepRun, lane, now)
	}
	at, err := p.Dispatcher.AdvanceLane(ctx, stepRun, lane, now, cost)
	if next := lane + r.Window; err == nil && at.Recorded && r.Window > 0 && next < r.Lanes() {
		_, err = p.Dispatcher.AdvanceLane(ctx, stepRun, next, now, &workflow.Cost{})
	}
	return at.Decides, err
}

// LanesReadParts reports whether a lane of a pipeline can be planned from its own entities. That is
// so unless a step of the pipeline depends on what was done with entities before the pipeline:
// then the plans of that are made again, over all of them.
func (p *Planner) LanesReadParts(x *workflow.Execution, r *workflow.StepRun) bool {
	if rollout, _ := x.WaveOf(r); rollout != nil || !x.ScopeOf(r).InParts() {
		return false
	}
	var reads []int
	for _, own := range pipelineStepRuns(x, r.Pipeline) {
		if own.OnlyFailed || own.Iteration > 1 {
			return false
		}
		reads = append(reads, p.Program.Reads(own.StepIndex, p.references(own))...)
	}
	for i := range x.StepRuns {
		o := &x.StepRuns[i]
		if !o.HasJobs() || o.Kind == workflow.JobAcquire || o.Pipeline == r.Pipeline || o.Seq > r.Seq {
			continue
		}
		n := p.Program.Node(o.StepIndex)
		asExpected := o.Forward() && o.Counts.OK+o.Skipped == o.Jobs && o.Unmet == 0 && !o.HasUpdates && !slices.Contains(reads, o.StepIndex)
		if n.HasJobForEach() && !asExpected {
			return false
		}
	}
	return true
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
	return p.advanceLanes(ctx, x, first, empty, now, false)
}

// advanceLanes advances lanes side by side, from the step run r on. One that cannot be planned is
// returned as an error when the others have been advanced: nobody else would before the timer.
func (p *Planner) advanceLanes(ctx context.Context, x *workflow.Execution, r *workflow.StepRun, lanes []int, now time.Time, resume bool) (ended bool, err error) {
	for _, r := range pipelineStepRuns(x, r.Pipeline) {
		// The lanes below share what is cached here and only read it.
		var tooLarge *resultsTooLargeError
		if _, err := p.scopeOf(ctx, x, r); err != nil && !errors.As(err, &tooLarge) {
			return false, err
		}
	}
	var anyEnded atomic.Bool
	problems := make([]*dispatch.PlanError, len(lanes))
	err = parallel.Each(ctx, p.Dispatcher.Parallel, len(lanes), func(ctx context.Context, i int) error {
		way, err := p.goOnWithLane(ctx, x, r, lanes[i], now, &workflow.Cost{}, resume)
		if way.ended {
			anyEnded.Store(true)
		}
		if errors.As(err, &problems[i]) {
			return nil
		}
		return err
	})
	for _, problem := range problems {
		if err == nil && problem != nil {
			err = problem
		}
	}
	return anyEnded.Load(), err
}

// ResumePipeline sends the lanes that may go on now that a step run of a pipeline has been
// closed and the others go on without it: no worker will report a lane that was closed, and
// whoever has brought a lane to it meanwhile has left it there. ended is as in StartPipeline.
func (p *Planner) ResumePipeline(ctx context.Context, x *workflow.Execution, closed *workflow.StepRun, now time.Time) (ended bool, err error) {
	for _, r := range pipelineStepRuns(x, closed.Pipeline) {
		if !r.Open() || r.Closing {
			continue
		}
		lanes, err := p.lanesToResume(ctx, x, r, r.Window == 0 && r.Seq < closed.Seq)
		if err != nil {
			return false, err
		}
		any, err := p.advanceLanes(ctx, x, r, lanes, now, true)
		if ended = ended || any; err != nil {
			return ended, err
		}
	}
	return ended, nil
}

// lanesToResume lists the lanes that may be sent in a step run and are not over in it: if
// all were sent before, only those that a worker has begun, which may have ended since.
func (p *Planner) lanesToResume(ctx context.Context, x *workflow.Execution, r *workflow.StepRun, sent bool) (lanes []int, err error) {
	allowed, err := p.laneAllowed(ctx, x, r)
	if err != nil {
		return nil, err
	}
	stepRun := p.StepRun(x, r)
	done, err := p.Dispatcher.DoneLanes(ctx, stepRun)
	if err != nil {
		return nil, err
	}
	for lane := range r.Lanes() {
		if allowed(lane) && !done[lane] {
			lanes = append(lanes, lane)
		}
	}
	if !sent {
		return lanes, nil
	}
	packs, err := p.Dispatcher.ReadLanes(ctx, stepRun, lanes)
	begun := map[int]bool{}
	for _, pack := range packs {
		begun[pack.Key.Lane] = true
	}
	return slices.DeleteFunc(lanes, func(lane int) bool { return !begun[lane] }), err
}

// laneWay is what has become of a lane that went on, and of those that it made room for.
type laneWay struct {
	ended   bool // a lane has reached the end of the pipeline
	decides bool // the engine has to look at the step runs
}

// goOnWithLane advances a lane as far as it goes, from the step run in which it ended
// last: past the stepRuns that have no job for any of its entities, to the first that
// has. When a lane reaches the end of the pipeline, the next lane of its window starts.
// With resume it also goes on after a step run in which somebody
// else has recorded the end of the lane. A step run that was closed is over for every lane. One
// that is closing ends first, since a worker may be at work on the lane; ResumePipeline goes on then.
func (p *Planner) goOnWithLane(ctx context.Context, x *workflow.Execution, from *workflow.StepRun, lane int, now time.Time, cost *workflow.Cost, resume bool) (way laneWay, err error) {
	stepRuns := pipelineStepRuns(x, from.Pipeline)
	for lane < from.Lanes() {
		for _, r := range stepRuns {
			if r.Seq < from.Seq || wasClosed(r) {
				continue
			}
			if r.Closing || r.Seq > from.Seq && !r.Open() {
				way.decides = true
				return way, nil
			}
			at, err := p.Dispatcher.AdvanceLane(ctx, p.StepRun(x, r), lane, now, cost)
			way.decides = way.decides || at.Decides
			if err != nil || !at.Recorded && !(resume && at.Over) {
				return way, err
			}
		}
		way.ended = true
		if from.Window == 0 {
			return way, nil
		}
		from, lane = stepRuns[0], lane+from.Window
	}
	return way, nil
}

// wasClosed reports whether a step run has ended before all its lanes were executed.
func wasClosed(r *workflow.StepRun) bool { return r.Closing && !r.Open() }

// laneAllowed says which lanes of an open step run may be sent: those that are over in the
// open step run before it or, in the first open one, those that the window allows.
func (p *Planner) laneAllowed(ctx context.Context, x *workflow.Execution, r *workflow.StepRun) (func(lane int) bool, error) {
	var before, all []*workflow.StepRun // that are open
	for _, s := range pipelineStepRuns(x, r.Pipeline) {
		if !s.Open() {
			continue
		}
		if all = append(all, s); s.Seq < r.Seq {
			before = append(before, s)
		}
	}
	over, certain, err := p.lanesOver(ctx, x, before)
	if err != nil || certain || r.Window == 0 {
		return over, err
	}
	through, _, err := p.lanesOver(ctx, x, all)
	return func(lane int) bool { return over(lane) && (lane < r.Window || through(lane-r.Window)) }, err
}

// lanesOver says which lanes are over in all of the step runs. Only the last is read, since a
// lane is over in one before it is over in the next. A step run that is closing says nothing
// about those before it: it ends lanes that never came to it. certain is false if all are closing.
func (p *Planner) lanesOver(ctx context.Context, x *workflow.Execution, stepRuns []*workflow.StepRun) (over func(lane int) bool, certain bool, err error) {
	over = func(int) bool { return true }
	for _, r := range slices.Backward(stepRuns) {
		done, err := p.Dispatcher.DoneLanes(ctx, p.StepRun(x, r))
		if err != nil {
			return nil, false, err
		}
		others := over
		over = func(lane int) bool { return done[lane] && others(lane) }
		if !r.Closing {
			return over, true, nil
		}
	}
	return over, false, nil
}

// pipelineReport reports one step run of a pipeline. If the timer has fired, it also
// sends packs again that may have been lost: of the lanes that have ended in the step
// run before, or, in the first step run, of those that the window allows.
func (p *Planner) pipelineReport(ctx context.Context, x *workflow.Execution, r *workflow.StepRun, stepRun *dispatch.StepRun, now time.Time, timerFired bool) (*lifecycle.Report, error) {
	if timerFired {
		stepRuns := pipelineStepRuns(x, r.Pipeline)
		allowed, err := p.laneAllowed(ctx, x, r)
		if err != nil {
			return nil, err
		}
		stepRun.LaneAllowed = allowed
		before := stepRuns[len(stepRuns)-1]
		for i, s := range stepRuns {
			if s.Seq == r.Seq && i > 0 {
				before = stepRuns[i-1]
			}
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
