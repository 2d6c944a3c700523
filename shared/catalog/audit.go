package catalog

import (
	"context"
	"crypto/rand"
	"strings"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Limits of a list of audit entries.
const (
	defaultAuditDays = 31
	maxAuditReads    = 12 // pages of the store to read for one page; after that the page is short
)

// BeginAudit stores who is about to do what, before it is done, so that nothing is done without an
// entry. EndAudit needs the returned entry.
func (c *Catalog) BeginAudit(ctx context.Context, caller workflow.Caller, e workflow.AuditEntry) (workflow.AuditEntry, error) {
	e.At, e.Actor = c.now().UTC().Truncate(time.Millisecond), caller.Actor
	e.ID = workflow.AuditID(e.At, strings.ToLower(rand.Text()[:12]))
	return e, c.openPorts().Registry.BeginAudit(ctx, caller.Tenant, e)
}

// EndAudit stores the status of the response.
func (c *Catalog) EndAudit(ctx context.Context, caller workflow.Caller, e workflow.AuditEntry, status int) error {
	return c.openPorts().Registry.EndAudit(ctx, caller.Tenant, e, status)
}

// AuditEntries lists the entries that match, newest first. A page may be short, or even empty, and
// still have a next one.
func (c *Catalog) AuditEntries(ctx context.Context, caller workflow.Caller, f workflow.AuditFilter, p workflow.Page) (workflow.List[workflow.AuditEntry], error) {
	var out workflow.List[workflow.AuditEntry]
	p = clampPage(p)
	until := f.Before
	if until.IsZero() {
		until = c.now().Add(time.Minute) // clocks differ
	}
	since := f.After
	if since.IsZero() {
		since = until.AddDate(0, 0, -defaultAuditDays)
	}
	month, inner, _ := strings.Cut(p.Token, "|")
	if p.Token == "" {
		month = until.UTC().Format(auditMonth)
	}
	at, err := time.Parse(auditMonth, month)
	if err != nil {
		return out, workflow.Errorf(workflow.CodeInvalid, "the page token is invalid: start again at the first page")
	}
	for range maxAuditReads {
		if at.AddDate(0, 1, 0).Before(since) {
			out.NextToken = ""
			return out, nil
		}
		list, err := c.openPorts().Registry.AuditEntries(ctx, caller.Tenant, at.Format(auditMonth), since, until, workflow.Page{Limit: p.Limit, Token: inner})
		if err != nil {
			return out, err
		}
		for _, e := range list.Items {
			if !e.At.Before(since) && e.At.Before(until) && f.Matches(e) {
				out.Items = append(out.Items, e)
			}
		}
		if inner = list.NextToken; inner == "" {
			at = at.AddDate(0, -1, 0)
		}
		if out.NextToken = at.Format(auditMonth) + "|" + inner; len(out.Items) > 0 {
			break
		}
	}
	if at.AddDate(0, 1, 0).Before(since) {
		out.NextToken = ""
	}
	return out, nil
}

// auditMonth is the form of a month.
const auditMonth = "2006-01"
