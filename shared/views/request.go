package views

import (
	"encoding/json"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/statemachines"
)

// StartRequest requests to start an execution. Its JSON, without the key, is the body of the
// request, so that a digest of it distinguishes two requests.
type StartRequest struct {
	Workflow            string             `json:"workflow,omitempty"` // package/name[:major[.minor[.patch]]]; without a version, the newest
	Parameters          json.RawMessage    `json:"parameters,omitempty"`
	ExecuteOnParameters *workflow.Selector `json:"executeOnParameters,omitempty"` // nil or empty: an empty scope
	Labels              map[string]string  `json:"labels,omitempty"`
	Metadata            json.RawMessage    `json:"metadata,omitempty"` // an object; stored and shown, but never read
	NotBefore           time.Time          `json:"notBefore,omitzero"`
	Mode                StartMode          `json:"mode,omitempty"`
	Hold                bool               `json:"hold,omitempty"`       // do not begin before somebody resumes it
	AllowDraft          bool               `json:"allowDraft,omitempty"` // start a draft, if Workflow names its exact version

	Rollback workflow.RollbackMode `json:"rollback,omitempty"` // overrides that of the definition
	Timeout  workflow.Duration     `json:"timeout,omitempty"`  // of the whole execution, at most that of the definition

	Limits workflow.RunLimits `json:"limits,omitzero"` // at most those of the definition

	Region string `json:"region,omitempty"` // whose pools get the jobs; overrides that of the definition

	// Key is the business key: at most one execution of the workflow with the same key is live.
	// With Signal, a start while the key is held sends the signal to the execution that holds it.
	Key    string       `json:"key,omitempty"`
	Signal *StartSignal `json:"signal,omitempty"`
	OnKey  OnKey        `json:"onKey,omitempty"` // what is done while the key is held

	// IdempotencyKey is 1 to 255 visible characters, or empty for none. It is remembered for
	// IdempotencyLife, or for the configured time. IdempotencyDigest distinguishes requests with
	// the same key; empty means a digest of the request.
	IdempotencyKey    string        `json:"-"`
	IdempotencyLife   time.Duration `json:"-"`
	IdempotencyDigest string        `json:"-"`
}

// MaxIdempotencyLife is the longest time for which a key is remembered.
const MaxIdempotencyLife = 7 * 24 * time.Hour

// OnKey says what a start does while another execution holds its business key. Empty refuses it
// or, if it has a signal, sends that.
type OnKey string

// What a start does then.
const (
	OnKeySignal OnKey = "signal" // send the signal of the start
	OnKeyUse    OnKey = "use"    // answer with the execution that holds it
)

// StartSignal is the signal that a start sends.
type StartSignal struct {
	Name   string          `json:"name"`
	Data   json.RawMessage `json:"data,omitempty"`
	Reason string          `json:"reason,omitempty"`
	ID     string          `json:"id,omitempty"` // like the Idempotency-Key of a signal; if empty, that of the start
}

// StartMode is what part of the definition is executed, and how; empty means all of it.
type StartMode string

// The modes.
const (
	ModeProbe StartMode = "probe" // the pure steps up to the first step that is not pure, under shared locks
	ModeStep  StartMode = "step"  // all steps, but each only when an operator says so
)

// Ref returns the reference that the request names.
func (r *StartRequest) Ref() (workflow.Ref, error) { return workflow.ParseRef(r.Workflow) }

// NextRequest requests to enter the next step.
type NextRequest struct {
	Reason   string `json:"reason,omitempty"`
	Sequence int64  `json:"sequence,omitempty"` // number of the event with which the wait began, as the wait has it; 0 means the open wait
	All      bool   `json:"all,omitempty"`      // enter this and all later steps

	// Input answers the step that waits for people, as an [AnswerRequest] does, before the next
	// one is entered. Step and Visit say which run of which step it is.
	Input json.RawMessage `json:"input,omitempty"`
	Step  string          `json:"step,omitempty"`
	Visit int             `json:"visit,omitempty"`

	IdempotencyKey string `json:"-"` // of the answer
}

