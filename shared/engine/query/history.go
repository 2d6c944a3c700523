package query

import (
	"context"
	"strconv"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// History lists the events of an execution with a sequence number above after, in order: first from
// the stored pages, then from the state item. The state item is read first, so an event that moves
// to a page in between is found in both; it is listed once.
func (v *Service) History(ctx context.Context, c workflow.Caller, id string, after int64, p workflow.Page) (workflow.List[workflow.Event], error) {
	var list workflow.List[workflow.Event]
	if p.Token != "" {
		var err error
		if after, err = parseSequenceToken(p); err != nil {
			return list, err
		}
	}
	i, err := v.engine.Inspect(ctx, c.Tenant, id)
	if err != nil {
		return list, err
	}
	x, limit := i.Execution(), pageLimit(p)
	if after < x.PagedThrough {
		paged, err := i.Ports().Store.LoadEvents(ctx, c.Tenant, id, after, limit)
		if err != nil {
			return list, err
		}
		for _, e := range paged {
			if e.Sequence <= x.PagedThrough {
				list.Items = append(list.Items, e)
			}
		}
	}
	for _, e := range x.Events {
		if e.Sequence > after && len(list.Items) < limit && e.Sequence == nextSequence(list.Items, after) {
			list.Items = append(list.Items, e)
		}
	}
	if n := len(list.Items); n > 0 && list.Items[n-1].Sequence < x.Sequence {
		list.NextToken = encodePageToken(strconv.FormatInt(list.Items[n-1].Sequence, 10))
	}
	return list, nil
}

// nextSequence returns the sequence number after the listed events.
func nextSequence(listed []workflow.Event, after int64) int64 {
	if n := len(listed); n > 0 {
		return listed[n-1].Sequence + 1
	}
	return after + 1
}
