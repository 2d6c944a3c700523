package sim

import (
	"context"
	"maps"
	"time"

	"github.com/lockstep-run/lockstep/shared/sim/lockitem"
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
			item.Entity, item.Holders = k, maps.Clone(item.Holders)
			found[k] = item
		}
		return found, nil
	})
}

// write is one conditional write of one item.
func (l *Locks) write(name, tenant string, key workflow.EntityKey, w lockitem.Write) (token int64, ok bool, err error) {
	_, err = call(l.line, name, func(bool) (none struct{}, _ error) {
		l.writes(tableLocks)
		at := within(tenant, key.String())
		old := l.w.locks[at]
		old.Entity = key
		l.w.locks[at], token, ok = w(old)
		if l.w.Watcher != nil {
			l.w.Watcher.Lock(old, l.w.locks[at])
		}
		return none, nil
	})
	return token, ok && err == nil, err
}

// Take makes owner the only holder, at epoch, if the item's rev is still seen.
func (l *Locks) Take(_ context.Context, tenant string, key workflow.EntityKey, owner string, epoch, seen int64, now time.Time) (bool, error) {
	_, ok, err := l.write("locks.take", tenant, key, lockitem.Take(owner, epoch, seen, now))
	return ok, err
}

// Share makes the lock a shared one of keep and of s, on the same condition.
func (l *Locks) Share(_ context.Context, tenant string, key workflow.EntityKey, s workflow.Sharer, keep map[string]workflow.Holder, seen int64) (int64, bool, error) {
	return l.write("locks.share", tenant, key, lockitem.Share(s, keep, seen))
}

// Join adds s to the holders of a shared lock, whatever its rev.
func (l *Locks) Join(_ context.Context, tenant string, key workflow.EntityKey, s workflow.Sharer, j workflow.Joining) (int64, bool, error) {
	return l.write("locks.join", tenant, key, lockitem.Join(s, j))
}

// Reserve sets the reservation. It never depends on who holds the lock.
func (l *Locks) Reserve(_ context.Context, tenant string, key workflow.EntityKey, r workflow.Reservation, void string) (bool, error) {
	_, ok, err := l.write("locks.reserve", tenant, key, lockitem.Reserve(r, void))
	return ok, err
}

// Raise sets an item's rev to floor, if it is still seen.
func (l *Locks) Raise(_ context.Context, tenant string, key workflow.EntityKey, floor, seen int64) (bool, error) {
	_, ok, err := l.write("locks.raise", tenant, key, lockitem.Raise(floor, seen))
	return ok, err
}
