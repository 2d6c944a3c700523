package query

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-run/lockstep/shared/engine"
	"github.com/lockstep-run/lockstep/shared/lifecycle"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// waiting returns what an execution waits for, since when, and until when; nil if it does not wait.
func (v *Service) waiting(ctx context.Context, i *engine.Inspection) *views.Waiting {
	x := i.Execution()
	if w := v.storedWaiting(x, v.holders(ctx, x.Tenant, x)); w != nil || x.State == sm.ExecutionCancelling || x.State == sm.ExecutionError {
		return w
	}
	if w := keyWaiting(ctx, i); w != nil {
		return w
	}
	w := v.workerWaiting(ctx, i)
	switch {
	case x.State != sm.ExecutionRunning:
	case w == nil:
		w = branchWaiting(x)
	default:
		w.All = stepsWaiting(x)
	}
	return w
}

// branchWaiting returns what branches wait for while others work: the wait that ends first.
func branchWaiting(x *workflow.Execution) *views.Waiting {
	all := stepsWaiting(x)
	if len(all) == 0 {
		return nil
	}
	w := &views.Waiting{Kind: all[0].Kind, Until: all[0].Until, Step: &all[0].Step, Child: all[0].Child, Blockers: []views.WaitingFor{}, All: all}
	for i := range x.StepRuns {
		switch r := &x.StepRuns[i]; {
		case r.Label != *w.Step || !r.Open():
		case r.Waiting():
			w.Since, w.Reason, w.Signal, w.Unfit = r.Wait.Since, nonZeroPtr(r.Wait.Shown()), r.Wait.Signal(), r.Wait.Unfit
		case r.Child != nil:
			w.Since = r.EnteredAt
			if ask := r.Child.Ask; ask != nil {
				w.Since, w.Reason = ask.Since, nonZeroPtr(ask.Reason)
			}
		}
	}
	for i := range x.Threads {
		if d := x.Threads[i].Delay; d != nil && d.Step == *w.Step {
			w.Since = d.Since
		}
	}
	return w
}

