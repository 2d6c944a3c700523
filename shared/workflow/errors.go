package workflow

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Code classifies an error once, where it arises. Everything above decides by
// code: the HTTP status, the CLI's exit code, whether a retry can help.
type Code string

// The codes of the product. Their HTTP statuses are in [Code.HTTPStatus].
const (
	CodeInvalid             Code = "invalid"
	CodeNotFound            Code = "not_found"
	CodeConflict            Code = "conflict"
	CodeIllegalTransition   Code = "illegal_transition"
	CodeEntityLocked        Code = "entity_locked"
	CodeClaimLost           Code = "claim_lost"
	CodeLimit               Code = "limit"
	CodeTooLarge            Code = "too_large"
	CodeInternal            Code = "internal"
	CodeMethodNotAllowed    Code = "method_not_allowed"
	CodeNotImplemented      Code = "not_implemented"
	CodeUnauthorized        Code = "unauthorized"
	CodeForbidden           Code = "forbidden"
	CodeUnavailable         Code = "unavailable"
	CodeIdempotencyMismatch Code = "idempotency_mismatch"
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
	CodeInternal:            500,
	CodeNotImplemented:      501,
	CodeUnavailable:         503,
}

// HTTPStatus is the status under which the code is reported; 500 for a code
// that is not one of ours.
func (c Code) HTTPStatus() int {
	if s, ok := httpStatus[c]; ok {
		return s
	}
	return 500
}

// Issue is one thing wrong with an input, with the place where it is wrong.
type Issue struct {
	Path    string `json:"path"`             // "steps[1].retry.delay", "" for the whole document
	Line    int    `json:"line,omitempty"`   // from 1; 0 where the input has no lines
	Column  int    `json:"column,omitempty"` // from 1
	Code    string `json:"code"`             // one word: required, type, unknown_field, ...
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

// Error is the only error type that crosses rooms with a meaning.
type Error struct {
	Code    Code
	Message string // a sentence for people; never holds secrets or a stack
	Issues  []Issue
	Cause   error // for logs only, never shown to a client
}

// Error joins the message with its first issues, so that a log line says it all.
func (e *Error) Error() string {
	s := string(e.Code) + ": " + e.Message
	for n, i := range e.Issues {
		if n == 3 {
			s += fmt.Sprintf(" (and %d more)", len(e.Issues)-n)
			break
		}
		s += "; " + i.String()
	}
	if e.Cause != nil {
		s += ": " + e.Cause.Error()
	}
	return s
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

// Errorf makes an Error; a %w verb sets its cause.
func Errorf(code Code, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	return &Error{Code: code, Message: err.Error(), Cause: errors.Unwrap(err)}
}

// Invalid makes an error with CodeInvalid from a list of issues, or nil if the
// list is empty.
func Invalid(what string, issues []Issue) error {
	if len(issues) == 0 {
		return nil
	}
	return &Error{Code: CodeInvalid, Message: what, Issues: issues}
}

// CodeOf is the code of the first Error in err's chain, CodeInternal for any
// other error and "" for nil.
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

// Is reports whether err carries the code.
func Is(err error, code Code) bool { return err != nil && CodeOf(err) == code }

// Sensitive reports whether the message may hold what somebody has written or sent, which
// belongs into an answer or a history and not into a log.
func (e *Error) Sensitive() (word string, is bool) {
	return string(e.Code), slices.Contains([]Code{CodeInvalid, CodeLimit, CodeTooLarge, CodeNotImplemented, CodeIdempotencyMismatch}, e.Code)
}
