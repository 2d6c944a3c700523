package port

import (
	"context"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Locks keeps the lock items. Every write raises an item's rev, all but Raise by
// one.
type Locks interface {
	// Read is strongly consistent; an entity without an item has Rev 0.
	Read(ctx context.Context, tenant string, keys []workflow.EntityKey) (map[workflow.EntityKey]workflow.Lock, error)

	// Take makes owner the only one who holds the lock, at epoch, if the item's rev
	// is still seen. The new rev is seen+1 and is also the token. Reservations stay
	// as they are.
	Take(ctx context.Context, tenant string, key workflow.EntityKey, owner string, epoch, seen int64, now time.Time) (ok bool, err error)

	// Share makes the lock a shared one of keep and of s, if the item's rev is still
	// seen. Whoever is not kept must have been read as holding nothing. The new rev
	// is seen+1 and is also the token of s.
	Share(ctx context.Context, tenant string, key workflow.EntityKey, s workflow.LockRequest, keep map[string]workflow.Holder, seen int64) (token int64, ok bool, err error)

	// Join adds s to the holders of a lock that is shared, whatever its rev: unless
	// s is among them at a later epoch, the holders are as many as they may be, an
	// older run's reservation stands (other than j.Void), or one of j.Dead is there
	// at another epoch than the one given. The dead are removed. A run that is a
	// holder at this very epoch has joined before; its token is answered.
	Join(ctx context.Context, tenant string, key workflow.EntityKey, s workflow.LockRequest, j workflow.JoinConditions) (token int64, ok bool, err error)

	// Reserve sets the reservation to r, if there is none, or a younger run's, or
	// exactly that of the run void, which was read as void ("" for none).
	Reserve(ctx context.Context, tenant string, key workflow.EntityKey, r workflow.Reservation, void string) (ok bool, err error)

	// RaiseRevision sets an item's rev to floor, which is greater, if it is still seen.
	// Nothing else about it changes.
	RaiseRevision(ctx context.Context, tenant string, key workflow.EntityKey, floor, seen int64) (ok bool, err error)
}
