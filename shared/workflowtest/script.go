package workflowtest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"math/big"
	"reflect"
	"strconv"
	"strings"

	"github.com/lockstep-run/lockstep/shared/definition/schema"
	"github.com/lockstep-run/lockstep/shared/sim/faults"
	"github.com/lockstep-run/lockstep/shared/worker"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// call is one call of a block.
type call struct {
	step, block string
	kind        workflow.JobKind // ROLLBACK also for a block that compensates
	entity      string           // type/id, empty for a call without one
	attempt     int
	number      int // number of the call for this step, entity and kind, from 1
	parameters  json.RawMessage
	code        string // of the failure
}

// String returns the call as tests list it.
func (c *call) String() string {
	parts := []string{c.step}
	for _, part := range []string{c.entity, c.code} {
		if part != "" {
			parts = append(parts, part)
		}
	}
	return strings.Join(parts, " ")
}

// register adds a block to the catalog and to the worker. Its calls follow the script.
func (p *play) register(ctx context.Context, b block) error {
	b.Pool, b.HTTP = "", nil
	if _, err := p.catalog.RegisterBlock(ctx, author, b.Block); err != nil {
		return err
	}
	p.serve(b)
	return nil
}

func (p *play) serve(b block) {
	execute := func(ctx context.Context, j *worker.Job, _ json.RawMessage) (json.RawMessage, error) {
		a, err := p.answerTo(ctx, &b, j)
		if err != nil {
			return nil, err
		}
		return result(a, &b, j)
	}
	scripted := worker.Block[json.RawMessage, json.RawMessage]{
		Name: b.Package + "/" + b.Name, Version: b.Version, Pure: b.Pure, Idempotent: b.Idempotent, UndoHarmless: b.UndoHarmless,
		Execute: execute,
		Acquire: func(ctx context.Context, j *worker.Job, _ json.RawMessage) (keys []workflow.EntityKey, err error) {
			a, err := p.answerTo(ctx, &b, j)
			if err != nil {
				return nil, err
			}
			for _, text := range a.acquired {
				key, _ := parseKey(text) // was read as one
				keys = append(keys, key)
			}
			return keys, nil
		},
	}
	if b.Reversible {
		scripted.Rollback = func(ctx context.Context, j *worker.Job, in json.RawMessage, _ *json.RawMessage) error {
			_, err := execute(ctx, j, in)
			return err
		}
	}
	worker.Register(p.worker, scripted)
}

// answerTo records a call and finds its answer. The error is its failure.
func (p *play) answerTo(ctx context.Context, b *block, j *worker.Job) (*answer, error) {
	c := &call{step: j.Step, block: b.Package + "/" + b.Name, kind: j.Operation, attempt: j.Attempt, parameters: j.Parameters}
	if j.Entity != nil {
		c.entity = j.Entity.String()
	}
	if p.undoes(ctx, j) {
		c.kind = workflow.JobRollback
	}
	c.number = 1
	for _, earlier := range p.calls {
		if earlier.step == c.step && earlier.entity == c.entity && earlier.kind == c.kind {
			c.number++
		}
	}
	p.calls = append(p.calls, c)
	a := &answer{}
	for i := range p.test.answers {
		if p.test.answers[i].matches(c) {
			a, p.used[i] = &p.test.answers[i], true
			break
		}
	}
	switch {
	case a.crash:
		c.code = workflow.FailureWorkerCrash
		panic(faults.Crash{Call: faults.Call{Name: "block " + j.ID}})
	case a.timeout:
		c.code = workflow.FailureTimeout
		p.Advance(j.Deadline.Sub(p.Now()) + 1)
		return nil, errors.New("it has not ended in time")
	case a.panics != "":
		c.code = "PANIC"
		return nil, worker.Terminal(c.code, errors.New("the block panicked: "+a.panics))
	case a.fail != "":
		c.code = a.fail
		err := worker.Terminal(a.fail, errors.New(cmp.Or(a.message, "as the test says")))
		if a.retryable {
			err = worker.Retryable(a.fail, errors.New(cmp.Or(a.message, "as the test says")))
		}
		if a.details != nil {
			err = worker.WithDetails(err, a.details)
		}
		return nil, err
	}
	return a, nil
}

