package workers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lockstep-run/lockstep/shared/engine/port"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// LivenessTimeouts are the times since a worker's last heartbeat after which it is
// UNREACHABLE, then OFFLINE, and then removed.
type LivenessTimeouts struct {
	Unreachable time.Duration
	Offline     time.Duration
	Forget      time.Duration
}

// nextState returns the state that follows without a heartbeat, the event that leads to it, and the
// time since the last heartbeat after which it happens.
func (s LivenessTimeouts) nextState(state sm.WorkerState) (sm.WorkerState, sm.Event, time.Duration) {
	switch state {
	case sm.WorkerRegistered, sm.WorkerOnline:
		return sm.WorkerUnreachable, sm.EventWorkerHeartbeatMissed, s.Unreachable
	case sm.WorkerDraining, sm.WorkerUnreachable:
		return sm.WorkerOffline, sm.EventWorkerLost, s.Offline
	case sm.WorkerOffline:
		return sm.WorkerRemoved, sm.EventWorkerForgotten, s.Forget
	case sm.WorkerRemoved:
	}
	return state, "", 0
}

// DueSince returns since when the state of a worker without a heartbeat is due to change. A sweep
// makes the change.
func (s LivenessTimeouts) DueSince(w workflow.Worker) time.Time {
	_, _, after := s.nextState(w.State)
	return w.LastSeenAt.Add(after)
}

// evaluate applies all timeouts that have passed by now. DueAt of the result is when the worker
// must be evaluated again. A worker in a state that this binary does not know is left unchanged for
// the release that does.
func (s LivenessTimeouts) evaluate(w workflow.Worker, now time.Time) (workflow.Worker, error) {
	if !slices.Contains(sm.Worker.Machine().States, string(w.State)) {
		return w, nil
	}
	for {
		to, event, after := s.nextState(w.State)
		if event == "" {
			w.DueAt, w.ClaimedPacks = time.Time{}, nil
			return w, nil
		}
		if at := w.LastSeenAt.Add(after); at.After(now) {
			w.DueAt = at
			return w, nil
		}
		if err := sm.Worker.Move(w.State, event, to); err != nil {
			return w, workflow.Errorf(workflow.CodeInternal, "worker %s: %w", w.ID, err)
		}
		w.State = to
	}
}

// afterRegistration returns the worker after it has registered. A live worker that registers again
// keeps its state and its packs. A worker that was UNREACHABLE or OFFLINE has been restarted, and
// holds no packs.
func (s LivenessTimeouts) afterRegistration(seen *workflow.Worker, w workflow.Worker, now time.Time) workflow.Worker {
	w.State, w.RegisteredAt, w.LastSeenAt, w.ClaimedPacks = sm.WorkerRegistered, now, now, nil
	if seen != nil && sm.Worker.Verdict(seen.State, sm.EventWorkerRegistered) == sm.Ignore {
		w.State, w.RegisteredAt, w.ClaimedPacks = seen.State, seen.RegisteredAt, seen.ClaimedPacks
	}
	w.DueAt = now.Add(s.Unreachable)
	return w
}

// afterHeartbeat returns the worker after a heartbeat. It returns CodeNotFound if the worker is not
// registered.
func (s LivenessTimeouts) afterHeartbeat(seen *workflow.Worker, now time.Time) (workflow.Worker, error) {
	if seen == nil || sm.Worker.Verdict(seen.State, sm.EventWorkerHeartbeat) == sm.Refuse {
		return workflow.Worker{}, workflow.Errorf(workflow.CodeNotFound, "the worker is not registered; register it first")
	}
	w := *seen
	w.LastSeenAt, w.DueAt = now, now.Add(s.Unreachable)
	if w.State != sm.WorkerDraining {
		w.State = sm.WorkerOnline
	}
	return w, nil
}

// Transition is a worker as read, and after the timeouts that have passed.
type Transition struct {
	Seen, Next *workflow.Worker
}

// ChangesState reports whether the worker's state changes. If it does not, a heartbeat has
// arrived since the worker became due, and only its DueAt changes.
func (t Transition) ChangesState() bool { return t.Next.State != t.Seen.State }

// Due reads a page of the workers of one shard that are due, and evaluates them without writing. It
// leaves out workers that cannot be read or evaluated, and names them in failed.
func (r *Registry) Due(ctx context.Context, shard int, page workflow.Page) (list workflow.List[Transition], failed, err error) {
	due, err := r.Workers.DueWorkers(ctx, shard, r.now(), page)
	list.NextToken = due.NextToken
	if err != nil {
		return list, nil, err
	}
	for _, w := range due.Items {
		seen, err := r.Workers.Worker(ctx, w.Tenant, w.ID)
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("worker %s: %w", w.ID, err))
			continue
		}
		if seen == nil {
			continue
		}
		next, err := r.Timeouts.evaluate(*seen, r.now())
		if err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		if next.State == seen.State && next.DueAt.Equal(seen.DueAt) {
			continue // the index lags behind
		}
		list.Items = append(list.Items, Transition{seen, &next})
	}
	return list, failed, nil
}

// Apply writes a transition if the worker has not changed since it was read. So a heartbeat in
// between wins, and sweeps may overlap. It reports whether the worker's state has changed.
//
// If the worker has become OFFLINE, Apply sends a wake-up to each execution whose packs it held.
// That ends no claim: only an expired lease does, and the execution's own timer usually fires long
// before. The wake-ups find what is due by then.
func (r *Registry) Apply(ctx context.Context, sender port.Sender, t Transition) (changed bool, err error) {
	ok, err := r.Workers.PutWorker(ctx, t.Seen, t.Next)
	if !ok || err != nil || !t.ChangesState() {
		return false, err
	}
	if t.Next.State != sm.WorkerOffline {
		return true, nil
	}
	return true, sender.SendWakeups(ctx, 0, wakeups(t.Seen)...)
}

// wakeups returns one wake-up for each execution of which the worker held a pack.
func wakeups(w *workflow.Worker) (all []workflow.Wakeup) {
	seen := map[string]bool{}
	for _, p := range w.ClaimedPacks {
		wakeup := p.Wakeup()
		if key := wakeup.Tenant + " " + wakeup.Execution; wakeup.Execution != "" && !seen[key] {
			seen[key] = true
			wakeup.Reason = "worker " + w.ID + " is OFFLINE"
			all = append(all, wakeup)
		}
	}
	return all
}
