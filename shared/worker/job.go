package worker

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// Job is one call of a block, for one entity or, with a nil Entity, for the run.
type Job struct {
	ID        string // also the Idempotency-Key: the same for every delivery of this attempt
	Tenant    string
	Execution string
	Step      string
	Block     string
	Operation workflow.JobKind
	Attempt   int // from 1

	Entity     *workflow.EntityKey
	Attributes json.RawMessage // of the entity, as read under its lock
	Parameters json.RawMessage
	Result     json.RawMessage // what is to be undone, of a ROLLBACK

	// Token is the entity's lock token. Fence compares as text: pass it to the
	// device, which refuses one that is lower than the highest it has seen.
	Token int64
	Fence string

	Deadline time.Time
}

// Executor runs one job.
type Executor func(ctx context.Context, job *Job) Answer

// Caller runs the jobs of blocks that name an endpoint.
type Caller interface {
	Call(ctx context.Context, endpoint *workflow.Endpoint, job *Job) Answer
}

// Answer is what came of a job.
type Answer struct {
	Outcome sm.Outcome
	Result  json.RawMessage
	Updates json.RawMessage // entity updates, of blocks served over HTTP
	Failure *workflow.Failure
}

const (
	outcomeOK    = sm.OutcomeOK
	outcomeError = sm.OutcomeError
)

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
func Retryable(code string, err error) error { return &jobError{code, true, err} }

// Terminal marks an error that trying again will not help.
func Terminal(code string, err error) error { return &jobError{code, false, err} }

// fail is the answer for an error.
func fail(err error) Answer {
	f := &workflow.Failure{Code: "ERROR", Message: err.Error(), Retryable: true}
	var e *jobError
	if errors.As(err, &e) {
		f.Code, f.Retryable = e.code, e.retryable
	}
	return Answer{Outcome: outcomeError, Failure: f}
}