// RewindRequest requests to go back to an earlier step.
type RewindRequest struct {
	Reason string `json:"reason,omitempty"`
	To     string `json:"to"`              // label
	Force  bool   `json:"force,omitempty"` // even if something that is not pure was executed since
}

// CancelRequest requests to cancel an execution.
type CancelRequest struct {
	Reason   string                `json:"reason,omitempty"`
	Rollback workflow.RollbackMode `json:"rollback,omitempty"` // empty means auto
	Cascade  *bool                 `json:"cascade,omitempty"`  // also cancel the child that it waits for; nil means true
	Source   string                `json:"source,omitempty"`   // user, system or admin; empty means user
}

// Cascades reports whether the children of the execution are cancelled with it.
func (r *CancelRequest) Cascades() bool { return r.Cascade == nil || *r.Cascade }

// RetryEntities is on which entities a retry executes its first step.
type RetryEntities string

// The choices. Empty means all after a rollback, and failed otherwise, because the results of the
// other entities are still valid.
const (
	RetryFailed RetryEntities = "failed"
	RetryAll    RetryEntities = "all"
)

// RetryRequest requests another try of a failed execution.
type RetryRequest struct {
	Reason   string        `json:"reason,omitempty"`
	From     string        `json:"from,omitempty"`     // label of the step to begin with; empty means the failed step
	Entities RetryEntities `json:"entities,omitempty"` // of that step
	Force    bool          `json:"force,omitempty"`    // even if others have since changed entities for which results are kept
	Rollback bool          `json:"rollback,omitempty"` // continue the failed rollback, instead of going forward
}

// AnswerRequest answers a step that waits for people: the waiting one, or the run Visit of Step.
type AnswerRequest struct {
	Input  json.RawMessage `json:"input"`
	Step   string          `json:"step,omitempty"` // label
	Visit  int             `json:"visit,omitempty"`
	Reason string          `json:"reason,omitempty"`

	// IdempotencyKey is as in [StartRequest].
	IdempotencyKey string `json:"-"`
}

// TokenAnswer answers the step that a token names.
type TokenAnswer struct {
	Input json.RawMessage `json:"input"`

	// IdempotencyKey is as in [StartRequest]. Without one, the same token with the same input
	// counts as the same answer.
	IdempotencyKey string `json:"-"`
}

// TokenRequest requests a token with which somebody answers the run Visit of Step, or the waiting
// step.
type TokenRequest struct {
	For       string     `json:"for"` // the name under which its bearer answers
	Step      string     `json:"step,omitempty"`
	Visit     int        `json:"visit,omitempty"`
	ExpiresAt *time.Time `json:"expiresAt,omitempty"`
	Reason    string     `json:"reason,omitempty"`
}

