package query

import (
	"context"
	"slices"

	"github.com/lockstep-run/lockstep/shared/engine/port"
	"github.com/lockstep-run/lockstep/shared/parallel"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// maxListReads bounds how many batches one call reads to find executions that match the filter. The
// page may then be short; its token continues from there.
const maxListReads = 10

// Executions lists executions in the order of the filter.
func (v *Service) Executions(ctx context.Context, c workflow.Caller, f views.ExecutionFilter, p workflow.Page) (workflow.List[views.ExecutionView], error) {
	var list workflow.List[views.ExecutionView]
	if f.IdempotencyKey != "" {
		return v.executionsOfKey(ctx, c, f)
	}
	from := ""
	if p.Token != "" {
		var err error
		if from, err = decodePageToken(p); err != nil {
			return list, err
		}
	}
	limit, bytes := pageLimit(p), 0
	listed := v.listStates(c.Tenant, matchingStates(f), f.Order)
	for range maxListReads {
		batch, end, err := listed.next(ctx, from, limit)
		if err != nil {
			return list, err
		}
		list.Skipped = append(list.Skipped, batch.skipped...)
		batch.executions = slices.DeleteFunc(batch.executions, func(x *workflow.Execution) bool {
			return !matchesFilter(x, f) || !v.mayWaitFor(x, f.Waiting)
		})
		waits, err := v.listedWaits(ctx, c.Tenant, batch.executions)
		if err != nil {
			return list, err
		}
		for i, x := range batch.executions {
			if !waitsFor(waits[i], f.Waiting) {
				continue
			}
			item := executionSummary(x)
			item.Waiting = waits[i]
			bytes += x.ItemBytes
			if bytes > maxPageBytes && len(list.Items) > 0 {
				last := list.Items[len(list.Items)-1].ID
				list.NextToken, list.Skipped = encodePageToken(last), skippedUntil(list.Skipped, last, f.Order)
				return list, nil
			}
			list.Items = append(list.Items, item)
			from = x.ID
			if len(list.Items) == limit {
				list.NextToken, list.Skipped = encodePageToken(from), skippedUntil(list.Skipped, from, f.Order)
				return list, nil
			}
		}
		if end {
			return list, nil
		}
		from = batch.last
	}
	list.NextToken = encodePageToken(from)
	return list, nil
}

// executionsOfKey returns the execution that a request with an idempotency key has started, if it
// matches the filter. It takes one read of the key and one of the execution.
func (v *Service) executionsOfKey(ctx context.Context, c workflow.Caller, f views.ExecutionFilter) (list workflow.List[views.ExecutionView], err error) {
	ports := v.engine.OpenPorts()
	record, err := ports.Registry.IdempotencyRecord(ctx, c.Tenant, f.IdempotencyKey, v.engine.Now())
	if err != nil || record.Execution == "" {
		return list, err
	}
	found, newer, err := ports.Store.LoadMany(ctx, c.Tenant, []string{record.Execution})
	if err != nil {
		return list, err
	}
	list.Skipped = newer
	found = slices.DeleteFunc(found, func(x *workflow.Execution) bool { return !matchesFilter(x, f) })
	waits, err := v.listedWaits(ctx, c.Tenant, found)
	if err != nil {
		return list, err
	}
	for i, x := range found {
		if !waitsFor(waits[i], f.Waiting) {
			continue
		}
		item := executionSummary(x)
		item.Waiting, item.IdempotencyExpiresAt = waits[i], timePtr(record.ExpiresAt)
		list.Items = append(list.Items, item)
	}
	return list, nil
}

// skippedUntil returns skipped without those that the next page names: those behind the id
// at which this page ends.
func skippedUntil(skipped []string, last string, order workflow.Order) []string {
	return slices.DeleteFunc(skipped, func(id string) bool { return order.Before(last, id) })
}

// executionBatch is executions as read strongly consistent, in the order of the list. last is
// the id of the last one that the index listed. skipped are those of a newer version.
type executionBatch struct {
	executions []*workflow.Execution
	skipped    []string
	last       string
}

// stateList is the list of a tenant's executions in some states.
type stateList struct {
	v        *Service
	tenant   string
	states   []sm.ExecutionState // those under which the index lists them
	order    workflow.Order
	begun    bool
	unlisted []string // ids that the index of states leaves out, in the order of the list; read once it has begun
}

// listStates returns the list of the executions that the indexes list where they list those in any of
// the states: the caller leaves out what is in others.
func (v *Service) listStates(tenant string, states []sm.ExecutionState, order workflow.Order) stateList {
	l := stateList{v: v, tenant: tenant, order: order}
	for _, state := range states {
		if at := sm.ListedAs(state); !slices.Contains(l.states, at) {
			l.states = append(l.states, at)
		}
	}
	return l
}

// begin reads what the index of states leaves out, once and before that index: an execution that
// leaves the one index enters the other.
func (l *stateList) begin(ctx context.Context, ports port.Ports) (err error) {
	if l.begun || !slices.Contains(l.states, sm.ExecutionRunning) {
		return nil
	}
	l.unlisted, err = ports.Store.ListUnlisted(ctx, l.tenant, l.v.engine.Now())
	slices.SortFunc(l.unlisted, l.order.Compare)
	l.begun = err == nil
	return err
}

// next reads the next executions behind an id. end means that there are no more.
func (l *stateList) next(ctx context.Context, from string, limit int) (b executionBatch, end bool, err error) {
	ports := l.v.engine.OpenPorts()
	if err := l.begin(ctx, ports); err != nil {
		return b, false, err
	}
	listed := make([][]string, len(l.states))
	err = parallel.Each(ctx, l.v.parallel, len(l.states), func(ctx context.Context, i int) (err error) {
		listed[i], err = ports.Store.ListByState(ctx, l.tenant, l.states[i], from, l.order, limit)
		return err
	})
	if err != nil {
		return b, false, err
	}
	ids := slices.Concat(listed...)
	for _, id := range l.unlisted {
		if from == "" || l.order.Before(from, id) {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, l.order.Compare)
	ids = slices.Compact(ids)
	end = len(ids) < limit
	if !end {
		ids = ids[:limit]
	}
	if len(ids) == 0 {
		return b, true, nil
	}
	b.last = ids[len(ids)-1]
	b.executions, b.skipped, err = ports.Store.LoadMany(ctx, l.tenant, ids)
	return b, end, err
}

// matchingStates lists the states that match the filter.
func matchingStates(f views.ExecutionFilter) []sm.ExecutionState {
	var states []sm.ExecutionState
	for _, s := range sm.ExecutionStates() {
		if matchesState(s, f) {
			states = append(states, s)
		}
	}
	return states
}

// statesOfWait returns the states in which executions have a kind of wait; nil for all.
func statesOfWait(kind workflow.WaitKind) []sm.ExecutionState {
	switch kind {
	case workflow.WaitInput, workflow.WaitSignal: // RUNNING: a branch may wait while others work
		return []sm.ExecutionState{sm.ExecutionWaiting, sm.ExecutionRunning}
	case workflow.WaitTimer, workflow.WaitCondition:
		return []sm.ExecutionState{sm.ExecutionWaiting, sm.ExecutionRunning, sm.ExecutionBlockedWaiting}
	case workflow.WaitChild:
		return []sm.ExecutionState{sm.ExecutionWaiting, sm.ExecutionRunning, sm.ExecutionRollback}
	case workflow.WaitChildInput:
		return []sm.ExecutionState{sm.ExecutionWaiting, sm.ExecutionRunning}
	case workflow.WaitStep:
		return []sm.ExecutionState{sm.ExecutionWaiting}
	case workflow.WaitHold:
		return []sm.ExecutionState{sm.ExecutionBlockedWaiting}
	case workflow.WaitLock:
		return []sm.ExecutionState{sm.ExecutionScheduled}
	case workflow.WaitWorker:
		return statesWithJobs
	case workflow.WaitAcknowledge:
		return []sm.ExecutionState{sm.ExecutionFailedUnsafe, sm.ExecutionCancelled}
	}
	return nil
}

// mayWaitFor reports whether an execution, or one of its branches, may have a kind of wait, judging
// by its state item. More is read only if it may.
func (v *Service) mayWaitFor(x *workflow.Execution, kind workflow.WaitKind) bool {
	if kind == "" || kind == workflow.WaitWorker {
		return true
	}
	if waitsFor(v.storedWaiting(x, nil), kind) {
		return true
	}
	return x.State == sm.ExecutionRunning && waitsFor(branchWaiting(x), kind)
}

// waitsFor reports whether the shown waits of an execution include a kind of wait.
func waitsFor(w *views.Waiting, kind workflow.WaitKind) bool {
	return kind == "" || w != nil && (w.Kind == kind || slices.ContainsFunc(w.All, func(o views.StepWaiting) bool { return o.Kind == kind }))
}

func matchesState(s sm.ExecutionState, f views.ExecutionFilter) bool {
	status := sm.StatusOf(s)
	if states := statesOfWait(f.Waiting); states != nil && !slices.Contains(states, s) {
		return false
	}
	return (f.State == "" || f.State == s) && (f.Status == "" || f.Status == status) && (f.Outcome == "" || sm.Terminal(s)) &&
		(!f.Active || status == sm.StatusPending || status == sm.StatusRunning)
}

func matchesFilter(x *workflow.Execution, f views.ExecutionFilter) bool {
	if !matchesState(x.State, f) || !x.DiscardedAt.IsZero() || f.Parent != "" && (x.Parent == nil || x.Parent.Execution != f.Parent) {
		return false
	}
	if f.Outcome != "" && x.Outcome() != f.Outcome {
		return false
	}
	if w := f.Workflow; w.Name != "" && (w.FullName() != x.Workflow.FullName() || !w.Matches(x.Workflow.Version)) {
		return false
	}
	if f.Key != "" && x.Key != f.Key || f.Region != "" && x.Region != f.Region {
		return false
	}
	for k, want := range f.Labels {
		if got, ok := x.Labels[k]; !ok || got != want {
			return false
		}
	}
	return (f.CreatedAfter.IsZero() || !x.CreatedAt.Before(f.CreatedAfter)) &&
		(f.CreatedBefore.IsZero() || x.CreatedAt.Before(f.CreatedBefore))
}
