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

// A pipeline consists of several step runs that are open at the same time and share their lanes.
// When a worker has finished a lane in one of them, it names the lane to the engine, which sends
// the lane's pack of the next step run. Everything that this pack needs is known by then: within
// the pipeline, a step reads only the results of its own entity.

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

// SendLane sends the next pack of a lane of an open step run, as its worker has requested. decides
// means that the engine must look at the step runs afterwards.
func (p *Planner) SendLane(ctx context.Context, x *workflow.Execution, r *workflow.StepRun, lane int, now time.Time, cost *workflow.Cost) (decides bool, err error) {
	if r.Pipeline > 0 {
		p.inParts = p.LanesReadParts(x, r)
		defer func() { p.inParts = false }() // callers that plan many lanes read the whole scope once
		way, err := p.continueLane(ctx, x, r, lane, now, cost, false)
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
// so unless a step of the pipeline depends on what was done with entities before the pipeline, and
// the packs of the lane's own entities do not tell: the plans for that must be made again, over all
// entities.
func (p *Planner) LanesReadParts(x *workflow.Execution, r *workflow.StepRun) bool {
	if rollout, _ := x.WaveOf(r); rollout != nil {
		return false
	}
	var reads, all []int // nodes of which the pipeline reads results, and the results of all entities
	for _, own := range pipelineStepRuns(x, r.Pipeline) {
		if own.OnlyFailed || own.Iteration > 1 {
			return false
		}
		read := p.Program.Reads(own.StepIndex, p.references(own))
		reads, all = append(reads, read...), append(all, p.Program.Nodes[own.StepIndex].CrossEntityReads...)
		if own.BytesBefore == 0 || own.BytesBefore > p.MaxResultBytes { // it is not known how much they are, or too much
			all = append(all, read...)
		}
	}
	for i := range x.StepRuns {
		o := &x.StepRuns[i]
		if !o.HasJobs() || o.Kind == workflow.JobAcquire || o.Pipeline == r.Pipeline || o.Seq > r.Seq {
			continue
		}
		n := p.Program.Node(o.StepIndex)
		read := slices.Contains(reads, o.StepIndex)
		asExpected := o.Forward() && o.Counts.OK == o.JobCount() && o.Unmet == 0 && !o.HasUpdates && !read
		if n.HasJobForEach() && !asExpected && (read && slices.Contains(all, o.StepIndex) || !p.numbersKnown(x, r, o)) {
			return false
		}
	}
	return true
}

// numbersKnown reports whether the numbers that the jobs of an earlier step run have are known from their
// entities, so that those of a lane can be read without the others. If all entities were counted, in a step run
// of the same try, they are those of the entities.
func (p *Planner) numbersKnown(x *workflow.Execution, r, o *workflow.StepRun) bool {
	runOn := p.Program.Node(o.StepIndex).RunOn
	return r.Try == 1 && runOn == p.Program.Node(r.StepIndex).RunOn && (o.Part != nil || o.Jobs == x.ScopeOf(r).Counts[runOn]) && o.Unmet == 0 && !o.HasUpdates
}

// bytesBefore returns how many bytes of results from before a pipeline the expressions of each of its steps
// read, by the plan of the first.
func (p *Planner) bytesBefore(ctx context.Context, x *workflow.Execution, first *workflow.StepRun) ([]int, error) {
	var bytes []int
	for node := first.StepIndex; node < p.Program.PipelineEnd(first.StepIndex); node++ {
		r := *first
		r.Seq, r.StepIndex = first.Seq+len(bytes), node
		s, err := p.scopeOf(ctx, x, &r)
		var tooLarge *resultsTooLargeError
		if errors.As(err, &tooLarge) {
			s, err = &exprScope{resultBytes: p.MaxResultBytes + 1}, nil
		}
		if err != nil {
			return nil, err
		}
		bytes = append(bytes, s.resultBytes)
	}
	return bytes, nil
}

// CanAdvance reports whether lanes of a step run may continue. That is so if the step run is open,
// or if it belongs to a pipeline and its only lane ended it before the wake-up arrived (this
// includes a failure that is handled).
func CanAdvance(r *workflow.StepRun) bool {
	singleLane := r != nil && r.Pipeline > 0 && r.Lanes() == 1 && r.Status != sm.StepCancelled
	return (r.Open() || singleLane) && !r.Closing
}

// StartPipeline sends the first lanes, and advances lanes that have nothing to do in the first step
// run. ended means that a lane had nothing to do at all and ended at once; no worker will report
// that.
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

// advanceLanes advances lanes in parallel, starting at the step run r. If a lane cannot be planned,
// it returns the error after the other lanes have been advanced: nobody else would advance them
// before the timer.
func (p *Planner) advanceLanes(ctx context.Context, x *workflow.Execution, r *workflow.StepRun, lanes []int, now time.Time, resume bool) (ended bool, err error) {
	for _, r := range pipelineStepRuns(x, r.Pipeline) {
		// Fill the cache first: the lanes below share it and only read it.
		var tooLarge *resultsTooLargeError
		if _, err := p.scopeOf(ctx, x, r); err != nil && !errors.As(err, &tooLarge) {
			return false, err
		}
	}
	var anyEnded atomic.Bool
	problems := make([]*dispatch.PlanError, len(lanes))
	err = parallel.Each(ctx, p.Dispatcher.Parallel, len(lanes), func(ctx context.Context, i int) error {
		way, err := p.continueLane(ctx, x, r, lanes[i], now, &workflow.Cost{}, resume)
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

// ResumePipeline sends the lanes that may continue after a step run of a pipeline has been closed
// while the others go on without it. No worker will report a closed lane, and a handler that has
// brought a lane to the closed step run has left it there. ended is as in StartPipeline.
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

// lanesToResume lists the lanes that may be sent in a step run and are not over in it. If all were
// sent before, it lists only those that a worker has begun, because these may have ended since.
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

// laneProgress is the progress of a lane that was advanced, and of the lanes that it made room for.
type laneProgress struct {
	ended   bool // a lane has reached the end of the pipeline
	decides bool // the engine must look at the step runs
}

// continueLane advances a lane as far as possible. It begins at the step run in which the lane
// ended last, passes step runs that have no job for any of its entities, and sends it in the first
// that has. When a lane reaches the end of the pipeline, the next lane of its window starts.
//
// With resume it also passes a step run in which another handler has recorded the end of the lane.
// A closed step run is over for every lane. It stops at a step run that is closing, because a
// worker may be working on the lane; ResumePipeline continues from there.
func (p *Planner) continueLane(ctx context.Context, x *workflow.Execution, from *workflow.StepRun, lane int, now time.Time, cost *workflow.Cost, resume bool) (way laneProgress, err error) {
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

// wasClosed reports whether a step run ended before all its lanes were executed.
func wasClosed(r *workflow.StepRun) bool { return r.Closing && !r.Open() }

// laneAllowed reports which lanes of an open step run may be sent: those that are over in the open
// step run before it or, in the first open step run, those that the window allows.
func (p *Planner) laneAllowed(ctx context.Context, x *workflow.Execution, r *workflow.StepRun) (func(lane int) bool, error) {
	var before, all []*workflow.StepRun // open step runs
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

// lanesOver reports which lanes are over in all of the step runs. Usually it reads only the last
// one, because a lane is over in one step run before it is over in the next. A step run that is
// closing says nothing about those before it, since it ends lanes that never reached it. certain is
// false if all are closing.
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

// pipelineReport reports one step run of a pipeline. If the timer has fired, it also sends packs
// again that may be lost: those of lanes that have ended in the previous step run or, in the first
// step run, those that the window allows.
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
