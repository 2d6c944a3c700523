package client

import (
	"context"
	"iter"
	"net/url"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Audit lists who changed what, and why, newest first.
func (c *Client) Audit(ctx context.Context, f workflow.AuditFilter) iter.Seq2[workflow.AuditEntry, error] {
	query := url.Values{}
	set(query, "actor", f.Actor)
	set(query, "verb", f.Verb)
	set(query, "execution", f.Execution)
	for name, at := range map[string]time.Time{"after": f.After, "before": f.Before} {
		if !at.IsZero() {
			query.Set(name, at.Format(time.RFC3339Nano))
		}
	}
	return paginate[workflow.AuditEntry](ctx, c, query, "audit")
}
