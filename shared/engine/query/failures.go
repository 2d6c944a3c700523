package query

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-run/lockstep/shared/engine"
	"github.com/lockstep-run/lockstep/shared/engine/port"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// maxExecutionAge bounds how old an execution may be, counted back from the requested time, to be
// included. The index is ordered by creation time, so the search needs a limit.
const maxExecutionAge = 31 * 24 * time.Hour

// Failures lists the entities that did not succeed in an execution that has ended, starting with
// the newest execution.
func (v *Service) Failures(ctx context.Context, c workflow.Caller, f views.FailureFilter, p workflow.Page) (workflow.List[views.FailedEntityView], error) {
	var list workflow.List[views.FailedEntityView]
	id, skip, err := parseLockToken(p)
	if err != nil {
		return list, err
	}
	var ended []sm.ExecutionState
	for _, s := range sm.ExecutionStates() {
		if sm.Terminal(s) {
			ended = append(ended, s)
		}
	}
	// As in Locks, read the execution at which the last page stopped once more.
	below := id
	if below != "" {
		below += "~"
	}
	parts := 0
	filter := views.ExecutionFilter{Workflow: f.Workflow}
	listed := v.listStates(c.Tenant, ended, workflow.OrderNewest)
	for range maxListReads {
		batch, end, err := listed.next(ctx, below, workflow.DefaultPageSize)
		if err != nil {
			return list, err
		}
		list.Skipped = append(list.Skipped, batch.skipped...)
		for _, x := range batch.executions {
			if !f.Since.IsZero() && x.CreatedAt.Before(f.Since.Add(-maxExecutionAge)) {
				return list, nil
			}
			if x.ID != id {
				id, skip = x.ID, 0
			}
			if !sm.Terminal(x.State) || !matchesFilter(x, filter) || x.EndedAt.Before(f.Since) {
				continue
			}
			if full, err := v.appendFailures(ctx, x, f, skip, pageLimit(p), &parts, &list); full || err != nil {
				list.Skipped = skippedUntil(list.Skipped, x.ID, workflow.OrderNewest)
				return list, err
			}
		}
		if end {
			return list, nil
		}
		below = batch.last
	}
	list.NextToken = lockTokenAfter(below)
	return list, nil
}

// maxFailureParts bounds how many scope parts with failures one call reads.
const maxFailureParts = 20

// appendFailures appends the entities that did not succeed in an execution, without the first skip
// entities of its scope. full means that the page is full and its token is set.
func (v *Service) appendFailures(ctx context.Context, x *workflow.Execution, f views.FailureFilter, skip, limit int, parts *int, list *workflow.List[views.FailedEntityView]) (full bool, err error) {
	outcome := x.Outcome()
	if done := outcome == workflow.OutcomeSucceeded && !closedJobs(x) || outcome == workflow.OutcomePartial && x.Result == nil; done && x.DroppedCount == 0 || outcome == workflow.OutcomeProbed {
		return false, nil
	}
	i := v.engine.InspectLoaded(x)
	if err := engine.ReadOutcomes(ctx, i.Ports().Packs, x); err != nil {
		if !port.Permanent(err) {
			return false, err
		}
		list.Skipped = append(list.Skipped, x.ID) // the others are told, and of this one those that are named
	}
	entities, err := i.AllEntities(ctx)
	if err != nil {
		return false, err
	}
	why := map[string]workflow.EntityFailure{}
	if x.Result != nil {
		for _, n := range x.Result.Named {
			why[n.Entity] = n
		}
	}
	for i := range x.Dropped { // they are in no scope
		b := &x.Dropped[i]
		entities = append(entities, workflow.ScopeEntity{Key: b.Entity})
		why[b.Entity.String()] = workflow.EntityFailure{Outcome: workflow.EntitySkipped, Code: workflow.CodeEntityLocked.OfFailure(), Message: droppedReason(b)}
	}
	for skip < len(entities) {
		part := entities[skip:min(len(entities), skip+workflow.DefaultPageSize)]
		failed := map[workflow.EntityKey]workflow.EntityOutcome{}
		for _, e := range part {
			outcome, known := x.EntityOutcome(e.Place)
			if !known || e.Place == 0 { // only entities that are named
				outcome = why[e.Key.String()].Outcome
			}
			if outcome != "" && outcome != workflow.EntitySucceeded {
				failed[e.Key] = outcome
			}
		}
		if len(failed) > 0 {
			if *parts++; *parts > maxFailureParts {
				list.NextToken = encodePageToken(fmt.Sprintf("%s|%d", x.ID, skip))
				return true, nil
			}
		}
		if err := v.keepGroups(ctx, x.Tenant, f.Groups, failed); err != nil {
			return false, err
		}
		later, err := v.successesAfter(ctx, x, failed)
		if err != nil {
			return false, err
		}
		for _, e := range part {
			if len(list.Items) == limit {
				list.NextToken = encodePageToken(fmt.Sprintf("%s|%d", x.ID, skip))
				return true, nil
			}
			skip++
			outcome, ok := failed[e.Key]
			if !ok {
				continue
			}
			item := views.FailedEntityView{Entity: e.Key.String(), Outcome: outcome, Execution: x.ID, Workflow: x.Workflow, EndedAt: timePtr(x.EndedAt), SucceededLater: nonZeroPtr(later[e.Key])}
			if n, named := why[item.Entity]; named {
				item.Step, item.Code, item.Message = nonZeroPtr(n.Step), nonZeroPtr(n.Code), nonZeroPtr(n.Message)
			}
			list.Items = append(list.Items, item)
		}
	}
	return false, nil
}

