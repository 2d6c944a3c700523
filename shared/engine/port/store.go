package port

import (
	"context"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/statemachines"
)

// Store keeps executions: the state item and what lies beside it.
type Store interface {
	// Create writes the state item if none exists under its id. A write whose
	// reply was lost is recognised by x.Commit and reported as ok.
	Create(ctx context.Context, x *workflow.Execution) (ok bool, err error)

	// Load is a strongly consistent read, waiters included. A missing execution
	// is an error with CodeNotFound, a newer schema one with CodeUnavailable.
	Load(ctx context.Context, tenant, id string) (*workflow.Execution, error)

	// Commit replaces the state item if its version is still seen; next.Version
	// is seen+1. The waiters are left alone, unless release is set: then they
	// are removed by the same write and returned. A write whose reply was lost
	// is recognised by next.Commit (its waiters are then unknown: their alarms
	// cover them).
	Commit(ctx context.Context, seen int64, next *workflow.Execution, release bool) (waiters []string, ok bool, err error)

	// Heads are strongly consistent reads of states and epochs; a missing
	// execution has the zero Head.
	Heads(ctx context.Context, tenant string, ids []string) (map[string]workflow.OwnerStatus, error)

	// AddHolderWaiter adds waiter to holder's waiters if the holder is still live at
	// the epoch (its state is not in the closed list of states that hold
	// nothing). AwaitReserver does so if that run has still to lock, so that its
	// reservations stand. The set is bounded (64); a full set answers ok without adding: the alarm covers it.
	AddHolderWaiter(ctx context.Context, tenant, holder string, epoch int64, waiter string) (ok bool, err error)
	AddReserverWaiter(ctx context.Context, tenant, reserver, waiter string) (ok bool, err error)

	// RecordFailureStreak writes down that looks fail, if the version is still seen: with the
	// next commit it is gone, unless what is committed has trouble.
	RecordFailureStreak(ctx context.Context, tenant, id string, seen int64, t workflow.FailureStreak) error

	// SaveInput and LoadInput keep a large input beside the state.
	SaveInput(ctx context.Context, tenant, id string, in workflow.Input) error
	LoadInput(ctx context.Context, tenant, id string) (workflow.Input, error)

	// SaveScope stores the entities of a scope compressed in chunks under key and
	// returns their number; LoadScope reads all chunks in order.
	SaveScope(ctx context.Context, tenant, id, key string, entities []workflow.ScopeEntity) (chunks int, err error)
	LoadScope(ctx context.Context, tenant, id, key string, chunks int) ([]workflow.ScopeEntity, error)

	// SaveEvents stores a page of events keyed by its first sequence number;
	// saving the same page again changes nothing. LoadEvents returns stored
	// events with a sequence number above after, in order, at most limit.
	SaveEvents(ctx context.Context, tenant, id string, events []workflow.Event) error
	LoadEvents(ctx context.Context, tenant, id string, after int64, limit int) ([]workflow.Event, error)

	// Discard has everything beside the state item dropped from at on, to the second.
	// The state item itself goes with the commit that leaves a run whose DiscardAt is
	// set without an alarm.
	Discard(ctx context.Context, tenant, id string, at time.Time) error

	// DueExecutions lists executions of one shard whose alarm is set for a moment from since
	// (zero for any) up to now, oldest first, from the index; Listed lists ids in a state, newest first, below the id given
	// ("" for the newest). Both may lag behind the state items.
	DueExecutions(ctx context.Context, shard int, since, now time.Time, page workflow.Page) (workflow.List[workflow.Wakeup], error)
	ListByState(ctx context.Context, tenant string, state statemachines.ExecutionState, below string, limit int) ([]string, error)

	// LoadMany are strongly consistent reads of whole state items; missing ones
	// are left out.
	LoadMany(ctx context.Context, tenant string, ids []string) ([]*workflow.Execution, error)
}
