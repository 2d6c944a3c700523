package planner

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/lockstep-run/lockstep/shared/engine/definitions"
	"github.com/lockstep-run/lockstep/shared/expr"
	"github.com/lockstep-run/lockstep/shared/lifecycle"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// Variables are never stored as such. A variable has the value that was written by the last of
// those step runs that the reader sees. So a step that is planned again sees what it saw the first
// time.

// FlowParts says which expressions of a step are known.
type FlowParts struct{ Set, Switch, Wait, Loop, Starts bool }

// PlanFlow completes the plan of a step that sets variables, chooses a case or waits. It evaluates
// the parts that are known.
func PlanFlow(planned *lifecycle.Plan, n *spec.Node, at int, expressions *definitions.Expressions, told FlowParts) {
	if planned.Jobs == 0 || planned.Problem != nil {
		return
	}
	fail := func(code string, cause workflow.Cause, message string) {
		*planned = lifecycle.Plan{Cause: cause, Problem: &workflow.Failure{Code: code, Step: n.Label, Message: message}}
	}
	switch {
	case len(n.Set) > 0 && told.Set:
		value, err := expressions.Set(at)
		switch {
		case err != nil:
			code, cause := valueFailure(err)
			fail(code, cause, err.Error())
		case len(value) > workflow.MaxValueBytes:
			fail(workflow.FailureLimitValue, workflow.CauseLimit, fmt.Sprintf("step %q sets %d bytes, the limit is %d", n.Label, len(value), workflow.MaxValueBytes))
		case workflow.JSONDepth(value) > spec.MaxPathDepth:
			fail(workflow.FailureLimitDepth, workflow.CauseLimit, fmt.Sprintf("step %q sets a value that is nested more than %d deep", n.Label, spec.MaxVariableDepth))
		default:
			planned.Value = &workflow.Value{Inline: value}
		}
	case n.Loop != nil && n.Loop.Over != "" && told.Loop:
		if value, items, why := loopItems(n, at, expressions); why != nil {
			fail(why.Code, why.cause, why.Message)
		} else {
			planned.Value, planned.Items = value, items
		}
	case len(n.Switch) > 0 && told.Switch:
		planned.Route, planned.CaseErrors = expressions.Route(at, false)
		if planned.Route == 0 {
			message := fmt.Sprintf("no case of step %q is true, and it has no default", n.Label)
			for _, e := range planned.CaseErrors {
				message += "; " + e.Message
			}
			fail(workflow.FailureNoRoute, workflow.CauseStepFailed, message)
		}
	case n.Waits() != nil && told.Wait:
		planWait(planned, n, at, expressions, fail)
	case n.StartsChild() && len(n.Reference.Among) > 0 && told.Starts:
		name, err := expressions.Starts(at)
		switch {
		case err != nil:
			code, cause := valueFailure(err)
			fail(code, cause, err.Error())
		case !slices.Contains(n.Reference.Among, name):
			fail(workflow.FailureUnknownWorkflow, workflow.CauseStepFailed, fmt.Sprintf("step %q is to start %q, which is none of %s", n.Label, workflow.Truncate(name, workflow.MaxShortMessage), strings.Join(n.Reference.Among, ", ")))
		default:
			planned.Starts = name
		}
	}
}

// valueFailure returns the code and the cause of a step's failure whose expression has no value. A
// value that is too large counts as a limit.
func valueFailure(err error) (string, workflow.Cause) {
	if e := (*expr.Error)(nil); errors.As(err, &e) && e.TooLarge {
		return workflow.FailureLimitValue, workflow.CauseLimit
	}
	return workflow.FailureParameters, workflow.CauseStepFailed
}

// TooDeep is why a value cannot become that of a variable, nil if it can.
func TooDeep(label, what string, value json.RawMessage) *workflow.Failure {
	if workflow.JSONDepth(value) <= spec.MaxVariableDepth {
		return nil
	}
	return &workflow.Failure{Code: workflow.FailureLimitDepth, Step: label, Message: fmt.Sprintf("%s of step %q, the value of a variable, is nested more than %d deep", what, label, spec.MaxVariableDepth)}
}

