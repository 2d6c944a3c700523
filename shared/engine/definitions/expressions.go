package definitions

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/lockstep-run/lockstep/shared/definition"
	"github.com/lockstep-run/lockstep/shared/definition/schema"
	"github.com/lockstep-run/lockstep/shared/expr"
	"github.com/lockstep-run/lockstep/shared/lifecycle/plan"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

// Results holds the results of earlier steps: by label, then by entity id. The result of a global
// step has the empty id.
type Results = expr.Results

// Bindings are the values that the expressions of one step run see, apart from the entity.
type Bindings struct {
	Parameters json.RawMessage                    // of the definition that contains the step
	Results    map[int]map[string]json.RawMessage // by node, then as in [Results]
	Statuses   map[int]string                     // by node
	Errors     map[int]json.RawMessage            // by node: failures that onFailure handles
	Fields     map[int]json.RawMessage            // by node: for a step without jobs, an object with result and other fields
	Values     map[string]json.RawMessage         // variables of the flow, by name
}

// Expressions are the expressions of one node of a program, bound to one step run. Through them the
// decider evaluates what authors have written.
type Expressions struct {
	program *Program
	blocks  map[string]workflow.Block // by reference, as written in the definition
	context *expr.StepContext
	cost    uint64       // cost of all evaluations so far
	maxCost uint64       // 0 for no limit
	stopped func() error // error of the context of the evaluations; nil for none
}

var _ plan.Expressions = (*Expressions)(nil)

// Bind binds a node's expressions to the values that one step run of it sees.
func (p *Program) Bind(node int, blocks map[string]workflow.Block, v Bindings, x *workflow.Execution) *Expressions {
	origin := p.Node(node).Origin
	results, statuses, failures, fields := Results{}, map[string]string{}, map[string]json.RawMessage{}, map[string]json.RawMessage{}
	for i := range p.Nodes {
		n := &p.Nodes[i]
		if n.Origin != origin {
			continue
		}
		if r, ok := v.Results[i]; ok {
			results[n.Step.Label] = r
		}
		if s, ok := v.Statuses[i]; ok {
			statuses[n.Step.Label] = s
		}
		if e, ok := v.Errors[i]; ok {
			failures[n.Step.Label] = e
		}
		if f, ok := v.Fields[i]; ok {
			fields[n.Step.Label] = f
		}
	}
	labels := map[string]any{}
	for k, v := range x.Labels {
		labels[k] = v
	}
	return &Expressions{program: p, blocks: blocks, context: expr.NewStepContext(v.Parameters, results, statuses, map[string]any{
		"id": x.ID, "workflow": x.Workflow.String(), "createdBy": x.CreatedBy,
		"createdAt": x.CreatedAt.Format(time.RFC3339Nano), "labels": labels,
	}).WithErrors(failures).WithFields(fields).WithValues(v.Values)}
}

// WithResults returns a copy with different results for some nodes. It shares everything else.
func (x *Expressions) WithResults(results map[int]map[string]json.RawMessage) *Expressions {
	byLabel := Results{}
	for node, byID := range results {
		byLabel[x.program.Nodes[node].Step.Label] = byID
	}
	return &Expressions{program: x.program, blocks: x.blocks, context: x.context.WithResults(byLabel)}
}

// ForPlan returns a copy for one plan. All evaluations of the plan together may cost up to maxCost,
// and they stop when ctx ends.
func (x *Expressions) ForPlan(ctx context.Context, maxCost uint64) *Expressions {
	return &Expressions{program: x.program, blocks: x.blocks, context: x.context, maxCost: maxCost, stopped: ctx.Err}
}

// Err returns an error once the plan must stop: its expressions have cost too much, or its context
// has ended.
func (x *Expressions) Err() error {
	if x.maxCost > 0 && x.cost > x.maxCost {
		return fmt.Errorf("the expressions of the step cost more than %d for all entities together: make them simpler, or run the step over fewer entities or items", x.maxCost)
	}
	if x.stopped != nil {
		return x.stopped()
	}
	return nil
}

