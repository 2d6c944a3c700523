// Package workertest calls the blocks of a worker in tests, without a service. The worker itself
// makes the calls: parameters are read as in a pack, a panic and a timeout become failures, and a
// result is checked against the block's schema. It is a package of its own because programs that
// serve blocks do not need it.
package workertest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/definition/schema"
	"github.com/lockstep-run/lockstep/shared/worker"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/statemachines"
)

// Job is one call of a block. Parameters, Attributes, Undo and the values of Checkpoints are
// encoded as JSON, unless they already are JSON (a json.RawMessage).
type Job struct {
	Block      string           // package/name, or with a version
	Operation  workflow.JobKind // empty: EXECUTE
	Entity     string           // type/id; empty: none
	Attributes any              // of the entity
	Parameters any
	Undo       any // for a ROLLBACK: the result to undo; nil for none

	Attempt     int            // empty: 1
	Token       int64          // lock token of the entity; empty: 1
	Checkpoints map[string]any // what an earlier attempt has saved
	Resume      *workflow.Resume
	Timeout     time.Duration // empty: that of the block, or 30s
}

// Result is the result of a call.
type Result struct {
	Outcome     statemachines.Outcome
	JSON        json.RawMessage            // what the block returned; nil if it failed
	Failure     *workflow.Failure          // nil if it succeeded
	Updates     []workflow.Update          // updates of entities, the job's own entity first
	Entities    []workflow.EntityKey       // what an ACQUIRE has found
	Checkpoints map[string]json.RawMessage // everything saved at the end
	Progress    []workflow.JobProgress     // reported progress, in order
	Logs        []workflow.LogLine         // the end of what it logged, as much as is kept with a job
	LogsDropped int                        // lines before these
	Next        string                     // the step with which the execution should continue; empty for none
	Wait        *workflow.AskedWait        // what it asks to wait for; nil for nothing

	entity string // type/id of the job's entity
}

// Decode decodes what the block returned into a pointer.
func (r *Result) Decode(into any) error {
	if r.Failure != nil {
		return fmt.Errorf("the block failed with %s: %s", r.Failure.Code, r.Failure.Message)
	}
	d := json.NewDecoder(bytes.NewReader(r.JSON))
	d.DisallowUnknownFields()
	return d.Decode(into)
}

// Attribute returns the value to which the job sets an attribute of its own entity; nil if it does
// not.
func (r *Result) Attribute(name string) json.RawMessage {
	for _, u := range r.Updates {
		if value, ok := u.Set[name]; ok && u.Entity.String() == r.entity {
			return value
		}
	}
	return nil
}

// Call calls a block of a worker. If a service would refuse the call, the test fails: the worker
// does not have the block, or the parameters do not match its schema.
func Call(tb testing.TB, w *worker.Worker, job Job) Result {
	tb.Helper()
	m, err := message(w, job)
	if err != nil {
		tb.Fatalf("workertest: %v", err)
	}
	called := w.Call(tb.Context(), m)
	r := Result{
		Outcome: called.Outcome, JSON: called.Result, Failure: called.Failure, Entities: called.Entities, Checkpoints: called.Checkpoints,
		Progress: called.Progress, Next: called.Next, Wait: called.Wait, entity: job.Entity,
	}
	if called.Logs != nil {
		r.Logs, r.LogsDropped = called.Logs.Lines, called.Logs.Dropped
	}
	if called.Updates != nil {
		if err := json.Unmarshal(called.Updates, &r.Updates); err != nil {
			tb.Fatalf("workertest: the updates of %s: %v", job.Block, err)
		}
	}
	return r
}

// Execute works like Call for a job that must succeed, and returns the result in its type.
func Execute[R any](tb testing.TB, w *worker.Worker, job Job) (R, Result) {
	tb.Helper()
	var value R
	r := Call(tb, w, job)
	if err := r.Decode(&value); err != nil {
		tb.Fatalf("%s: %v", job.Block, err)
	}
	return value, r
}

// message returns the message of a pack with one job.
func message(w *worker.Worker, job Job) (*workflow.PackMessage, error) {
	b, err := find(w, job.Block)
	if err != nil {
		return nil, err
	}
	in := workflow.JobInput{Token: max(job.Token, 1), Checkpoints: workflow.Checkpoints{}}
	if job.Entity != "" {
		kind, id, ok := strings.Cut(job.Entity, "/")
		if in.Entity = (&workflow.EntityKey{Type: kind, ID: id}); !ok || !workflow.ValidID(kind) || !workflow.ValidID(id) {
			return nil, fmt.Errorf("want an entity as TYPE/ID, not %q", job.Entity)
		}
	}
	for _, value := range []struct {
		from any
		into *json.RawMessage
	}{{job.Parameters, &in.Parameters}, {job.Attributes, &in.Attributes}, {job.Undo, &in.Result}} {
		if value.from == nil {
			continue
		}
		if *value.into, err = workflow.EncodeJSON(value.from); err != nil {
			return nil, err
		}
	}
	for key, value := range job.Checkpoints {
		if in.Checkpoints[key], err = workflow.EncodeJSON(value); err != nil {
			return nil, err
		}
	}
	if job.Resume != nil {
		if in.Resume, err = workflow.EncodeJSON(job.Resume); err != nil {
			return nil, err
		}
	}
	given := in.Parameters
	if given == nil {
		given = json.RawMessage("{}")
	}
	if err := workflow.Invalid("the parameters do not match the schema of block "+b.Ref().String(), schema.Validate(b.ParameterSchema, given, "parameters")); err != nil {
		return nil, err
	}
	m := &workflow.PackMessage{
		Key: workflow.StepRunKey{Tenant: "test", Execution: "test", Ordinal: 1, Seq: 1}.Pack(0, max(job.Attempt, 1)),
		Work: workflow.Work{
			Kind: job.Operation, Block: b.Ref().String(), Step: "test", Pool: b.Pool, Pure: b.Pure, Idempotent: b.Idempotent,
			Timeout: workflow.Duration(job.Timeout), Lanes: 1, ResultSchema: b.ResultSchema,
		},
		Jobs: []workflow.JobInput{in},
	}
	if m.Work.Kind == "" {
		m.Work.Kind = workflow.JobExecute
	}
	if m.Work.Timeout == 0 {
		m.Work.Timeout = b.Timeout
	}
	if m.Work.Timeout == 0 {
		m.Work.Timeout = workflow.Duration(30 * time.Second)
	}
	return m, nil
}

// find finds the newest block of a worker that matches a reference.
func find(w *worker.Worker, written string) (found workflow.Block, err error) {
	ref, err := workflow.ParseRef(written)
	if err != nil {
		return found, err
	}
	var names []string
	var newest workflow.Semver
	for _, b := range w.Blocks() {
		names = append(names, b.Ref().String())
		version, _ := workflow.ParseSemver(b.Version) // checked when it was registered
		if b.Ref().FullName() == ref.FullName() && ref.Matches(b.Version) && (found.Name == "" || version.Compare(newest) > 0) {
			found, newest = b, version
		}
	}
	if found.Name == "" {
		return found, fmt.Errorf("the worker has no block %s; it has %s", written, strings.Join(names, ", "))
	}
	return found, nil
}
