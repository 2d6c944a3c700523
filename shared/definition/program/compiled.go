package program

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/lockstep-run/lockstep/shared/expr"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Compiled is a definition whose expressions are ready to be evaluated. A step is identified by its
// index in the definition's FlatSteps, an acquire entry by its index in Acquisitions. It is safe
// for concurrent use.
type Compiled struct {
	steps     []step
	acquires  []acquire
	startWhen *expr.Program
	notBefore *expr.Template
	triggers  map[string]*trigger                 // by name
	pipes     []map[string]*expr.Program          // by pipe, then by column
	onEnd     map[workflow.EndKind]*expr.Template // parameters of follow-ups
	slotKey   *expr.Template                      // of config.concurrency
	rateKey   *expr.Template                      // of config.rate
	reachable []map[string]*Target                // of global blocks: the steps to which each may send the execution, by label
}

type step struct {
	label          string
	condition      *expr.Program
	asserts        []*expr.Program
	parameters     *expr.Template
	rawParameters  json.RawMessage
	repeatWhile    *expr.Program
	retryWhen      *expr.Program
	selector       *expr.Template
	starts         *expr.Template // which workflow
	refs           expr.References
	set            []assignment
	next           *Target
	onResume       *Target
	cases          []branch         // of switch
	handlers       []branch         // of onFailure
	results        []*expr.Template // of concurrent branches
	wait           wait
	callbackPlaces []callbackPlace // places of the token of its callback, or of the link with it, in the parameters
	secrets        []workflow.SecretPlace
	over           *expr.Program
	loopWhile      *expr.Program
	rolloutBy      *expr.Program
	compensation   *compensation
}

type acquire struct {
	ids           []string
	idsOf         *expr.Program
	expand        *expr.Program
	parameters    *expr.Template
	rawParameters json.RawMessage
}

// References returns what all expressions of a step read, including repeat.while.
func (c *Compiled) References(step int) expr.References { return c.steps[step].refs }

// PartReferences is what the parts of a step read that are evaluated before its jobs exist.
type PartReferences struct {
	Condition, Parameters expr.References
	Assertions            []expr.References
	Set, Switch, Items    expr.References
	Wait                  expr.References // of what is asked and of until, not of when, which is evaluated later
	Rollout               expr.References // of by, which is evaluated for each entity
}

// PartReferences returns what the parts of a step read.
func (c *Compiled) PartReferences(step int) PartReferences {
	s := &c.steps[step]
	var refs PartReferences
	if s.condition != nil {
		refs.Condition = s.condition.References()
	}
	if s.parameters != nil {
		refs.Parameters = s.parameters.References()
	}
	for _, p := range s.asserts {
		refs.Assertions = append(refs.Assertions, p.References())
	}
	if s.over != nil {
		refs.Items = s.over.References()
	}
	if s.rolloutBy != nil {
		refs.Rollout = s.rolloutBy.References()
	}
	for _, a := range s.set {
		refs.Set.Merge(a.value.References())
	}
	for _, b := range s.cases {
		if b.when != nil {
			refs.Switch.Merge(b.when.References())
		}
	}
	w := &s.wait
	for _, t := range slices.Concat([]*expr.Template{w.until, w.answer, w.title, w.show}, w.who, w.parameters) {
		if t != nil {
			refs.Wait.Merge(t.References())
		}
	}
	return refs
}

// WaitsForStep reports whether a step reads something about any of the other steps that is known
// only after that step has ended for every entity: all its results, or its status.
func (c *Compiled) WaitsForStep(step int, among []int) bool {
	refs := c.steps[step].refs
	return slices.ContainsFunc(among, func(i int) bool {
		label := c.steps[i].label
		return i != step && (refs.AllSteps || slices.Contains(refs.AllResults, label) || slices.Contains(refs.Steps, label))
	})
}

// Condition evaluates a step's condition. Without a condition it is true. An error means that the
// condition cannot be evaluated.
func (c *Compiled) Condition(step int, s expr.Scope) (bool, error) {
	return evalCondition(c.steps[step].condition, s)
}

// RepeatWhile evaluates a step's repeat.while after a step run. Without one it is true.
func (c *Compiled) RepeatWhile(step int, s expr.Scope) (bool, error) {
	return evalCondition(c.steps[step].repeatWhile, s)
}