func (x *Expressions) scope(e *workflow.ScopeEntity) expr.Scope {
	s := expr.Scope{Context: x.context, Cost: &x.cost}
	if e != nil {
		s.Entity = &expr.Entity{Type: e.Key.Type, ID: e.Key.ID, Attributes: e.Attributes}
	}
	return s
}

// jobScope returns what the expressions of one job see: its entity or, with foreach, its item.
func (x *Expressions) jobScope(node int, e *workflow.ScopeEntity) expr.Scope {
	n := x.program.Node(node)
	if n.Foreach == nil || e == nil {
		return x.scope(e)
	}
	s := x.scope(nil)
	s.Variables = map[string]any{spec.IndexName: expr.DecodeValue(json.RawMessage(e.Key.ID))}
	item := expr.DecodeValue(e.Attributes)
	for _, name := range n.ItemNames() {
		s.Variables[name] = item
	}
	return s
}

// compiledStep returns a node's compiled definition and the index of its step there.
func (x *Expressions) compiledStep(node int) (*definition.Compiled, int) {
	n := x.program.Node(node)
	return x.program.Definitions[n.Origin].compiled, n.LocalIndex
}

// Condition evaluates the step's condition for the entity.
func (x *Expressions) Condition(node int, e *workflow.ScopeEntity) (bool, error) {
	c, step := x.compiledStep(node)
	if n := x.program.Node(node); e == nil && n.Foreach != nil && c.ConditionReadsItem(step, n.Step) {
		return true, nil
	}
	return c.Condition(step, x.jobScope(node, e))
}

// FailedAssertion returns the first assertion that is false or cannot be evaluated; in the latter
// case the error says why. It returns nil if all are true.
func (x *Expressions) FailedAssertion(node int, e *workflow.ScopeEntity) (*plan.Assertion, error) {
	return x.failedAssertionAmong(node, nil, e)
}

// failedAssertionAmong works like FailedAssertion, but skips the assertions at the given positions.
func (x *Expressions) failedAssertionAmong(node int, without []int, e *workflow.ScopeEntity) (*plan.Assertion, error) {
	c, step := x.compiledStep(node)
	n := x.program.Node(node)
	if e == nil && n.Foreach != nil {
		without = append(without[:len(without):len(without)], c.AssertionsOfItem(step, n.Step)...)
	}
	p, err := c.FailedAssertionAmong(step, without, x.jobScope(node, e))
	if p == nil {
		return nil, err
	}
	if n.Foreach != nil {
		return &plan.Assertion{Source: p.Source(), OfEntity: e != nil && n.ReadsItem(p.References().Names)}, err
	}
	failed := &plan.Assertion{Source: p.Source(), OfEntity: p.References().Entity}
	for _, label := range p.References().OwnResults {
		at := x.program.nodeByLabel(x.program.Nodes[node].Origin, label)
		failed.OfEntity = failed.OfEntity || at >= 0 && x.program.Nodes[at].OnEntities()
	}
	failed.OfEntity = failed.OfEntity && e != nil
	return failed, err
}

// Parameters returns the step's parameters with their expressions replaced by values.
func (x *Expressions) Parameters(node int, e *workflow.ScopeEntity) (json.RawMessage, error) {
	c, step := x.compiledStep(node)
	return c.Parameters(step, x.jobScope(node, e))
}

// CompensationParameters returns the resolved parameters of the block that undoes a step's job.
func (x *Expressions) CompensationParameters(node int, e *workflow.ScopeEntity) (json.RawMessage, error) {
	c, step := x.compiledStep(node)
	parameters, err := c.CompensationParameters(step, x.jobScope(node, e))
	if block := x.program.Nodes[node].Compensate.FunctionBlock; err == nil && block != "" {
		err = validateBlockParameters(x.blocks[block], parameters)
	}
	return parameters, err
}

