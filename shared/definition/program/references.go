package program

import (
	"slices"

	"github.com/lockstep-run/lockstep/shared/expr"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

// checkReferences checks what an expression of step i reads. Only earlier steps have results and a
// final status. LABEL.result is the result for the same entity: a step without entities has none,
// and a step on another type has other entities. repeat.while is evaluated after a step run
// (afterStep), and so may read the results of that step run.
func (c *compiler) checkReferences(i int, path string, refs expr.References, afterStep bool) {
	var s *spec.Step
	if i < len(c.flat) {
		s = c.flat[i]
	} else {
		s = outputStep
	}
	if refs.Entity && !c.divides && (isGlobal(s) || c.handlesFailure) {
		c.ReportAt(path, "reference", "%s has no entity", c.describeReader(s))
	}
	c.checkItems(i, path, refs)
	for _, label := range refs.Labels {
		at, ok := c.index[label]
		if !ok || !c.checkEarlier(i, at, path, label, "result", afterStep) {
			continue
		}
		switch from := c.flat[at]; {
		case from.Workflow != nil || len(from.Switch) > 0:
			c.ReportAt(path, "reference", "step %q has no result: read the results of the steps in it", label)
		case len(from.Set) > 0:
			c.ReportAt(path, "reference", "step %q has no result: read the variables that it sets, as vars.NAME", label)
		case from.ByEngine():
			c.ReportAt(path, "reference", "step %q has no result: it is %s", label, describeKind(from))
		case from.Wait != nil && !from.Wait.HasResult():
			c.ReportAt(path, "reference", "step %q has no result: it waits for a time or a condition", label)
		case isEmbedded(from):
			c.ReportAt(path, "reference", "step %q embeds another workflow, and its results cannot be read", label)
		case from.Foreach != nil && slices.Contains(refs.OwnResults, label):
			c.ReportAt(path, "reference", "step %q has one result for each item: read %s.results, a list", label, label)
		case slices.Contains(refs.OwnResults, label):
			c.checkOwnResult(s, from, path)
		}
	}
	for _, label := range refs.Steps {
		at, ok := c.index[label]
		if !ok {
			c.ReportAt(path, "reference", "there is no step %q", label)
			continue
		}
		if at == i && !c.handlesFailure || c.encloses(at, i) {
			c.ReportAt(path, "reference", "step %q has no status while it runs", label)
			continue
		}
		c.checkEarlier(i, at, path, label, "status", afterStep)
	}
}

// checkOwnResult checks that the result that step s reads can exist for its own entity.
func (c *compiler) checkOwnResult(s, from *spec.Step, path string) {
	switch {
	case isGlobal(from) || from.RunOn == s.RunOn && !isGlobal(s) && !c.handlesFailure:
	case isGlobal(s) || c.handlesFailure:
		c.ReportAt(path, "reference", "%s has no entity: read %s.results", c.describeReader(s), from.Label)
	case from.RunOn != "" && s.RunOn != "":
		c.ReportAt(path, "reference", "step %q runs on %s and %q on %s: read %s.results", s.Label, s.RunOn, from.Label, from.RunOn, from.Label)
	}
}

// checkEarlier reports whether step i can read step at, and adds an issue if it cannot.
func (c *compiler) checkEarlier(i, at int, path, label, kind string, afterStep bool) bool {
	switch {
	case !c.sameBranches(i, at):
		c.ReportAt(path, "reference", "step %q is in another branch, which may be quicker or slower: read its %s behind the branches", label, kind)
	case at < i || afterStep && at <= c.positions[i].lastNested:
		return true
	case at == i:
		c.ReportAt(path, "reference", "step %q reads its own %s", label, kind)
	default:
		c.ReportAt(path, "reference", "step %q reads the %s of step %q, which comes later", c.flat[i].Label, kind, label)
	}
	return false
}

// sameBranches reports whether two steps are in the same branch of every step that has both in its
// branches.
func (c *compiler) sameBranches(i, at int) bool {
	if i >= len(c.flat) {
		return true
	}
	branch := func(step, around int) int { // the list of the branch of around in which the step is
		p := &c.positions[step]
		if n := slices.Index(p.ancestors, around); n+1 < len(p.ancestors) {
			return c.positions[p.ancestors[n+1]].group
		}
		return p.group
	}
	for _, around := range c.positions[i].ancestors {
		if c.flat[around].Parallel != nil && !slices.Contains(c.positions[i].handles, around) && slices.Contains(c.positions[at].ancestors, around) && branch(i, around) != branch(at, around) {
			return false
		}
	}
	return true
}

// encloses reports whether a step is open while another is executed. A step whose failure is
// handled has ended.
func (c *compiler) encloses(outer, inner int) bool {
	if inner >= len(c.flat) {
		return false
	}
	p := &c.positions[inner]
	return slices.Contains(p.ancestors, outer) && !slices.Contains(p.handles, outer)
}

// isGlobal reports whether a step is evaluated once, without an entity.
func isGlobal(s *spec.Step) bool {
	return s.RunOn == workflow.RunOnGlobal || s.FunctionBlock == "" || s.Foreach != nil
}

func isEmbedded(s *spec.Step) bool {
	return s.Reference != nil && s.Reference.Mode == workflow.ModeEmbed
}

func (c *compiler) describeReader(s *spec.Step) string {
	if c.handlesFailure {
		return "a condition of onFailure"
	}
	return describeKind(s)
}

func describeKind(s *spec.Step) string {
	switch {
	case s.Workflow != nil:
		return "an embedded workflow"
	case s.Reference != nil:
		return "a workflow reference"
	case len(s.Switch) > 0:
		return "a switch"
	case s.Parallel != nil:
		return "a step with branches"
	case len(s.Set) > 0:
		return "a step that sets variables"
	case s.Insert != nil:
		return "a step that inserts a row"
	case s.Schedule != nil:
		return "a step that makes a schedule"
	case s.Wait != nil:
		return "a wait"
	case s.Foreach != nil:
		return "a step with foreach"
	case s == outputStep:
		return "the output"
	}
	return "a global step"
}
