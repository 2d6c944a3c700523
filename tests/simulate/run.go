package simulate

import (
	"slices"
	"sync"
	"time"

	"github.com/lockstep-run/lockstep/tests/simulate/workload"
)

// Sum is what came of many plays.
type Sum struct {
	Seeds, Runs, Calls, Strikes int
	Virtual                     time.Duration
	Failed                      []Result // in order of their seeds
}

func (s *Sum) add(r Result) {
	s.Seeds++
	s.Runs += r.Runs
	s.Calls += r.Calls
	s.Strikes += len(r.Strikes)
	s.Virtual += r.Virtual
	if r.Violation != nil {
		s.Failed = append(s.Failed, r)
		slices.SortFunc(s.Failed, func(a, b Result) int { return int(int64(a.Seed) - int64(b.Seed)) })
	}
}

// Run plays n seeds from the first on, with so many at a time, until more than
// enough have failed. progress, unless it is nil, is told of every play.
func Run(first uint64, n, parallel, enough int, progress func(Sum)) Sum {
	var mu sync.Mutex
	var sum Sum
	next, end := first, first+uint64(n)
	// A company's seeds are played by one goroutine, one after the other.
	take := func() (from, to uint64, ok bool) {
		mu.Lock()
		defer mu.Unlock()
		if next >= end || len(sum.Failed) >= enough {
			return 0, 0, false
		}
		from, to = next, min(end, (next/workload.Seeds+1)*workload.Seeds)
		next = to
		return from, to, true
	}
	var all sync.WaitGroup
	for range parallel {
		all.Go(func() {
			for from, to, ok := take(); ok; from, to, ok = take() {
				t := NewTheatre(workload.CompanyOf(from))
				for seed := from; seed < to; seed++ {
					r := t.Play(seed, Cut{}, nil)
					mu.Lock()
					sum.add(r)
					stop := len(sum.Failed) >= enough
					if progress != nil {
						progress(sum)
					}
					mu.Unlock()
					if stop {
						return
					}
				}
			}
		})
	}
	all.Wait()
	return sum
}
