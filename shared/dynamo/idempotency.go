package dynamo

import (
	"context"
	"time"

	"github.com/lockstep-run/lockstep/shared/dynamo/table"
	"github.com/lockstep-run/lockstep/shared/topology"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Attributes of a binding, besides the digest. DynamoDB may delete an expired item days late, so
// the condition compares the expiry too.
const (
	attrBoundExecution = "execution"
	attrExpiresAt      = "expires"
)

func bindingKey(tenant, key string) table.Key {
	return table.Key{PK: table.TenantPrefix(tenant) + "idempotency#" + key, SK: "-"}
}

// BindIdempotencyKey binds a key if it is free or its binding has expired at now.
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
	// An execution id is unique to one request. If the key is bound to it, this write was made and
	// its reply was lost.
	return bound, bound.Execution == want.Execution, nil
}

// MoveIdempotencyKey binds a key to another execution, if it is bound to from and has not
// expired at now.
func (r *Registry) MoveIdempotencyKey(ctx context.Context, tenant, key, from, to string, now time.Time) (bool, error) {
	ok, old, err := r.t.Update(ctx, table.Update{
		Key: bindingKey(tenant, key), Set: table.Item{attrBoundExecution: table.S(to)},
		Condition: "#execution = :from AND #expires > :now", Values: table.Item{"from": table.S(from), "now": table.N(now.UnixMilli())},
	})
	if ok || err != nil {
		return ok, err
	}
	return old != nil && old.Text(attrBoundExecution) == to && old.Int(attrExpiresAt) > now.UnixMilli(), nil
}

// IdempotencyRecord reads what a key is bound to, strongly consistent; zero if it is free or its
// binding has expired at now.
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
