package query

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// Locks lists the locks that are held. It finds them through the executions that hold locks, so the
// work is proportional to the number of held locks.
func (v *Service) Locks(ctx context.Context, c workflow.Caller, p workflow.Page) (workflow.List[views.LockView], error) {
	var list workflow.List[views.LockView]
	executionID, skip, err := parseLockToken(p)
	if err != nil {
		return list, err
	}
	var holding []sm.ExecutionState
	for _, s := range sm.ExecutionStates() {
		if sm.HoldsLocks(s) {
			holding = append(holding, s)
		}
	}
	// Read the execution at which the last page stopped once more: an id sorts below the same id
	// with a character appended.
	below := executionID
	if executionID != "" {
		below = executionID + "~"
	}
	listed := v.listStates(c.Tenant, holding, workflow.OrderNewest)
	for range maxListReads {
		batch, end, err := listed.next(ctx, below, workflow.DefaultPageSize)
		if err != nil {
			return list, err
		}
		list.Skipped = append(list.Skipped, batch.skipped...)
		for _, x := range batch.executions {
			if x.ID != executionID {
				skip = 0
			}
			full, err := v.appendLocks(ctx, x, skip, pageLimit(p), &list)
			if err != nil || full {
				list.Skipped = skippedUntil(list.Skipped, x.ID, workflow.OrderNewest)
				return list, err
			}
		}
		if end {
			return list, nil
		}
		below = batch.last
		executionID, skip = "", 0
	}
	list.NextToken = lockTokenAfter(below)
	return list, nil
}

// lockTokenAfter returns the token of a page that ends after an execution all of whose entities
// have been listed.
func lockTokenAfter(executionID string) string {
	return encodePageToken(fmt.Sprintf("%s|%d", executionID, math.MaxInt32))
}

// parseLockToken returns the execution at which the previous page stopped, and how many of its
// entities have been listed.
func parseLockToken(p workflow.Page) (executionID string, skip int, err error) {
	if p.Token == "" {
		return "", 0, nil
	}
	s, err := decodePageToken(p)
	if err != nil {
		return "", 0, err
	}
	executionID, n, ok := strings.Cut(s, "|")
	if skip, err = strconv.Atoi(n); err != nil || !ok || skip < 0 {
		return "", 0, invalidPageToken()
	}
	return executionID, skip, nil
}

// appendLocks appends the locks that an execution holds, without its first skip entities. full
// means that the page is full and its token is set.
func (v *Service) appendLocks(ctx context.Context, x *workflow.Execution, skip, limit int, list *workflow.List[views.LockView]) (full bool, err error) {
	head := x.OwnerStatus()
	if !head.Holds(x.Epoch, 0) || x.Kept != nil && x.Kept.Len() == 0 {
		return false, nil
	}
	i := v.engine.InspectLoaded(x)
	entities, err := i.Entities(ctx)
	if err != nil {
		return false, err
	}
	waiters, err := v.waitersByEntity(ctx, x)
	if err != nil {
		return false, err
	}
	for skip < len(entities) {
		part := entities[skip:min(len(entities), skip+workflow.DefaultPageSize)]
		var keys []workflow.EntityKey
		for _, e := range part {
			if head.Holds(x.Epoch, e.Place) {
				keys = append(keys, e.Key)
			}
		}
		items := map[workflow.EntityKey]workflow.Lock{}
		if len(keys) > 0 {
			if items, err = i.Ports().Locks.Read(ctx, x.Tenant, keys, true); err != nil {
				return false, err
			}
		}
		var reserving []string
		for _, l := range items {
			if l.Reserver != "" && !slices.Contains(reserving, l.Reserver) {
				reserving = append(reserving, l.Reserver)
			}
		}
		heads := map[string]workflow.OwnerStatus{}
		if len(reserving) > 0 {
			if heads, err = i.Ports().Store.Heads(ctx, x.Tenant, reserving); err != nil {
				return false, err
			}
		}
		for _, e := range part {
			if len(list.Items) == limit {
				list.NextToken = encodePageToken(fmt.Sprintf("%s|%d", x.ID, skip))
				return true, nil
			}
			skip++
			l := items[e.Key]
			if !heads[l.Reserver].Reserves() {
				l.Reserver = ""
			}
			if h, held := l.HolderOf(x.ID, x.Epoch); held && head.Holds(x.Epoch, h.Place) {
				list.Items = append(list.Items, lockView(l, x.ID, h, waiters[e.Key]))
			}
		}
	}
	return false, nil
}