// RevokeRequest revokes all tokens of a step that waits.
type RevokeRequest struct {
	Step   string `json:"step,omitempty"`
	Visit  int    `json:"visit,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// SignalRequest sends a signal to an execution. Data is any JSON, or nil for none.
type SignalRequest struct {
	Data   json.RawMessage `json:"data,omitempty"`
	Reason string          `json:"reason,omitempty"`

	// IdempotencyKey is as in [StartRequest].
	IdempotencyKey string `json:"-"`
}

// SignalReceipt is the response to an accepted signal.
type SignalReceipt struct {
	ID        string // of the signal; sending it again under this key changes nothing
	Execution string // that has it
	Duplicate bool   // it was accepted before
}

// RerunChoice is which entities of an execution a rerun repeats.
type RerunChoice string

// The choices.
const (
	RerunFailed  RerunChoice = "failed"  // FAILED_SAFE, LEFT and FAILED_UNSAFE
	RerunUnsafe  RerunChoice = "unsafe"  // FAILED_UNSAFE
	RerunSkipped RerunChoice = "skipped" // SKIPPED: their turn never came, or they were left out because they were locked
	// RerunUnfinished is RerunFailed and RerunSkipped together.
	RerunUnfinished RerunChoice = "unfinished"
	RerunAll        RerunChoice = "all"
)

// RerunEntities are the entities that a rerun repeats: a choice, or keys. In JSON they are
// the choice, or a list of texts "type/id".
type RerunEntities struct {
	Choice RerunChoice
	Keys   []workflow.EntityKey
}

// MarshalJSON writes the choice or the list.
func (r RerunEntities) MarshalJSON() ([]byte, error) {
	if len(r.Keys) == 0 {
		return workflow.EncodeJSON(r.Choice)
	}
	texts := make([]string, len(r.Keys))
	for i, key := range r.Keys {
		texts[i] = key.String()
	}
	return workflow.EncodeJSON(texts)
}

// UnmarshalJSON reads the choice or the list.
func (r *RerunEntities) UnmarshalJSON(raw []byte) error {
	*r = RerunEntities{}
	if json.Unmarshal(raw, &r.Choice) == nil {
		return nil
	}
	var texts []string
	if err := json.Unmarshal(raw, &texts); err != nil {
		return err
	}
	for _, text := range texts {
		key, err := workflow.ParseEntityKey(text)
		if err != nil {
			return err
		}
		r.Keys = append(r.Keys, key)
	}
	return nil
}

// RerunRequest requests to repeat some entities of an ended execution in a new one.
type RerunRequest struct {
	Entities   RerunEntities   `json:"entities"`
	Parameters json.RawMessage `json:"parameters,omitempty"` // override those of the ended execution
	Reason     string          `json:"reason,omitempty"`

	// IdempotencyKey is as in [StartRequest].
	IdempotencyKey string `json:"-"`
}

// ExecutionFilter filters a list of executions. A zero field matches all; an execution has
// to match every other field.
type ExecutionFilter struct {
	Active        bool                         // only executions whose status is PENDING or RUNNING
	State         statemachines.ExecutionState // exact state
	Status        statemachines.Status         // normalised status
	Outcome       workflow.Outcome             // derived from its entities
	Waiting       workflow.WaitKind            // what the list shows that it, or one of its branches, waits for
	Workflow      workflow.Ref                 // Package and Name; Version may be empty, a major or a minor
	Labels        map[string]string            // all of these
	Parent        string                       // execution id
	Key           string                       // business key
	Region        string
	CreatedAfter  time.Time // inclusive
	CreatedBefore time.Time // exclusive

	// IdempotencyKey is the key of the request that started it, as long as the key is remembered.
	IdempotencyKey string

	// Order is that of the list, and no filter.
	Order workflow.Order
}

// Empty reports whether the filter matches every execution.
func (f ExecutionFilter) Empty() bool {
	return !f.Active && f.State == "" && f.Status == "" && f.Outcome == "" && f.Waiting == "" && f.Workflow == (workflow.Ref{}) && len(f.Labels) == 0 && f.Parent == "" && f.Key == "" && f.Region == "" && f.CreatedAfter.IsZero() && f.CreatedBefore.IsZero() && f.IdempotencyKey == ""
}

// FailureFilter filters a list of failed entities, as [ExecutionFilter] does.
type FailureFilter struct {
	Since    time.Time    // the execution ended at this time or later
	Workflow workflow.Ref // as in ExecutionFilter
	Groups   []string     // the entity is in any of these groups now
}

// JobFilter filters a list of jobs, as [ExecutionFilter] does.
type JobFilter struct {
	Step   string
	Entity workflow.EntityKey // an empty Type matches every type
	State  statemachines.JobState
	Kind   workflow.JobKind

	// LastAttempts leaves out attempts that a later one replaces.
	LastAttempts bool
	// FinallyFailed leaves only the last attempts of jobs that ended FAILED or UNKNOWN, and that
	// no retry of the execution has repeated.
	FinallyFailed bool
}
