package lifecycle

import (
	"cmp"

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
	d.x.Blocks = make(map[string]string, len(r.Blocks))
	for ref, b := range r.Blocks {
		d.x.Blocks[ref] = b.Version
	}
	d.move(sm.EventExecutionValidated, sm.ExecutionValid, "", nil)
}

// discover takes RESOURCE_DISCOVERY to RESOURCES_DISCOVERED with the scope
// fixed: from here on the set of entities never changes.
func (d *decider) discover() {
	f := d.f.Discovered
	if f == nil {
		d.need(Need{Kind: NeedDiscovered})
		return
	}
	if f.Problem != nil {
		d.fail(workflow.CauseValidation, f.Problem)
		d.move(sm.EventDiscoveryFailed, sm.ExecutionFailedSafe, "", map[string]any{"reason": f.Problem.Message})
		return
	}
	d.x.Scope = f.Scope
	d.move(sm.EventDiscoveryCompleted, sm.ExecutionResourcesDiscovered, "", map[string]any{"entities": f.Scope.Counts})
}
