// Package query answers questions about executions. It changes nothing.
//
// Every answer derives the state of an execution from the same state item by the same
// function, so lists, details and status calls agree at any moment. Lists take ids from
// the index and read the executions strongly consistent, and then filter again. An
// execution may be missing from a list for a moment, but never appears with a wrong state.
//
// There is one file for each question: execution.go, list.go, history.go, steps.go,
// jobs.go, result.go, definition.go, cost.go and locks.go. waiting.go derives what an execution waits for,
// ways.go where it went from a step.
package query

import (
	"encoding/base64"
	"strconv"
	"time"

	"github.com/lockstep-run/lockstep/shared/engine"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// maxPageBytes bounds the bytes of one page, in addition to the number of its items.
const maxPageBytes = 1 << 20

// Service answers questions about executions.
type Service struct {
	engine   *engine.Engine
	parallel int
}

// New makes a Service. parallel bounds the concurrent reads for one answer.
func New(e *engine.Engine, parallel int) *Service { return &Service{e, parallel} }

func ptr[T any](v T) *T { return &v }

// nonZeroPtr returns a pointer to v, or nil if v is the zero value.
func nonZeroPtr[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}

// timePtr returns a pointer to t, or nil if t is zero.
func timePtr(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// pageLimit returns the number of items of a page: the requested limit, at most MaxPageSize, or
// DefaultPageSize if none is requested.
func pageLimit(p workflow.Page) int {
	if p.Limit <= 0 {
		return workflow.DefaultPageSize
	}
	return min(p.Limit, workflow.MaxPageSize)
}

// encodePageToken makes a page token, which is opaque to the caller. It holds the position after
// which the next page starts.
func encodePageToken(after string) string {
	if after == "" {
		return ""
	}
	return base64.RawURLEncoding.EncodeToString([]byte(after))
}

func decodePageToken(p workflow.Page) (string, error) {
	raw, err := base64.RawURLEncoding.DecodeString(p.Token)
	if err != nil {
		return "", invalidPageToken()
	}
	return string(raw), nil
}

// parseSequenceToken returns the sequence number in a page token; 0 without a token.
func parseSequenceToken(p workflow.Page) (int64, error) {
	if p.Token == "" {
		return 0, nil
	}
	s, err := decodePageToken(p)
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 0 {
		return 0, invalidPageToken()
	}
	return n, nil
}

func invalidPageToken() error {
	return workflow.Invalid("the request is not valid", []workflow.Issue{{
		Path: "pageToken", Code: "format", Message: "not a page token of this list; use the nextToken of the previous page",
	}})
}
