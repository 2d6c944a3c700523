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

// Job is one call of a block, for one entity or, with a nil Entity, for the run.
type Job struct {
	ID          string // also the Idempotency-Key: the same for every delivery of this attempt
	Tenant      string
	ExecutionID string
	Step        string
	Block       string
	Operation   workflow.JobKind
	Attempt     int // from 1

	CorrelationID, TraceParent string // what the starter calls whatever comes of the run, and a traceparent, or empty: pass them on

	Entity     *workflow.EntityKey
	Attributes json.RawMessage // of the entity, as read under its lock
	Parameters json.RawMessage
	Result     json.RawMessage // what is to be undone, of a ROLLBACK

	// Token is the entity's lock token. Fence compares as text: pass it to the
	// device, which refuses one that is lower than the highest it has seen.
	Token int64
	Fence string

	// Deadline is when the job is given up, whether it listens to its context or
	// not. One that does not is left running: its next attempt has a higher fence.
	Deadline time.Time

	outcome      sm.Outcome
	ownUpdate    workflow.Update   // of the job's own entity
	otherUpdates []workflow.Update // of others
}

// DecodeAttributes reads the entity's attributes into a pointer; a global job has
// none.
func (j *Job) DecodeAttributes(into any) error {
	if len(j.Attributes) == 0 {
		return nil
	}
	return json.Unmarshal(j.Attributes, into)
}

// errNoEntity says that a global job has no entity to update.
var errNoEntity = errors.New("worker: the job has no entity")

// SetAttribute asks for an attribute of the job's entity to be changed. That is part of
// the job's success: it is applied when the run completes, or never.
func (j *Job) SetAttribute(attribute string, value any) error {
	if j.Entity == nil {
		return errNoEntity
	}
	raw, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("worker: attribute %s: %w", attribute, err)
	}
	if j.ownUpdate.Set == nil {
		j.ownUpdate.Set = map[string]json.RawMessage{}
	}
	j.ownUpdate.Set[attribute] = raw
	return nil
}

// RemoveAttribute asks for an attribute of the job's entity to be removed, like Set.
func (j *Job) RemoveAttribute(attribute string) error {
	if j.Entity == nil {
		return errNoEntity
	}
	j.ownUpdate.Remove = append(j.ownUpdate.Remove, attribute)
	return nil
}

// UpdateEntity asks for attributes of another entity to be changed, like Set. The run has
// to hold it, or the step fails.
func (j *Job) UpdateEntity(u workflow.Update) { j.otherUpdates = append(j.otherUpdates, u) }

// Break makes the outcome of a job that succeeds BREAK: enough of this loop or
// sequence. NoOp makes it NOOP: there was nothing to do.
func (j *Job) Break() { j.outcome = sm.OutcomeBreak }

// NoOp makes the outcome of a job that succeeds NOOP.
func (j *Job) NoOp() { j.outcome = sm.OutcomeNoop }

// successResult is the answer of a job with its outcome and updates.
func (j *Job) successResult(result json.RawMessage) JobResult {
	a := JobResult{Outcome: sm.OutcomeOK, Result: result}
	if j.outcome != "" {
		a.Outcome = j.outcome
	}
	updates := j.otherUpdates
	if len(j.ownUpdate.Set) > 0 || len(j.ownUpdate.Remove) > 0 {
		j.ownUpdate.Entity = *j.Entity
		updates = append([]workflow.Update{j.ownUpdate}, updates...)
	}
	if len(updates) > 0 {
		raw, err := json.Marshal(updates)
		if err != nil {
			return failureResult(Terminal("RESULT", err))
		}
		a.Updates = raw
	}
	return a
}

// jobHandler runs one job.
type jobHandler func(ctx context.Context, job *Job) JobResult

// EndpointCaller runs the jobs of blocks that name an endpoint.
type EndpointCaller interface {
	Call(ctx context.Context, endpoint *workflow.Endpoint, job *Job) JobResult
}

// jobError is an error of a block that says whether repeating can help.
type jobError struct {
	code      string
	retryable bool
	err       error
}

func (e *jobError) Error() string { return e.err.Error() }

func (e *jobError) Unwrap() error { return e.err }

// Retryable marks an error after which the job may succeed if it is tried again.
// An error that is not marked is retryable too.
// Without an error there is nothing to mark.
func Retryable(code string, err error) error { return newJobError(code, true, err) }

// Terminal marks an error that trying again will not help.
func Terminal(code string, err error) error { return newJobError(code, false, err) }

func newJobError(code string, retryable bool, err error) error {
	if err == nil {
		return nil
	}
	return &jobError{code, retryable, err}
}

// failureResult is the answer for an error.
func failureResult(err error) JobResult {
	f := &workflow.Failure{Code: "ERROR", Message: err.Error(), Retryable: true}
	var e *jobError
	if errors.As(err, &e) {
		f.Code, f.Retryable = e.code, e.retryable
	}
	return JobResult{Outcome: sm.OutcomeError, Failure: f}
}