// ShouldRepeat evaluates the condition of the step's repeat.
func (x *Expressions) ShouldRepeat(node int, e *workflow.ScopeEntity) (bool, error) {
	c, step := x.compiledStep(node)
	return c.RepeatWhile(step, x.scope(e))
}

// Set evaluates the assignments of a step: an object of values, by path of the variable.
func (x *Expressions) Set(node int) (json.RawMessage, error) {
	c, step := x.compiledStep(node)
	return c.Set(step, x.scope(nil))
}

// Over evaluates the list that a loop or a foreach iterates over.
func (x *Expressions) Over(node int) (any, error) {
	c, step := x.compiledStep(node)
	return c.Over(step, x.scope(nil))
}

// LoopWhile evaluates whether a loop with a condition continues.
func (x *Expressions) LoopWhile(node int) (bool, error) {
	c, step := x.compiledStep(node)
	return c.LoopWhile(step, x.scope(nil))
}

// RolloutBy evaluates the expression by which a rollout divides its entities. The result is the
// name of the entity's wave.
func (x *Expressions) RolloutBy(node int, e *workflow.ScopeEntity) (string, error) {
	c, step := x.compiledStep(node)
	return c.RolloutBy(step, x.scope(e))
}

// Route returns the number, from 1, of the first case of a switch or of onFailure that is true; 0
// if there is none. failed lists the conditions before it that could not be evaluated, and why.
func (x *Expressions) Route(node int, onFailure bool) (number int, failed []workflow.CaseError) {
	c, step := x.compiledStep(node)
	at, errs := c.Route(step, onFailure, x.scope(nil))
	for _, e := range errs {
		failed = append(failed, workflow.CaseError{StepIndex: node, OnFailure: onFailure, Case: e.At + 1, Message: e.Err.Error()})
	}
	return at + 1, failed
}

// WaitUntil evaluates the time until which the step waits; zero if it names none.
func (x *Expressions) WaitUntil(node int) (time.Time, error) {
	c, step := x.compiledStep(node)
	return c.WaitUntil(step, x.scope(nil))
}

// WaitCondition evaluates the condition that the step waits for; see package program.
func (x *Expressions) WaitCondition(node int, now time.Time, lookup func(entityType, id string) (attributes json.RawMessage, ok bool)) (bool, error) {
	c, step := x.compiledStep(node)
	return c.WaitCondition(step, x.scope(nil), now, lookup)
}

// BranchResult evaluates the result of a branch; false if the branch defines none.
func (x *Expressions) BranchResult(node, branch int) (json.RawMessage, bool, error) {
	c, step := x.compiledStep(node)
	return c.BranchResult(step, branch, x.scope(nil))
}

// SignalFits evaluates whether the data of a signal match what the step waits for.
func (x *Expressions) SignalFits(node int, data json.RawMessage) (bool, error) {
	c, step := x.compiledStep(node)
	return c.SignalFits(step, x.scope(nil), data)
}

// Question evaluates the question that the step asks people; nil if it asks none.
func (x *Expressions) Question(node int) (*workflow.Question, error) {
	c, step := x.compiledStep(node)
	return c.Question(step, x.program.Nodes[node].Waits(), x.scope(nil))
}

// TimeoutAnswer evaluates the answer that is used when the deadline has passed; nil if the step
// defines none.
func (x *Expressions) TimeoutAnswer(node int) (json.RawMessage, error) {
	c, step := x.compiledStep(node)
	return c.TimeoutAnswer(step, x.scope(nil))
}

// Output evaluates the output of the execution's definition.
func (x *Expressions) Output() (json.RawMessage, error) {
	return x.program.Definitions[0].compiled.Output(x.scope(nil))
}

// References returns what all expressions of a node read.
func (p *Program) References(node int) expr.References {
	n := p.Node(node)
	return p.Definitions[n.Origin].compiled.References(n.LocalIndex)
}

// CompensationReferences returns what the parameters of a node's compensation read.
func (p *Program) CompensationReferences(node int) expr.References {
	n := p.Node(node)
	return p.Definitions[n.Origin].compiled.CompensationReferences(n.LocalIndex)
}

