package query

import (
	"context"
	"encoding/json"
	"maps"
	"slices"

	"github.com/lockstep-run/lockstep/shared/engine"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

const (
	// maxUnsuccessfulRead is how many children that did not end well are read for one view.
	maxUnsuccessfulRead = 500

	// unsuccessfulBatch is how many of them are read at once.
	unsuccessfulBatch = 100
)

// unacknowledgedChildren returns the first executions that the execution has started, in any try,
// and that wait to be acknowledged: they may hold what the execution needs when it is tried again.
// Those of the last step runs come first. more says that there are more, or that there may be,
// because more children did not end well than are read for one view.
func unacknowledgedChildren(ctx context.Context, i *engine.Inspection) (found []views.UnacknowledgedChild, more bool, err error) {
	x, list := i.Execution(), unsuccessfulChildren{i: i, left: i.Execution().StepRuns}
	items := map[int][]json.RawMessage{} // by sequence number of the step run
	found = []views.UnacknowledgedChild{}
	for read := 0; ; read += unsuccessfulBatch {
		batch, err := list.next(ctx, unsuccessfulBatch)
		if err != nil || len(batch) == 0 {
			return found, false, err
		}
		if read == maxUnsuccessfulRead {
			return found, true, nil
		}
		ids := make([]string, len(batch))
		for n, c := range batch {
			ids[n] = c.id
		}
		heads, err := i.Ports().Store.Heads(ctx, x.Tenant, ids)
		if err != nil {
			return found, false, err
		}
		for _, c := range batch {
			state := heads[c.id].State
			if state != sm.ExecutionFailedUnsafe && state != sm.ExecutionCancelled {
				continue
			}
			if len(found) == workflow.MaxNamedFailures {
				return found, true, nil
			}
			shown := views.UnacknowledgedChild{ID: c.id, Step: c.r.Label, State: state}
			if c.r.IsSet() {
				if _, known := items[c.r.Seq]; !known {
					if items[c.r.Seq], err = valueList(ctx, i, c.r.Seq, c.r.List); err != nil {
						return found, false, err
					}
				}
				number := c.r.ItemOf(c.lane)
				if shown.Item = &number; number < len(items[c.r.Seq]) {
					shown.ItemText = ptr((&workflow.Item{Number: number, Value: items[c.r.Seq][number]}).Text())
				}
			}
			found = append(found, shown)
		}
	}
}

// unsuccessfulChildren lists the children of an execution that did not end well, those of the last
// step runs first. It reads the done sets of a step run when the list gets there.
type unsuccessfulChildren struct {
	i     *engine.Inspection
	left  []workflow.StepRun // in which it has not looked yet
	r     *workflow.StepRun
	lanes []int // of r, that are not listed yet
}

type unsuccessfulChild struct {
	r    *workflow.StepRun
	lane int
	id   string
}

// next returns the next children of the list, at most limit; none at the end.
func (u *unsuccessfulChildren) next(ctx context.Context, limit int) (batch []unsuccessfulChild, err error) {
	for len(batch) < limit {
		if len(u.lanes) == 0 {
			if len(u.left) == 0 {
				break
			}
			u.r, u.left = &u.left[len(u.left)-1], u.left[:len(u.left)-1]
			if u.lanes, err = unsuccessfulLanes(ctx, u.i, u.r); err != nil {
				return nil, err
			}
			continue
		}
		c := unsuccessfulChild{r: u.r, lane: u.lanes[0]}
		if c.id = u.r.Child.ID; u.r.IsSet() {
			c.id = u.r.ChildID(u.i.Execution().ID, c.lane)
		}
		batch, u.lanes = append(batch, c), u.lanes[1:]
	}
	return batch, nil
}

// unsuccessfulLanes returns the children of a step run that did not end well, as far as the step run
// or its done sets know.
func unsuccessfulLanes(ctx context.Context, i *engine.Inspection, r *workflow.StepRun) (lanes []int, err error) {
	switch {
	case r.Child == nil || r.Child.Mode != workflow.ModeDispatch:
		return nil, nil
	case !r.IsSet() && (r.Child.State == sm.ExecutionFailedUnsafe || r.Child.State == sm.ExecutionCancelled):
		return []int{0}, nil
	case !r.IsSet(), !r.Open() && r.Counts.Failed == 0:
		return nil, nil
	}
	_, failed, err := i.ChildLanes(ctx, r)
	return slices.Sorted(maps.Keys(failed)), err
}
