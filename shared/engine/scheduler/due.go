package scheduler

import (
	"context"
	"time"

	"github.com/lockstep-run/lockstep/shared/engine/workers"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// One read of an index returns a page, and one sweep reads up to maxPages of each
// shard; what is left is the next sweep's. What takes more work an item has smaller
// pages. The first maxOldestPages of the alarms are of the oldest.
const (
	pageSize         = 100
	schedulePageSize = 50
	maxPages         = 20
	maxOldestPages   = maxPages / 2
)

// dueExecutions hands each the executions of a shard whose alarm has rung, a page at a
// time; complete says that these were all.
//
// A look that fails leaves the alarm where it is. So where more is due than one
// sweep reads, the oldest may be the same ones every time, runs of a newer release
// perhaps, and must not keep those behind them from being looked at: the other half
// of the pages are read from a moment that each sweep chooses anew, and what these
// leave goes on behind the oldest.
func (s *sweeper) dueExecutions(ctx context.Context, shard int, each func([]workflow.Wakeup) error) (complete bool, err error) {
	now, last := s.now(), time.Time{}
	between := func(since, until time.Time) func(workflow.Page) (workflow.List[workflow.Wakeup], error) {
		return func(p workflow.Page) (workflow.List[workflow.Wakeup], error) {
			return s.ports.Store.DueExecutions(ctx, shard, since, until, p)
		}
	}
	rest, _, err := readPages(workflow.Page{Limit: pageSize}, maxOldestPages, between(time.Time{}, now), func(due []workflow.Wakeup) error {
		last = due[len(due)-1].DueAt
		return each(due)
	})
	if rest == "" || err != nil {
		return err == nil, err
	}
	offset := pseudoRandomTime(last, now, shard)
	_, left, err := readPages(workflow.Page{Limit: pageSize}, maxPages-maxOldestPages, between(offset, now), each)
	if left == 0 || err != nil {
		return false, err
	}
	rest, _, err = readPages(workflow.Page{Limit: pageSize, Token: rest}, left, between(time.Time{}, offset.Add(-time.Millisecond)), each)
	return rest == "" && err == nil, err
}

// pseudoRandomTime is a moment after the first one, and not after now where there is any,
// each as likely. It is another one for every sweep and shard, but always the same
// for the same ones, so that nothing has to be kept from sweep to sweep.
func pseudoRandomTime(after, now time.Time, shard int) time.Time {
	// These mix the bits of a number so that all depend on all.
	x := uint64(now.UnixMilli()) + uint64(shard)*0x9E3779B97F4A7C15
	x = (x ^ x>>30) * 0xBF58476D1CE4E5B9
	x = (x ^ x>>27) * 0x94D049BB133111EB
	x ^= x >> 31
	span := uint64(max(1, now.UnixMilli()-after.UnixMilli()))
	return after.Add(time.Millisecond * time.Duration(1+x%span))
}

// dueWorkers hands each the workers of a shard that are due, as they are judged.
func (s *sweeper) dueWorkers(ctx context.Context, shard int, each func([]workers.Transition) error) (complete bool, err error) {
	next, _, err := readPages(workflow.Page{Limit: pageSize}, maxPages, func(p workflow.Page) (workflow.List[workers.Transition], error) {
		return s.workers.Due(ctx, shard, p)
	}, each)
	return next == "" && err == nil, err
}

// dueSchedules hands each the schedules of a shard that are due.
func (s *sweeper) dueSchedules(ctx context.Context, shard int, each func([]firing) error) (complete bool, err error) {
	next, _, err := readPages(workflow.Page{Limit: schedulePageSize}, maxPages, func(p workflow.Page) (workflow.List[firing], error) {
		return s.schedules.due(ctx, shard, p)
	}, each)
	return next == "" && err == nil, err
}

// readPages reads page after page, up to a bound. It returns where it stopped, "" at the
// end, and how many more it might have read.
func readPages[T any](page workflow.Page, limit int, read func(workflow.Page) (workflow.List[T], error), each func([]T) error) (next string, left int, err error) {
	for left = limit; left > 0; {
		due, err := read(page)
		if err != nil {
			return page.Token, left, err
		}
		left--
		if len(due.Items) > 0 {
			if err := each(due.Items); err != nil {
				return page.Token, left, err
			}
		}
		if page.Token = due.NextToken; page.Token == "" {
			break
		}
	}
	return page.Token, left, nil
}
