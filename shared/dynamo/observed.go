package dynamo

import (
	"context"
	"time"

	"github.com/lockstep-run/lockstep/shared/dynamo/table"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Attributes of the item that says up to which event the history of an execution has been published
// to its subscribers.
const (
	attrObservedSequence = "seq"
	attrObservedBy       = "by"
	attrObservedUntil    = "until" // Unix milliseconds
)

func observedKey(tenant, id string) table.Key { return executionKey(tenant, id, "observed") }

// ObservedThrough reads, strongly consistent, up to which event the history has been published.
func (s *Store) ObservedThrough(ctx context.Context, tenant, id string) (workflow.ObservedThrough, error) {
	it, err := s.t.Get(ctx, observedKey(tenant, id))
	return observedThroughOf(it), err
}

func observedThroughOf(it table.Item) (o workflow.ObservedThrough) {
	if it != nil {
		o.Sequence, o.By = it.Int(attrObservedSequence), it.Text(attrObservedBy)
		if it.Has(attrObservedUntil) {
			o.Until = time.UnixMilli(it.Int(attrObservedUntil)).UTC()
		}
	}
	return o
}

// seenSequence returns the condition that the cursor is still at the sequence seen.
func seenSequence(seen int64) string {
	if seen == 0 {
		return "(attribute_not_exists(#seq) OR #seq = :seen)"
	}
	return "#seq = :seen"
}

// LeaseObserved gives one handler the lease to publish the events, unless another has it.
func (s *Store) LeaseObserved(ctx context.Context, tenant, id string, seen int64, by string, now, until time.Time) (bool, error) {
	ok, _, err := s.t.Update(ctx, table.Update{
		Key: observedKey(tenant, id), Set: table.Item{attrObservedBy: table.S(by), attrObservedUntil: table.N(until.UnixMilli())},
		Condition: seenSequence(seen) + " AND (attribute_not_exists(#until) OR #until < :now OR #by = :me)",
		Values:    table.Item{"seen": table.N(seen), "now": table.N(now.UnixMilli()), "me": table.S(by)},
	})
	return ok, err
}

// MoveObserved records that the events have been published.
func (s *Store) MoveObserved(ctx context.Context, tenant, id string, seen, to int64) (bool, error) {
	ok, old, err := s.t.Update(ctx, table.Update{
		Key: observedKey(tenant, id), Set: table.Item{attrObservedSequence: table.N(to)}, Remove: []string{attrObservedUntil, attrObservedBy},
		Condition: seenSequence(seen), Values: table.Item{"seen": table.N(seen)},
	})
	if ok || err != nil {
		return ok, err
	}
	return observedThroughOf(old).Sequence == to, nil
}
