package planner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/lockstep-run/lockstep/shared/lifecycle"
	"github.com/lockstep-run/lockstep/shared/lifecycle/plan"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Join merges the results of a step run's branches. Branches that failed have no result, and are
// listed.
func (p *Planner) Join(ctx context.Context, x *workflow.Execution, n lifecycle.Need) (*lifecycle.Join, error) {
	f := x.StepRunBySeq(n.StepRunSeq)
	if f == nil {
		return nil, workflow.Errorf(workflow.CodeInternal, "the step run %d to join does not exist", n.StepRunSeq)
	}
	node := &p.Program.Nodes[f.StepIndex]
	problem := func(code string, err error) *lifecycle.Join {
		return &lifecycle.Join{Problem: &workflow.Failure{Code: code, Step: f.Label, Message: err.Error()}}
	}
	var given []plan.BranchResult
	branches, failed := map[string]json.RawMessage{}, []map[string]string{}
	for _, t := range x.Threads {
		if t.In != f.Seq {
			continue
		}
		label := node.Parallel.Branches[t.Index].Label
		if t.Failure != nil {
			failed = append(failed, map[string]string{"branch": label, "code": t.Failure.Code, "message": t.Failure.Message})
			continue
		}
		value, err := p.branchResult(ctx, x, f, t.Index)
		var tooLarge *resultsTooLargeError
		var wrong *expressionError
		switch {
		case errors.As(err, &tooLarge):
			return &lifecycle.Join{Problem: tooLarge.failure}, nil
		case errors.As(err, &wrong):
			return problem(workflow.FailureParameters, fmt.Errorf("the result of branch %q has no value: %w", label, wrong)), nil
		case err != nil:
			return nil, err
		}
		given = append(given, plan.BranchResult{Label: label, Value: value})
		branches[label] = value
	}
	result, err := plan.Merge(node.Parallel.Merge, given)
	if err != nil {
		return problem(workflow.FailureMergeConflict, err), nil
	}
	if node.OutputKey != "" {
		if why := TooDeep(f.Label, "what the branches give together", result); why != nil {
			return &lifecycle.Join{Problem: why}, nil
		}
	}
	value, err := workflow.EncodeJSON(map[string]any{"result": result, "branches": branches, "failed": failed})
	if err != nil {
		return nil, err
	}
	if len(value) > workflow.MaxValueBytes {
		return problem(workflow.FailureLimitValue, fmt.Errorf("the branches of step %q give %d bytes, the limit is %d", f.Label, len(value), workflow.MaxValueBytes)), nil
	}
	return &lifecycle.Join{Value: &workflow.Value{Inline: value}}, nil
}

// Output evaluates the output of an execution that completes. Missing says why it has no value.
func (p *Planner) Output(ctx context.Context, x *workflow.Execution) (*lifecycle.Output, error) {
	reader := &workflow.StepRun{Seq: x.StepRunSeq + 1, Try: x.Try, StepIndex: len(p.Program.Nodes)}
	s, err := p.buildExprScope(ctx, x, reader)
	var tooLarge *resultsTooLargeError
	if errors.As(err, &tooLarge) {
		return &lifecycle.Output{Missing: tooLarge.failure.Message}, nil
	}
	if err != nil {
		return nil, err
	}
	value, err := s.expressions.ForPlan(ctx, p.MaxPlanCost).Output()
	switch {
	case ctx.Err() != nil:
		return nil, fmt.Errorf("evaluating the output was cut off: %w", ctx.Err())
	case err != nil:
		return &lifecycle.Output{Missing: err.Error()}, nil
	case len(value) > workflow.MaxValueBytes:
		return &lifecycle.Output{Missing: fmt.Sprintf("it has %d bytes, the limit is %d", len(value), workflow.MaxValueBytes)}, nil
	}
	return &lifecycle.Output{Value: &workflow.Value{Inline: value}}, nil
}

// expressionError means that an expression has no value.
type expressionError struct{ error }

// branchResult returns the result of a branch: the one that it defines, or that of the last of its
// steps that has one.
func (p *Planner) branchResult(ctx context.Context, x *workflow.Execution, f *workflow.StepRun, branch int) (json.RawMessage, error) {
	node := &p.Program.Nodes[f.StepIndex]
	if len(node.Parallel.Branches[branch].Result) > 0 {
		// The reader stands at the end of the branch and sees nothing of the other branches.
		reader := &workflow.StepRun{Seq: x.StepRunSeq + 1, Try: f.Try, StepIndex: f.StepIndex, In: f.Seq, Index: branch}
		s, err := p.buildExprScope(ctx, x, reader)
		if err != nil {
			return nil, err
		}
		value, _, err := s.expressions.ForPlan(ctx, p.MaxPlanCost).BranchResult(f.StepIndex, branch)
		if err != nil && ctx.Err() == nil {
			return nil, &expressionError{err}
		}
		return value, err
	}
	if in := x.BranchOf(f, branch); in != f.Seq {
		f = x.StepRunBySeq(in) // an earlier try has executed it
	}
	for i := len(x.StepRuns) - 1; i >= 0; i-- {
		o := &x.StepRuns[i]
		if !o.Forward() || o.Seq <= f.Seq || o.Try != f.Try || !p.Program.Encloses(f.StepIndex, o.StepIndex) || node.BranchOf(o.StepIndex) != branch || p.inInnerBranch(x, o, f) {
			continue
		}
		if value, ok, err := p.resultOf(ctx, x, o); ok || err != nil {
			return value, err
		}
	}
	return json.RawMessage("null"), nil
}

// inInnerBranch reports whether a step run was entered in a branch of a step that is itself in a
// branch of f. The result of such branches belongs to that step.
func (p *Planner) inInnerBranch(x *workflow.Execution, o, f *workflow.StepRun) bool {
	for o != nil && o.In > 0 && o.In != f.Seq {
		if o = x.StepRunBySeq(o.In); o != nil && p.Program.Nodes[o.StepIndex].Parallel != nil {
			return true
		}
	}
	return false
}

// resultOf returns the result of a step run; for a step on entities, by id. ok is false if it has
// none.
func (p *Planner) resultOf(ctx context.Context, x *workflow.Execution, o *workflow.StepRun) (json.RawMessage, bool, error) {
	n := &p.Program.Nodes[o.StepIndex]
	if n.OnEntities() && o.HasJobs() {
		got, err := p.effectiveOutcome(ctx, x, o.Try, o)
		if err != nil {
			return nil, false, err
		}
		if got.size() > p.MaxResultBytes {
			return nil, false, p.resultTooLarge(o)
		}
		if err := p.loadResults(ctx, got); err != nil {
			return nil, false, err
		}
		byID := make(map[string]json.RawMessage, len(got.results))
		for key, result := range got.results {
			byID[key.ID] = result
		}
		value, err := workflow.EncodeJSON(byID)
		return value, err == nil, err
	}
	if o.Wait != nil {
		value, err := p.waitResult(ctx, o)
		return value, value != nil && err == nil, err
	}
	if !o.HasJobs() && o.Child == nil && (o.Value == nil || len(n.Set) > 0 || n.Loop != nil) {
		return nil, false, nil
	}
	value, err := p.written(ctx, x, o, o, "")
	return value, err == nil, err
}