// Writes returns the paths of the variables that a node sets, in order.
func (p *Program) Writes(node int) []string {
	n := &p.Nodes[node]
	if n.OutputKey != "" {
		return []string{n.OutputKey}
	}
	return p.Definitions[n.Origin].compiled.SetPaths(n.LocalIndex)
}

// Assignments returns how many variables the nodes set, each once for each node that sets it.
func (p *Program) Assignments() (n int) {
	for i := range p.Nodes {
		n += len(p.Writes(i))
	}
	return n
}

// ExecuteOnParameters returns the selector of a step that starts a child execution, for the given
// item if there is one.
func (x *Expressions) ExecuteOnParameters(node int, item *workflow.ScopeEntity) (json.RawMessage, error) {
	c, step := x.compiledStep(node)
	return c.Selector(step, x.jobScope(node, item))
}

// Starts returns which workflow a step starts that evaluates it.
func (x *Expressions) Starts(node int) (string, error) {
	c, step := x.compiledStep(node)
	return c.Starts(step, x.scope(nil))
}

// ValidateParameters validates evaluated parameters against the schema of the block, or of the
// definition that the step embeds. The parameters of a child execution are validated when it
// starts.
func (x *Expressions) ValidateParameters(node int, parameters json.RawMessage) error {
	n := &x.program.Nodes[node]
	if n.IsContainer() && n.Reference != nil {
		return definition.ValidateParameters(x.program.Embedded(node).Definition, parameters)
	}
	return validateBlockParameters(x.blocks[n.FunctionBlock], parameters)
}

func validateBlockParameters(b workflow.Block, parameters json.RawMessage) error {
	if len(b.ParameterSchema) == 0 {
		return nil
	}
	issues := schema.Validate(workflow.WithoutSealed(b.ParameterSchema), parameters, "parameters")
	return workflow.Invalid(fmt.Sprintf("the parameters do not match the schema of block %s", b.Ref()), issues)
}

// Embedded returns the definition that a node embeds; nil if it embeds none.
func (p *Program) Embedded(node int) *Definition {
	for i, s := range p.Origins {
		if s.NodeIndex == node {
			return p.Definitions[i]
		}
	}
	return nil
}

// HasCallbackToken reports whether the parameters of a node contain its callback token, alone or in
// a link.
func (p *Program) HasCallbackToken(node int) bool {
	n := &p.Nodes[node]
	return n.Callback != nil && p.Definitions[n.Origin].compiled.HasCallbackToken(n.LocalIndex)
}

// HasCallbackURL reports whether the parameters of a node contain the link with the callback token.
func (p *Program) HasCallbackURL(node int) bool {
	n := &p.Nodes[node]
	return n.Callback != nil && p.Definitions[n.Origin].compiled.HasCallbackURL(n.LocalIndex)
}

// FillCallbackToken inserts the callback token, and the link with it, into the parameters of a
// node.
func (p *Program) FillCallbackToken(node int, parameters json.RawMessage, token, link string) (json.RawMessage, error) {
	n := &p.Nodes[node]
	return p.Definitions[n.Origin].compiled.FillCallbackToken(n.LocalIndex, parameters, token, link)
}

// Secrets returns where the parameters of a node contain secrets.
func (p *Program) Secrets(node int) []workflow.SecretPlace {
	n := &p.Nodes[node]
	return p.Definitions[n.Origin].compiled.Secrets(n.LocalIndex)
}

// CompensationSecrets returns where the parameters of a node's compensation contain secrets.
func (p *Program) CompensationSecrets(node int) []workflow.SecretPlace {
	n := &p.Nodes[node]
	return p.Definitions[n.Origin].compiled.CompensationSecrets(n.LocalIndex)
}

// HasRetryWhen reports whether the node's retry has a condition.
func (p *Program) HasRetryWhen(node int) bool {
	n := &p.Nodes[node]
	return p.Definitions[n.Origin].compiled.HasRetryWhen(n.LocalIndex)
}

