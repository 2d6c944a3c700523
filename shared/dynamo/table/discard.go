package table

import (
	"context"
	"time"

	"github.com/lockstep-run/lockstep/shared/parallel"
	"github.com/lockstep-run/lockstep/shared/topology"
)

// discardFlight is how many items are marked at a time.
const discardFlight = 16

// Discard marks the items of a partition to be dropped by the store, within days,
// from at on; one item, of the sort key keep, is left alone. What is marked
// already stays as it is, so that a repetition writes nothing.
func (t *Table) Discard(ctx context.Context, pk, keep string, at time.Time) error {
	var keys []Key
	for it, err := range t.Query(ctx, Query{Key: "#pk = :pk", With: Item{"pk": S(pk)}, Strong: true, Only: []string{topology.AttrTTL}}) {
		if err != nil {
			return err
		}
		if key := it.Key(); key.SK != keep && !it.Has(topology.AttrTTL) {
			keys = append(keys, key)
		}
	}
	return parallel.Each(ctx, discardFlight, len(keys), func(ctx context.Context, i int) error {
		_, _, err := t.Update(ctx, Change{Key: keys[i], Set: Item{topology.AttrTTL: N(at.Unix())}, If: "attribute_exists(#pk)"})
		return err
	})
}
