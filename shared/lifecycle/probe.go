package lifecycle

import "github.com/lockstep-run/lockstep/shared/workflow/spec"

// A probe executes the pure steps of a definition up to the first step that is not, under
// shared locks, and completes there: PC then names that step. It applies no updates.

// mayProbe reports whether a probe may enter the step. One that has nested steps changes
// nothing itself; one that starts an execution does not say what that changes. A probe ends
// in front of branches.
func (d *decider) mayProbe(n *spec.Node) bool {
	return n.IsContainer() && n.Parallel == nil || len(n.Set) > 0 || n.FunctionBlock != "" && n.Callback == nil && d.facts.Resolution.Blocks[n.FunctionBlock].Pure
}

// endProbe completes a probe in front of a step that is not pure. The steps around it are
// cancelled: not all that is nested in them was executed.
func (d *decider) endProbe() {
	d.leaveContainers()
	d.complete()
}

// pipelineEnd is the index after the last step of the pipeline that begins at the step. That
// of a probe ends before the first step that is not pure. There is none where an operator goes
// through the steps.
func (d *decider) pipelineEnd(at int) int {
	p := d.facts.Resolution.Program
	end := p.PipelineEnd(at)
	if d.execution.Stepping {
		return at + 1
	}
	for i := at; d.execution.Probe && i < end; i++ {
		if !d.mayProbe(&p.Nodes[i]) {
			return max(i, at+1)
		}
	}
	return end
}
