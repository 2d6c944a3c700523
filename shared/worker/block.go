package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// Block declares a function block with parameters of type P and a result of type R. Both travel as
// JSON. Parameters with a field that P does not have are refused, so that a misspelt parameter is
// not ignored.
//
// Name, Version and Execute are required. A block with Rollback is reversible. A block with Acquire
// can find the entities of an execution.
type Block[P, R any] struct {
	Name        string // package/name
	Version     string // exact, such as 1.2.3
	Description string
	RunOn       string // an entity type, or "global"; empty accepts both
	Pool        string // empty: the worker's pool

	Pure         bool // changes nothing: may run any number of times, and is never rolled back
	Idempotent   bool // running it again for the same attempt has the same effect
	UndoHarmless bool // Rollback does no harm if Execute has done nothing

	Timeout         time.Duration   // for one attempt; 30s if zero
	ParameterSchema json.RawMessage // JSON Schema of P; empty accepts everything
	ResultSchema    json.RawMessage // JSON Schema of R; empty accepts everything

	// Execute does the work. Its result is kept for later steps and for Rollback.
	Execute func(ctx context.Context, job *Job, p P) (R, error)

	// Acquire finds entities for an execution. It must not change anything.
	Acquire func(ctx context.Context, job *Job, p P) ([]workflow.EntityKey, error)

	// Rollback undoes Execute. result is what Execute returned, or nil if the job has left no
	// result.
	Rollback func(ctx context.Context, job *Job, p P, result *R) error
}

// Register adds a block to a worker. It panics if the block can never be registered
// with the service: that is a programming error, best seen when the program starts.
func Register[P, R any](w *Worker, b Block[P, R]) {
	ref, err := workflow.ParseRef(b.Name + ":" + b.Version)
	if err != nil || !ref.Exact() {
		panic(fmt.Sprintf("worker: %q version %q is not package/name with a version such as 1.0.0", b.Name, b.Version))
	}
	if b.Execute == nil || (b.Pure && b.Rollback != nil) {
		panic(fmt.Sprintf("worker: block %s needs Execute, and no Rollback if it is pure", ref))
	}
	if _, duplicate := w.blocks[ref.String()]; duplicate {
		panic(fmt.Sprintf("worker: block %s is registered twice", ref))
	}
	pool := b.Pool
	if pool == "" {
		pool = w.opts.Pool
	}
	w.blocks[ref.String()] = registeredBlock{
		block: workflow.Block{
			Package: ref.Package, Name: ref.Name, Version: ref.Version, Description: strings.TrimSpace(b.Description),
			RunOn: b.RunOn, Pure: b.Pure, Idempotent: b.Idempotent, Reversible: b.Rollback != nil,
			UndoHarmless: b.UndoHarmless, Pool: pool, Timeout: workflow.Duration(b.Timeout),
			ParameterSchema: b.ParameterSchema, ResultSchema: b.ResultSchema,
		},
		handler: b.run,
	}
}

// jobHandler runs one job.
type jobHandler func(ctx context.Context, job *Job) JobResult

// run adapts the typed block to a jobHandler.
func (b Block[P, R]) run(ctx context.Context, job *Job) JobResult {
	// A block relies on the entity type that it declares. An acquire has no entity yet.
	if job.Operation != workflow.JobAcquire {
		switch {
		case b.RunOn != "" && b.RunOn != workflow.RunOnGlobal && job.Entity == nil:
			return failureResult(Terminal("RUN_ON", fmt.Errorf("block %s runs on %s but was called without an entity", b.Name, b.RunOn)))
		case b.RunOn == workflow.RunOnGlobal && job.Entity != nil:
			return failureResult(Terminal("RUN_ON", fmt.Errorf("block %s runs once per step run but was called for %s", b.Name, job.Entity)))
		case b.RunOn != "" && job.Entity != nil && job.Entity.Type != b.RunOn:
			return failureResult(Terminal("RUN_ON", fmt.Errorf("block %s runs on %s but was called for %s", b.Name, b.RunOn, job.Entity)))
		}
	}
	var p P
	if err := decodeStrict(job.Parameters, &p); err != nil {
		return failureResult(Terminal(workflow.FailureParameters, fmt.Errorf("invalid parameters: %w", workflow.JSONError(err))))
	}
	if job.Operation == workflow.JobRollback {
		if b.Rollback == nil {
			return failureResult(Terminal("NO_ROLLBACK", fmt.Errorf("block %s has no rollback", b.Name)))
		}
		var result *R
		if len(job.Result) > 0 && string(job.Result) != "null" {
			result = new(R)
			if err := json.Unmarshal(job.Result, result); err != nil {
				return failureResult(Terminal("RESULT", fmt.Errorf("cannot decode the result to undo: %w", workflow.JSONError(err))))
			}
		}
		if err := b.Rollback(ctx, job, p, result); err != nil {
			return failureResult(err)
		}
		return job.successResult(nil)
	}
	if job.Operation == workflow.JobAcquire {
		if b.Acquire == nil {
			return failureResult(Terminal("NO_ACQUIRE", fmt.Errorf("block %s has no acquire", b.Name)))
		}
		entities, err := b.Acquire(ctx, job, p)
		if err != nil {
			return failureResult(err)
		}
		return JobResult{Outcome: sm.OutcomeOK, Entities: entities}
	}
	r, err := b.Execute(ctx, job, p)
	if err != nil {
		return failureResult(err)
	}
	raw, err := workflow.EncodeJSON(r)
	if err != nil {
		return failureResult(Terminal("RESULT", fmt.Errorf("cannot encode the result as JSON: %w", err)))
	}
	return job.successResult(raw)
}

// decodeStrict decodes parameters and refuses unknown fields. Empty parameters are
// the empty object.
func decodeStrict(raw json.RawMessage, into any) error {
	if len(raw) == 0 {
		raw = json.RawMessage("{}")
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	return d.Decode(into)
}
