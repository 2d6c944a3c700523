package lifecycle

import (
	"cmp"
	"fmt"
	"maps"

	"github.com/lockstep-run/lockstep/shared/lifecycle/visits"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// resolve takes NEW to VALID with the blocks' versions pinned, or rejects the
// run: an unknown block, parameters that do not fit.
func (d *decider) resolve() {
	r := d.F.Resolved
	if r == nil {
		d.Need(Need{Kind: NeedResolved})
		return
	}
	if problem := cmp.Or(r.Problem, unsharable(r)); problem != nil {
		d.Fail(workflow.CauseValidation, problem)
		d.Move(sm.EventExecutionRejected, sm.ExecutionFailedSafe, "", map[string]any{"reason": problem.Message})
		return
	}
	d.pin()
	d.Move(sm.EventExecutionValidated, sm.ExecutionValid, "", nil)
}

// pin writes down the versions that the run works with to its end.
func (d *decider) pin() {
	r := d.F.Resolved
	d.X.Blocks = make(map[string]string, len(r.Blocks))
	for ref, b := range r.Blocks {
		d.X.Blocks[ref] = b.Version
	}
	d.X.Workflows = maps.Clone(r.Workflows)
	if t := d.Config().Timeout.Std(); t > 0 {
		d.X.Deadline = d.Now.Add(t)
	}
}

// discover takes RESOURCE_DISCOVERY to RESOURCES_DISCOVERED with the scope fixed:
// from here on the set of entities does not change. Blocks that acquire are asked
// one after the other, for what one returns may be what another expands.
func (d *decider) discover() {
	if open := d.Open(); len(open) > 0 {
		d.followAcquire(open[0])
		return
	}
	f := d.F.Discovered
	switch {
	case f == nil:
		d.Need(Need{Kind: NeedDiscovered})
	case f.Problem != nil:
		d.undiscovered(f.Problem)
	case f.Acquire >= 0:
		d.acquire(f.Acquire)
	default:
		d.X.Scope = f.Scope
		d.Move(sm.EventDiscoveryCompleted, sm.ExecutionResourcesDiscovered, "", map[string]any{"entities": f.Scope.Counts})
	}
}

func (d *decider) undiscovered(why *workflow.Failure) {
	d.Fail(workflow.CauseValidation, why)
	d.Move(sm.EventDiscoveryFailed, sm.ExecutionFailedSafe, "", map[string]any{"reason": why.Message})
}

// acquire calls a block's acquire.
func (d *decider) acquire(index int) {
	if d.F.Resolved == nil {
		d.Need(Need{Kind: NeedResolved})
		return
	}
	a := &d.F.Resolved.Program.Acquisitions[index]
	b := d.F.Resolved.Blocks[a.Block]
	r := workflow.StepRun{
		RunSeq: d.X.RunSeq + 1, Try: d.X.Try, Step: index, Label: "acquire", Visit: 1, Kind: workflow.JobAcquire,
		Status: sm.StepRunning, EnteredAt: d.Now, EpochTime: d.Now, Block: b.Ref().String(), Pool: b.Pool, Pure: true, Jobs: 1,
	}
	if a.Step >= 0 {
		r.Label = d.F.Resolved.Program.Label(a.Space, a.Step)
	}
	plan := d.Plan(PlanNeed(&r))
	switch {
	case plan == nil:
	case plan.Problem != nil:
		d.undiscovered(plan.Problem)
	default:
		d.Cut(&r, nil)
		d.Append(r)
		d.Out.Dispatch = r.RunSeq
		d.Wait(d.Now.Add(d.P.Poll))
	}
}

// followAcquire waits for the answer of a block's acquire.
func (d *decider) followAcquire(r *workflow.StepRun) {
	f := d.Report(r, NeedReport)
	switch {
	case f == nil:
	case f.Complete && f.Tally.OK == r.Jobs:
		d.Finish(r, f)
		d.Exit(r, sm.StepCompleted)
	case f.Complete || f.Silent:
		if d.Finish(r, f); f.Silent {
			r.Tally = workflow.Tally{Failure: &workflow.Failure{Code: "UNCLAIMED",
				Message: fmt.Sprintf("no worker of pool %q has claimed the acquire of block %s", r.Pool, r.Block)}}
		}
		d.Exit(r, sm.StepFailed)
		_, why := visits.FailureOf(r, r.Tally)
		d.undiscovered(why)
	default:
		d.Wait(d.NextLook(r, f))
	}
}

// abandon ends what is open of a run that ends before it has run: calls of
// acquire, which change nothing.
func (d *decider) abandon() {
	for _, r := range d.Open() {
		d.Exit(r, sm.StepCancelled)
	}
}
