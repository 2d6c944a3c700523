package table

import (
	"context"
	"iter"

	"github.com/lockstep-run/lockstep/shared/parallel"
)

// Rows is the answer of a query.
type Rows = iter.Seq2[Item, error]

// Merge puts several ordered answers in one order. Their first pages are read in
// parallel; it ends at the first error.
func Merge(ctx context.Context, less func(a, b Item) bool, parts []Rows) Rows {
	type part struct {
		next func() (Item, error, bool)
		stop func()
		head Item
		err  error
		more bool
	}
	return func(yield func(Item, error) bool) {
		ps := make([]part, len(parts))
		for i := range ps {
			ps[i].next, ps[i].stop = iter.Pull2(parts[i])
			defer ps[i].stop()
		}
		advance := func(p *part) { p.head, p.err, p.more = p.next() }
		err := parallel.Each(ctx, len(ps), len(ps), func(_ context.Context, i int) error {
			advance(&ps[i])
			return nil
		})
		if err != nil {
			yield(nil, err)
			return
		}
		for {
			var first *part
			for i := range ps {
				p := &ps[i]
				if p.err != nil {
					yield(nil, p.err)
					return
				}
				if p.more && (first == nil || less(p.head, first.head)) {
					first = p
				}
			}
			if first == nil || !yield(first.head, nil) {
				return
			}
			advance(first)
		}
	}
}
