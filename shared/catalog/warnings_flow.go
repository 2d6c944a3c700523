package catalog

import (
	"cmp"
	"maps"
	"regexp"
	"slices"

	"github.com/lockstep-run/lockstep/shared/definition/program"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

// checkFlow warns about parts of a definition's flow that have no effect: unreachable steps, and
// onFailure where nothing can fail.
func (w *warner) checkFlow(d *spec.Definition, paths []string) error {
	f := reachFinder{reached: map[*spec.Step]bool{}, targets: map[string]bool{}}
	for before := -1; before != len(f.targets); {
		before = len(f.targets)
		f.list(d.Steps, true)
	}
	unreached := map[*spec.Step]bool{} // including the steps inside them
	for i, s := range d.FlatSteps() {
		if !f.reached[s] {
			if !unreached[s] {
				w.warn(paths[i], "unreachable", "no step goes on with step %q: only a block that names it as the next step can", s.Label)
			}
			for _, g := range s.Groups() {
				for n := range g.Steps {
					unreached[&g.Steps[n]] = true
				}
			}
			continue
		}
		if len(s.OnFailure) > 0 && !canFail(s) {
			w.warn(paths[i]+".onFailure", "no_effect", "step %q cannot fail: every failure in it is tolerated or handled there", s.Label)
		}
		if s.OutputKey == "" || s.FunctionBlock == "" || s.Callback != nil {
			continue
		}
		b, err := w.newestBlock(s.FunctionBlock)
		if err != nil {
			return err
		}
		if b != nil && len(b.ResultSchema) == 0 {
			w.warn(paths[i]+".outputKey", "no_result_schema", "block %s has no result schema: whatever it returns becomes the value of %s", b.Ref(), s.OutputKey)
		}
	}
	w.checkVariables(d, paths)
	return nil
}

// reachFinder finds the reachable steps of a definition. targets are the labels that reachable
// steps name.
type reachFinder struct {
	reached map[*spec.Step]bool
	targets map[string]bool
}

// list follows a list of steps, and reports whether execution continues after its last step.
func (f *reachFinder) list(steps []spec.Step, goesOn bool) bool {
	for i := range steps {
		s := &steps[i]
		if goesOn = goesOn || f.targets[s.Label]; goesOn {
			f.reached[s] = true
			goesOn = f.step(s)
		}
	}
	return goesOn
}

// step follows a step, and reports whether the next step may follow it.
func (f *reachFinder) step(s *spec.Step) (goesOn bool) {
	to := func(label string) {
		if label == "" {
			goesOn = true
			return
		}
		f.targets[label] = true
	}
	ends := s.Condition != ""
	if s.Workflow != nil {
		ends = f.list(s.Workflow.Steps, true) || ends
	}
	if s.Rollout != nil {
		f.list(s.Rollout.Between, true)
	}
	if s.Parallel != nil {
		for i := range s.Parallel.Branches {
			f.list(s.Parallel.Branches[i].Steps, true)
		}
		ends = true
	}
	for i := range s.Switch {
		if c := &s.Switch[i]; f.list(c.Steps, true) {
			if c.Next != "" {
				to(c.Next)
			} else {
				ends = true
			}
		}
	}
	if ends || s.Workflow == nil && len(s.Switch) == 0 && s.Parallel == nil || s.ContinueOnError {
		to(s.Next)
	}
	if s.OnResume != "" {
		to(s.OnResume)
	}
	if w := s.Waits(); w != nil {
		if _, o := w.Limit(); o != nil {
			to(cmp.Or(o.Next, s.Next))
		}
		if w.Approval != nil && w.Approval.OnReject != nil {
			to(cmp.Or(w.Approval.OnReject.Next, s.Next))
		}
	}
	for i := range s.OnFailure {
		if c := &s.OnFailure[i]; f.list(c.Steps, true) {
			if c.Next != "" {
				to(c.Next)
			} else {
				to(s.Next)
			}
		}
	}
	return goesOn
}

// canFail reports whether a step can fail by itself: it has something that fails as a whole, or
// contains a step that does.
func canFail(s *spec.Step) bool {
	if s.FunctionBlock != "" {
		return s.FailureTolerance == nil || s.FailureTolerance.Percent < 100 || len(s.Assert) > 0 || s.StepTimeout > 0 || len(s.Parameters) > 0 || s.Callback != nil
	}
	if s.Reference != nil || s.Parallel != nil || s.Wait != nil && s.Wait.For == 0 || len(s.Assert) > 0 || s.Repeat != nil || s.StepTimeout > 0 {
		return true
	}
	if n := len(s.Switch); n > 0 && s.Switch[n-1].When != "" {
		return true // no case may be true
	}
	for _, g := range s.Groups() {
		if !g.Handler && slices.ContainsFunc(g.Steps, func(inner spec.Step) bool { return !handlesAll(&inner) && canFail(&inner) }) {
			return true
		}
	}
	return false
}

// handlesAll reports whether a step handles each of its failures.
func handlesAll(s *spec.Step) bool {
	return s.ContinueOnError || slices.ContainsFunc(s.OnFailure, func(c spec.Case) bool { return c.When == "" && len(c.Steps) == 0 })
}

var (
	variableExpression = regexp.MustCompile(`(?:^|[^.\w])vars\.([A-Za-z_]\w*)(\()?`)
	contextExpression  = regexp.MustCompile(`^context\["([A-Za-z_]\w*)"\]`) // for input
)

// checkVariables warns about expressions that read a variable which no step sets, and about input
// that is neither a variable nor a parameter.
func (w *warner) checkVariables(d *spec.Definition, paths []string) {
	set, inputs := map[string]bool{}, map[string]string{}
	for i, s := range d.FlatSteps() {
		if s.FromInput {
			inputs[paths[i]+".parameters"] = paths[i] + ".input"
		}
		for _, path := range spec.Writes(s) {
			set[spec.VariableOf(path)] = true
		}
	}
	for path, source := range program.Expressions(d) {
		path = cmp.Or(inputs[path], path)
		for _, m := range variableExpression.FindAllStringSubmatch(program.StripHas(program.StripStrings(program.DotFields(source))), -1) {
			if name := m[1]; !set[name] && m[2] == "" {
				w.warn(path, "unset_variable", "no step sets the variable %q%s", name, workflow.DidYouMean(name, slices.Sorted(maps.Keys(set))))
			}
		}
		if m := contextExpression.FindStringSubmatch(source); m != nil && !set[m[1]] {
			if name, near := unknownField(d.Parameters, m[1:]); name != "" {
				w.warn(path, "unset_variable", "no step sets the variable %q, and the definition declares no such parameter%s", name, near)
			}
		}
	}
}
