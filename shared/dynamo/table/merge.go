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
		streams := make([]part, len(parts))
		for i := range streams {
			streams[i].next, streams[i].stop = iter.Pull2(parts[i])
			defer streams[i].stop()
		}
		advance := func(p *part) { p.head, p.err, p.more = p.next() }
		err := parallel.Each(ctx, len(streams), len(streams), func(_ context.Context, i int) error {
			advance(&streams[i])
			return nil
		})
		if err != nil {
			yield(nil, err)
			return
		}
		for {
			var first *part
			for i := range streams {
				p := &streams[i]
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