func evalCondition(p *expr.Program, s expr.Scope) (bool, error) {
	if p == nil {
		return true, nil
	}
	return p.EvalBool(s)
}

// FailedAssertion returns a step's first assertion that is false or cannot be evaluated; the error
// is set in the second case. It returns nil if all are true.
func (c *Compiled) FailedAssertion(step int, s expr.Scope) (*expr.Program, error) {
	return c.FailedAssertionAmong(step, nil, s)
}

// FailedAssertionAmong is FailedAssertion without the assertions at the given positions.
func (c *Compiled) FailedAssertionAmong(step int, without []int, s expr.Scope) (*expr.Program, error) {
	for i, p := range c.steps[step].asserts {
		if slices.Contains(without, i) {
			continue
		}
		if ok, err := p.EvalBool(s); err != nil || !ok {
			return p, err
		}
	}
	return nil, nil
}

// Parameters returns a step's parameters: the filled template, and the raw parameters as written.
func (c *Compiled) Parameters(step int, s expr.Scope) (json.RawMessage, error) {
	return mergeParameters(c.steps[step].parameters, c.steps[step].rawParameters, s)
}

func mergeParameters(t *expr.Template, rawParameters json.RawMessage, s expr.Scope) (json.RawMessage, error) {
	filled, err := t.Eval(s)
	if err == nil && !bytes.HasPrefix(bytes.TrimLeft(filled, " \t\r\n"), []byte("{")) {
		return nil, fmt.Errorf("the parameters are an object, not %s", workflow.Truncate(string(filled), 64))
	}
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
	return workflow.EncodeJSON(all)
}

// ParameterFields are the fields of a step's parameters as far as they are known.
func (c *Compiled) ParameterFields(step int) (map[string]expr.Field, error) {
	return c.steps[step].parameters.Fields()
}

// HasRetryWhen reports whether a step has retry.when.
func (c *Compiled) HasRetryWhen(step int) bool { return c.steps[step].retryWhen != nil }

// RetryWhen reports whether a job is retried after an attempt (from 1) has failed: as the step's
// retry.when says or, without one, if the failure is retryable.
func (c *Compiled) RetryWhen(step, attempt int, f *workflow.Failure) (bool, error) {
	if p := c.steps[step].retryWhen; p != nil {
		return p.EvalBool(expr.FailureScope(attempt, f))
	}
	return f != nil && f.Retryable, nil
}

// Selector returns the filled executeOnParameters of a workflow reference: the JSON of a
// [workflow.Selector]. It is nil if the step has none.
func (c *Compiled) Selector(step int, s expr.Scope) (json.RawMessage, error) {
	t := c.steps[step].selector
	if t == nil {
		return nil, nil
	}
	raw, err := t.Eval(s)
	if err != nil {
		return nil, err
	}
	if _, err := decodeSelector(raw); err != nil {
		return nil, fmt.Errorf("executeOnParameters: %w", err)
	}
	return raw, nil
}

// Starts returns which workflow a step starts that evaluates it; what is not text is its JSON.
func (c *Compiled) Starts(step int, s expr.Scope) (string, error) {
	raw, err := c.steps[step].starts.Eval(s)
	if err != nil {
		return "", err
	}
	var text string
	if json.Unmarshal(raw, &text) != nil {
		text = string(raw)
	}
	return text, nil
}

// AcquireIDs returns the ids that an acquire entry lists, or that its expression over the
// parameters returns.
func (c *Compiled) AcquireIDs(i int, parameters json.RawMessage) ([]string, error) {
	a := &c.acquires[i]
	if a.idsOf == nil {
		return slices.Clone(a.ids), nil
	}
	return evalIDs(a.idsOf, expr.ParameterScope(parameters))
}

// ExpandIDs returns the ids that an acquire entry's expand returns for one entity of the scope.
// There are none if the entry has no expand.
func (c *Compiled) ExpandIDs(i int, parameters json.RawMessage, from expr.Entity, cost *uint64) ([]string, error) {
	p := c.acquires[i].expand
	if p == nil {
		return nil, nil
	}
	s := expr.ParameterScope(parameters)
	s.Entity, s.Cost = &from, cost
	return evalIDs(p, s)
}