// TooManyVariables returns why a step cannot be entered: with those that it sets, the execution would
// have set more variables than it may, embedded definitions included; nil if it can. Each path of a
// definition counts once, however often it is set.
func (p *Planner) TooManyVariables(x *workflow.Execution, r *workflow.StepRun) *workflow.Failure {
	if !r.Forward() || len(p.Program.Writes(r.StepIndex)) == 0 || p.Program.Assignments() <= workflow.MaxVariables {
		return nil
	}
	type variable struct {
		origin int
		path   string
	}
	set := map[variable]bool{}
	add := func(node int) {
		for _, path := range p.Program.Writes(node) {
			set[variable{p.Program.Nodes[node].Origin, path}] = true
		}
	}
	for i := range x.StepRuns {
		if o := &x.StepRuns[i]; o.Forward() && o.SupersededBy == 0 && (o.Open() || o.Status == sm.StepCompleted) {
			add(o.StepIndex)
		}
	}
	if add(r.StepIndex); len(set) <= workflow.MaxVariables {
		return nil
	}
	label := p.Program.Nodes[r.StepIndex].Label
	return &workflow.Failure{Code: workflow.FailureLimitKeys, Step: label, Message: fmt.Sprintf("with those of step %q, the execution sets %d variables, the limit is %d", label, len(set), workflow.MaxVariables)}
}

// checkResultDepth fails a step run whose result becomes the value of a variable and is nested too deep.
func (p *Planner) checkResultDepth(ctx context.Context, r *workflow.StepRun, rep *lifecycle.Report) (err error) {
	result := rep.Result
	if s := rep.ResultRef; s != nil && s.Pack != nil {
		if result, err = p.Dispatcher.Packs.LoadPayload(ctx, *s.Pack, *s); err != nil {
			return err
		}
	}
	if why := TooDeep(r.Label, "the result", result); why != nil {
		rep.Cause, rep.Problem = workflow.CauseLimit, why
	}
	return nil
}

// Route evaluates which case of a node's onFailure handles the failure of a step run, and returns
// the failure as expressions see it.
func (p *Planner) Route(ctx context.Context, x *workflow.Execution, n lifecycle.Need) (*lifecycle.Route, error) {
	failed := x.StepRunBySeq(n.StepRunSeq)
	if failed == nil {
		return nil, workflow.Errorf(workflow.CodeInternal, "the step run %d that failed does not exist", n.StepRunSeq)
	}
	why, err := errorValue(failed)
	if err != nil {
		return nil, err
	}
	reader := &workflow.StepRun{Seq: x.StepRunSeq + 1, Try: x.Try, StepIndex: n.StepIndex}
	reader.In, reader.Index = p.roundAround(x, failed, n.StepIndex)
	s, err := p.buildExprScope(ctx, x, reader)
	if tooLarge := (*resultsTooLargeError)(nil); errors.As(err, &tooLarge) { // no case can be evaluated: the failure is not handled
		return &lifecycle.Route{CaseErrors: []workflow.CaseError{{StepIndex: n.StepIndex, OnFailure: true, Case: 1, Message: tooLarge.failure.Message}}}, nil
	}
	if err != nil {
		return nil, err
	}
	for i := range x.StepRuns {
		if o := &x.StepRuns[i]; o.Open() && (o.Seq == failed.Seq || o.StepIndex == n.StepIndex || p.Program.Encloses(n.StepIndex, o.StepIndex)) {
			s.bindings.Statuses[o.StepIndex] = string(sm.StepFailed)
		}
	}
	s.bindings.Values["error"] = why
	s.bindings.Errors = map[int]json.RawMessage{n.StepIndex: why}
	expressions := p.Program.Bind(n.StepIndex, p.Blocks, s.bindings, x).ForPlan(ctx, p.MaxPlanCost)
	number, caseErrors := expressions.Route(n.StepIndex, true)
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("choosing a case of step %q was cut off: %w", p.Program.Nodes[n.StepIndex].Label, err)
	}
	return &lifecycle.Route{Case: number, Error: &workflow.Value{Inline: why}, CaseErrors: caseErrors}, nil
}

// errorValue returns the failure of a step run as expressions see it.
func errorValue(r *workflow.StepRun) (json.RawMessage, error) {
	why := r.Failure
	if why == nil {
		_, why = lifecycle.FailureOf(r, r.Counts)
	}
	return lifecycle.ErrorValue(r.Label, why)
}

