package sim

import (
	"context"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Locks keeps the lock items. They are never deleted.
type Locks struct{ *line }

// Read is strongly consistent.
func (l *Locks) Read(_ context.Context, tenant string, keys []workflow.EntityKey) (map[workflow.EntityKey]workflow.Lock, error) {
	return call(l.line, "locks.read", func(bool) (map[workflow.EntityKey]workflow.Lock, error) {
		l.reads(tableLocks, len(keys))
		found := make(map[workflow.EntityKey]workflow.Lock, len(keys))
		for _, k := range keys {
			item := l.w.locks[within(tenant, k.String())]
			item.Entity = k
			found[k] = item
		}
		return found, nil
	})
}

// Take makes owner the owner at epoch if the item's rev is still seen.
func (l *Locks) Take(_ context.Context, tenant string, key workflow.EntityKey, owner string, epoch, seen int64, now time.Time) (bool, error) {
	return call(l.line, "locks.take", func(bool) (bool, error) {
		l.writes(tableLocks)
		at := within(tenant, key.String())
		item := l.w.locks[at]
		if item.Rev != seen {
			return item.Owner == owner && item.OwnerEpoch == epoch && item.Token == seen+1, nil
		}
		item.Owner, item.OwnerEpoch, item.Since = owner, epoch, now.UnixMilli()
		item.Rev, item.Token = seen+1, seen+1
		l.w.locks[at] = item
		return true, nil
	})
}

// Reserve sets the reservation. It never depends on the owner.
func (l *Locks) Reserve(_ context.Context, tenant string, key workflow.EntityKey, by, over string) (bool, error) {
	return call(l.line, "locks.reserve", func(bool) (bool, error) {
		l.writes(tableLocks)
		at := within(tenant, key.String())
		item := l.w.locks[at]
		if item.Res != "" && !workflow.Older(by, item.Res) && (over == "" || item.Res != over) {
			return item.Res == by, nil
		}
		item.Res, item.Rev = by, item.Rev+1
		l.w.locks[at] = item
		return true, nil
	})
}
