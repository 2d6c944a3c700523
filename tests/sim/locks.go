package sim

import (
	"context"
	"maps"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Locks keeps the lock items. They are never deleted.
type Locks struct{ *conn }

// Read is strongly consistent.
func (l *Locks) Read(_ context.Context, tenant string, keys []workflow.EntityKey) (map[workflow.EntityKey]workflow.Lock, error) {
	return call(l.conn, "locks.read", func(bool) (map[workflow.EntityKey]workflow.Lock, error) {
		l.countReads(tableLocks, len(keys))
		found := make(map[workflow.EntityKey]workflow.Lock, len(keys))
		for _, k := range keys {
			item := l.w.locks[tenantKey(tenant, k.String())]
			item.Entity, item.Holders = k, maps.Clone(item.Holders)
			found[k] = item
		}
		return found, nil
	})
}

// conditionalWrite is one conditional write of one item.
func (l *Locks) conditionalWrite(name, tenant string, key workflow.EntityKey, w lockWrite) (token int64, ok bool, err error) {
	_, err = call(l.conn, name, func(bool) (none struct{}, _ error) {
		l.countWrite(tableLocks)
		at := tenantKey(tenant, key.String())
		old := l.w.locks[at]
		old.Entity = key
		l.w.locks[at], token, ok = w(old)
		if l.w.Observer != nil {
			l.w.Observer.LockWritten(old, l.w.locks[at])
		}
		return none, nil
	})
	return token, ok && err == nil, err
}

// Take makes owner the only holder, at epoch, if the item's rev is still seen.
func (l *Locks) Take(_ context.Context, tenant string, key workflow.EntityKey, owner string, epoch, seen int64, now time.Time) (bool, error) {
	_, ok, err := l.conditionalWrite("locks.take", tenant, key, takeLock(owner, epoch, seen, now))
	return ok, err
}

// Share makes the lock a shared one of keep and of s, on the same condition.
func (l *Locks) Share(_ context.Context, tenant string, key workflow.EntityKey, s workflow.LockRequest, keep map[string]workflow.Holder, seen int64) (int64, bool, error) {
	return l.conditionalWrite("locks.share", tenant, key, shareLock(s, keep, seen))
}

// Join adds s to the holders of a shared lock, whatever its rev.
func (l *Locks) Join(_ context.Context, tenant string, key workflow.EntityKey, s workflow.LockRequest, j workflow.JoinConditions) (int64, bool, error) {
	return l.conditionalWrite("locks.join", tenant, key, joinLock(s, j))
}

// Reserve sets the reservation. It never depends on who holds the lock.
func (l *Locks) Reserve(_ context.Context, tenant string, key workflow.EntityKey, r workflow.Reservation, void string) (bool, error) {
	_, ok, err := l.conditionalWrite("locks.reserve", tenant, key, reserveLock(r, void))
	return ok, err
}

// RaiseRevision sets an item's rev to floor, if it is still seen.
func (l *Locks) RaiseRevision(_ context.Context, tenant string, key workflow.EntityKey, floor, seen int64) (bool, error) {
	_, ok, err := l.conditionalWrite("locks.raise_revision", tenant, key, raiseLock(floor, seen))
	return ok, err
}