// readValues binds the variables and the failures that the expressions of a step read.
func (p *Planner) readValues(ctx context.Context, x *workflow.Execution, r *workflow.StepRun, s *exprScope) error {
	refs := p.references(r)
	values := map[string]json.RawMessage{}
	s.bindings.Values, s.bindings.Errors = values, map[int]json.RawMessage{}
	readsError := slices.Contains(refs.Names, "error")
	for _, o := range p.newestFirst(x, func(o *workflow.StepRun) bool {
		read := readsError || refs.AllSteps || slices.Contains(refs.Steps, p.labelOf(o))
		return o.Status == sm.StepCaseHandled && o.Value != nil && read && p.seesStepRun(x, r, o)
	}) {
		newest := readsError && values["error"] == nil
		read := s.bindings.Errors[o.StepIndex] == nil && (refs.AllSteps || slices.Contains(refs.Steps, p.labelOf(o)))
		if !newest && !read {
			continue
		}
		why, err := p.loadValue(ctx, o)
		if err != nil {
			return err
		}
		if newest {
			values["error"] = why
		}
		if s.bindings.Errors[o.StepIndex] == nil {
			s.bindings.Errors[o.StepIndex] = why
		}
	}
	if err := p.readItems(ctx, x, r, refs.Names, values); err != nil {
		return err
	}
	if !refs.ReadsVars() {
		return nil
	}
	wanted := func(path string) bool { return refs.AllVars || slices.Contains(refs.Vars, spec.VariableOf(path)) }
	vars, err := p.variables(ctx, x, r, wanted)
	if err == nil {
		values["vars"] = vars
	}
	return err
}

// newestFirst lists the wanted step runs, the latest end first. A step run ends after those that
// were entered inside it, and branches are ordered as in the definition, whichever was faster.
func (p *Planner) newestFirst(x *workflow.Execution, wanted func(*workflow.StepRun) bool) []*workflow.StepRun {
	var all []*workflow.StepRun
	for i := len(x.StepRuns) - 1; i >= 0; i-- {
		if wanted(&x.StepRuns[i]) {
			all = append(all, &x.StepRuns[i])
		}
	}
	slices.SortStableFunc(all, func(a, b *workflow.StepRun) int {
		switch {
		case p.wasEnteredIn(x, b, a):
			return -1
		case p.wasEnteredIn(x, a, b):
			return 1
		}
		return cmp.Or(p.compareBranches(x, b, a), b.Seq-a.Seq)
	})
	return all
}

// wasEnteredIn reports whether a step run was entered inside another one that was open.
func (p *Planner) wasEnteredIn(x *workflow.Execution, r, around *workflow.StepRun) bool {
	if around.Seq > r.Seq || !around.Forward() || !r.Forward() || !p.Program.Encloses(around.StepIndex, r.StepIndex) {
		return false
	}
	for i := len(x.StepRuns) - 1; i >= 0; i-- {
		if o := &x.StepRuns[i]; o.Seq < r.Seq && o.StepIndex == around.StepIndex && o.Forward() {
			return o.Seq == around.Seq
		}
	}
	return false
}

// compareBranches compares the branches in which two step runs are of one step run around
// both, 0 if they are in the same or in none. What a retry keeps of branches is beside those that it
// executes again.
func (p *Planner) compareBranches(x *workflow.Execution, a, b *workflow.StepRun) int {
	for at := a; at != nil && at.In > 0; at = x.StepRunBySeq(at.In) {
		f := x.StepRunBySeq(at.In)
		if f == nil || p.Program.Nodes[f.StepIndex].Parallel == nil {
			continue
		}
		for other := b; other != nil && other.In > 0; other = x.StepRunBySeq(other.In) {
			if other.Index != at.Index && p.sameBranches(x, f, x.StepRunBySeq(other.In)) {
				return at.Index - other.Index
			}
		}
	}
	return 0
}

// sameBranches reports whether two step runs are the same one of a step with branches, or the later of
// them does the work of the other again.
func (p *Planner) sameBranches(x *workflow.Execution, a, b *workflow.StepRun) bool {
	if a == nil || b == nil || a.StepIndex != b.StepIndex || a.Seq == b.Seq {
		return a != nil && b != nil && a.Seq == b.Seq
	}
	if a.Seq > b.Seq {
		a, b = b, a
	}
	return a.SupersededBy > 0 && a.SupersededBy <= b.Try && p.placeOf(x, a) == p.placeOf(x, b)
}

// labelOf returns the label of a step run's step within its own definition.
func (p *Planner) labelOf(r *workflow.StepRun) string {
	if !r.Forward() {
		return ""
	}
	return p.Program.Nodes[r.StepIndex].Step.Label
}

