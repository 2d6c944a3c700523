package workflow

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Code classifies an error once, where it occurs. Callers decide by code: the HTTP status,
// the exit code of the CLI, whether a retry can help.
type Code string

// Codes of the product. Their HTTP statuses are in [Code.HTTPStatus].
const (
	CodeInvalid             Code = "invalid"              // the request is wrong: `errors` lists each mistake with its place
	CodeNotFound            Code = "not_found"            // it does not exist, or belongs to another tenant
	CodeConflict            Code = "conflict"             // it exists with different content, or has changed since it was read
	CodeIllegalTransition   Code = "illegal_transition"   // the state of the execution does not allow this
	CodeEntityLocked        Code = "entity_locked"        // an execution holds the entity
	CodeClaimLost           Code = "claim_lost"           // the claim of a pack has ended: nothing was stored
	CodeLimit               Code = "limit"                // the request exceeds a limit of the service
	CodeTooLarge            Code = "too_large"            // a body or a value is too large
	CodeInternal            Code = "internal"             // an error in the service; its log has the details under the request id
	CodeMethodNotAllowed    Code = "method_not_allowed"   // the path does not support this method
	CodeNotImplemented      Code = "not_implemented"      // this release or installation does not have the feature
	CodeUnauthorized        Code = "unauthorized"         // the caller is unknown
	CodeForbidden           Code = "forbidden"            // the caller lacks the role
	CodeUnavailable         Code = "unavailable"          // a store did not answer in time: send the request again
	CodeIdempotencyMismatch Code = "idempotency_mismatch" // the key was used with another body
	CodeRateLimited         Code = "rate_limited"         // there were too many of these requests: `Retry-After` says when to send the next one
)

var httpStatus = map[Code]int{
	CodeInvalid:             400,
	CodeUnauthorized:        401,
	CodeForbidden:           403,
	CodeNotFound:            404,
	CodeMethodNotAllowed:    405,
	CodeConflict:            409,
	CodeIllegalTransition:   409,
	CodeEntityLocked:        409,
	CodeClaimLost:           409,
	CodeTooLarge:            413,
	CodeIdempotencyMismatch: 422,
	CodeLimit:               422,
	CodeRateLimited:         429,
	CodeInternal:            500,
	CodeNotImplemented:      501,
	CodeUnavailable:         503,
}

// HTTPStatus returns the HTTP status of the code; 500 for an unknown code.
func (c Code) HTTPStatus() int {
	if s, ok := httpStatus[c]; ok {
		return s
	}
	return 500
}

// OfFailure returns the code in the form used by failures of executions, steps and jobs. Codes of
// problems are in lower case; codes of failures and causes of states are in upper case.
func (c Code) OfFailure() string { return strings.ToUpper(string(c)) }

// Issue is one error in an input, with its position.
type Issue struct {
	Path    string `json:"path"`             // such as "steps[1].retry.delay"; "" for the whole document
	Line    int    `json:"line,omitempty"`   // from 1; 0 if the input has no lines
	Column  int    `json:"column,omitempty"` // from 1
	Code    string `json:"code"`             // required, type, unknown_field, ...
	Message string `json:"message"`
}

func (i Issue) String() string {
	at := i.Path
	if i.Line > 0 {
		at = fmt.Sprintf("%d:%d %s", i.Line, i.Column, i.Path)
		if i.Column == 0 {
			at = fmt.Sprintf("%d %s", i.Line, i.Path)
		}
	}
	if at = strings.TrimSpace(at); at == "" {
		return i.Message
	}
	return at + ": " + i.Message
}

// Error is the only error type whose code other packages evaluate.
type Error struct {
	Code    Code
	Message string // a sentence for people, without secrets and stack traces
	Issues  []Issue
	Cause   error // for logs only, never shown to a client

	RetryAfter time.Duration // when to try again, if known
}

// Error joins the code, the message, the first three issues and the cause, for logs.
func (e *Error) Error() string {
	s := string(e.Code) + ": " + e.Message
	for n, i := range e.Issues {
		if n == 3 {
			s += fmt.Sprintf(" (and %d more)", len(e.Issues)-n)
			break
		}
		s += "; " + i.String()
	}
	if e.Cause != nil && !strings.HasSuffix(e.Message, e.Cause.Error()) {
		s += ": " + e.Cause.Error()
	}
	return s
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

// Errorf returns an Error with a formatted message; a %w verb sets its cause.
func Errorf(code Code, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	return &Error{Code: code, Message: err.Error(), Cause: errors.Unwrap(err)}
}

// Contended returns the error of a request that has lost too often against concurrent changes of
// the same thing. The format names the thing.
func Contended(code Code, format string, args ...any) *Error {
	return Errorf(code, format+" is being changed by other requests: try again", args...)
}

// Invalid returns an error with CodeInvalid and a list of issues; nil if the list is empty.
func Invalid(what string, issues []Issue) error {
	if len(issues) == 0 {
		return nil
	}
	return &Error{Code: CodeInvalid, Message: what, Issues: issues}
}

// CodeOf returns the code of the first Error in the chain of err, CodeInternal for any other error,
// and "" for nil.
func CodeOf(err error) Code {
	if err == nil {
		return ""
	}
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return CodeInternal
}

// Is reports whether err has the code.
func Is(err error, code Code) bool { return err != nil && CodeOf(err) == code }

// Sensitive reports whether the message may contain input from a user, which belongs in a response
// or a history but not in a log. word is the text to log instead.
func (e *Error) Sensitive() (word string, is bool) {
	return string(e.Code), slices.Contains([]Code{CodeInvalid, CodeLimit, CodeTooLarge, CodeNotImplemented, CodeIdempotencyMismatch}, e.Code)
}
