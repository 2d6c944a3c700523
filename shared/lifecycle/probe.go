package lifecycle

import "github.com/lockstep-run/lockstep/shared/workflow/spec"

// A probe executes the pure steps of a definition under shared locks, up to the first step that is
// not pure, and completes there: PC then names that step. It applies no updates.

// mayProbe reports whether a probe may enter the step. A step with nested steps changes nothing
// itself. A step that starts an execution does not say what that changes. A probe ends before
// branches.
func (d *decider) mayProbe(n *spec.Node) bool {
	return n.IsContainer() && n.Parallel == nil || len(n.Set) > 0 || n.FunctionBlock != "" && n.Callback == nil && d.facts.Resolution.Blocks[n.FunctionBlock].Pure
}

// endProbe completes a probe before a step that is not pure. The surrounding steps are cancelled,
// because not all steps in them were executed.
func (d *decider) endProbe() {
	d.leaveContainers()
	d.complete()
}

// pipelineEnd returns the index after the last step of the pipeline that begins at the step. For a
// probe, the pipeline ends before the first step that is not pure. If an operator goes through the
// steps, there is no pipeline.
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
