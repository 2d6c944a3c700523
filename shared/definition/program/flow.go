package program

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/lockstep-run/lockstep/shared/expr"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

// Target is where an execution continues: at a step, or at the end of the definition.
type Target struct {
	Step int // index in FlatSteps; their number for the end
	In   int // index of the step around it, -1 for none
}

// assignment is one variable that a step sets.
type assignment struct {
	path  string
	value *expr.Template
}

// branch is one case of a switch or of onFailure.
type branch struct {
	when *expr.Program // nil: always
	next *Target       // nil: after the step
}

// outputStep stands for the output of the definition when expressions are checked. It comes after
// all steps.
var outputStep = &spec.Step{Label: "output"}

// compileFlow compiles what step i sets, and where an execution continues after it.
func (c *compiler) compileFlow(i int) {
	s, into, path := c.flat[i], &c.steps[i], c.positions[i].path
	into.next = c.compileTarget(i, s.Next, path+".next")
	into.onResume = c.compileTarget(i, s.OnResume, path+".onResume")
	into.cases = c.compileCases(i, s.Switch, path+".switch", false)
	into.handlers = c.compileCases(i, s.OnFailure, path+".onFailure", true)
	if s.Parallel != nil {
		c.compileBranches(i, path+".parallel")
	}
	if c.inBranch(i) {
		c.checkInBranch(i, path)
	}
	var values map[string]json.RawMessage
	_ = json.Unmarshal(s.Set, &values) // it was read as an object
	for _, name := range slices.Sorted(maps.Keys(values)) {
		into.set = append(into.set, assignment{name, c.compileTemplate(i, values[name], path+".set")})
	}
	for n, a := range into.set {
		for _, b := range into.set[:n] {
			if overlaps(a.path, b.path) {
				c.ReportAt(path+".set", "conflict", "%s is a part of %s: one step cannot set both", a.path, b.path)
			}
		}
	}
	if s.OutputKey != "" && s.FunctionBlock != "" && !isGlobal(s) {
		c.ReportAt(path+".outputKey", "conflict", "the step has one result for each entity: outputKey needs a step with one result")
	}
	if w := s.Waits(); s.OutputKey != "" && w != nil && !w.HasResult() {
		c.ReportAt(path+".outputKey", "conflict", "the step has no result: it waits for a time or a condition")
	}
	if c.variables += len(into.set); s.OutputKey != "" {
		c.variables++
	}
	if c.variables > workflow.MaxVariables {
		c.ReportAt(path, "limit", "a definition sets at most %d variables", workflow.MaxVariables)
	}
}

// compileBranches compiles the outputs of the branches of step i, which may read the steps in them.
func (c *compiler) compileBranches(i int, path string) {
	c.afterStep = true
	defer func() { c.afterStep = false }()
	for n := range c.flat[i].Parallel.Branches {
		b := &c.flat[i].Parallel.Branches[n]
		var t *expr.Template
		if len(b.Result) > 0 {
			t = c.compileTemplate(i, b.Result, path+".branches["+strconv.Itoa(n)+"].result")
		}
		c.steps[i].results = append(c.steps[i].results, t)
	}
}

// BranchResult evaluates the declared output of a branch; false if none is declared.
func (c *Compiled) BranchResult(step, branch int, s expr.Scope) (json.RawMessage, bool, error) {
	t := c.steps[step].results[branch]
	if t == nil {
		return nil, false, nil
	}
	value, err := t.Eval(s)
	return value, true, err
}

// checkInBranch refuses branches that are nested too deep.
func (c *compiler) checkInBranch(i int, path string) {
	s := c.flat[i]
	if around := c.positions[i].ancestors; s.Parallel != nil {
		nested := 0
		for _, a := range around {
			if c.flat[a].Parallel != nil {
				nested++
			}
		}
		if nested >= maxNestedBranches {
			c.ReportAt(path+".parallel", "depth", "branches are nested at most %d deep", maxNestedBranches)
		}
	}
}

// maxNestedBranches is how deep branches may nest.
const maxNestedBranches = 2