// closedJobs reports whether a step was over before the turn of some entities came, and the entities
// have been judged since.
func closedJobs(x *workflow.Execution) bool {
	return x.Result != nil && slices.ContainsFunc(x.StepRuns, func(r workflow.StepRun) bool { return r.Forward() && r.Counts.NotExecuted > 0 })
}

// droppedReason returns why an entity was left out.
func droppedReason(b *workflow.BlockedBy) string {
	if b.Reservation {
		return "left out, since execution " + b.Execution + " had reserved it"
	}
	return "left out, since execution " + b.Execution + " had locked it"
}

// keepGroups removes entities that are in none of the groups.
func (v *Service) keepGroups(ctx context.Context, tenant string, groups []string, failed map[workflow.EntityKey]workflow.EntityOutcome) error {
	if len(groups) == 0 || len(failed) == 0 {
		return nil
	}
	entities, err := v.engine.OpenPorts().Registry.Entities(ctx, tenant, keysOf(failed), false)
	if err != nil {
		return err
	}
	for key := range failed {
		if !slices.ContainsFunc(entities[key].Groups, func(g string) bool { return slices.Contains(groups, g) }) {
			delete(failed, key)
		}
	}
	return nil
}

// successesAfter finds, for entities that failed in an execution, a later execution in which the
// entity succeeded. The lock items name the candidates.
func (v *Service) successesAfter(ctx context.Context, x *workflow.Execution, failed map[workflow.EntityKey]workflow.EntityOutcome) (map[workflow.EntityKey]string, error) {
	later := map[workflow.EntityKey]string{}
	if len(failed) == 0 {
		return later, nil
	}
	items, err := v.engine.OpenPorts().Locks.Read(ctx, x.Tenant, keysOf(failed), true)
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, l := range items {
		for _, h := range l.Recent {
			if h.Execution != x.ID {
				ids = append(ids, h.Execution)
			}
		}
	}
	slices.Sort(ids)
	others, err := v.loadByID(ctx, x.Tenant, slices.Compact(ids))
	if err != nil {
		return nil, err
	}
	for key, l := range items {
		for _, h := range l.Recent {
			o := others[h.Execution]
			if o == nil || o.ID == x.ID || h.Place == 0 || !o.EndedAt.After(x.EndedAt) {
				continue
			}
			if outcome, known := o.EntityOutcome(h.Place); known && outcome == workflow.EntitySucceeded && o.Outcome() != workflow.OutcomeProbed {
				later[key] = o.ID
			}
		}
	}
	return later, nil
}

func keysOf(m map[workflow.EntityKey]workflow.EntityOutcome) (keys []workflow.EntityKey) {
	for key := range m {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b workflow.EntityKey) int { return strings.Compare(a.String(), b.String()) })
	return keys
}
