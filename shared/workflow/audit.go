package workflow

import (
	"fmt"
	"time"
)

// AuditID returns the id of an entry. It sorts by the millisecond, then by own, which is unique to
// the request.
func AuditID(at time.Time, own string) string { return fmt.Sprintf("%013d-%s", at.UnixMilli(), own) }

// AuditEntry is one request that changes something, except starts of executions and signals to
// them: who made it, when and why. It is written before the request is served, and completed with
// the status of the response.
type AuditEntry struct {
	ID        string    `json:"id"` // sorts by time
	At        time.Time `json:"at"`
	Actor     string    `json:"actor"`
	Verb      string    `json:"verb"`      // the operation's name in the OpenAPI document
	Target    string    `json:"target"`    // the path of the request
	Subject   string    `json:"subject"`   // what the body names: a definition, or a step of the execution; empty for nothing
	Execution *string   `json:"execution"` // execution in the path; nil for none
	Reason    string    `json:"reason"`
	RequestID string    `json:"requestId"`
	Status    *int      `json:"status"` // nil: it is unknown whether the request was served
}

// AuditFilter selects audit entries; the zero value selects all of the last 31 days.
type AuditFilter struct {
	Actor, Verb, Execution string
	After, Before          time.Time // After is included, Before is not
}

// Matches reports whether the filter selects an entry, whatever its time.
func (f AuditFilter) Matches(e AuditEntry) bool {
	return (f.Actor == "" || f.Actor == e.Actor) && (f.Verb == "" || f.Verb == e.Verb) &&
		(f.Execution == "" || e.Execution != nil && f.Execution == *e.Execution)
}