// lockView shows a lock with one of its holders.
func lockView(l workflow.Lock, by string, h workflow.Holder, waiting []views.Waiter) views.LockView {
	if waiting == nil {
		waiting = []views.Waiter{}
	}
	mode := workflow.LockExclusive
	if l.Mode != "" {
		mode = l.Mode
	}
	return views.LockView{
		Entity: l.Entity, HeldBy: nonZeroPtr(by), Since: ptr(time.UnixMilli(h.Since).UTC()),
		ReservedBy: nonZeroPtr(l.Reserver), Token: h.Token, Mode: string(mode), Waiting: waiting,
	}
}

// waitersByEntity maps entities to the executions that wait for x to release them, except those of
// a newer version.
func (v *Service) waitersByEntity(ctx context.Context, x *workflow.Execution) (map[workflow.EntityKey][]views.Waiter, error) {
	if len(x.Waiters) == 0 {
		return nil, nil
	}
	waiting, _, err := v.engine.OpenPorts().Store.LoadMany(ctx, x.Tenant, x.Waiters)
	if err != nil {
		return nil, err
	}
	byEntity := map[workflow.EntityKey][]views.Waiter{}
	for _, w := range waiting {
		if b := w.BlockedBy; b != nil && b.Execution == x.ID {
			byEntity[b.Entity] = append(byEntity[b.Entity], views.Waiter{Execution: w.ID, Since: &b.Since})
		}
	}
	return byEntity, nil
}

// Lock returns the lock of one entity of the inventory, held or not. If several executions share
// it, the oldest is shown as the holder, with the waiters of all of them; Locks lists each of them
// separately.
func (v *Service) Lock(ctx context.Context, c workflow.Caller, key workflow.EntityKey) (views.LockView, error) {
	ports := v.engine.OpenPorts()
	keys := []workflow.EntityKey{key}
	known, err := ports.Registry.Entities(ctx, c.Tenant, keys, true)
	if err != nil {
		return views.LockView{}, err
	}
	if _, ok := known[key]; !ok {
		return views.LockView{}, workflow.Errorf(workflow.CodeNotFound, "the inventory has no entity %s", key)
	}
	return v.LockOf(ctx, c, key)
}

// LockOf returns the lock of an entity as Lock does, whether or not the inventory has the entity.
func (v *Service) LockOf(ctx context.Context, c workflow.Caller, key workflow.EntityKey) (views.LockView, error) {
	ports := v.engine.OpenPorts()
	keys := []workflow.EntityKey{key}
	items, err := ports.Locks.Read(ctx, c.Tenant, keys, true)
	if err != nil {
		return views.LockView{}, err
	}
	l := items[key]
	named := slices.Sorted(maps.Keys(l.Holders))
	for _, id := range []string{l.Owner, l.Reserver} {
		if id != "" && !slices.Contains(named, id) {
			named = append(named, id)
		}
	}
	executions, newer, err := ports.Store.LoadMany(ctx, c.Tenant, named)
	if err != nil {
		return views.LockView{}, err
	}
	if len(newer) > 0 {
		heads, err := ports.Store.Heads(ctx, c.Tenant, newer)
		if err != nil {
			return views.LockView{}, err
		}
		for _, id := range newer { // what an execution of a newer version waits for cannot be read
			head := heads[id]
			executions = append(executions, &workflow.Execution{Tenant: c.Tenant, ID: id, State: head.State, Epoch: head.Epoch, Kept: head.Kept})
		}
	}
	slices.SortFunc(executions, func(a, b *workflow.Execution) int { return strings.Compare(a.ID, b.ID) })
	answer := lockView(l, "", workflow.Holder{Token: l.Token}, nil)
	answer.Since, answer.ReservedBy = nil, nil
	for _, x := range executions {
		head := x.OwnerStatus()
		if x.ID == l.Reserver && head.Reserves() {
			answer.ReservedBy = nonZeroPtr(l.Reserver)
		}
		h, held := l.HolderOf(x.ID, x.Epoch)
		if !held || !head.Holds(x.Epoch, h.Place) {
			continue
		}
		by, err := v.waitersByEntity(ctx, x)
		if err != nil {
			return views.LockView{}, err
		}
		waiting := slices.Concat(answer.Waiting, by[key])
		if answer.HeldBy == nil {
			reserved := answer.ReservedBy
			answer = lockView(l, x.ID, h, nil)
			answer.ReservedBy = reserved
		} else {
			answer.SharedWith = append(answer.SharedWith, x.ID)
		}
		if len(waiting) > 0 {
			answer.Waiting = waiting
		}
	}
	return answer, nil
}
