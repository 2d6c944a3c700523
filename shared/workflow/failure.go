package workflow

import (
	"encoding/json"
	"strings"
	"unicode/utf8"
)

// Failure says why an execution, a step or a job failed. For a job it also says whether another
// attempt can help.
type Failure struct {
	Code      string          `json:"code"`
	Message   string          `json:"message"`
	Step      string          `json:"step,omitempty"`
	Entity    string          `json:"entity,omitempty"` // "type/id"
	Retryable bool            `json:"retryable,omitempty"`
	Details   json.RawMessage `json:"details,omitempty"`

	// Unsent means that the call of the job was certainly never made, so that the failed job has
	// changed nothing.
	Unsent bool `json:"unsent,omitempty"`
}

// Codes of failures that the product reports itself, in upper case. Others come from
// [Code.OfFailure]. Blocks add codes of their own.
const (
	FailureAssertion         = "ASSERTION"              // an assertion is false or cannot be evaluated
	FailureParameters        = "PARAMETERS"             // parameters have no value or do not match their schema
	FailureRepeat            = "REPEAT"                 // the condition of a repetition cannot be evaluated
	FailureRollout           = "ROLLOUT"                // an entity has no value for the expression that divides a rollout into waves
	FailureLoop              = "LOOP"                   // the list or the condition of a loop cannot be evaluated
	FailureTimeout           = "TIMEOUT"                // a job, a step, a wait or the execution took too long
	FailureHTTPTimeout       = "HTTP_TIMEOUT"           // a block served over HTTP did not answer in time
	FailureHTTPUnreachable   = "HTTP_UNREACHABLE"       // a server could not be reached, or the connection broke
	FailureBadGateway        = "HTTP_502"               // a gateway has answered, which had no valid answer of the server
	FailureGatewayTimeout    = "HTTP_504"               // a gateway has answered, which had no answer of the server in time
	FailureUnclaimed         = "UNCLAIMED"              // no worker has claimed the jobs
	FailureWorkerCrash       = "WORKER_CRASH"           // the worker stopped during the call
	FailureChangesRemain     = "CHANGES_REMAIN"         // something was executed that was not, or cannot be, undone
	FailureEntityNotFound    = "ENTITY_NOT_FOUND"       // the inventory does not contain the entity, or no longer does
	FailureNothingSelected   = "NOTHING_SELECTED"       // the starter's selection matches no entity
	FailureLimit             = "LIMIT"                  // something is too large, or there is too much of it
	FailureWithheld          = "WITHHELD"               // the response to a poll had no space for the job, so it was not handed out
	FailureEntityNotHeld     = "ENTITY_NOT_HELD"        // the execution does not hold the entity: it stops, and writes nothing
	FailureOutdated          = "OUTDATED_RESULTS"       // others have changed an entity since, so that earlier results or findings are outdated
	FailureNoRoute           = "NO_ROUTE"               // no case of a switch is true
	FailureMergeConflict     = "MERGE_CONFLICT"         // two branches return different values for one key
	FailureParallelEntity    = "PARALLEL_ENTITY"        // two branches change entities of the same type
	FailureWaitNotGlobal     = "WAIT_NOT_GLOBAL"        // a block asks to wait in a step that cannot
	FailureUnknownWorkflow   = "UNKNOWN_WORKFLOW"       // a step is to start a workflow that is none of those that it may start
	FailureUnknownStep       = "UNKNOWN_STEP"           // a block names a step to which the execution cannot go
	FailureInput             = "INPUT_RESOLUTION_ERROR" // the input of a step has no value
	FailureLimitValue        = "LIMIT_VALUE"            // a value is larger than a step may set
	FailureLimitContext      = "LIMIT_CONTEXT"          // the variables that a step reads are too large in total
	FailureLimitKeys         = "LIMIT_KEYS"             // an execution sets too many variables
	FailureLimitDepth        = "LIMIT_DEPTH"            // a value is nested too deeply
	FailureRejected          = "REJECTED"               // somebody has rejected what a step asks for
	FailureSecret            = "SECRET"                 // the secret does not exist, or it cannot be used
	FailureSecretUnavailable = "SECRET_UNAVAILABLE"     // the secret store does not respond
	FailureEndpoint          = "UNKNOWN_ENDPOINT"       // this stage has no endpoint with this name, or the path leads out of it
	FailureSealed            = "SEALED"                 // a sealed parameter is passed on where nobody opens it, or cannot be opened
	FailureSecretInResult    = "SECRET_IN_RESULT"       // the result of a block contains a secret where no reference is possible
	FailureUpdatesNotApplied = "UPDATES_NOT_APPLIED"    // the execution completed, but its updates could not be written to the inventory
)

// LeavesDoubt reports whether it is unknown if, or how far, the block was executed: there was no
// answer in time, the connection broke, a gateway answered in place of the block, or the worker was
// lost. The call may still be running somewhere.
func (f *Failure) LeavesDoubt() bool {
	switch f.Code {
	case FailureTimeout, FailureHTTPTimeout, FailureHTTPUnreachable, FailureBadGateway, FailureGatewayTimeout, FailureWorkerCrash:
		return !f.Unsent
	}
	return false
}

// AllowsAnotherCall reports whether the job may be tried again after the failure, whatever the
// block and the retry policy say. While a call may still be running, only a repeatable block is
// called again.
func (f *Failure) AllowsAnotherCall(repeatable bool) bool {
	return repeatable || !f.LeavesDoubt()
}

// Withheld reports whether the job was never handed out, because the response to its worker's poll
// had no space for it. The next attempt of the pack executes it, whatever the retry policy says.
func (f *Failure) Withheld() bool {
	return f != nil && f.Code == FailureWithheld && f.Retryable
}

// Largest parts of a failure, in bytes. Failures are stored in the state item of their execution,
// and no block may fill that up.
const (
	MaxFailureCode    = 100
	MaxFailureMessage = 1 << 10
	MaxFailureDetails = 2 << 10
)

// Truncated returns the failure as it is stored: texts that are too long are cut. Details that are
// too large become {"truncated": "..."} with their beginning.
func (f *Failure) Truncated() *Failure {
	if f == nil {
		return nil
	}
	b := *f
	b.Code, b.Message = Truncate(f.Code, MaxFailureCode), Truncate(f.Message, MaxFailureMessage)
	if len(f.Details) > MaxFailureDetails {
		b.Details = nil
		// Quoting the text again takes up to six bytes for each character.
		if d, err := EncodeJSON(map[string]string{"truncated": Truncate(string(f.Details), MaxFailureDetails/8)}); err == nil {
			b.Details = d
		}
	}
	return &b
}

// Truncate cuts a text to at most n bytes, at a character boundary, and adds an ellipsis if it was
// cut.
func Truncate(s string, n int) string {
	const ellipsis = "…"
	s = strings.ToValidUTF8(s, "?")
	if len(s) <= n {
		return s
	}
	for n -= len(ellipsis); n > 0 && !utf8.RuneStart(s[n]); n-- {
	}
	return s[:n] + ellipsis
}
