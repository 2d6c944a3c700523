package port

import (
	"context"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Locks keeps the lock items.
type Locks interface {
	// Read is strongly consistent; an entity without an item has Rev 0.
	Read(ctx context.Context, tenant string, keys []workflow.EntityKey) (map[workflow.EntityKey]workflow.Lock, error)

	// Take makes owner the owner at epoch if the item's rev is still seen. The
	// new rev is seen+1 and is also the token. Reservations stay as they are.
	Take(ctx context.Context, tenant string, key workflow.EntityKey, owner string, epoch, seen int64, now time.Time) (ok bool, err error)

	// Reserve sets the reservation to the run by, if there is none, or a younger
	// run's, or exactly over, which was read as over ("" for none).
	Reserve(ctx context.Context, tenant string, key workflow.EntityKey, by, over string) (ok bool, err error)
}
