package workflow

import (
	"encoding/json"
	"strings"
	"unicode/utf8"
)

// Failure is why a run, a step or a job failed. A job's failure also says
// whether repeating it can help.
type Failure struct {
	Code      string          `json:"code"`
	Message   string          `json:"message"`
	Step      string          `json:"step,omitempty"`
	Entity    string          `json:"entity,omitempty"` // "type/id"
	Retryable bool            `json:"retryable,omitempty"`
	Details   json.RawMessage `json:"details,omitempty"`

	// Unsent says of a job that it has certainly not been begun by anybody: its
	// call could not be made. It has failed, and has changed nothing.
	Unsent bool `json:"unsent,omitempty"`
}

// The codes of failures that the product reports itself. Blocks add codes of their own.
const (
	FailureAssertion         = "ASSERTION"           // an assertion is false or cannot be evaluated
	FailureParameters        = "PARAMETERS"          // parameters have no value or do not match their schema
	FailureRepeat            = "REPEAT"              // repeat.while cannot be evaluated
	FailureTimeout           = "TIMEOUT"             // a job, a step, a wait or the execution took too long
	FailureHTTPTimeout       = "HTTP_TIMEOUT"        // a block served over HTTP did not answer in time
	FailureUnclaimed         = "UNCLAIMED"           // no worker has claimed the jobs
	FailureWorkerCrash       = "WORKER_CRASH"        // the worker stopped during the call
	FailureLimit             = "LIMIT"               // a result, an update or a job is too large
	FailureEntityNotHeld     = "ENTITY_NOT_HELD"     // the execution does not hold the entity: it does not continue, and writes nothing
	FailureUpdatesNotApplied = "UPDATES_NOT_APPLIED" // the execution completed, but its updates could not be written to the inventory
)

// What a failure may hold, in bytes. Failures are kept in the state of their run,
// whose size no block may exhaust.
const (
	MaxFailureCode    = 100
	MaxFailureMessage = 1 << 10
	MaxFailureDetails = 2 << 10
)

// Truncated is the failure as it is kept: what is too long is cut. Details that are
// too large become {"truncated": "..."} with what they begin with.
func (f *Failure) Truncated() *Failure {
	if f == nil {
		return nil
	}
	b := *f
	b.Code, b.Message = truncate(f.Code, MaxFailureCode), truncate(f.Message, MaxFailureMessage)
	if len(f.Details) > MaxFailureDetails {
		b.Details = nil
		// A character takes up to six bytes as it is quoted once more.
		if d, err := json.Marshal(map[string]string{"truncated": truncate(string(f.Details), MaxFailureDetails/8)}); err == nil {
			b.Details = d
		}
	}
	return &b
}

// truncate is the beginning of a text, in whole characters and at most n bytes, with an
// ellipsis where something is missing.
func truncate(s string, n int) string {
	const ellipsis = "…"
	s = strings.ToValidUTF8(s, "?")
	if len(s) <= n {
		return s
	}
	for n -= len(ellipsis); n > 0 && !utf8.RuneStart(s[n]); n-- {
	}
	return s[:n] + ellipsis
}
