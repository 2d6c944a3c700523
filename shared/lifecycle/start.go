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
	r := d.f.Resolved
	if r == nil {
		d.need(Need{Kind: NeedResolved})
		return
	}
	if problem := cmp.Or(r.Problem, r.unsharable()); problem != nil {
		d.fail(workflow.CauseValidation, problem)
		d.move(sm.EventExecutionRejected, sm.ExecutionFailedSafe, "", map[string]any{"reason": problem.Message})
		return
	}
	d.pin()
	d.move(sm.EventExecutionValidated, sm.ExecutionValid, "", nil)
}

// pin writes down the versions that the run works with to its end.
func (d *decider) pin() {
	r := d.f.Resolved
	d.x.Blocks = make(map[string]string, len(r.Blocks))
	for ref, b := range r.Blocks {
		d.x.Blocks[ref] = b.Version
	}
	d.x.Workflows = maps.Clone(r.Workflows)
	if t := d.config().Timeout.Std(); t > 0 {
		d.x.Deadline = d.now.Add(t)
	}
}

// discover takes RESOURCE_DISCOVERY to RESOURCES_DISCOVERED with the scope fixed:
// from here on the set of entities does not change. Blocks that acquire are asked
// one after the other, for what one returns may be what another expands.
func (d *decider) discover() {
	if open := d.open(); len(open) > 0 {
		d.followAcquire(open[0])
		return
	}
	f := d.f.Discovered
	switch {
	case f == nil:
		d.need(Need{Kind: NeedDiscovered})
	case f.Problem != nil:
		d.undiscovered(f.Problem)
	case f.Acquire >= 0:
		d.acquire(f.Acquire)
	default:
		d.x.Scope = f.Scope
		d.move(sm.EventDiscoveryCompleted, sm.ExecutionResourcesDiscovered, "", map[string]any{"entities": f.Scope.Counts})
	}
}

func (d *decider) undiscovered(why *workflow.Failure) {
	d.fail(workflow.CauseValidation, why)
	d.move(sm.EventDiscoveryFailed, sm.ExecutionFailedSafe, "", map[string]any{"reason": why.Message})
}

// acquire calls a block's acquire.
func (d *decider) acquire(index int) {
	if d.f.Resolved == nil {
		d.need(Need{Kind: NeedResolved})
		return
	}
	a := &d.f.Resolved.Program.Acquisitions[index]
	b := d.f.Resolved.Blocks[a.Block]
	r := workflow.StepRun{
		RunSeq: d.x.RunSeq + 1, Try: d.x.Try, Step: index, Label: "acquire", Visit: 1, Kind: workflow.JobAcquire,
		Status: sm.StepRunning, EnteredAt: d.now, EpochTime: d.now, Block: b.Ref().String(), Pool: b.Pool, Pure: true, Jobs: 1,
	}
	if a.Step >= 0 {
		r.Label = d.f.Resolved.Program.Label(a.Space, a.Step)
	}
	plan := d.plan(PlanNeed(&r))
	switch {
	case plan == nil:
	case plan.Problem != nil:
		d.undiscovered(plan.Problem)
	default:
		d.cut(&r, nil)
		d.append(r)
		d.out.Dispatch = r.RunSeq
		d.wait(d.now.Add(d.p.Poll))
	}
}

// followAcquire waits for the answer of a block's acquire.
func (d *decider) followAcquire(r *workflow.StepRun) {
	f := d.report(r, NeedReport)
	switch {
	case f == nil:
	case f.Complete && f.Tally.OK == r.Jobs:
		d.finish(r, f)
		d.exit(r, sm.StepCompleted)
	case f.Complete || f.Silent:
		if d.finish(r, f); f.Silent {
			r.Tally = workflow.Tally{Failure: &workflow.Failure{Code: "UNCLAIMED",
				Message: fmt.Sprintf("no worker of pool %q has claimed the acquire of block %s", r.Pool, r.Block)}}
		}
		d.exit(r, sm.StepFailed)
		_, why := failureOf(r, r.Tally)
		d.undiscovered(why)
	default:
		d.wait(d.nextLook(r, f))
	}
}

// abandon ends what is open of a run that ends before it has run: calls of
// acquire, which change nothing.
func (d *decider) abandon() {
	for _, r := range d.open() {
		d.exit(r, sm.StepCancelled)
	}
}