// overlaps reports whether one path equals another, or is inside it.
func overlaps(a, b string) bool {
	if len(a) > len(b) {
		a, b = b, a
	}
	return a == b || len(b) > len(a) && b[:len(a)] == a && b[len(a)] == '.'
}

func (c *compiler) compileCases(i int, cases []spec.Case, path string, onFailure bool) []branch {
	c.handlesFailure = onFailure
	defer func() { c.handlesFailure = false }()
	var all []branch
	for n, one := range cases {
		at := path + "[" + strconv.Itoa(n) + "]"
		next := at + ".next"
		if one.When == "" && !onFailure {
			next = at + ".default"
		}
		all = append(all, branch{c.compileCondition(i, one.When, at+".when", onFailure), c.compileTarget(i, one.Next, next)})
	}
	return all
}

// compileTarget finds the step that a label names: in the list of step i, or in the list of a step
// around it. So an execution never jumps into the middle of a step.
func (c *compiler) compileTarget(i int, label, path string) *Target {
	switch {
	case label == "":
		return nil
	case label == spec.NextEnd && c.inBranch(i):
		c.ReportAt(path, "reference", "a branch ends after its last step: the definition cannot end inside it")
		return nil
	case label == spec.NextEnd && c.rolloutAround(i) >= 0:
		c.ReportAt(path, "reference", "the waves of rollout %q are executed to their end: the definition cannot end inside one", c.flat[c.rolloutAround(i)].Label)
		return nil
	case label == spec.NextEnd:
		return &Target{len(c.flat), -1}
	}
	at, ok := c.index[label]
	switch {
	case !ok:
		c.ReportAt(path, "reference", "there is no step %q", label)
	case c.canReach(i, at):
		return &Target{at, c.containerOf(at)}
	case c.inBranch(i):
		c.ReportAt(path, "reference", "step %q is not in this branch, or inside another step", label)
	case c.rolloutAround(i) >= 0:
		c.ReportAt(path, "reference", "step %q is not in the waves of rollout %q, or inside another step", label, c.flat[c.rolloutAround(i)].Label)
	default:
		c.ReportAt(path, "reference", "step %q is inside another step: go to a step beside this one, or beside a step around it", label)
	}
	return nil
}

// canReach reports whether a step may jump to another: to one in its own list, or in the list of a
// step around it, up to its own branch or rollout.
func (c *compiler) canReach(from, to int) bool {
	p := &c.positions[from]
	if p.group == c.positions[to].group {
		return true
	}
	for n := len(p.ancestors) - 1; n >= 0; n-- {
		around := p.ancestors[n]
		if (c.flat[around].Parallel != nil || c.flat[around].Rollout != nil) && !slices.Contains(p.handles, around) {
			return false
		}
		if c.positions[around].group == c.positions[to].group {
			return true
		}
	}
	return false
}

// inBranch reports whether a step is executed in a branch, concurrently with others.
func (c *compiler) inBranch(i int) bool {
	return slices.ContainsFunc(c.positions[i].ancestors, func(around int) bool {
		return c.flat[around].Parallel != nil && !slices.Contains(c.positions[i].handles, around)
	})
}

// containerOf returns the innermost step that is open while a step is executed, -1 if there is
// none.
func (c *compiler) containerOf(at int) int {
	p := &c.positions[at]
	for n := len(p.ancestors) - 1; n >= 0; n-- {
		if !slices.Contains(p.handles, p.ancestors[n]) {
			return p.ancestors[n]
		}
	}
	return -1
}

// checkBranchVariables refuses variables that two branches of a step both set, because the faster
// branch would decide which value lasts.
func (c *compiler) checkBranchVariables() {
	type write struct{ path, at string }
	for i, s := range c.flat {
		if s.Parallel == nil {
			continue
		}
		earlier := map[int][]write{} // by the list of the branch
		for at := i + 1; at <= c.positions[i].lastNested; at++ {
			p := &c.positions[at]
			n := slices.Index(p.ancestors, i)
			if slices.Contains(p.handles, i) || n < 0 {
				continue
			}
			branch := p.group
			if n+1 < len(p.ancestors) {
				branch = c.positions[p.ancestors[n+1]].group
			}
			var own []write
			for _, a := range c.steps[at].set {
				own = append(own, write{a.path, p.path + ".set"})
			}
			if key := c.flat[at].OutputKey; key != "" {
				own = append(own, write{key, p.path + ".outputKey"})
			}
			for _, w := range own {
				for other, writes := range earlier {
					if other != branch && slices.ContainsFunc(writes, func(o write) bool { return overlaps(o.path, w.path) }) {
						c.ReportAt(w.at, "conflict", "another branch sets %s too, or a part of it: which value lasts would depend on which branch is quicker", w.path)
					}
				}
			}
			earlier[branch] = append(earlier[branch], own...)
		}
	}
}