// holders reads the states of the executions that hold what others wait for. If a read fails, only
// the hint is missing that tells an operator what to do about a holder.
func (v *Service) holders(ctx context.Context, tenant string, waiting ...*workflow.Execution) map[string]workflow.OwnerStatus {
	var ids []string
	for _, x := range waiting {
		if b := x.BlockedBy; x.State == sm.ExecutionScheduled && b != nil && !b.Reservation && !slices.Contains(ids, b.Execution) {
			ids = append(ids, b.Execution)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	heads, err := v.engine.OpenPorts().Store.Heads(ctx, tenant, ids)
	if err != nil {
		return nil
	}
	return heads
}

// storedWaiting returns the part of waiting that the state item shows, with the states of the
// executions that hold what it waits for.
func (v *Service) storedWaiting(x *workflow.Execution, holders map[string]workflow.OwnerStatus) *views.Waiting {
	switch {
	case x.FailureStreak != nil && (x.FailureStreak.Count > 1 || !x.FailureStreak.UnavailableSince.IsZero()) && !sm.Acknowledged(x.State):
		w := &views.Waiting{Kind: workflow.WaitEngine, Since: x.FailureStreak.Since, Reason: &x.FailureStreak.Reason, Blockers: []views.WaitingFor{}}
		if !sm.Terminal(x.State) && x.FailureStreak.UnavailableSince.IsZero() {
			w.Until = ptr(x.FailureStreak.Since.Add(v.engine.StallTimeout))
		}
		return w
	case x.Wait != nil && (x.State == sm.ExecutionWaiting || x.State == sm.ExecutionBlockedWaiting):
		w := x.Wait
		shown := &views.Waiting{
			All: stepsWaiting(x), Sequence: nonZeroPtr(w.Event), Kind: w.Kind, Since: w.Since, Until: timePtr(w.Until), Step: nonZeroPtr(w.Step), Reason: nonZeroPtr(w.Reason), Signal: w.Signal,
			Condition: nonZeroPtr(w.Condition), Child: nonZeroPtr(w.Child), Blockers: []views.WaitingFor{},
		}
		if r := waitingStepRun(x, w.Step); r != nil {
			if shown.Unfit = r.Wait.Unfit; w.Kind == workflow.WaitInput {
				shown.Answers, shown.Need = ptr(len(r.Answers)), ptr(r.Wait.Need)
			}
		}
		return shown
	case x.State == sm.ExecutionRollback:
		if i := slices.IndexFunc(x.StepRuns, func(r workflow.StepRun) bool { return r.Open() && r.Child != nil }); i >= 0 {
			r := &x.StepRuns[i]
			return &views.Waiting{Kind: workflow.WaitChild, Since: r.EnteredAt, Step: &r.Label, Child: &r.Child.ID, Blockers: []views.WaitingFor{}}
		}
	case x.State == sm.ExecutionScheduled && x.BlockedBy != nil:
		return v.lockWaiting(x, holders[x.BlockedBy.Execution])
	case x.State == sm.ExecutionFailedUnsafe, x.State == sm.ExecutionCancelled:
		w := &views.Waiting{Kind: workflow.WaitAcknowledge, Since: x.EndedAt, Blockers: []views.WaitingFor{}}
		switch {
		case x.Unlocked:
			w.Reason = ptr("its locks have been released")
		case x.Kept != nil && x.Kept.Len() == 0, x.Kept == nil && wholeScope(x) == 0: // the item does not say whether there is a limit
			w.Reason = ptr("it keeps no entity; if its workflow limits concurrency, it keeps its place until it is acknowledged or unlocked")
		case x.Scope.EpochBeforeRestore > 0 && x.Scope.EpochBeforeRestore == x.Epoch:
			w.Reason = ptr("it keeps locks from before the tables were restored, and a retry takes all of them anew")
		}
		return w
	}
	return nil
}

// stepsWaiting returns what the steps of an execution wait for, the wait that ends first first, and then
// those for children.
func stepsWaiting(x *workflow.Execution) (all []views.StepWaiting) {
	if x.State != sm.ExecutionRunning && x.State != sm.ExecutionWaiting {
		return nil
	}
	for i := range x.StepRuns {
		switch r := &x.StepRuns[i]; {
		case !r.Open():
		case r.Waiting():
			all = append(all, views.StepWaiting{Kind: r.Wait.Kind, Step: r.Label, Until: &r.Wait.Until})
		case r.Child != nil && r.Child.Ask != nil:
			all = append(all, views.StepWaiting{Kind: workflow.WaitChildInput, Step: r.Label, Child: &r.Child.Ask.ID})
		case r.Child != nil && r.Child.Mode == workflow.ModeDispatch:
			all = append(all, views.StepWaiting{Kind: workflow.WaitChild, Step: r.Label, Child: nonZeroPtr(r.Child.ID)})
		}
	}
	for i := range x.Threads {
		if d := x.Threads[i].Delay; d != nil {
			all = append(all, views.StepWaiting{Kind: workflow.WaitTimer, Step: d.Step, Until: &d.Until})
		}
	}
	slices.SortStableFunc(all, func(a, b views.StepWaiting) int {
		switch {
		case a.Until != nil && b.Until != nil:
			return a.Until.Compare(*b.Until)
		case a.Until != nil:
			return -1
		case b.Until != nil:
			return 1
		}
		return 0
	})
	return all
}

// waitingStepRun returns the step run of a step that waits; nil if there is none.
func waitingStepRun(x *workflow.Execution, step string) *workflow.StepRun {
	for i := range x.StepRuns {
		if r := &x.StepRuns[i]; r.Waiting() && r.Label == step {
			return r
		}
	}
	return nil
}

// lockWaiting shows a wait for a lock. The reason is set if the holder has ended and keeps the lock
// until somebody decides what to do; holders tells what to do first.
func (v *Service) lockWaiting(x *workflow.Execution, holder workflow.OwnerStatus) *views.Waiting {
	b := x.BlockedBy
	w := &views.Waiting{
		Kind: workflow.WaitLock, Since: x.LockSince,
		Until: ptr(v.engine.LockDeadline(x)), Blockers: []views.WaitingFor{blockerView(b)},
	}
	if b.Execution == x.ID {
		w.Blockers[0].HeldBy = nil
		w.Reason = ptr("other executions took it, one after the other, each time before this one: it asks again by its timer")
		return w
	}
	if b.Entity.IsSlot() && !b.Reservation {
		for _, o := range b.Others {
			w.Blockers = append(w.Blockers, blockerView(&workflow.BlockedBy{Entity: b.Entity, Execution: o.Execution, Epoch: o.Epoch, Since: b.Since}))
		}
		w.Reason = ptr(fmt.Sprintf("as many executions are live as may be at the same time: %d", len(w.Blockers)))
		if b.NeedsPerson {
			*w.Reason += ", and all of them wait to be acknowledged: " + strings.Join(holdersOf(w.Blockers), ", ")
		}
		return w
	}
	if !b.Reservation && sm.Terminal(holder.State) && holder.HoldsEntity(b.Entity, b.Epoch, b.Place) {
		w.Reason = ptr(fmt.Sprintf("it is held by %s, which ended %s and waits for \"lockstep acknowledge %s\": \"lockstep status %s\" says what else to do", b.Execution, holder.State, b.Execution, b.Execution))
	}
	return w
}

// holdersOf returns the executions that hold what is waited for, as far as they are known.
func holdersOf(blockers []views.WaitingFor) (ids []string) {
	for _, b := range blockers {
		if b.HeldBy != nil {
			ids = append(ids, *b.HeldBy)
		}
	}
	return ids
}

// keyWaiting shows that an execution that has not checked in yet waits for the one that has its
// business key. If a read fails, this is left out.
func keyWaiting(ctx context.Context, i *engine.Inspection) *views.Waiting {
	x := i.Execution()
	if x.Key == "" || !lifecycle.MustCheckIn(x) {
		return nil
	}
	key, err := i.Ports().Registry.BusinessKey(ctx, x.Tenant, x.Workflow.FullName(), x.Key)
	if err != nil || key.Execution == "" || key.Execution == x.ID {
		return nil
	}
	heads, err := i.Ports().Store.Heads(ctx, x.Tenant, []string{key.Execution})
	owner := heads[key.Execution].State
	if err != nil || owner == "" || sm.Terminal(owner) {
		return nil // it is free: the execution is about to take it
	}
	next := "it cannot take the signals of this one now"
	switch {
	case sm.ChecksIn(owner):
		next = "it has still to begin"
	case x.State != sm.ExecutionNew:
		next = "this one is tried again after its end"
	}
	return &views.Waiting{
		Kind: workflow.WaitKey, Since: updatedAt(x), Blockers: []views.WaitingFor{{HeldBy: &key.Execution}},
		Reason: ptr(fmt.Sprintf("execution %s has the key %q: %s", key.Execution, x.Key, next)),
	}
}

// blockerView shows which execution holds or has reserved an entity.
func blockerView(b *workflow.BlockedBy) views.WaitingFor {
	f := views.WaitingFor{Entity: ptr(b.Entity.String()), Since: &b.Since}
	if b.Reservation {
		f.ReservedBy = &b.Execution
	} else {
		f.HeldBy = &b.Execution
	}
	return f
}

// droppedView shows the entities that were left out because they were locked.
func droppedView(x *workflow.Execution) views.Dropped {
	d := views.Dropped{Count: x.DroppedCount, Blockers: []views.WaitingFor{}}
	for i := range x.Dropped {
		d.Blockers = append(d.Blockers, blockerView(&x.Dropped[i]))
	}
	return d
}

// workerWaiting returns what an execution waits for if no worker has any of its open jobs: no job
// has been claimed, or failed jobs wait for their next attempt.
func (v *Service) workerWaiting(ctx context.Context, i *engine.Inspection) *views.Waiting {
	x := i.Execution()
	var unclaimed, retrying, paced *workflow.StepRun // the first step run without packs; the step run whose retry has waited longest; the first step run whose pace makes it pause
	var since, next time.Time
	for n := range x.StepRuns {
		r := &x.StepRuns[n]
		if !r.IsWorking() || !r.HasJobs() {
			continue
		}
		if r.Closing {
			return nil
		}
		packs, err := i.Packs(ctx, r)
		if err != nil {
			return nil // answer without this hint rather than not at all
		}
		switch at, active := retryPendingSince(r, packs); {
		case active:
			return nil
		case !at.IsZero() && (since.IsZero() || at.Before(since)):
			retrying, since = r, at
		case nextByPace(r, packs).After(v.engine.Now()):
			if paced == nil {
				paced, next = r, nextByPace(r, packs)
			}
		case unclaimed == nil && len(packs) == 0:
			unclaimed = r
		case len(packs) > 0 && r.Pipeline == 0:
			return nil // between two packs
		}
	}
	if retrying != nil {
		return &views.Waiting{Kind: workflow.WaitRetry, Since: since, Step: nonZeroPtr(retrying.Label), Blockers: []views.WaitingFor{}}
	}
	if paced != nil {
		return &views.Waiting{
			Kind: workflow.WaitTimer, Since: paced.EnteredAt, Step: nonZeroPtr(paced.Label), Until: &next, Blockers: []views.WaitingFor{},
			Reason: ptr(fmt.Sprintf("jobs of the step begin %s", paced.Pace)),
		}
	}
	if unclaimed == nil || unclaimed.Pipeline > 0 && unclaimed.Pipeline != unclaimed.Seq {
		return nil // later steps of a pipeline are claimed after the first one
	}
	return &views.Waiting{
		Kind: workflow.WaitWorker, Since: unclaimed.EnteredAt, Until: ptr(v.engine.Dispatch.UnclaimedNotBefore(unclaimed)),
		Step: nonZeroPtr(unclaimed.Label), Pool: nonZeroPtr(unclaimed.Pool), Blockers: []views.WaitingFor{},
	}
}

// retryPendingSince returns since when failed jobs of a step run have been waiting for their next
// attempt; zero if none are. active means that a worker holds one of its packs.
func retryPendingSince(r *workflow.StepRun, packs []*workflow.Pack) (since time.Time, active bool) {
	latest := map[int]*workflow.Pack{} // by lane
	for _, p := range packs {
		if !p.Final() {
			return since, true
		}
		if l := latest[p.Key.Lane]; l == nil || p.Key.Attempt > l.Key.Attempt {
			latest[p.Key.Lane] = p
		}
	}
	for _, p := range latest {
		if len(workflow.RetryableJobs(p, r.MaxAttempts)) > 0 && (since.IsZero() || p.FinishedAt.Before(since)) {
			since = p.FinishedAt
		}
	}
	return since, false
}

// nextByPace returns when the pace of a step run lets the first job start that nobody has begun;
// zero if it has no pace, or if all have begun.
func nextByPace(r *workflow.StepRun, packs []*workflow.Pack) time.Time {
	if r.Pace.IsZero() {
		return time.Time{}
	}
	begun := map[int]bool{}
	for _, p := range packs {
		begun[p.Key.Lane] = true
	}
	for lane := range r.Lanes() {
		if !begun[lane] {
			return r.LaneNotBefore(lane)
		}
	}
	return time.Time{}
}