// RetryWhen evaluates the condition of the node's retry for a failed attempt. A condition that
// cannot be evaluated counts as false.
func (p *Program) RetryWhen(node, attempt int, f *workflow.Failure) bool {
	n := &p.Nodes[node]
	retry, err := p.Definitions[n.Origin].compiled.RetryWhen(n.LocalIndex, attempt, f)
	return err == nil && retry
}

// acquisition returns the compiled definition of an acquisition, its index there, and the
// definition's parameters. root holds the parameters of the execution. Acquisitions are evaluated
// before any step has run, so all that they see are parameters.
func (p *Program) acquisition(i int, root json.RawMessage) (*definition.Compiled, int, json.RawMessage, error) {
	a := &p.Acquisitions[i]
	parameters, err := p.parametersOf(a.Origin, root)
	return p.Definitions[a.Origin].compiled, a.LocalIndex, parameters, err
}

// parametersOf derives the parameters of one of the program's definitions from the parameters of
// the execution. They are evaluated from the embedding step, without the results of steps.
func (p *Program) parametersOf(origin int, root json.RawMessage) (json.RawMessage, error) {
	node := p.Origins[origin].NodeIndex
	if node < 0 {
		return root, nil
	}
	n := &p.Nodes[node]
	outer, err := p.parametersOf(n.Origin, root)
	if err != nil {
		return nil, err
	}
	return p.Definitions[n.Origin].compiled.Parameters(n.LocalIndex, expr.Scope{Context: expr.NewStepContext(outer, nil, nil, nil)})
}

// AcquireIDs evaluates an acquisition's expression for ids.
func (p *Program) AcquireIDs(i int, root json.RawMessage) ([]string, error) {
	c, local, parameters, err := p.acquisition(i, root)
	if err != nil {
		return nil, err
	}
	return c.AcquireIDs(local, parameters)
}

// ExpandIDs evaluates the ids to which an acquisition expands an entity, and adds their cost to
// cost.
func (p *Program) ExpandIDs(i int, root json.RawMessage, e workflow.Entity, cost *uint64) ([]string, error) {
	c, local, parameters, err := p.acquisition(i, root)
	if err != nil {
		return nil, err
	}
	return c.ExpandIDs(local, parameters, expr.Entity{Type: e.Type, ID: e.ID, Attributes: e.Attributes}, cost)
}

// AcquireParameters evaluates the parameters of an acquisition's block.
func (p *Program) AcquireParameters(i int, root json.RawMessage) (json.RawMessage, error) {
	c, local, parameters, err := p.acquisition(i, root)
	if err != nil {
		return nil, err
	}
	return c.AcquireParameters(local, parameters)
}

// ValidateAcquireParameters validates the parameters of an acquisition's block against
// the block's schema.
func (p *Program) ValidateAcquireParameters(i int, blocks map[string]workflow.Block, parameters json.RawMessage) error {
	return validateBlockParameters(blocks[p.Acquisitions[i].Block], parameters)
}

// StartWhen evaluates the condition of the definition's startWhen; see package program.
func (d *Definition) StartWhen(parameters json.RawMessage, now time.Time, lookup func(entityType, id string) (attributes json.RawMessage, ok bool)) (bool, error) {
	return d.compiled.StartWhen(parameters, now, lookup)
}

// SlotKey returns the key of the definition's concurrency limit; "" for none.
func (d *Definition) SlotKey(parameters json.RawMessage) (string, error) {
	return d.compiled.SlotKey(parameters)
}

// RateKey returns the key of the definition's start rate; "" for none.
func (d *Definition) RateKey(parameters json.RawMessage) (string, error) {
	return d.compiled.RateKey(parameters)
}

// NotBefore returns the time before which an execution must not begin; zero for none.
func (d *Definition) NotBefore(parameters json.RawMessage) (time.Time, error) {
	return d.compiled.NotBefore(parameters)
}
