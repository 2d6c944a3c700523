package dynamo

import (
	"context"

	"github.com/lockstep-run/lockstep/shared/dynamo/table"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// The item of a business key has no expiry, because its revision must never start over.
func businessKeyKey(tenant, workflowName, key string) table.Key {
	return table.Key{PK: table.TenantPrefix(tenant) + "key#" + workflowName + "#" + key, SK: "-"}
}

// BusinessKey reads a business key, strongly consistent.
func (r *Registry) BusinessKey(ctx context.Context, tenant, workflowName, key string) (workflow.BusinessKey, error) {
	it, err := r.t.Get(ctx, businessKeyKey(tenant, workflowName, key))
	return businessKeyOf(it), err
}

// TakeBusinessKey writes the execution to a business key whose revision is still seen.
func (r *Registry) TakeBusinessKey(ctx context.Context, tenant, workflowName, key string, seen int64, execution string) (bool, error) {
	u := table.Update{
		Key:       businessKeyKey(tenant, workflowName, key),
		Set:       table.Item{attrBoundExecution: table.S(execution), attrVersion: table.N(seen + 1)},
		Condition: table.IfAbsent,
	}
	if seen > 0 {
		u.Condition, u.Values = "#version = :seen", table.Item{"seen": table.N(seen)}
	}
	ok, old, err := r.t.Update(ctx, u)
	if ok || err != nil {
		return ok, err
	}
	return businessKeyOf(old) == workflow.BusinessKey{Execution: execution, Revision: seen + 1}, nil
}

func businessKeyOf(it table.Item) workflow.BusinessKey {
	if it == nil {
		return workflow.BusinessKey{}
	}
	return workflow.BusinessKey{Execution: it.Text(attrBoundExecution), Revision: it.Int(attrVersion)}
}
