package program

import (
	"slices"

	"github.com/lockstep-run/lockstep/shared/expr"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

// reads checks what an expression of step i reads: only earlier steps have
// results, and a status that stays as it is; and LABEL.result is the result for
// the same entity, of which a step without entity has none and a step on another
// type another. What decides whether the step is repeated is evaluated after a
// visit, and so may read the results of that visit.
func (c *compiler) reads(i int, path string, refs expr.References, after bool) {
	s := c.flat[i]
	if alone(s) && refs.Entity {
		c.At(path, "reference", "%s has no entity", kindOf(s))
	}
	for _, label := range refs.Labels {
		at, ok := c.index[label]
		if !ok || !c.earlier(i, at, path, label, "result", after) {
			continue
		}
		switch from := c.flat[at]; {
		case from.Workflow != nil:
			c.At(path, "reference", "step %q has no result of its own: read those of the steps in it", label)
		case embedded(from):
			c.At(path, "reference", "step %q embeds another workflow, whose results stay in it", label)
		case slices.Contains(refs.Own, label):
			c.own(s, from, path)
		}
	}
	for _, label := range refs.Steps {
		at, ok := c.index[label]
		if !ok {
			c.At(path, "reference", "there is no step %q", label)
			continue
		}
		if at == i || slices.Contains(c.places[i].in, at) {
			c.At(path, "reference", "step %q has no status while it runs", label)
			continue
		}
		c.earlier(i, at, path, label, "status", after)
	}
}

// own checks that a step reads a result that is there for its own entity.
func (c *compiler) own(s, from *spec.Step, path string) {
	switch {
	case alone(from) || from.RunOn == s.RunOn && !alone(s):
	case alone(s):
		c.At(path, "reference", "in %s read %s.results: there is no entity whose result it could be", kindOf(s), from.Label)
	case from.RunOn != "" && s.RunOn != "":
		c.At(path, "reference", "step %q runs on %s and %q on %s: read %s.results", s.Label, s.RunOn, from.Label, from.RunOn, from.Label)
	}
}

// earlier reports whether step i can know step at, and says so if it cannot.
func (c *compiler) earlier(i, at int, path, label, what string, after bool) bool {
	switch {
	case at < i || after && at <= c.places[i].last:
		return true
	case at == i:
		c.At(path, "reference", "step %q reads its own %s", label, what)
	default:
		c.At(path, "reference", "step %q reads the %s of step %q, which comes later", c.flat[i].Label, what, label)
	}
	return false
}

// alone reports whether a step is evaluated once, without entity.
func alone(s *spec.Step) bool {
	return s.RunOn == workflow.RunOnGlobal || s.Workflow != nil || s.Reference != nil
}

func embedded(s *spec.Step) bool {
	return s.Reference != nil && s.Reference.Mode == workflow.ModeEmbed
}

func kindOf(s *spec.Step) string {
	switch {
	case s.Workflow != nil:
		return "an embedded workflow"
	case s.Reference != nil:
		return "a workflow reference"
	}
	return "a global step"
}