// findReachable records to which steps the block of each global step may send the execution.
func (c *compiler) findReachable() {
	c.reachable = make([]map[string]*Target, len(c.flat))
	for i, s := range c.flat {
		if s.FunctionBlock == "" || !isGlobal(s) || s.Foreach != nil {
			continue
		}
		to := map[string]*Target{}
		if !c.inBranch(i) && c.rolloutAround(i) < 0 {
			to[spec.NextEnd] = &Target{len(c.flat), -1}
		}
		for at, other := range c.flat {
			if c.canReach(i, at) {
				to[other.Label] = &Target{at, c.containerOf(at)}
			}
		}
		c.reachable[i] = to
	}
}

// compileOutput compiles the output of the definition, which is evaluated after all steps.
func (c *compiler) compileOutput() {
	if len(c.definition.Output) > 0 {
		c.steps[len(c.flat)].parameters = c.compileTemplate(len(c.flat), c.definition.Output, "output")
	}
}

// Output evaluates the output of the definition, "{}" if it has none.
func (c *Compiled) Output(s expr.Scope) (json.RawMessage, error) {
	t := c.steps[len(c.steps)-1].parameters
	if t == nil {
		return json.RawMessage("{}"), nil
	}
	return t.Eval(s)
}

// Set evaluates what a step sets: an object of values by the path of a variable.
func (c *Compiled) Set(step int, s expr.Scope) (json.RawMessage, error) {
	values := map[string]json.RawMessage{}
	for _, a := range c.steps[step].set {
		v, err := a.value.Eval(s)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", a.path, err)
		}
		values[a.path] = v
	}
	return workflow.EncodeJSON(values)
}

// SetPaths returns the paths of the variables that a step sets, in order.
func (c *Compiled) SetPaths(step int) []string {
	var paths []string
	for _, a := range c.steps[step].set {
		paths = append(paths, a.path)
	}
	return paths
}

// CaseError is the reason why the condition of a case has no value.
type CaseError struct {
	At  int // position of the case
	Err error
}

// Route returns the position of the first case of a switch, or of onFailure, whose condition is
// true, -1 if there is none. A condition that cannot be evaluated is not true: failed has the
// reasons, by the position of the case, in order.
func (c *Compiled) Route(step int, onFailure bool, s expr.Scope) (at int, failed []CaseError) {
	cases := c.steps[step].cases
	if onFailure {
		cases = c.steps[step].handlers
	}
	for i := range cases {
		ok, err := evalCondition(cases[i].when, s)
		if err != nil {
			failed = append(failed, CaseError{i, err})
		}
		if ok && err == nil {
			return i, failed
		}
	}
	return -1, failed
}

// Next returns where an execution continues after a step, nil for the step behind it.
func (c *Compiled) Next(step int) *Target { return c.steps[step].next }

// OnResume is where an execution goes on after a wait that the block of a step has asked for, nil for the step again.
func (c *Compiled) OnResume(step int) *Target { return c.steps[step].onResume }

// CaseTargets returns the targets of the cases of a switch and of onFailure.
func (c *Compiled) CaseTargets(step int) (cases, handlers []*Target) {
	for _, b := range c.steps[step].cases {
		cases = append(cases, b.next)
	}
	for _, b := range c.steps[step].handlers {
		handlers = append(handlers, b.next)
	}
	return cases, handlers
}

// TargetNamed returns the target that a block names for a step, nil if the step cannot go there.
func (c *Compiled) TargetNamed(step int, label string) *Target { return c.reachable[step][label] }
