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

// Reserve binds an idempotency key, if it is free or has expired at now.
func (r *Registry) Reserve(ctx context.Context, tenant, key string, want workflow.Binding, now time.Time) (workflow.Binding, bool, error) {
	ok, old, err := r.t.Put(ctx, table.Item{
		topology.AttrPK:  table.S(table.Tenant(tenant) + "idempotency#" + key),
		topology.AttrSK:  table.S("-"),
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
	bound := workflow.Binding{
		Execution: old.Text(attrExecution), Digest: old.Text(attrDigest), Expires: millis(old.Int(attrExpires)),
	}
	// An execution id is made for one request: finding it means that this very
	// write stands, and only its reply was lost.
	return bound, bound.Execution == want.Execution, nil
}
