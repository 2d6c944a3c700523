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

// Block is a function block with typed parameters P and result R. Execute is
// required; Rollback makes it reversible, Acquire lets runs ask it for their
// entities.
type Block[P, R any] struct {
	Name        string // package/name
	Version     string // 1.2.3
	Description string
	RunOn       string // entity type or "global"; empty accepts both
	Pool        string // the worker's if empty

	Pure         bool // changes nothing: may run any number of times, and is never rolled back
	Idempotent   bool // may run again with the same effect
	UndoHarmless bool // Rollback is harmless where Execute has done nothing

	Timeout         time.Duration // of one attempt; 30s if zero
	ParameterSchema json.RawMessage
	ResultSchema    json.RawMessage

	Execute  func(ctx context.Context, job *Job, p P) (R, error)
	Acquire  func(ctx context.Context, job *Job, p P) ([]workflow.EntityKey, error) // finds entities for a run; changes nothing
	Rollback func(ctx context.Context, job *Job, p P, result *R) error              // result is nil if the job has left none
}

// Register offers a block. It panics on a block that could never be registered: that
// is a mistake in the program, seen when it starts.
func Register[P, R any](w *Worker, b Block[P, R]) {
	ref, err := workflow.ParseRef(b.Name + ":" + b.Version)
	if err != nil || !ref.Exact() {
		panic(fmt.Sprintf("worker: %q version %q is not package/name with a version such as 1.0.0", b.Name, b.Version))
	}
	if b.Execute == nil || (b.Pure && b.Rollback != nil) {
		panic(fmt.Sprintf("worker: block %s needs Execute, and no Rollback if it is pure", ref))
	}
	if _, duplicate := w.blocks[ref.String()]; duplicate {
		panic(fmt.Sprintf("worker: block %s is added twice", ref))
	}
	pool := b.Pool
	if pool == "" {
		pool = w.Pool
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

// run adapts a typed block to what the protocol calls.
func (b Block[P, R]) run(ctx context.Context, job *Job) JobResult {
	// A block relies on the entity that it says it runs on. An acquire has none yet.
	if job.Operation != workflow.JobAcquire {
		switch {
		case b.RunOn != "" && b.RunOn != workflow.RunOnGlobal && job.Entity == nil:
			return failureResult(Terminal("RUN_ON", fmt.Errorf("block %s runs on %s, and was called without an entity", b.Name, b.RunOn)))
		case b.RunOn == workflow.RunOnGlobal && job.Entity != nil:
			return failureResult(Terminal("RUN_ON", fmt.Errorf("block %s runs once for a run, and was called for %s", b.Name, job.Entity)))
		case b.RunOn != "" && job.Entity != nil && job.Entity.Type != b.RunOn:
			return failureResult(Terminal("RUN_ON", fmt.Errorf("block %s runs on %s, and was called for %s", b.Name, b.RunOn, job.Entity)))
		}
	}
	var p P
	if err := decodeStrict(job.Parameters, &p); err != nil {
		return failureResult(Terminal("PARAMETERS", fmt.Errorf("the parameters do not fit: %w", err)))
	}
	if job.Operation == workflow.JobRollback {
		if b.Rollback == nil {
			return failureResult(Terminal("NO_ROLLBACK", fmt.Errorf("block %s has no rollback", b.Name)))
		}
		var result *R
		if len(job.Result) > 0 && string(job.Result) != "null" {
			result = new(R)
			if err := json.Unmarshal(job.Result, result); err != nil {
				return failureResult(Terminal("RESULT", fmt.Errorf("the result to undo does not fit: %w", err)))
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
	raw, err := json.Marshal(r)
	if err != nil {
		return failureResult(Terminal("RESULT", fmt.Errorf("the result has no JSON form: %w", err)))
	}
	return job.successResult(raw)
}

// decodeStrict decodes parameters; a field that P does not have is refused, because a
// misspelt parameter would otherwise be ignored.
func decodeStrict(raw json.RawMessage, into any) error {
	if len(raw) == 0 {
		raw = json.RawMessage("{}")
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	return d.Decode(into)
}
