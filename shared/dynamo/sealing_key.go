package dynamo

import (
	"context"

	"github.com/lockstep-run/lockstep/shared/dynamo/table"
)

// attrWrapped is the wrapped key of a tenant for sealed values.
const attrWrapped = "wrapped"

func sealingKey(tenant, masterKey string) table.Key {
	return table.Key{PK: table.TenantPrefix(tenant) + "sealing", SK: "key#" + masterKey}
}

// SealingKey reads the wrapped key of a tenant under a master key, strongly consistent; nil if it has none.
func (r *Registry) SealingKey(ctx context.Context, tenant, masterKey string) ([]byte, error) {
	it, err := r.t.Get(ctx, sealingKey(tenant, masterKey))
	if err != nil || it == nil {
		return nil, err
	}
	return it.Bytes(attrWrapped), nil
}

// PutSealingKey stores the first key of a tenant under a master key, and returns the one that is stored.
func (r *Registry) PutSealingKey(ctx context.Context, tenant, masterKey string, wrapped []byte) ([]byte, error) {
	it := sealingKey(tenant, masterKey).Attributes()
	it[attrWrapped] = table.B(wrapped)
	ok, old, err := r.t.Put(ctx, it, table.IfAbsent, nil)
	if ok || err != nil {
		return wrapped, err
	}
	return old.Bytes(attrWrapped), nil
}
