package views

import (
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/statemachines"
)

// MaxBatch bounds the executions that one request starts or changes.
const MaxBatch = 100

// BatchRequest requests several starts. Each is separate, under the Idempotency-Key of the request
// and its number. There is no transaction, and the request may be sent again as a whole.
type BatchRequest struct {
	Workflow string         `json:"workflow,omitempty"` // of the items that name none
	Items    []StartRequest `json:"items"`              // 1 to [MaxBatch]

	// IdempotencyKey is 1 to 240 visible characters, or empty for none.
	IdempotencyKey string `json:"-"`
}

// BatchItem is the outcome of one start, in the order of the request.
type BatchItem struct {
	ID      *string                       `json:"id"` // null if it was refused
	State   *statemachines.ExecutionState `json:"state"`
	Existed bool                          `json:"existed"` // the key has started it before
	Error   *ItemError                    `json:"error"`   // null if it was started

	Signalled *bool `json:"signalled,omitempty"` // of a start with a signal: the signal went to the execution that has the key
}

// BulkVerb is what a bulk request does to each execution.
type BulkVerb string

// The verbs.
const (
	BulkCancel      BulkVerb = "cancel"
	BulkAcknowledge BulkVerb = "acknowledge"
	BulkRetry       BulkVerb = "retry"
	BulkResume      BulkVerb = "resume"
	BulkUnlock      BulkVerb = "unlock"
)

// BulkRequest requests the same verb for all executions that a filter finds, a page at a time.
type BulkRequest struct {
	Verb     BulkVerb `json:"-"`
	DryRun   bool     `json:"-"` // only list them
	Reason   string   `json:"reason,omitempty"`
	Rollback bool     `json:"rollback,omitempty"` // of BulkRetry: continue the rollbacks that have failed
}

// BulkItem is the outcome for one execution. State is the state before the request.
type BulkItem struct {
	ID       string                       `json:"id"`
	Workflow workflow.Ref                 `json:"workflow"`
	State    statemachines.ExecutionState `json:"state"`
	Applied  bool                         `json:"applied"`
	Error    *ItemError                   `json:"error"` // why the verb was refused; null if it was applied or not tried

	CanRollback bool `json:"canRollback,omitempty"` // its rollback had failed and could be retried before the request
}

// ItemError is the reason why one of several items was refused.
type ItemError struct {
	Code   workflow.Code    `json:"code"`
	Detail string           `json:"detail"`
	Errors []workflow.Issue `json:"errors"`

	RetryAfter int `json:"retryAfter,omitempty"` // seconds until a retry makes sense, if known
}
