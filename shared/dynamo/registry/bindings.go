package registry

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
	attrExecution = "execution"
	attrExpires   = "expires"
)

func bindingKey(tenant, key string) table.Key {
	return table.Key{PK: table.Tenant(tenant) + "idempotency#" + key, SK: "-"}
}

// Reserve binds an idempotency key, if it is free or has expired at now.
func (r *Registry) Reserve(ctx context.Context, tenant, key string, want workflow.Binding, now time.Time) (workflow.Binding, bool, error) {
	k := bindingKey(tenant, key)
	ok, old, err := r.t.Put(ctx, table.Item{
		topology.AttrPK:  table.S(k.PK),
		topology.AttrSK:  table.S(k.SK),
		attrExecution:    table.S(want.Execution),
		attrDigest:       table.S(want.Digest),
		attrExpires:      table.N(want.Expires.UnixMilli()),
		topology.AttrTTL: table.N(want.Expires.Unix() + 1),
	}, table.IfAbsent+" OR #expires <= :now", table.Item{"now": table.N(now.UnixMilli())})
	if err != nil {
		return workflow.Binding{}, false, err
	}
	if ok {
		return want, true, nil
	}
	bound := bindingOf(old)
	// An execution id is made for one request: finding it means that this very
	// write stands, and only its reply was lost.
	return bound, bound.Execution == want.Execution, nil
}

// Bound is a strongly consistent read of what a key is bound to; nothing if it
// is free or has expired at now.
func (r *Registry) Bound(ctx context.Context, tenant, key string, now time.Time) (workflow.Binding, error) {
	it, err := r.t.Get(ctx, bindingKey(tenant, key))
	if err != nil || it == nil || it.Int(attrExpires) <= now.UnixMilli() {
		return workflow.Binding{}, err
	}
	return bindingOf(it), nil
}

func bindingOf(it table.Item) workflow.Binding {
	return workflow.Binding{
		Execution: it.Text(attrExecution), Digest: it.Text(attrDigest), Expires: table.At(it.Int(attrExpires)),
	}
}
