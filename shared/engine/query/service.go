package query

import (
	"encoding/base64"
	"strconv"
	"time"

	"github.com/lockstep-run/lockstep/shared/engine"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// maxPageBytes bounds the bytes of one page, beside the number of its items.
const maxPageBytes = 1 << 20

// Service answers questions about executions.
type Service struct {
	engine   *engine.Engine
	parallel int
}

// New makes a view on what the engine keeps. parallel bounds how many reads are
// in flight for one answer.
func New(e *engine.Engine, parallel int) *Service { return &Service{e, parallel} }

func ptr[T any](v T) *T { return &v }

func stringPtr(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func timePtr(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// pageLimit is the page's limit within its bounds.
func pageLimit(p workflow.Page) int {
	if p.Limit <= 0 {
		return workflow.DefaultPageSize
	}
	return min(p.Limit, workflow.MaxPageSize)
}

// A page token is opaque to the caller; inside it is the position after which
// the next page begins.
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
		Path: "pageToken", Code: "format", Message: "this is not a page token of this list",
	}})
}
