package lifecycle

import (
	"fmt"

	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// discover moves RESOURCE_DISCOVERY to RESOURCES_DISCOVERED and fixes the scope: from
// here on the set of entities does not change. Blocks that acquire entities are called
// one after the other, because one may expand what another returns.
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
	d.failBeforeRunning(sm.EventDiscoveryFailed, map[string]any{"reason": d.execution.Reason})
}

// startAcquire calls acquire of a block.
func (d *decider) startAcquire(index int) {
	if d.facts.Resolution == nil {
		d.need(Need{Kind: NeedResolution})
		return
	}
	a := &d.facts.Resolution.Program.Acquisitions[index]
	b := d.facts.Resolution.Blocks[a.Block]
	r := workflow.StepRun{
		Seq: d.execution.StepRunSeq + 1, Try: d.execution.Try, StepIndex: index, Label: "acquire", Ordinal: 1, Kind: workflow.JobAcquire,
		Status: sm.StepRunning, EnteredAt: d.now, DispatchedAt: d.now, Block: b.Ref().String(), Pool: d.poolOf(b), Pure: true, Jobs: 1,
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
		d.cutPacks(&r, nil, workflow.Rate{}, d.config().MaxInFlight)
		d.appendStepRun(r)
		d.decision.DispatchSeq = r.Seq
		d.waitUntil(d.now.Add(d.policy.PollInterval))
	}
}

// followAcquire waits for the result of a block's acquire.
func (d *decider) followAcquire(r *workflow.StepRun) {
	f := d.report(r, NeedReport)
	switch {
	case f == nil:
	case f.Complete && f.Counts.OK == r.Jobs:
		d.recordResult(r, f)
		d.exitStepRun(r, sm.StepCompleted)
	case f.Complete || f.Unclaimed:
		if d.recordResult(r, f); f.Unclaimed {
			r.Counts = workflow.Counts{Failure: &workflow.Failure{Code: workflow.FailureUnclaimed,
				Message: fmt.Sprintf("no worker of pool %q has claimed the acquire job of block %s", r.Pool, r.Block) + regionHint(r.Pool)}}
		}
		d.exitStepRun(r, sm.StepFailed)
		_, why := FailureOf(r, r.Counts)
		d.failDiscovery(why)
	default:
		d.waitUntil(d.nextCheckAt(r, f))
	}
}

// cancelOpenStepRuns ends the open step runs of an execution that ends before RUNNING. They are
// acquire calls, which change nothing. If the execution ends because it broke, there may also be
// step runs that wait.
func (d *decider) cancelOpenStepRuns() {
	for _, r := range append(d.openStepRuns(), d.waitingStepRuns()...) {
		if r.Open() { // a step run may be in both lists
			d.exitStepRun(r, sm.StepCancelled)
		}
	}
}
