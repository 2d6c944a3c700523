package dynamo

import (
	"context"
	"time"

	"github.com/lockstep-run/lockstep/shared/dynamo/table"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Attributes of a lock item. It is never deleted.
const (
	attrOwner      = "owner"
	attrOwnerEpoch = "ownerEpoch"
	attrToken      = "token"
	attrRev        = "rev"
	attrSince      = "since"
	attrRes        = "res"
)

// Locks keeps the lock items.
type Locks struct{ t *table.Table }

// Read is strongly consistent.
func (l *Locks) Read(ctx context.Context, tenant string, keys []workflow.EntityKey) (map[workflow.EntityKey]workflow.Lock, error) {
	named := make([]table.Key, len(keys))
	for i, k := range keys {
		named[i] = lockKey(tenant, k)
	}
	items, err := l.t.GetMany(ctx, named, true)
	if err != nil {
		return nil, err
	}
	locks := make(map[workflow.EntityKey]workflow.Lock, len(keys))
	for i, k := range keys {
		it := items[named[i]]
		locks[k] = workflow.Lock{
			Entity: k,
			Owner:  it.Text(attrOwner), OwnerEpoch: it.Int(attrOwnerEpoch),
			Token: it.Int(attrToken), Rev: it.Int(attrRev), Since: it.Int(attrSince),
			Res: it.Text(attrRes),
		}
	}
	return locks, nil
}

// Take makes owner the owner at epoch if the item's rev is still seen.
func (l *Locks) Take(ctx context.Context, tenant string, key workflow.EntityKey, owner string, epoch, seen int64, now time.Time) (bool, error) {
	c := table.Change{
		Key: lockKey(tenant, key),
		Set: table.Item{
			attrOwner: table.S(owner), attrOwnerEpoch: table.N(epoch),
			attrToken: table.N(seen + 1), attrRev: table.N(seen + 1), attrSince: table.N(now.UnixMilli()),
		},
		If: "#rev = :seen", With: table.Item{"seen": table.N(seen)},
	}
	if seen == 0 {
		c.If, c.With = table.IfAbsent, nil
	}
	ok, old, err := l.t.Update(ctx, c)
	if ok || err != nil {
		return ok, err
	}
	// The very take that was asked for stands there: this call's own, whose reply
	// was lost, or that of another handler of the same run at the same epoch. The
	// run holds the entity either way. A reservation may have raised rev since.
	return old.Text(attrOwner) == owner && old.Int(attrOwnerEpoch) == epoch && old.Int(attrToken) == seen+1, nil
}

// Reserve sets the reservation to the run by. It never depends on the owner.
func (l *Locks) Reserve(ctx context.Context, tenant string, key workflow.EntityKey, by, over string) (bool, error) {
	c := table.Change{
		Key:  lockKey(tenant, key),
		Set:  table.Item{attrRes: table.S(by)},
		Add:  table.Item{attrRev: table.N(1)},
		If:   "attribute_not_exists(#res) OR #res > :by",
		With: table.Item{"by": table.S(by)},
	}
	if over != "" {
		c.If += " OR #res = :over"
		c.With["over"] = table.S(over)
	}
	ok, old, err := l.t.Update(ctx, c)
	if ok || err != nil {
		return ok, err
	}
	return old.Text(attrRes) == by, nil
}
