package dynamo

import (
	"context"
	"encoding/json"
	"time"

	"github.com/lockstep-run/lockstep/shared/dynamo/table"
	"github.com/lockstep-run/lockstep/shared/topology"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Attributes of an audit entry. The status is a separate attribute, because it is written later.
const (
	attrAuditEntry  = "entry"
	attrAuditStatus = "status"
)

// auditRetention is how long entries are kept.
const auditRetention = 400 * 24 * time.Hour

func auditKey(tenant, month string) string { return table.TenantPrefix(tenant) + "audit#" + month }

func auditEntryKey(tenant string, e workflow.AuditEntry) table.Key {
	return table.Key{PK: auditKey(tenant, e.At.UTC().Format("2006-01")), SK: e.ID}
}

// BeginAudit stores an entry. Ids are unique to one request, so an existing entry with this id is
// the same one.
func (r *Registry) BeginAudit(ctx context.Context, tenant string, e workflow.AuditEntry) error {
	doc, err := workflow.EncodeJSON(e)
	if err != nil {
		return err
	}
	it := auditEntryKey(tenant, e).Attributes()
	it[attrAuditEntry], it[topology.AttrTTL] = table.S(string(doc)), table.N(e.At.Add(auditRetention).Unix())
	_, _, err = r.t.Put(ctx, it, table.IfAbsent, nil)
	return err
}

// EndAudit sets the status of an entry that has none.
func (r *Registry) EndAudit(ctx context.Context, tenant string, e workflow.AuditEntry, status int) error {
	_, _, err := r.t.Update(ctx, table.Update{
		Key: auditEntryKey(tenant, e), Set: table.Item{attrAuditStatus: table.N(int64(status))},
		Condition: "attribute_exists(#pk) AND attribute_not_exists(#status)",
	})
	return err
}

// AuditEntries lists the entries of a month between two times, newest first. It reads no others.
func (r *Registry) AuditEntries(ctx context.Context, tenant, month string, from, to time.Time, page workflow.Page) (workflow.List[workflow.AuditEntry], error) {
	after, err := decodePageToken(page)
	if err != nil || to.Before(from) { // DynamoDB refuses a BETWEEN whose bounds are the wrong way round
		return workflow.List[workflow.AuditEntry]{}, err
	}
	q := partitionQuery(auditKey(tenant, month), after, pageLimit(page))
	q.KeyCondition += " AND #sk BETWEEN :from AND :to"
	q.Values["from"], q.Values["to"] = table.S(workflow.AuditID(from, "")), table.S(workflow.AuditID(to.Add(time.Millisecond), ""))
	q.Descending = true
	return collectPage(r.t.Query(ctx, q), pageLimit(page), func(it table.Item) (e workflow.AuditEntry, err error) {
		if err := json.Unmarshal([]byte(it.Text(attrAuditEntry)), &e); err != nil {
			return e, workflow.Errorf(workflow.CodeInternal, "audit entry %s cannot be decoded: %w", it.Key().SK, err)
		}
		if it.Has(attrAuditStatus) {
			status := int(it.Int(attrAuditStatus))
			e.Status = &status
		}
		return e, nil
	})
}
