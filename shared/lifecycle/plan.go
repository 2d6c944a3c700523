package lifecycle

import (
	"fmt"
	"time"

	"github.com/lockstep-run/lockstep/shared/topology"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// plan returns the plan that is needed, or nil after asking for it.
func (d *decider) plan(n Need) *Plan {
	p := d.facts.Plans[n]
	if p == nil {
		d.need(n)
	}
	return p
}

// arePure reports whether the blocks of all nodes of a range are pure.
func (d *decider) arePure(from, to int) bool {
	for _, n := range d.facts.Resolution.Program.Nodes[from:to] {
		if !d.facts.Resolution.Blocks[n.FunctionBlock].Pure {
			return false
		}
	}
	return true
}

// enterStep begins a step run. The plan says which entities take part, and whether an assertion or
// a parameter fails the step before any job exists.
func (d *decider) enterStep(at int) {
	p := d.facts.Resolution.Program
	n := &p.Nodes[at]
	if d.execution.Probe && !d.mayProbe(n) {
		d.endProbe()
		return
	}
	if n.FunctionBlock != "" && d.execution.LockMode == workflow.LockShared && !d.arePure(at, d.pipelineEnd(at)) {
		d.breakExecution(Command{Reason: fmt.Sprintf("step %q would change entities under shared locks", n.Label)})
		return
	}
	if d.entered > maxEntered {
		d.stopped = true // the commit tells how large the item is
		return
	}
	d.cursor().Iteration = max(d.cursor().Iteration, 1)
	r := workflow.StepRun{Seq: d.execution.StepRunSeq + 1, Try: d.execution.Try, StepIndex: at}
	r.In, r.Index = d.enclosing()
	r.Resumes = d.cursor().Resumes
	if n.Repeat != nil {
		r.Iteration = d.cursor().Iteration
	}
	end := at + 1
	if n.FunctionBlock != "" {
		r.OnlyFailed = d.keepsResults(&r)
		if end = d.pipelineEnd(at); end > at+1 && !r.OnlyFailed {
			r.Pipeline = r.Seq
		}
	} else if n.Foreach != nil {
		r.OnlyFailed = d.keepsResults(&r)
	}
	plan := d.plan(NeedForPlan(&r))
	switch {
	case plan == nil:
		return
	case r.Iteration > 1 && plan.Jobs == 0 && plan.Unmet == 0 && plan.Problem == nil:
		d.proceedFrom(at) // no entity repeats the step again
		return
	case len(d.execution.StepRuns) >= d.maxStepRuns() || d.execution.Sequence >= workflow.MaxEvents || !d.hasRoom(end-at):
		d.failAtLimit(n)
		return
	case plan.Jobs > 0 && plan.Problem == nil && (!d.mayEnter(n) || !d.delayElapsed(n)):
		return
	}
	if plan.Unmet > 0 {
		r.Unmet = plan.Unmet
		if plan.Problem == nil && !d.tolerates(&r, n, plan.Unmet, plan.Jobs+plan.Unmet) {
			plan = &Plan{Skipped: plan.Skipped, Cause: workflow.CauseAssertion, Problem: plan.UnmetFailure}
			r.Unmet = 0
		}
	}
	if n.Foreach != nil {
		r.List, r.Items = plan.Value, plan.Items
	}
	if n.Parallel != nil {
		d.keepBranches(&r, plan)
	}
	switch {
	case plan.Problem != nil:
		d.appendStepRun(d.newStepRun(at, jobKindOf(n), plan, r))
		d.failStepRun(d.execution.LastStepRun(), plan.Cause, plan.Problem)
	case plan.Jobs == 0 && (r.Pipeline == 0 || plan.Entities == 0):
		r.Pipeline = 0
		d.appendStepRun(d.newStepRun(at, jobKindOf(n), plan, r))
		status := sm.StepCompleted
		if plan.Skipped > 0 && plan.AlreadyOK == 0 && plan.Unmet == 0 {
			status = sm.StepSkipped
		}
		d.exitStepRun(d.execution.LastStepRun(), status)
		d.continueAfter(d.execution.LastStepRun())
	case len(n.Switch) > 0:
		d.enterSwitch(at, plan, r)
	case len(n.Set) > 0:
		d.setVariables(at, plan, r)
	case n.Wait != nil:
		d.enterWait(at, plan, r)
	case n.ByEngine():
		d.enterEngineStep(at, plan, r)
	case n.Parallel != nil:
		d.enterBranches(at, r)
	case n.Loop != nil:
		d.enterLoop(at, plan, r)
	case n.Rollout != nil:
		d.enterRollout(at, plan, r)
	case n.IsContainer():
		d.enterContainer(at, r.Iteration)
	case n.StartsChild() && n.Foreach != nil:
		d.startChildren(at, plan, r)
	case n.StartsChild():
		d.startChild(at, plan, r)
	case r.Pipeline > 0:
		d.openPipeline(at, end, plan, r)
	default:
		r = d.newStepRun(at, workflow.JobExecute, plan, r)
		if n.Callback != nil {
			d.beginWait(&r, plan)
		}
		d.appendStepRun(r)
		d.decision.DispatchSeq = d.execution.StepRunSeq
		d.waitUntil(d.now.Add(d.policy.PollInterval))
	}
}

// enterEngineStep begins a step run whose step the engine does itself. The step run is committed first:
// what is done for it is named after it, and is done once, however often.
func (d *decider) enterEngineStep(at int, plan *Plan, r workflow.StepRun) {
	r = d.newStepRun(at, "", plan, r)
	r.ByEngine = true
	d.appendStepRun(r)
	d.commitFirst()
}

// jobKindOf returns the kind of the step's jobs; "" if it has none.
func jobKindOf(n *spec.Node) workflow.JobKind {
	if n.FunctionBlock != "" {
		return workflow.JobExecute
	}
	return ""
}

// openPipeline opens the step runs of per-entity pipelines together. They have the same lanes, so
// that a lane can move from one step run to the next on its own.
func (d *decider) openPipeline(at, end int, plan *Plan, first workflow.StepRun) {
	stepRuns := make([]workflow.StepRun, 0, end-at)
	size, limit := d.policy.PackSize, 0 // the lowest of all steps, because the same lanes pass through all
	for i := at; i < end; i++ {
		if own := d.facts.Resolution.Program.MaxInFlight(i); own > 0 && (limit == 0 || own < limit) {
			limit = own
		}
		r := d.newStepRun(i, workflow.JobExecute, &Plan{Jobs: plan.Entities}, workflow.StepRun{
			Seq: first.Seq + i - at, Pipeline: first.Seq, In: first.In, Index: first.Index,
		})
		if number := i - at; number < len(plan.BytesBefore) {
			r.BytesBefore = plan.BytesBefore[number]
		}
		size = min(size, r.PackSize)
		stepRuns = append(stepRuns, r)
	}
	if !d.fits(stepRuns) {
		d.failAtLimit(&d.facts.Resolution.Program.Nodes[at])
		return
	}
	for _, r := range stepRuns {
		r.PackSize = size
		r.Window = 0
		if limit > 0 {
			if lanes := max(1, limit/size); lanes < r.Lanes() {
				r.Window = lanes
			}
		}
		d.appendStepRun(r)
	}
	d.decision.DispatchSeq = first.Seq
	d.waitUntil(d.now.Add(d.policy.PollInterval))
}

// newStepRun fills in a step run from its plan and cuts its jobs into packs. The packs depend only
// on the plan, the block and the policy, all stored in the step run, so that they can be cut again.
func (d *decider) newStepRun(at int, kind workflow.JobKind, plan *Plan, r workflow.StepRun) workflow.StepRun {
	n := &d.facts.Resolution.Program.Nodes[at]
	r.StepIndex, r.Label, r.Try, r.Kind = at, n.Label, d.execution.Try, kind
	r.Ordinal, r.Status, r.EnteredAt, r.DispatchedAt = 1, sm.StepRunning, d.now, d.now
	if n.StepTimeout > 0 {
		r.Deadline = d.now.Add(n.StepTimeout.Std())
	}
	if waited := d.execution.StepRunBySeq(r.Resumes); waited != nil {
		r.Deadline = waited.Deadline // it is one step, however often its block is called
	}
	for i := range d.execution.StepRuns {
		if old := &d.execution.StepRuns[i]; old.StepIndex == at && old.Forward() {
			r.Ordinal++
		}
	}
	r.Jobs, r.Skipped, r.Part = plan.Jobs, plan.Skipped, plan.Part
	if n.FunctionBlock != "" {
		b := d.facts.Resolution.Blocks[n.FunctionBlock]
		r.Block, r.Pool = b.Ref().String(), d.poolOf(b)
		r.Pure, r.Idempotent, r.Reversible, r.UndoHarmless = b.Pure, b.Idempotent, b.Reversible, b.UndoHarmless
		if n.Compensate != nil && !r.Pure {
			c := d.facts.Resolution.Blocks[n.Compensate.FunctionBlock]
			r.Compensation = &workflow.Compensation{Block: c.Ref().String(), Pool: d.poolOf(c), Idempotent: c.Repeatable()}
			r.Reversible, r.UndoHarmless = true, n.Compensate.UndoHarmless
		}
	}
	if kind != "" {
		d.cutPacks(&r, n.Retry, n.Pace, d.facts.Resolution.Program.MaxInFlight(at))
	}
	return r
}

// poolOf returns the pool for the jobs of a block: the one in the region of the execution.
func (d *decider) poolOf(b workflow.Block) string {
	return topology.PoolInRegion(b.Pool, d.execution.Region)
}

// regionHint says how workers can serve the region of a pool, if it has one.
func regionHint(pool string) string {
	region := topology.RegionOf(pool)
	if region == "" {
		return ""
	}
	return fmt.Sprintf(": workers serve region %s with the setting worker.region, the stock worker of a local stack with the setting regions", region)
}

// cutPacks sets how many jobs go into a pack, how often each is tried, and how many packs may be
// outstanding at a time; limit is the largest number of outstanding jobs, 0 for none. With a pace,
// each job has a pack of its own, and only packs that begin soon are outstanding, because queues
// cannot delay messages for long.
func (d *decider) cutPacks(r *workflow.StepRun, retry *workflow.Retry, pace workflow.Rate, limit int) {
	r.Pace = pace
	if !pace.IsZero() {
		if soon := max(1, int(paceAhead/pace.Each())); limit == 0 || soon < limit {
			limit = soon
		}
	}
	r.PackSize, r.MaxAttempts = d.policy.PackSizeFor(r.Repeatable() && pace.IsZero(), r.Jobs, limit), 1
	if retry != nil {
		r.MaxAttempts = 1 + retry.MaxRetries
	}
	if lanes := max(1, limit/r.PackSize); limit > 0 && lanes < r.Lanes() {
		r.Window = lanes
	}
}

// paceAhead is how long before its start time a job with a pace is sent.
const paceAhead = 10 * time.Minute

// PackSizeFor returns how many jobs of a step go into a pack. limit is how many of them may be
// outstanding at a time; 0 for no limit.
func (p Policy) PackSizeFor(repeatable bool, jobs, limit int) int {
	if !repeatable || jobs < p.MinPackedJobs {
		return 1
	}
	size := max(1, p.PackSize)
	if limit > 0 {
		size = min(size, limit)
	}
	return size
}
