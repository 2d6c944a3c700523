package sweep

import (
	"context"
	"time"

	"github.com/lockstep-run/lockstep/shared/engine/calendar"
	"github.com/lockstep-run/lockstep/shared/engine/roster"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// One read of an index returns a page, and one sweep reads up to sweepPages of each
// shard; what is left is the next sweep's. What takes more work an item has smaller
// pages. The first oldestPages of the alarms are of the oldest.
const (
	sweepPage    = 100
	schedulePage = 50
	sweepPages   = 20
	oldestPages  = sweepPages / 2
)

// alarms hands each the executions of a shard whose alarm has rung, a page at a
// time; complete says that these were all.
//
// A look that fails leaves the alarm where it is. So where more is due than one
// sweep reads, the oldest may be the same ones every time, runs of a newer release
// perhaps, and must not keep those behind them from being looked at: the other half
// of the pages are read from a moment that each sweep chooses anew, and what these
// leave goes on behind the oldest.
func (s *sweeper) alarms(ctx context.Context, shard int, each func([]workflow.Look) error) (complete bool, err error) {
	now, last := s.now(), time.Time{}
	between := func(since, until time.Time) func(workflow.Page) (workflow.List[workflow.Look], error) {
		return func(p workflow.Page) (workflow.List[workflow.Look], error) {
			return s.ports.Store.Due(ctx, shard, since, until, p)
		}
	}
	behind, _, err := pages(workflow.Page{Limit: sweepPage}, oldestPages, between(time.Time{}, now), func(due []workflow.Look) error {
		last = due[len(due)-1].DueAt
		return each(due)
	})
	if behind == "" || err != nil {
		return err == nil, err
	}
	elsewhere := beginning(last, now, shard)
	_, left, err := pages(workflow.Page{Limit: sweepPage}, sweepPages-oldestPages, between(elsewhere, now), each)
	if left == 0 || err != nil {
		return false, err
	}
	behind, _, err = pages(workflow.Page{Limit: sweepPage, Token: behind}, left, between(time.Time{}, elsewhere.Add(-time.Millisecond)), each)
	return behind == "" && err == nil, err
}

// beginning is a moment after the first one, and not after now where there is any,
// each as likely. It is another one for every sweep and shard, but always the same
// for the same ones, so that nothing has to be kept from sweep to sweep.
func beginning(after, now time.Time, shard int) time.Time {
	// These mix the bits of a number so that all depend on all.
	x := uint64(now.UnixMilli()) + uint64(shard)*0x9E3779B97F4A7C15
	x = (x ^ x>>30) * 0xBF58476D1CE4E5B9
	x = (x ^ x>>27) * 0x94D049BB133111EB
	x ^= x >> 31
	room := uint64(max(1, now.UnixMilli()-after.UnixMilli()))
	return after.Add(time.Millisecond * time.Duration(1+x%room))
}

// silent hands each the workers of a shard that are due, as they are judged.
func (s *sweeper) silent(ctx context.Context, shard int, each func([]roster.Judgement) error) (complete bool, err error) {
	next, _, err := pages(workflow.Page{Limit: sweepPage}, sweepPages, func(p workflow.Page) (workflow.List[roster.Judgement], error) {
		return s.people.Due(ctx, shard, p)
	}, each)
	return next == "" && err == nil, err
}

// moments hands each the schedules of a shard that are due.
func (s *sweeper) moments(ctx context.Context, shard int, each func([]calendar.Moment) error) (complete bool, err error) {
	next, _, err := pages(workflow.Page{Limit: schedulePage}, sweepPages, func(p workflow.Page) (workflow.List[calendar.Moment], error) {
		return s.clock.Due(ctx, shard, p)
	}, each)
	return next == "" && err == nil, err
}

// pages reads page after page, up to a bound. It returns where it stopped, "" at the
// end, and how many more it might have read.
func pages[T any](page workflow.Page, most int, read func(workflow.Page) (workflow.List[T], error), each func([]T) error) (next string, left int, err error) {
	for left = most; left > 0; {
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
		if page.Token = due.Next; page.Token == "" {
			break
		}
	}
	return page.Token, left, nil
}
