package dynamo

import (
	"bytes"
	"context"
	"time"

	"github.com/lockstep-run/lockstep/shared/dynamo/table"
	"github.com/lockstep-run/lockstep/shared/topology"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// removedRetention is how long it is known that a subscription was removed.
const removedRetention = 30 * 24 * time.Hour

func subscriptionKey(tenant, name string) table.Key {
	return table.Key{PK: table.TenantPrefix(tenant) + "subscriptions", SK: name}
}

// Subscriptions lists the subscriptions of a tenant, removed ones included, strongly consistent.
func (r *Registry) Subscriptions(ctx context.Context, tenant string) ([]workflow.Subscription, error) {
	q := partitionQuery(subscriptionKey(tenant, "").PK, "", workflow.MaxSubscriptions)
	var list []workflow.Subscription
	for it, err := range r.t.Query(ctx, q) {
		if err != nil {
			return nil, err
		}
		var s workflow.Subscription
		if err := decodeDocument(it, &s); err != nil {
			return nil, err
		}
		list = append(list, s)
	}
	return list, nil
}

// PutSubscription writes a subscription whose revision is still seen.
func (r *Registry) PutSubscription(ctx context.Context, tenant string, s workflow.Subscription) (bool, error) {
	seen := s.Revision
	s.Revision++
	doc, err := encodeDocument(s)
	if err != nil {
		return false, err
	}
	it := subscriptionKey(tenant, s.Name).Attributes()
	it[attrDocument], it[attrVersion] = doc, table.N(s.Revision)
	if !s.RemovedAt.IsZero() {
		it[topology.AttrTTL] = table.N(s.RemovedAt.Add(removedRetention).Unix())
	}
	condition, values := table.IfAbsent, table.Item(nil)
	if seen > 0 {
		condition, values = "#version = :seen", table.Item{"seen": table.N(seen)}
	}
	ok, old, err := r.t.Put(ctx, it, condition, values)
	if ok || err != nil {
		return ok, err
	}
	return bytes.Equal(old.Bytes(attrDocument), it.Bytes(attrDocument)), nil
}