// variables returns the variables that a step run sees, as an object: the wanted ones that its own
// definition has set. It starts with the latest step run, and skips step runs whose values are all
// replaced by later ones.
func (p *Planner) variables(ctx context.Context, x *workflow.Execution, r *workflow.StepRun, wanted func(path string) bool) (json.RawMessage, error) {
	type write struct {
		path string
		from *workflow.StepRun
	}
	var writes []write // newest first
	replaced := map[string]bool{}
	origin := p.originOf(r)
	for _, o := range p.newestFirst(x, func(o *workflow.StepRun) bool {
		return o.Status == sm.StepCompleted && o.Forward() && !p.asked(o) && p.Program.Nodes[o.StepIndex].Origin == origin &&
			len(p.Program.Writes(o.StepIndex)) > 0 && p.seesStepRun(x, r, o)
	}) {
		paths := p.Program.Writes(o.StepIndex)
		for _, path := range paths {
			if wanted(path) && !replacedBy(replaced, path) {
				writes = append(writes, write{path, o})
			}
		}
		for _, path := range paths {
			replaced[path] = true
		}
	}
	all, size := map[string]any{}, 0
	for _, w := range slices.Backward(writes) {
		value, err := p.written(ctx, x, r, w.from, w.path)
		if err != nil {
			return nil, err
		}
		if size += len(value); size > workflow.MaxVariablesBytes {
			return nil, &resultsTooLargeError{&workflow.Failure{
				Code: workflow.FailureLimitContext, Step: w.from.Label,
				Message: fmt.Sprintf("the variables that are read exceed %d bytes", workflow.MaxVariablesBytes),
			}}
		}
		setPath(all, strings.Split(w.path, "."), value)
	}
	return workflow.EncodeJSON(all)
}

// originOf returns the definition that a step run belongs to.
func (p *Planner) originOf(r *workflow.StepRun) int {
	return p.Program.Node(r.StepIndex).Origin
}

// replacedBy reports whether a path, or a parent of it, is replaced.
func replacedBy(replaced map[string]bool, path string) bool {
	for i := range path {
		if path[i] == '.' && replaced[path[:i]] {
			return true
		}
	}
	return replaced[path]
}

// setPath sets a value in a tree of objects. It replaces existing values that are not objects.
func setPath(into map[string]any, path []string, value json.RawMessage) {
	for _, name := range path[:len(path)-1] {
		switch v := into[name].(type) {
		case map[string]any:
			into = v
			continue
		case json.RawMessage:
			var fields map[string]json.RawMessage
			_ = json.Unmarshal(v, &fields) // anything that is not an object is replaced
			inner := make(map[string]any, len(fields))
			for field, raw := range fields {
				inner[field] = raw
			}
			into[name] = inner
			into = inner
			continue
		}
		inner := map[string]any{}
		into[name] = inner
		into = inner
	}
	into[path[len(path)-1]] = value
}

// written returns what a step run wrote to a variable: one of the values that it set, or its
// result.
func (p *Planner) written(ctx context.Context, x *workflow.Execution, r, o *workflow.StepRun, path string) (json.RawMessage, error) {
	switch {
	case p.Program.Nodes[o.StepIndex].Foreach != nil && p.Program.Nodes[o.StepIndex].StartsChild():
		return p.itemResults(ctx, x, r, o)
	case o.Child != nil:
		return p.childResult(ctx, o)
	case o.Wait != nil:
		result, err := p.waitResult(ctx, o)
		if result == nil {
			result = json.RawMessage("null")
		}
		return result, err
	case o.HasJobs() && p.Program.Nodes[o.StepIndex].Foreach != nil:
		return p.itemResults(ctx, x, r, o)
	case o.HasJobs():
		got, err := p.effectiveOutcome(ctx, x, r.Try, o)
		if err != nil {
			return nil, err
		}
		if err := p.loadResults(ctx, got); err != nil {
			return nil, err
		}
		if result := got.results[workflow.EntityKey{}]; result != nil {
			return result, nil
		}
		return json.RawMessage("null"), nil
	case o.Value == nil:
		return json.RawMessage("null"), nil
	}
	value, err := p.loadValue(ctx, o)
	if err != nil {
		return nil, err
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(value, &fields); err != nil {
		return nil, workflow.Errorf(workflow.CodeInternal, "the value of step %q cannot be decoded: %w", o.Label, err)
	}
	if len(p.Program.Nodes[o.StepIndex].Set) > 0 {
		return fields[path], nil
	}
	return fields["result"], nil
}

// loadValue returns the value of a step run, wherever it is stored.
func (p *Planner) loadValue(ctx context.Context, r *workflow.StepRun) (json.RawMessage, error) {
	return p.loadStored(ctx, r.Value)
}

// loadStored returns one of the values of a step run.
func (p *Planner) loadStored(ctx context.Context, value *workflow.Value) (json.RawMessage, error) {
	if value.Stored == nil {
		return value.Inline, nil
	}
	if v, ok := p.values[value.Stored.Digest]; ok {
		return v, nil
	}
	v, err := p.Dispatcher.Packs.LoadPayload(ctx, workflow.ValueKey(p.Tenant, p.Execution), *value.Stored)
	if err == nil {
		if p.values == nil {
			p.values = map[string]json.RawMessage{}
		}
		p.values[value.Stored.Digest] = v
	}
	return v, err
}
