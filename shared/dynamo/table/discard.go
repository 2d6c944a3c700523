package table

import (
	"context"
	"time"

	"github.com/lockstep-run/lockstep/shared/parallel"
	"github.com/lockstep-run/lockstep/shared/topology"
)

// discardConcurrency is how many items are marked at a time.
const discardConcurrency = 16

// Discard marks the items of a partition to be dropped by the store, within days,
// from at on; one item, of the sort key keep, is left alone. What is marked
// already stays as it is, so that a repetition writes nothing.
func (t *Table) Discard(ctx context.Context, pk, keep string, at time.Time) error {
	var keys []Key
	for it, err := range t.Query(ctx, Query{KeyCondition: "#pk = :pk", Values: Item{"pk": S(pk)}, Consistent: true, Projection: []string{topology.AttrTTL}}) {
		if err != nil {
			return err
		}
		if key := it.Key(); key.SK != keep && !it.Has(topology.AttrTTL) {
			keys = append(keys, key)
		}
	}
	return parallel.Each(ctx, discardConcurrency, len(keys), func(ctx context.Context, i int) error {
		_, _, err := t.Update(ctx, Update{Key: keys[i], Set: Item{topology.AttrTTL: N(at.Unix())}, Condition: "attribute_exists(#pk)"})
		return err
	})
}
