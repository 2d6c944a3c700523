package dynamo

import (
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
	return listDocuments[workflow.Subscription](ctx, r.t, subscriptionKey(tenant, "").PK, workflow.MaxSubscriptions)
}

// PutSubscription writes a subscription whose revision is still seen.
func (r *Registry) PutSubscription(ctx context.Context, tenant string, s workflow.Subscription) (bool, error) {
	s.Revision++
	more := table.Item{}
	if !s.RemovedAt.IsZero() {
		more[topology.AttrTTL] = table.N(s.RemovedAt.Add(removedRetention).Unix())
	}
	ok, same, err := putRevised(ctx, r.t, subscriptionKey(tenant, s.Name), s.Revision, s, more)
	return ok || same, err
}
