package engine

import (
	"context"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// A page of the history has a fixed size and is keyed by its first sequence
// number, so that whoever writes it, however late, writes the same.
const maxInlineEvents, eventsPerPage = 40, 30

// offloadHistory moves the oldest events out of the state item, when it grows, before
// the commit that would exceed it. Only events that have been committed may leave:
// what this decision adds may be lost to a race and be decided differently.
func (b *payloads) offloadHistory(ctx context.Context, seen, next *workflow.Execution) error {
	for len(next.Events) > maxInlineEvents && next.Events[eventsPerPage-1].Sequence <= seen.Sequence && seen.Version > 0 {
		if err := b.store.SaveEvents(ctx, b.tenant, b.executionID, next.Events[:eventsPerPage]); err != nil {
			return err
		}
		next.PagedThrough = next.Events[eventsPerPage-1].Sequence
		next.Events = append([]workflow.Event(nil), next.Events[eventsPerPage:]...)
	}
	return nil
}
