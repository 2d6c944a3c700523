package table

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/lockstep-run/lockstep/shared/parallel"
)

// A range of a partition is queried if at least minDense keys are in it. Its pages have firstPage
// items at first and then twice as many each time, up to maxPage.
const (
	minDense  = 32
	firstPage = 64
	maxPage   = 1024
)

// readUnit is how many bytes a read unit pays for. Getting an item costs at least one unit, whereas
// a query pays for the sum of what it reads.
const readUnit = 4096

// GetDense works like [Table.GetEach], for keys that are in few partitions and may be most of their
// items: querying small adjacent items costs far less than getting each. For each partition with
// many keys it queries their range, as long as that costs at most half as much as getting the items
// that it finds. It gets all other items individually.
func (t *Table) GetDense(ctx context.Context, keys []Key, consistent bool, read func(Item) error) error {
	partitions := map[string][]string{} // sort keys
	for _, k := range keys {
		partitions[k.PK] = append(partitions[k.PK], k.SK)
	}
	names := slices.Sorted(maps.Keys(partitions))
	var mu sync.Mutex
	var rest []Key
	err := parallel.Each(ctx, batchConcurrency, len(names), func(ctx context.Context, i int) error {
		left := slices.Compact(slices.Sorted(slices.Values(partitions[names[i]])))
		if len(left) >= minDense {
			var err error
			if left, err = t.queryDense(ctx, names[i], left, consistent, func(it Item) error {
				mu.Lock()
				defer mu.Unlock()
				return read(it)
			}); err != nil {
				return err
			}
		}
		mu.Lock()
		defer mu.Unlock()
		for _, sk := range left {
			rest = append(rest, Key{names[i], sk})
		}
		return nil
	})
	if err != nil {
		return err
	}
	return t.GetEach(ctx, rest, consistent, read)
}

// queryDense queries the range of some sorted sort keys of a partition, and returns the keys that
// it has not reached.
func (t *Table) queryDense(ctx context.Context, pk string, wanted []string, consistent bool, read func(Item) error) (left []string, err error) {
	last := wanted[len(wanted)-1]
	q := Query{
		KeyCondition: "#pk = :pk AND #sk BETWEEN :from AND :to", Values: Item{"pk": S(pk), "to": S(last)},
		Consistent: consistent, PageSize: firstPage,
	}
	bytes, found, first := 0, 0, len(wanted)
	for len(wanted) > 0 && 2*bytes <= readUnit*(found+first/8) {
		q.Values["from"] = S(wanted[0])
		seen, at := 0, ""
		for it, err := range t.queryRaw(ctx, q) {
			if err != nil {
				return nil, err
			}
			seen, at, bytes = seen+1, it.Key().SK, bytes+it.Size()
			if i, ok := slices.BinarySearchFunc(wanted, at, strings.Compare); ok {
				wanted = wanted[i:]
				found++
				if err := read(it); err != nil {
					return nil, err
				}
			}
			if seen == q.PageSize {
				break
			}
		}
		if seen < q.PageSize {
			return nil, nil // the whole range between the keys has been read
		}
		i, passed := slices.BinarySearch(wanted, at)
		if passed {
			i++
		}
		wanted = wanted[i:]
		q.PageSize = min(2*q.PageSize, maxPage)
	}
	return wanted, nil
}
