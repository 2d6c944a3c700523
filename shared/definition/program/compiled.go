package program

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/lockstep-run/lockstep/shared/definition/yamldoc"
	"github.com/lockstep-run/lockstep/shared/expr"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Compiled is a definition whose expressions are ready to be evaluated. Steps
// are named by their place in the definition's Flat, acquire entries by theirs in
// its Acquisitions. It is safe for concurrent use.
type Compiled struct {
	steps     []step
	acquires  []acquire
	startWhen *expr.Program
	notBefore *expr.Template
}

type step struct {
	label         string
	condition     *expr.Program
	asserts       []*expr.Program
	parameters    *expr.Template
	rawParameters json.RawMessage
	repeatWhile   *expr.Program
	retryWhen     *expr.Program
	selector      *expr.Template
	refs          expr.References
}

type acquire struct {
	ids           []string
	idsOf         *expr.Program
	expand        *expr.Program
	parameters    *expr.Template
	rawParameters json.RawMessage
}

// References is what all of a step's expressions read, repeat.while included.
func (c *Compiled) References(step int) expr.References { return c.steps[step].refs }

// WaitsForStep reports whether a step reads of any of the other steps what is known
// only when that step is over with every entity: its results as a whole, or its
// status.
func (c *Compiled) WaitsForStep(step int, among []int) bool {
	refs := c.steps[step].refs
	return slices.ContainsFunc(among, func(i int) bool {
		label := c.steps[i].label
		return i != step && (refs.AllSteps || slices.Contains(refs.AllResults, label) || slices.Contains(refs.Steps, label))
	})
}

// Condition is true where the step has none. An error says that it cannot be
// evaluated.
func (c *Compiled) Condition(step int, s expr.Scope) (bool, error) {
	return evalCondition(c.steps[step].condition, s)
}

// RepeatWhile is a step's repeat.while after a visit; true where it has none.
func (c *Compiled) RepeatWhile(step int, s expr.Scope) (bool, error) {
	return evalCondition(c.steps[step].repeatWhile, s)
}

func evalCondition(p *expr.Program, s expr.Scope) (bool, error) {
	if p == nil {
		return true, nil
	}
	return p.EvalBool(s)
}

// FailedAssertion is the source of the first assertion that is not true, "" if all
// are. An error says that one cannot be evaluated.
func (c *Compiled) FailedAssertion(step int, s expr.Scope) (string, error) {
	for _, p := range c.steps[step].asserts {
		ok, err := p.EvalBool(s)
		if err != nil {
			return "", err
		}
		if !ok {
			return p.Source(), nil
		}
	}
	return "", nil
}

// Parameters are the step's parameters: the template filled, and raw parameters
// added as they are.
func (c *Compiled) Parameters(step int, s expr.Scope) (json.RawMessage, error) {
	return mergeParameters(c.steps[step].parameters, c.steps[step].rawParameters, s)
}

func mergeParameters(t *expr.Template, rawParameters json.RawMessage, s expr.Scope) (json.RawMessage, error) {
	filled, err := t.Eval(s)
	if err != nil || len(rawParameters) == 0 {
		return filled, err
	}
	var all, raw map[string]json.RawMessage
	if err := json.Unmarshal(filled, &all); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(rawParameters, &raw); err != nil {
		return nil, err
	}
	for name, value := range raw {
		all[name] = value
	}
	return yamldoc.Marshal(all)
}

// HasRetryWhen reports whether a step says itself which failures to repeat.
func (c *Compiled) HasRetryWhen(step int) bool { return c.steps[step].retryWhen != nil }

// RetryWhen reports whether the failure of a job's attempt (from 1) is to be
// repeated: by the step's retry.when, or, where it has none, if the failure is
// retryable.
func (c *Compiled) RetryWhen(step, attempt int, f *workflow.Failure) (bool, error) {
	if p := c.steps[step].retryWhen; p != nil {
		return p.EvalBool(expr.FailureScope(attempt, f))
	}
	return f != nil && f.Retryable, nil
}

// Selector is a reference's executeOnParameters, filled: the JSON of a
// [workflow.Selector]. It is nil where the step has none.
func (c *Compiled) Selector(step int, s expr.Scope) (json.RawMessage, error) {
	t := c.steps[step].selector
	if t == nil {
		return nil, nil
	}
	raw, err := t.Eval(s)
	if err != nil {
		return nil, err
	}
	var on workflow.Selector
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(&on); err != nil {
		return nil, fmt.Errorf("executeOnParameters: want {type, ids, groups, query}: %w", err)
	}
	return raw, nil
}

// StartWhen reports whether a run may begin; true where the definition does not
// say. lookup reads an entity's attributes from the inventory.
func (c *Compiled) StartWhen(parameters json.RawMessage, now time.Time, lookupEntity func(entityType, id string) (attributes json.RawMessage, ok bool)) (bool, error) {
	s := expr.ParameterScope(parameters)
	s.Variables, s.LookupEntity = map[string]any{"now": now.UTC()}, lookupEntity
	return evalCondition(c.startWhen, s)
}

// NotBefore is the time before which a run does not begin; zero where the
// definition does not say.
func (c *Compiled) NotBefore(parameters json.RawMessage) (time.Time, error) {
	if c.notBefore == nil {
		return time.Time{}, nil
	}
	raw, err := c.notBefore.Eval(expr.ParameterScope(parameters))
	if err != nil {
		return time.Time{}, err
	}
	var text string
	if err := json.Unmarshal(raw, &text); err != nil {
		return time.Time{}, fmt.Errorf("notBefore: want a time such as 2030-01-31T08:00:00Z, not %s", raw)
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}, fmt.Errorf("notBefore: want a time such as 2030-01-31T08:00:00Z, not %q", text)
	}
	return at.UTC(), nil
}
