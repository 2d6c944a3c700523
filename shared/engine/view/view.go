package view

import (
	"encoding/base64"
	"strconv"
	"time"

	"github.com/lockstep-run/lockstep/shared/engine"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// maxBytes bounds the bytes of one page, beside the number of its items.
const maxBytes = 1 << 20

// View answers questions about executions.
type View struct {
	engine   *engine.Engine
	parallel int
}

// New makes a view on what the engine keeps. parallel bounds how many reads are
// in flight for one answer.
func New(e *engine.Engine, parallel int) *View { return &View{e, parallel} }

func pointer[T any](v T) *T { return &v }

func textPointer(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func timePointer(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// limitOf is the page's limit within its bounds.
func limitOf(p workflow.Page) int {
	if p.Limit <= 0 {
		return workflow.DefaultPage
	}
	return min(p.Limit, workflow.MaxPage)
}

// A page token is opaque to the caller; inside it is the position after which
// the next page begins.
func tokenOf(after string) string {
	if after == "" {
		return ""
	}
	return base64.RawURLEncoding.EncodeToString([]byte(after))
}

func afterOf(p workflow.Page) (string, error) {
	raw, err := base64.RawURLEncoding.DecodeString(p.Token)
	if err != nil {
		return "", badToken()
	}
	return string(raw), nil
}

func numberAfter(p workflow.Page) (int64, error) {
	if p.Token == "" {
		return 0, nil
	}
	s, err := afterOf(p)
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 0 {
		return 0, badToken()
	}
	return n, nil
}

func badToken() error {
	return workflow.Invalid("the request is not valid", []workflow.Issue{{
		Path: "pageToken", Code: "format", Message: "this is not a page token of this list",
	}})
}
