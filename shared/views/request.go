package views

import (
	"encoding/json"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/statemachines"
)

// StartRequest asks to start an execution. Its JSON, without the key, is the body of the
// request, so that a digest of it distinguishes two requests.
type StartRequest struct {
	Workflow            string             `json:"workflow"` // package/name[:major[.minor[.patch]]], without a version the newest
	Parameters          json.RawMessage    `json:"parameters,omitempty"`
	ExecuteOnParameters *workflow.Selector `json:"executeOnParameters,omitempty"` // nil or empty: an empty scope
	Labels              map[string]string  `json:"labels,omitempty"`
	NotBefore           time.Time          `json:"notBefore,omitzero"`

	// IdempotencyKey is 1 to 255 visible characters, or empty for none.
	IdempotencyKey string `json:"-"`
}

// Ref is the reference the request names.
func (r *StartRequest) Ref() (workflow.Ref, error) { return workflow.ParseRef(r.Workflow) }

// CancelRequest asks to cancel an execution.
type CancelRequest struct {
	Reason   string                `json:"reason,omitempty"`
	Rollback workflow.RollbackMode `json:"rollback,omitempty"` // empty is auto
	Cascade  *bool                 `json:"cascade,omitempty"`  // also cancel the child that it waits for; nil is true
}

// Cascades reports whether the children of the execution are cancelled with it.
func (r *CancelRequest) Cascades() bool { return r.Cascade == nil || *r.Cascade }

// RetryEntities says on which entities a retry executes its first step.
type RetryEntities string

// The choices; empty is all after a rollback, and otherwise failed, because the results of
// the other entities are still valid.
const (
	RetryFailed RetryEntities = "failed"
	RetryAll    RetryEntities = "all"
)

// RetryRequest asks for another try of a failed execution.
type RetryRequest struct {
	Reason   string        `json:"reason,omitempty"`
	From     string        `json:"from,omitempty"`     // label of the step to begin with; empty is the step that failed
	Entities RetryEntities `json:"entities,omitempty"` // of that step
}

// ExecutionFilter filters a list of executions. A zero field matches all; an execution has
// to match every other field.
type ExecutionFilter struct {
	Active        bool                         // only executions whose status is PENDING or RUNNING
	State         statemachines.ExecutionState // exact state
	Status        statemachines.Status         // normalised status
	Outcome       workflow.Outcome             // as its entities tell
	Workflow      workflow.Ref                 // Package and Name; Version may be empty, a major or a minor
	Labels        map[string]string            // all of these
	Parent        string                       // execution id
	CreatedAfter  time.Time                    // exclusive
	CreatedBefore time.Time                    // exclusive
}

// JobFilter filters a list of jobs, as [ExecutionFilter] does.
type JobFilter struct {
	Step   string
	Entity workflow.EntityKey // an empty Type matches every type
	State  statemachines.JobState
	Kind   workflow.JobKind
}
