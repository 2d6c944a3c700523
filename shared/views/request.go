package views

import (
	"encoding/json"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/statemachines"
)

// StartRequest asks for a run of a definition. Its JSON, without the key, is
// the body of the request, so that a digest of it tells two requests apart.
type StartRequest struct {
	Workflow            string             `json:"workflow"` // package/name[:major[.minor[.patch]]], no version is the newest
	Parameters          json.RawMessage    `json:"parameters,omitempty"`
	ExecuteOnParameters *workflow.Selector `json:"executeOnParameters,omitempty"` // nil or empty: an empty scope
	Labels              map[string]string  `json:"labels,omitempty"`
	NotBefore           time.Time          `json:"notBefore,omitzero"`

	// IdempotencyKey is 1 to 255 visible characters, or empty for none.
	IdempotencyKey string `json:"-"`
}

// Ref is the reference the request names.
func (r *StartRequest) Ref() (workflow.Ref, error) { return workflow.ParseRef(r.Workflow) }

// CancelRequest asks for a clean end of a run before its time.
type CancelRequest struct {
	Reason   string                `json:"reason,omitempty"`
	Rollback workflow.RollbackMode `json:"rollback,omitempty"` // empty is auto
	Cascade  *bool                 `json:"cascade,omitempty"`  // cancel the run that it waits for too; nil is true
}

// Cascades reports whether the runs that the run has started end with it.
func (r *CancelRequest) Cascades() bool { return r.Cascade == nil || *r.Cascade }

// RetryEntities says with which entities a retry begins.
type RetryEntities string

// The choices; empty is what fits the run: the failed ones where what the others
// have come to still stands.
const (
	RetryFailed RetryEntities = "failed"
	RetryAll    RetryEntities = "all"
)

// RetryRequest asks for another try of a run that has failed.
type RetryRequest struct {
	Reason   string        `json:"reason,omitempty"`
	From     string        `json:"from,omitempty"`     // label of the step to begin with; empty is the one that failed
	Entities RetryEntities `json:"entities,omitempty"` // of that step
}

// ExecutionFilter narrows a list of executions. Zero fields do not; set fields
// must all agree.
type ExecutionFilter struct {
	Active        bool                         // only runs whose status is PENDING or RUNNING
	State         statemachines.ExecutionState // exact state
	Status        statemachines.Status         // normalised status
	Workflow      workflow.Ref                 // Package and Name; Version may be empty, a major or a minor
	Labels        map[string]string            // all of these
	Parent        string                       // execution id
	CreatedAfter  time.Time                    // exclusive
	CreatedBefore time.Time                    // exclusive
}

// JobFilter narrows a list of jobs, as [ExecutionFilter] does.
type JobFilter struct {
	Step   string
	Entity workflow.EntityKey // an empty Type matches every type
	State  statemachines.JobState
	Kind   workflow.JobKind
}