// undoes reports whether a call belongs to a rollback, in which a block that compensates is
// executed.
func (p *play) undoes(ctx context.Context, j *worker.Job) bool {
	if j.Operation != workflow.JobExecute {
		return j.Operation == workflow.JobRollback
	}
	rest, _ := strings.CutPrefix(j.ID, j.ExecutionID+".")
	number, _, _ := strings.Cut(rest, ".")
	seq, err := strconv.Atoi(number)
	if err != nil {
		return false
	}
	x, err := p.Open().Store.Load(ctx, author.Tenant, j.ExecutionID)
	if err != nil {
		return false
	}
	for i := range x.StepRuns {
		if x.StepRuns[i].Seq == seq {
			return x.StepRuns[i].Kind == workflow.JobRollback
		}
	}
	return false
}

// matches reports whether an answer is for a call. An answer that names no operation does not match
// rollbacks.
func (a *answer) matches(c *call) bool {
	switch {
	case a.operation == "" && c.kind == workflow.JobRollback, a.operation != "" && !strings.EqualFold(a.operation, string(c.kind)):
		return false
	case a.step != "" && a.step != c.step, a.entity != "" && a.entity != c.entity:
		return false
	case a.block != "" && a.block != c.block:
		return false
	case a.attempt > 0 && a.attempt != c.attempt, a.call > 0 && a.call != c.number:
		return false
	}
	return a.parameters == nil || contains(decode(c.parameters), decode(a.parameters))
}

// result returns the result of a successful call, after its other effects.
func result(a *answer, b *block, j *worker.Job) (json.RawMessage, error) {
	var attributes map[string]json.RawMessage
	var updates []workflow.Update
	for raw, into := range map[*json.RawMessage]any{&a.set: &attributes, &a.updates: &updates} {
		if *raw != nil {
			if err := json.Unmarshal(*raw, into); err != nil {
				return nil, worker.Terminal("RESULT", err)
			}
		}
	}
	for name, value := range attributes {
		if err := j.SetAttribute(name, value); err != nil {
			return nil, worker.Terminal("RESULT", err)
		}
	}
	for _, u := range updates {
		j.UpdateEntity(u)
	}
	if a.next != "" {
		j.Next(a.next)
	}
	if a.breaks {
		j.Break()
	}
	if a.wait != nil && j.Resume == nil {
		var wait workflow.AskedWait
		if err := json.Unmarshal(a.wait, &wait); err != nil {
			return nil, worker.Terminal("RESULT", err)
		}
		j.Wait(wait)
	}
	switch {
	case a.result != nil:
		return a.result, nil
	case b.result != nil:
		return b.result, nil
	case workflow.IsHTTPStep(j.Block):
		return json.RawMessage(`{"status":200}`), nil
	}
	return json.RawMessage(`{}`), nil
}

// decode returns a JSON value whose numbers are equal if their values are; nil for none.
func decode(raw json.RawMessage) (v any) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	_ = d.Decode(&v) // was read as JSON
	return exact(v)
}

// number is a number as a fraction in lowest terms.
type number string

// exact replaces the numbers in a value by their exact values.
func exact(v any) any {
	switch v := v.(type) {
	case json.Number:
		if schema.CheckValue(v, "", nil) != nil {
			return v // its exact value may need more memory than there is
		}
		if r, ok := new(big.Rat).SetString(string(v)); ok {
			return number(r.RatString())
		}
	case []any:
		for i := range v {
			v[i] = exact(v[i])
		}
	case map[string]any:
		for name := range v {
			v[name] = exact(v[name])
		}
	}
	return v
}

// contains reports whether a value has everything that another one has.
func contains(got, want any) bool {
	object, is := want.(map[string]any)
	if !is {
		return reflect.DeepEqual(got, want)
	}
	fields, is := got.(map[string]any)
	if !is {
		return false
	}
	for name, value := range object {
		if field, ok := fields[name]; !ok || !contains(field, value) {
			return false
		}
	}
	return true
}
