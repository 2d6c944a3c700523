package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// Job is one call of a block: for one entity or, with a nil Entity, once for the
// whole step run.
type Job struct {
	// ID is the job's idempotency key. It is the same for every delivery of one
	// attempt.
	ID          string
	Tenant      string
	ExecutionID string
	Step        string
	Block       string           // package/name:version
	Operation   workflow.JobKind // EXECUTE, ROLLBACK or ACQUIRE
	Attempt     int              // from 1

	// CorrelationID is the id under which the caller started the execution, and
	// TraceParent a W3C traceparent. Both may be empty. Pass them on to what the
	// block calls.
	CorrelationID, TraceParent string

	Entity     *workflow.EntityKey
	Attributes json.RawMessage // of the entity, as read under its lock
	Parameters json.RawMessage
	Result     json.RawMessage // for a ROLLBACK: the result to undo

	// Token is the entity's lock token. Fence is the text to pass to the device,
	// which must refuse a fence that sorts below the highest it has seen.
	Token int64
	Fence string

	// Deadline is when the worker stops waiting for the job, whether or not the job watches its
	// context. A job that continues after that has a lower fence than its next attempt.
	Deadline time.Time

	// Resume is the result of the wait that the block requested with [Job.Wait] in its previous
	// call; nil in the first call.
	Resume *workflow.Resume

	saved        *savedState
	outcome      sm.Outcome
	wait         *workflow.AskedWait
	next         string
	ownUpdate    workflow.Update   // for the job's own entity
	otherUpdates []workflow.Update // for other entities
}

// newJob returns the job as its block sees it.
func newJob(m *workflow.PackMessage, in *workflow.JobInput, packToken int, deadline time.Time) *Job {
	var resume *workflow.Resume
	if len(in.Resume) > 0 {
		resume = &workflow.Resume{}
		if json.Unmarshal(in.Resume, resume) != nil {
			resume = nil // the engine never sends that
		}
	}
	return &Job{
		Resume: resume,
		ID:     workflow.JobID(m.Key.Execution, m.Key.StepRunSeq, in.Index, m.Key.Attempt),
		Tenant: m.Key.Tenant, ExecutionID: m.Key.Execution, Step: m.Work.Step, Block: m.Work.Block,
		Operation: m.Work.Kind, Attempt: m.Key.Attempt,
		Entity: in.Entity, Attributes: in.Attributes, Parameters: in.Parameters, Result: in.Result,
		Token: in.Token, Fence: workflow.Fence(in.Token, m.Key.StepRunSeq, m.Key.Attempt, packToken),
		Deadline: deadline, CorrelationID: m.Work.CorrelationID, saved: &savedState{checkpoints: in.Checkpoints},
	}
}

// DecodeAttributes decodes the entity's attributes into a pointer. It changes
// nothing if the job has none.
func (j *Job) DecodeAttributes(into any) error {
	if len(j.Attributes) == 0 {
		return nil
	}
	return workflow.JSONError(json.Unmarshal(j.Attributes, into))
}

// errNoEntity is returned to a global job that changes its entity.
var errNoEntity = errors.New("worker: the job has no entity")

// SetAttribute sets an attribute of the job's entity to a value that is encoded as
// JSON. The change is applied only if the job succeeds and its execution completes.
func (j *Job) SetAttribute(attribute string, value any) error {
	if j.Entity == nil {
		return errNoEntity
	}
	raw, err := workflow.EncodeJSON(value)
	if err != nil {
		return fmt.Errorf("worker: attribute %s: %w", attribute, err)
	}
	if j.ownUpdate.Set == nil {
		j.ownUpdate.Set = map[string]json.RawMessage{}
	}
	j.ownUpdate.Set[attribute] = raw
	return nil
}

// RemoveAttribute removes an attribute of the job's entity, under the same
// conditions as SetAttribute.
func (j *Job) RemoveAttribute(attribute string) error {
	if j.Entity == nil {
		return errNoEntity
	}
	j.ownUpdate.Remove = append(j.ownUpdate.Remove, attribute)
	return nil
}

