// Package port defines what the engine needs from outside, in the engine's terms: a store of
// executions with one conditional write, lock items, pack items, message queues, a registry,
// workers and schedules. The adapters in shared/dynamo and shared/sqs and the simulation implement
// these interfaces without importing this package, except in tests.
//
// Every write is conditional or idempotent. If a method returns a bool named ok, false means that
// the condition did not hold and nothing was written. An error means that the outcome is unknown.
package port

import (
	"context"
	"errors"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
	"github.com/lockstep-run/lockstep/statemachines"
)

// Ports are opened for one piece of work, so that its consumption is metered separately.
type Ports struct {
	Store     Store
	Locks     Locks
	Packs     Packs
	Sender    Sender
	Registry  Registry
	Workers   Workers
	Schedules Schedules
	Rows      Rows
	Meter     Meter
}

// Meter counts the consumption through the ports that it was opened with.
type Meter interface {
	// Take returns the consumption since the last Take and resets the count.
	Take() workflow.Cost
}

// Sender sends messages, at least once. A queue that does not exist is not an error:
// the message counts as not sent, and a timer sends it again.
type Sender interface {
	// SendPacks sends packs to the queue of their pool in batches, each pack after its delay (at
	// most 15 minutes; longer delays are cut). It returns the keys of the packs that could not be
	// sent.
	SendPacks(ctx context.Context, now time.Time, packs []*workflow.PackMessage) (failed []workflow.PackKey, err error)

	// SendWakeups sends wake-ups to the lifecycle queue after the delay.
	SendWakeups(ctx context.Context, delay time.Duration, wakeups ...workflow.Wakeup) error

	// SendAnnouncements and SendDeliveries send the messages for subscribers: announcements after
	// the delay, deliveries in order for each receiver.
	SendAnnouncements(ctx context.Context, delay time.Duration, announcements ...workflow.Announcement) error
	SendDeliveries(ctx context.Context, deliveries ...*workflow.Delivery) error

	// QueuedWakeups returns the approximate number of wake-ups in the lifecycle queue that could be
	// received now.
	QueuedWakeups(ctx context.Context) (int, error)
}

// Workers stores the polling workers. It makes no decisions about them. A removed worker stays
// readable for a while, in the state removed.
type Workers interface {
	// Worker reads a worker, strongly consistent; nil if absent.
	Worker(ctx context.Context, tenant, id string) (*workflow.Worker, error)

	// Workers lists a tenant's workers ordered by id, without removed ones.
	Workers(ctx context.Context, tenant string, page workflow.Page) (workflow.List[workflow.Worker], error)

	// PutWorker replaces seen by next if the item still has seen's state and last heartbeat; a nil
	// seen means that there is no item. If next names no packs, the packs that the worker holds are
	// removed; otherwise they stay as they are.
	PutWorker(ctx context.Context, seen, next *workflow.Worker) (ok bool, err error)

	// Heartbeat writes the heartbeat time of a worker in the given state, and the packs that it
	// holds unless held is nil. If the worker is in another state, it writes nothing and returns
	// the worker; nil if absent.
	Heartbeat(ctx context.Context, tenant, id string, state statemachines.WorkerState, at time.Time, held []workflow.ClaimedPack) (ok bool, old *workflow.Worker, err error)

	// AddClaimedPack adds a pack to those that a worker holds; RemoveClaimedPack removes one.
	// Neither creates an absent worker.
	AddClaimedPack(ctx context.Context, tenant, id string, pack workflow.ClaimedPack) error
	RemoveClaimedPack(ctx context.Context, tenant, id string, pack workflow.ClaimedPack) error

	// DueWorkers lists the workers of one shard that are due for a check at now, the longest
	// overdue first. It reads the index, which may lag. Only Tenant and ID are set.
	DueWorkers(ctx context.Context, shard int, now time.Time, page workflow.Page) (workflow.List[workflow.Worker], error)
}

// Schedules stores the schedules of workflows, one for each workflow of a tenant.
type Schedules interface {
	// Schedule reads a schedule, strongly consistent. A schedule that was never written has Version
	// 0 and only its names.
	Schedule(ctx context.Context, tenant, name string) (spec.Schedule, error)

	// PutSchedule replaces the schedule if its version is still s.Version; the new version is
	// s.Version+1. If a reply is lost, ok may be false although the schedule was written.
	PutSchedule(ctx context.Context, s spec.Schedule) (ok bool, err error)

	// Schedules lists a tenant's schedules that are not off, ordered by name.
	Schedules(ctx context.Context, tenant string, page workflow.Page) (workflow.List[spec.Schedule], error)

	// DueSchedules lists the schedules of one shard whose next fire time is at or before now, the
	// oldest first. It reads the index, which may lag. Only Tenant and Name are set.
	DueSchedules(ctx context.Context, shard int, now time.Time, page workflow.Page) (workflow.List[spec.Schedule], error)
}

// Permanent reports whether an error will not go away by repeating the call.
func Permanent(err error) bool {
	switch workflow.CodeOf(err) {
	case workflow.CodeInternal:
		var e *workflow.Error
		return errors.As(err, &e) // an unclassified error may go away
	case workflow.CodeInvalid, workflow.CodeLimit, workflow.CodeTooLarge, workflow.CodeNotFound:
		return true
	}
	return false
}

// Reason returns the text of an error that a user may see: the message of a workflow.Error, and
// "internal error" for any other error.
func Reason(err error) string {
	var e *workflow.Error
	if errors.As(err, &e) {
		return e.Message
	}
	return "internal error"
}
