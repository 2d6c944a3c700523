package simulator

import (
	"slices"
	"sync"
	"time"
)

// Summary is what came of many plays.
type Summary struct {
	Seeds, Executions, Calls, Faults int
	SimulatedTime                    time.Duration
	Failed                           []Result // in order of their seeds
}

func (s *Summary) add(r Result) {
	s.Seeds++
	s.Executions += r.Executions
	s.Calls += r.Calls
	s.Faults += len(r.Faults)
	s.SimulatedTime += r.SimulatedTime
	if r.Violation != nil {
		s.Failed = append(s.Failed, r)
		slices.SortFunc(s.Failed, func(a, b Result) int { return int(int64(a.Seed) - int64(b.Seed)) })
	}
}

// RunSeeds plays n seeds from the first on, with so many at a time, until more than
// enough have failed. progress, unless it is nil, is told of every play.
func RunSeeds(first uint64, n, parallel, maxFailures int, progress func(Summary)) Summary {
	var mu sync.Mutex
	var summary Summary
	next, end := first, first+uint64(n)
	// A company's seeds are played by one goroutine, one after the other.
	take := func() (from, to uint64, ok bool) {
		mu.Lock()
		defer mu.Unlock()
		if next >= end || len(summary.Failed) >= maxFailures {
			return 0, 0, false
		}
		from, to = next, min(end, (next/seedsPerCorpus+1)*seedsPerCorpus)
		next = to
		return from, to, true
	}
	var all sync.WaitGroup
	for range parallel {
		all.Go(func() {
			for from, to, ok := take(); ok; from, to, ok = take() {
				t := New(newCorpus(from))
				for seed := from; seed < to; seed++ {
					r := t.Run(seed, Cut{}, nil)
					mu.Lock()
					summary.add(r)
					stop := len(summary.Failed) >= maxFailures
					if progress != nil {
						progress(summary)
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
	return summary
}