// AcquireParameters returns the parameters of an acquire entry's block.
func (c *Compiled) AcquireParameters(i int, parameters json.RawMessage) (json.RawMessage, error) {
	return mergeParameters(c.acquires[i].parameters, c.acquires[i].rawParameters, expr.ParameterScope(parameters))
}

// evalIDs evaluates a list of ids. Any other value is an error that names the expression.
func evalIDs(p *expr.Program, s expr.Scope) ([]string, error) {
	v, err := p.Eval(s)
	if err != nil {
		return nil, err
	}
	list, ok := v.([]any)
	if !ok {
		return nil, &expr.Error{Source: p.Source(), Message: fmt.Sprintf("want a list of ids, not %s", expr.KindOf(v))}
	}
	ids := make([]string, len(list))
	for n, item := range list {
		id, ok := item.(string)
		if !ok || !workflow.ValidID(id) {
			return nil, &expr.Error{Source: p.Source(), Message: fmt.Sprintf("item %d is not an id: %v", n, item)}
		}
		ids[n] = id
	}
	return ids, nil
}

// StartWhen reports whether an execution may start. Without such a condition it may. lookupEntity
// reads an entity's attributes from the inventory.
func (c *Compiled) StartWhen(parameters json.RawMessage, now time.Time, lookupEntity func(entityType, id string) (attributes json.RawMessage, ok bool)) (bool, error) {
	s := expr.ParameterScope(parameters)
	s.Variables, s.LookupEntity = map[string]any{"now": now.UTC()}, lookupEntity
	return evalCondition(c.startWhen, s)
}

// SlotKey returns the key of config.concurrency, "" if there is none.
func (c *Compiled) SlotKey(parameters json.RawMessage) (string, error) {
	return evalLimitKey(c.slotKey, "concurrency.key", parameters)
}

// RateKey returns the key of config.rate, "" if there is none.
func (c *Compiled) RateKey(parameters json.RawMessage) (string, error) {
	return evalLimitKey(c.rateKey, "rate.key", parameters)
}

func evalLimitKey(t *expr.Template, field string, parameters json.RawMessage) (string, error) {
	if t == nil {
		return "", nil
	}
	raw, err := t.Eval(expr.ParameterScope(parameters))
	if err != nil {
		return "", fmt.Errorf("%s cannot be evaluated: %w", field, err)
	}
	var key any
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	if err := decoder.Decode(&key); err != nil {
		return "", fmt.Errorf("%s: %w", field, err)
	}
	switch key.(type) {
	case string, json.Number, bool:
	default:
		return "", fmt.Errorf("%s is %s: want text or a number", field, workflow.Truncate(string(raw), 60))
	}
	text := fmt.Sprint(key)
	if text == "" || len(text) > workflow.MaxConcurrencyKey || strings.ContainsFunc(text, func(r rune) bool { return r == '/' || unicode.IsControl(r) }) {
		return "", fmt.Errorf("%s is %q: want 1 to %d bytes without / and control characters", field, workflow.Truncate(text, 60), workflow.MaxConcurrencyKey)
	}
	return text, nil
}

// NotBefore returns the time before which an execution does not start. It is zero if the definition
// has none.
func (c *Compiled) NotBefore(parameters json.RawMessage) (time.Time, error) {
	if c.notBefore == nil {
		return time.Time{}, nil
	}
	return evalTime("notBefore", c.notBefore, expr.ParameterScope(parameters))
}

// evalTime evaluates a template that results in a time. name is for the error.
func evalTime(name string, t *expr.Template, s expr.Scope) (time.Time, error) {
	raw, err := t.Eval(s)
	if err != nil {
		return time.Time{}, err
	}
	var text string
	if err := json.Unmarshal(raw, &text); err != nil {
		return time.Time{}, fmt.Errorf("%s: want a time such as 2030-01-31T08:00:00Z, not %s", name, workflow.Truncate(string(raw), 64))
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}, fmt.Errorf("%s: want a time such as 2030-01-31T08:00:00Z, not %q", name, text)
	}
	return at.UTC(), nil
}