// UpdateEntity changes another entity, under the same conditions as SetAttribute.
// The execution must hold that entity, or the step fails.
func (j *Job) UpdateEntity(u workflow.Update) { j.otherUpdates = append(j.otherUpdates, u) }

// Break makes the outcome of a successful job BREAK: the repetitions or the loop around its step
// end here, those of a step on entities for its entity alone.
func (j *Job) Break() { j.outcome = sm.OutcomeBreak }

// NoOp makes the outcome of a successful job NOOP: there was nothing to do.
func (j *Job) NoOp() { j.outcome = sm.OutcomeNoop }

// Next lets the execution continue with a step other than the following one: the step with the
// label, which is next to this step or to a surrounding one, or "end". Only a job of a global step
// may call it.
func (j *Job) Next(label string) { j.next = label }

// Wait makes the step wait for a time, a signal or input before the execution continues. The block
// is then called again, with the result of the wait in Resume. The result of this call is not the
// result of the step. Only a job of a global step may call it.
func (j *Job) Wait(w workflow.AskedWait) { j.wait = &w }

// successResult returns the result of a successful job, with its outcome and
// updates.
func (j *Job) successResult(result json.RawMessage) JobResult {
	a := JobResult{Outcome: sm.OutcomeOK, Result: result, Next: j.next, Wait: j.wait}
	if j.outcome != "" {
		a.Outcome = j.outcome
	}
	updates := j.otherUpdates
	if len(j.ownUpdate.Set) > 0 || len(j.ownUpdate.Remove) > 0 {
		j.ownUpdate.Entity = *j.Entity
		updates = append([]workflow.Update{j.ownUpdate}, updates...)
	}
	if len(updates) > 0 {
		raw, err := workflow.EncodeJSON(updates)
		if err != nil {
			return failureResult(Terminal("RESULT", err))
		}
		a.Updates = raw
	}
	return a
}

// EndpointCaller runs the jobs of blocks that are served at an endpoint. Package httpblock has one
// for HTTP.
type EndpointCaller interface {
	Call(ctx context.Context, endpoint *workflow.Endpoint, job *Job) JobResult
}

// jobError is a block's error with its code and whether trying again can help.
type jobError struct {
	code      string
	retryable bool
	unsent    bool // the block has certainly done nothing
	details   any
	err       error
}

func (e *jobError) Error() string { return e.err.Error() }

func (e *jobError) Unwrap() error { return e.err }

// Retryable gives an error a code and marks the job as worth trying again. An error
// that is not marked is retryable too, with the code ERROR. Retryable returns nil if
// err is nil.
func Retryable(code string, err error) error { return newJobError(code, true, err) }

// Terminal gives an error a code and marks the job as failed for good: trying again
// would not help. It returns nil if err is nil.
func Terminal(code string, err error) error { return newJobError(code, false, err) }

func newJobError(code string, retryable bool, err error) error {
	if err == nil {
		return nil
	}
	return &jobError{code: code, retryable: retryable, err: err}
}

// Unsent marks an error from [Retryable] or [Terminal]: the block has certainly done nothing, so
// the job needs no undo.
func Unsent(err error) error {
	return changed(err, func(e *jobError) { e.unsent = true })
}

// WithDetails adds details, which are recorded as JSON, to an error from [Retryable] or [Terminal].
func WithDetails(err error, details any) error {
	return changed(err, func(e *jobError) { e.details = details })
}

func changed(err error, change func(*jobError)) error {
	var e *jobError
	if !errors.As(err, &e) {
		e = &jobError{code: "ERROR", retryable: true, err: err}
	}
	copied := *e
	change(&copied)
	return &copied
}

// failureResult returns the result of a job that ended with err.
func failureResult(err error) JobResult {
	f := &workflow.Failure{Code: "ERROR", Message: err.Error(), Retryable: true}
	var e *jobError
	if errors.As(err, &e) {
		f.Code, f.Retryable, f.Unsent = e.code, e.retryable, e.unsent
		if e.details != nil {
			f.Details, _ = workflow.EncodeJSON(e.details) // details that cannot be encoded as JSON are left out
		}
	}
	return JobResult{Outcome: sm.OutcomeError, Failure: f}
}
