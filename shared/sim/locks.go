package sim

import (
	"context"
	"maps"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Locks stores the lock items. They are never deleted.
type Locks struct{ *conn }

// Read reads lock items. A weak read that is stale returns each item as it was before its last
// change.
func (l *Locks) Read(_ context.Context, tenant string, keys []workflow.EntityKey, strong bool) (map[workflow.EntityKey]workflow.Lock, error) {
	name, count := "locks.read", l.countReads
	if !strong {
		name, count = "locks.read_weakly", l.countWeakReads
	}
	return call(l.conn, name, func(stale bool) (map[workflow.EntityKey]workflow.Lock, error) {
		count(tableLocks, len(keys))
		found := make(map[workflow.EntityKey]workflow.Lock, len(keys))
		for _, k := range keys {
			item := l.w.locks[tenantKey(tenant, k.String())]
			if stale && !strong {
				item = l.w.locksBefore[tenantKey(tenant, k.String())]
			}
			item.Entity, item.Holders = k, maps.Clone(item.Holders)
			found[k] = item
		}
		return found, nil
	})
}

// conditionalWrite performs one conditional write of one lock item.
func (l *Locks) conditionalWrite(name, tenant string, key workflow.EntityKey, w lockWrite) (token int64, ok bool, err error) {
	_, err = call(l.conn, name, func(bool) (none struct{}, _ error) {
		l.countWrite(tableLocks)
		at := tenantKey(tenant, key.String())
		old := l.w.locks[at]
		old.Entity = key
		if l.w.locks[at], token, ok = w(old); l.w.locks[at].Revision != old.Revision {
			l.w.locksBefore[at] = old
		}
		if l.w.Observer != nil {
			l.w.Observer.LockWritten(old, l.w.locks[at])
		}
		return none, nil
	})
	return token, ok && err == nil, err
}

// Take makes r the only holder if the item's revision is still seen.
func (l *Locks) Take(_ context.Context, tenant string, key workflow.EntityKey, r workflow.LockRequest, seen int64) (bool, error) {
	_, ok, err := l.conditionalWrite("locks.take", tenant, key, takeLock(r, seen))
	return ok, err
}

// Share makes keep and s the shared holders if the item's revision is still seen.
func (l *Locks) Share(_ context.Context, tenant string, key workflow.EntityKey, s workflow.LockRequest, keep map[string]workflow.Holder, seen int64) (int64, bool, error) {
	return l.conditionalWrite("locks.share", tenant, key, shareLock(s, keep, seen))
}

// Join adds s to the holders of a shared lock, whatever its revision.
func (l *Locks) Join(_ context.Context, tenant string, key workflow.EntityKey, s workflow.LockRequest, j workflow.JoinConditions) (int64, bool, error) {
	return l.conditionalWrite("locks.join", tenant, key, joinLock(s, j))
}

// Reserve sets the reservation, whoever holds the lock.
func (l *Locks) Reserve(_ context.Context, tenant string, key workflow.EntityKey, r workflow.Reservation, void string) (bool, error) {
	_, ok, err := l.conditionalWrite("locks.reserve", tenant, key, reserveLock(r, void))
	return ok, err
}

// RaiseRevision sets an item's revision to minToken if it is still seen.
func (l *Locks) RaiseRevision(_ context.Context, tenant string, key workflow.EntityKey, minToken, seen int64) (bool, error) {
	_, ok, err := l.conditionalWrite("locks.raise_revision", tenant, key, raiseLock(minToken, seen))
	return ok, err
}

// Outdate increases an item's revision.
func (l *Locks) Outdate(_ context.Context, tenant string, key workflow.EntityKey) error {
	_, _, err := l.conditionalWrite("locks.outdate", tenant, key, func(lock workflow.Lock) (workflow.Lock, int64, bool) {
		lock.Revision++
		return lock, 0, true
	})
	return err
}

// lockWrite is a conditional write. It returns the item afterwards, the caller's token, and
// whether the condition held or the write had been made before.
type lockWrite func(workflow.Lock) (after workflow.Lock, token int64, ok bool)

// takeLock makes r the only holder.
func takeLock(r workflow.LockRequest, seen int64) lockWrite {
	return func(l workflow.Lock) (workflow.Lock, int64, bool) {
		if l.Revision != seen {
			return l, l.Token, l.Owner == r.Execution && l.OwnerEpoch == r.Epoch && l.Token == seen+1
		}
		l.Mode, l.Holders = "", nil
		l.Owner, l.OwnerEpoch, l.Place, l.Since = r.Execution, r.Epoch, r.Place, r.Now.UnixMilli()
		l.Revision, l.Token = seen+1, seen+1
		l.Recent = r.Recent
		return l, l.Token, true
	}
}

// shareLock makes keep and s the shared holders.
func shareLock(s workflow.LockRequest, keep map[string]workflow.Holder, seen int64) lockWrite {
	return func(l workflow.Lock) (workflow.Lock, int64, bool) {
		if l.Revision != seen {
			return holderShare(l, s)
		}
		l.Mode, l.Owner, l.OwnerEpoch, l.Place = workflow.LockShared, "", 0, 0
		l.Holders, l.Recent = maps.Clone(keep), s.Recent
		return addHolder(l, s)
	}
}

// joinLock adds s to the holders of a shared lock.
func joinLock(s workflow.LockRequest, j workflow.JoinConditions) lockWrite {
	return func(l workflow.Lock) (workflow.Lock, int64, bool) {
		own, present := l.Holders[s.Execution]
		switch {
		case l.Mode != workflow.LockShared, present && own.Epoch >= s.Epoch, len(l.Holders) >= j.MaxHolders(),
			l.Reserver != "" && workflow.Older(l.ReserverAge, j.Age) && l.Reserver != j.VoidReserver:
			return holderShare(l, s)
		}
		holders := maps.Clone(l.Holders)
		for id, epoch := range j.DeadHolders {
			if h, present := holders[id]; present && h.Epoch != epoch {
				return holderShare(l, s)
			}
			delete(holders, id)
		}
		l.Holders = holders
		return addHolder(l, s)
	}
}

// reserveLock sets the reservation.
func reserveLock(r workflow.Reservation, void string) lockWrite {
	return func(l workflow.Lock) (workflow.Lock, int64, bool) {
		if l.Reserver != "" && !workflow.Older(r.Age, l.ReserverAge) && (void == "" || l.Reserver != void) {
			return l, 0, l.Reserver == r.Execution
		}
		l.Reserver, l.ReserverAge, l.Revision = r.Execution, r.Age, l.Revision+1
		return l, 0, true
	}
}

// raiseLock raises the revision, so that the next token is greater than minToken.
func raiseLock(minToken, seen int64) lockWrite {
	return func(l workflow.Lock) (workflow.Lock, int64, bool) {
		if l.Revision != seen || seen >= minToken {
			return l, 0, false
		}
		l.Revision = minToken
		return l, 0, true
	}
}

// addHolder adds s to the holders. The map of holders is not shared with another item.
func addHolder(l workflow.Lock, s workflow.LockRequest) (workflow.Lock, int64, bool) {
	if l.Holders == nil {
		l.Holders = map[string]workflow.Holder{}
	}
	l.Revision++
	l.Token, l.Since = l.Revision, s.Now.UnixMilli()
	l.Holders[s.Execution] = workflow.Holder{Epoch: s.Epoch, Token: l.Token, Since: l.Since, Place: s.Place}
	return l, l.Token, true
}

// holderShare returns the token that s holds already, from another call for the same
// execution at the same epoch.
func holderShare(l workflow.Lock, s workflow.LockRequest) (workflow.Lock, int64, bool) {
	h, ok := l.Holders[s.Execution]
	if !ok || h.Epoch != s.Epoch {
		return l, 0, false
	}
	return l, h.Token, true
}
