package dynamo

import (
	"context"
	"slices"
	"time"

	"github.com/lockstep-run/lockstep/shared/dynamo/table"
	"github.com/lockstep-run/lockstep/shared/topology"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// removedRetention is how long the removal of a subscription is remembered.
const removedRetention = 30 * 24 * time.Hour

func subscriptionKey(tenant, name string) table.Key {
	return table.Key{PK: table.TenantPrefix(tenant) + "subscriptions", SK: name}
}

// The newest deliveries of a subscription are one partition.
func deliveryKey(tenant, subscription, key string) table.Key {
	return table.Key{PK: table.TenantPrefix(tenant) + "deliveries#" + subscription, SK: key}
}

// deliveryRetention is how long a delivery is remembered unless another one replaces it.
const deliveryRetention = 7 * 24 * time.Hour

// PutDeliveryAttempt stores the result of a delivery.
func (r *Registry) PutDeliveryAttempt(ctx context.Context, tenant, subscription string, a workflow.DeliveryAttempt) error {
	doc, err := encodeDocument(a)
	if err != nil {
		return err
	}
	it := deliveryKey(tenant, subscription, workflow.DeliveryKey(a.Delivery)).Attributes()
	it[attrDocument], it[topology.AttrTTL] = doc, table.N(a.At.Add(deliveryRetention).Unix())
	_, _, err = r.t.Put(ctx, it, "", nil)
	return err
}

// DeliveryAttempts lists the remembered deliveries of a subscription, the newest first.
func (r *Registry) DeliveryAttempts(ctx context.Context, tenant, subscription string) ([]workflow.DeliveryAttempt, error) {
	list, err := listDocuments[workflow.DeliveryAttempt](ctx, r.t, deliveryKey(tenant, subscription, "").PK, workflow.MaxDeliveryAttempts)
	slices.SortStableFunc(list, func(a, b workflow.DeliveryAttempt) int { return b.At.Compare(a.At) })
	return list, err
}

// Subscriptions lists the subscriptions of a tenant, including removed ones, strongly consistent.
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
