package sweep

import (
	"context"

	"github.com/lockstep-run/lockstep/shared/engine/calendar"
	"github.com/lockstep-run/lockstep/shared/engine/roster"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// One read of an index returns a page, and one sweep makes pages of them for each
// shard; the next sweep goes on. What takes more work an item has smaller pages.
const (
	sweepPage    = 100
	schedulePage = 50
	sweepPages   = 20
)

// alarms hands each the executions of a shard whose alarm has rung, a page at a
// time.
func (s *sweeper) alarms(ctx context.Context, shard int, each func([]workflow.Look) error) (complete bool, err error) {
	return pages(sweepPage, func(p workflow.Page) (workflow.List[workflow.Look], error) {
		return s.ports.Store.Due(ctx, shard, s.now(), p)
	}, each)
}

// silent hands each the workers of a shard that are due, as they are judged.
func (s *sweeper) silent(ctx context.Context, shard int, each func([]roster.Judgement) error) (complete bool, err error) {
	return pages(sweepPage, func(p workflow.Page) (workflow.List[roster.Judgement], error) {
		return s.people.Due(ctx, shard, p)
	}, each)
}

// moments hands each the schedules of a shard that are due.
func (s *sweeper) moments(ctx context.Context, shard int, each func([]calendar.Moment) error) (complete bool, err error) {
	return pages(schedulePage, func(p workflow.Page) (workflow.List[calendar.Moment], error) {
		return s.clock.Due(ctx, shard, p)
	}, each)
}

// pages reads page after page, up to a bound; complete says that there is no more.
func pages[T any](size int, read func(workflow.Page) (workflow.List[T], error), each func([]T) error) (complete bool, err error) {
	page := workflow.Page{Limit: size}
	for range sweepPages {
		due, err := read(page)
		if err != nil {
			return false, err
		}
		if len(due.Items) > 0 {
			if err := each(due.Items); err != nil {
				return false, err
			}
		}
		if page.Token = due.Next; page.Token == "" {
			return true, nil
		}
	}
	return false, nil
}
