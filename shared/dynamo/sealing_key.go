package dynamo

import (
	"context"

	"github.com/lockstep-run/lockstep/shared/dynamo/table"
)

// attrWrapped is the wrapped key of a tenant for sealed values.
const attrWrapped = "wrapped"

func sealingKey(tenant string) table.Key {
	return table.Key{PK: table.TenantPrefix(tenant) + "sealing", SK: "key"}
}

// SealingKey reads the wrapped key of a tenant, strongly consistent; nil if it has none.
func (r *Registry) SealingKey(ctx context.Context, tenant string) ([]byte, error) {
	it, err := r.t.Get(ctx, sealingKey(tenant))
	if err != nil || it == nil {
		return nil, err
	}
	return it.Bytes(attrWrapped), nil
}

// PutSealingKey stores the first key of a tenant, and returns the one that is stored.
func (r *Registry) PutSealingKey(ctx context.Context, tenant string, wrapped []byte) ([]byte, error) {
	it := sealingKey(tenant).Attributes()
	it[attrWrapped] = table.B(wrapped)
	ok, old, err := r.t.Put(ctx, it, table.IfAbsent, nil)
	if ok || err != nil {
		return wrapped, err
	}
	return old.Bytes(attrWrapped), nil
}
