package lifecycle

import (
	"cmp"
	"fmt"
	"maps"

	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// resolve takes NEW to VALID with the blocks' versions pinned, or rejects the
// run: an unknown block, parameters that do not fit.
func (d *decider) resolve() {
	r := d.facts.Resolution
	if r == nil {
		d.need(Need{Kind: NeedResolution})
		return
	}
	if problem := cmp.Or(r.Problem, sharedLockProblem(r)); problem != nil {
		d.setFailure(workflow.CauseValidation, problem)
		d.transition(sm.EventExecutionRejected, sm.ExecutionFailedSafe, "", map[string]any{"reason": problem.Message})
		return
	}
	d.pin()
	d.transition(sm.EventExecutionValidated, sm.ExecutionValid, "", nil)
}

// pin writes down the versions that the run works with to its end.
func (d *decider) pin() {
	r := d.facts.Resolution
	d.execution.Blocks = make(map[string]string, len(r.Blocks))
	for ref, b := range r.Blocks {
		d.execution.Blocks[ref] = b.Version
	}
	d.execution.Workflows = maps.Clone(r.Workflows)
	if t := d.config().Timeout.Std(); t > 0 {
		d.execution.Deadline = d.now.Add(t)
	}
}

// discover takes RESOURCE_DISCOVERY to RESOURCES_DISCOVERED with the scope fixed:
// from here on the set of entities does not change. Blocks that acquire are asked
// one after the other, for what one returns may be what another expands.
func (d *decider) discover() {
	if open := d.openStepRuns(); len(open) > 0 {
		d.followAcquire(open[0])
		return
	}
	f := d.facts.Discovery
	switch {
	case f == nil:
		d.need(Need{Kind: NeedDiscovery})
	case f.Problem != nil:
		d.failDiscovery(f.Problem)
	case f.AcquireIndex >= 0:
		d.startAcquire(f.AcquireIndex)
	default:
		d.execution.Scope = f.Scope
		d.transition(sm.EventDiscoveryCompleted, sm.ExecutionResourcesDiscovered, "", map[string]any{"entities": f.Scope.Counts})
	}
}

func (d *decider) failDiscovery(why *workflow.Failure) {
	d.setFailure(workflow.CauseValidation, why)
	d.transition(sm.EventDiscoveryFailed, sm.ExecutionFailedSafe, "", map[string]any{"reason": why.Message})
}

// startAcquire calls a block's acquire.
func (d *decider) startAcquire(index int) {
	if d.facts.Resolution == nil {
		d.need(Need{Kind: NeedResolution})
		return
	}
	a := &d.facts.Resolution.Program.Acquisitions[index]
	b := d.facts.Resolution.Blocks[a.Block]
	r := workflow.StepRun{
		Seq: d.execution.StepRunSeq + 1, Try: d.execution.Try, StepIndex: index, Label: "acquire", Ordinal: 1, Kind: workflow.JobAcquire,
		Status: sm.StepRunning, EnteredAt: d.now, DispatchedAt: d.now, Block: b.Ref().String(), Pool: b.Pool, Pure: true, Jobs: 1,
	}
	if a.StepIndex >= 0 {
		r.Label = d.facts.Resolution.Program.LabelOf(a.Origin, a.StepIndex)
	}
	plan := d.plan(NeedForPlan(&r))
	switch {
	case plan == nil:
	case plan.Problem != nil:
		d.failDiscovery(plan.Problem)
	default:
		d.cutPacks(&r, nil)
		d.appendStepRun(r)
		d.decision.DispatchSeq = r.Seq
		d.waitUntil(d.now.Add(d.policy.PollInterval))
	}
}

// followAcquire waits for the answer of a block's acquire.
func (d *decider) followAcquire(r *workflow.StepRun) {
	f := d.report(r, NeedReport)
	switch {
	case f == nil:
	case f.Complete && f.Counts.OK == r.Jobs:
		d.recordResult(r, f)
		d.exitStepRun(r, sm.StepCompleted)
	case f.Complete || f.Unclaimed:
		if d.recordResult(r, f); f.Unclaimed {
			r.Counts = workflow.Counts{Failure: &workflow.Failure{Code: "UNCLAIMED",
				Message: fmt.Sprintf("no worker of pool %q has claimed the acquire of block %s", r.Pool, r.Block)}}
		}
		d.exitStepRun(r, sm.StepFailed)
		_, why := failureOf(r, r.Counts)
		d.failDiscovery(why)
	default:
		d.waitUntil(d.nextCheckAt(r, f))
	}
}

// cancelOpenStepRuns ends what is open of a run that ends before it has run: calls of
// acquire, which change nothing.
func (d *decider) cancelOpenStepRuns() {
	for _, r := range d.openStepRuns() {
		d.exitStepRun(r, sm.StepCancelled)
	}
}
