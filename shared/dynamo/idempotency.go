package dynamo

import (
	"context"
	"time"

	"github.com/lockstep-run/lockstep/shared/dynamo/table"
	"github.com/lockstep-run/lockstep/shared/topology"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Attributes of a binding. The service drops expired items when it comes to it,
// which may be days later; so the expiry stands in the condition as well.
const (
	attrBoundExecution = "execution"
	attrExpiresAt      = "expires"
)

func bindingKey(tenant, key string) table.Key {
	return table.Key{PK: table.TenantPrefix(tenant) + "idempotency#" + key, SK: "-"}
}

// BindIdempotencyKey binds an idempotency key, if it is free or has expired at now.
func (r *Registry) BindIdempotencyKey(ctx context.Context, tenant, key string, want workflow.IdempotencyRecord, now time.Time) (workflow.IdempotencyRecord, bool, error) {
	k := bindingKey(tenant, key)
	ok, old, err := r.t.Put(ctx, table.Item{
		topology.AttrPK:    table.S(k.PK),
		topology.AttrSK:    table.S(k.SK),
		attrBoundExecution: table.S(want.Execution),
		attrDigest:         table.S(want.Digest),
		attrExpiresAt:      table.N(want.ExpiresAt.UnixMilli()),
		topology.AttrTTL:   table.N(want.ExpiresAt.Unix() + 1),
	}, table.IfAbsent+" OR #expires <= :now", table.Item{"now": table.N(now.UnixMilli())})
	if err != nil {
		return workflow.IdempotencyRecord{}, false, err
	}
	if ok {
		return want, true, nil
	}
	bound := bindingOf(old)
	// An execution id is made for one request: finding it means that this very
	// write stands, and only its reply was lost.
	return bound, bound.Execution == want.Execution, nil
}

// IdempotencyRecord is a strongly consistent read of what a key is bound to; nothing if it
// is free or has expired at now.
func (r *Registry) IdempotencyRecord(ctx context.Context, tenant, key string, now time.Time) (workflow.IdempotencyRecord, error) {
	it, err := r.t.Get(ctx, bindingKey(tenant, key))
	if err != nil || it == nil || it.Int(attrExpiresAt) <= now.UnixMilli() {
		return workflow.IdempotencyRecord{}, err
	}
	return bindingOf(it), nil
}

func bindingOf(it table.Item) workflow.IdempotencyRecord {
	return workflow.IdempotencyRecord{
		Execution: it.Text(attrBoundExecution), Digest: it.Text(attrDigest), ExpiresAt: table.FromMillis(it.Int(attrExpiresAt)),
	}
}
