package planner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/lockstep-run/lockstep/shared/engine/definitions"
	"github.com/lockstep-run/lockstep/shared/expr"
	"github.com/lockstep-run/lockstep/shared/lifecycle"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

// planFailure says why a step cannot be planned, with the resulting cause for the execution.
type planFailure struct {
	workflow.Failure
	cause workflow.Cause
}

// loopItems evaluates the list that a loop or a foreach iterates over.
func loopItems(n *spec.Node, at int, expressions *definitions.Expressions) (value *workflow.Value, items int, why *planFailure) {
	list, err := expressions.Over(at)
	if err != nil {
		return nil, 0, loopFailure(n, err)
	}
	return listValue(n, list)
}

func loopFailure(n *spec.Node, err error) *planFailure {
	return &planFailure{workflow.Failure{Code: workflow.FailureLoop, Step: n.Label, Message: err.Error()}, workflow.CauseStepFailed}
}

// listValue converts the list of a loop or a foreach into a value. A list with too many items fails
// before anything is executed.
func listValue(n *spec.Node, list any) (*workflow.Value, int, *planFailure) {
	items, ok := list.([]any)
	if !ok {
		field := "loop.over"
		if n.Foreach != nil {
			field = "foreach.items"
		}
		return nil, 0, loopFailure(n, fmt.Errorf("%s: want a list, not %s", field, expr.KindOf(list)))
	}
	limit := func(code, format string, args ...any) (*workflow.Value, int, *planFailure) {
		return nil, 0, &planFailure{workflow.Failure{Code: code, Step: n.Label, Message: fmt.Sprintf(format, args...)}, workflow.CauseLimit}
	}
	if n.Foreach != nil && len(items) > spec.MaxItems {
		return limit(workflow.FailureLimit, "step %q has %d items, and at most %d are possible", n.Label, len(items), spec.MaxItems)
	}
	if l := n.Loop; l != nil && l.Max > 0 && len(items) > l.Max && l.OnMax != spec.OnMaxStop {
		return limit(workflow.FailureLimit, "step %q has %d items, and is executed at most %d times", n.Label, len(items), l.Max)
	}
	raw, err := workflow.EncodeJSON(items)
	switch {
	case err != nil:
		return nil, 0, loopFailure(n, err)
	case len(raw) > workflow.MaxValueBytes:
		return limit(workflow.FailureLimitValue, "the items of step %q take %d bytes, the limit is %d", n.Label, len(raw), workflow.MaxValueBytes)
	case workflow.JSONDepth(raw) > spec.MaxPathDepth:
		return limit(workflow.FailureLimitDepth, "the items of step %q are nested more than %d deep", n.Label, spec.MaxVariableDepth)
	}
	return &workflow.Value{Inline: raw}, len(items), nil
}

// readItems binds the items of the surrounding loops that a step run reads, and the number of the
// innermost item. It does not see loops of other definitions.
func (p *Planner) readItems(ctx context.Context, x *workflow.Execution, r *workflow.StepRun, names []string, values map[string]json.RawMessage) error {
	innermost, origin := true, p.originOf(r)
	for r.In > 0 && len(names) > 0 {
		c := x.StepRunBySeq(r.In)
		if c == nil {
			return workflow.Errorf(workflow.CodeInternal, "the step run %d around step run %d does not exist", r.In, r.Seq)
		}
		n := &p.Program.Nodes[c.StepIndex]
		if n.Loop == nil || n.Origin != origin {
			r = c
			continue
		}
		if innermost {
			values[spec.IndexName] = strconv.AppendInt(nil, int64(r.Index), 10)
		}
		for _, name := range n.ItemNames() {
			if slices.Contains(names, name) && values[name] == nil && r.StepIndex != c.StepIndex && (innermost || name != spec.ItemName) {
				item, err := p.loadItem(ctx, c, r.Index)
				if err != nil {
					return err
				}
				values[name] = item
			}
		}
		innermost, r = false, c
	}
	return nil
}

// loadItem returns one item of the list of a loop.
func (p *Planner) loadItem(ctx context.Context, c *workflow.StepRun, index int) (json.RawMessage, error) {
	items, err := p.loadList(ctx, c)
	if err != nil {
		return nil, err
	}
	if index >= len(items) {
		return nil, workflow.Errorf(workflow.CodeInternal, "step %q has no item %d", c.Label, index)
	}
	return items[index], nil
}

// loadList returns the list of a loop or a foreach.
func (p *Planner) loadList(ctx context.Context, r *workflow.StepRun) (items []json.RawMessage, err error) {
	if items, known := p.lists[r.Seq]; known {
		return items, nil
	}
	raw, err := p.loadStored(ctx, r.List)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(raw, &items); err != nil {
		return nil, workflow.Errorf(workflow.CodeInternal, "the items of step %q cannot be decoded: %w", r.Label, err)
	}
	if p.lists == nil {
		p.lists = map[int][]json.RawMessage{}
	}
	p.lists[r.Seq] = items
	return items, nil
}

// Items returns the list of a step run that has a job for each item.
func (p *Planner) Items(ctx context.Context, r *workflow.StepRun) ([]json.RawMessage, error) {
	return p.loadList(ctx, r)
}

// roundAround returns In and Index for a run of a node that surrounds a step run.
func (p *Planner) roundAround(x *workflow.Execution, r *workflow.StepRun, node int) (in, index int) {
	for r != nil && r.In > 0 {
		c := x.StepRunBySeq(r.In)
		if c == nil || p.Program.Encloses(c.StepIndex, node) {
			return r.In, r.Index
		}
		r = c
	}
	return 0, 0
}

// Again evaluates whether a loop with a condition continues.
func (p *Planner) Again(ctx context.Context, x *workflow.Execution, n lifecycle.Need) (*lifecycle.Again, error) {
	node := &p.Program.Nodes[n.StepIndex]
	reader := &workflow.StepRun{Seq: x.StepRunSeq + 1, Try: n.Try, StepIndex: n.StepIndex, In: n.In, Index: n.Index}
	s, err := p.buildExprScope(ctx, x, reader)
	var tooLarge *resultsTooLargeError
	if errors.As(err, &tooLarge) {
		return &lifecycle.Again{Problem: tooLarge.failure}, nil
	}
	if err != nil {
		return nil, err
	}
	expressions := s.expressions.ForPlan(ctx, p.MaxPlanCost)
	more, err := expressions.LoopWhile(n.StepIndex)
	if stopped := ctx.Err(); stopped != nil {
		return nil, fmt.Errorf("evaluating loop.while of step %q was cut off: %w", node.Label, stopped)
	}
	if err != nil {
		return &lifecycle.Again{Problem: &loopFailure(node, err).Failure}, nil //nolint:nilerr // the mistake is the definition's: it fails the step
	}
	return &lifecycle.Again{More: more}, nil
}
