package workers

import (
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// LivenessTimeouts is how long a worker may not be heard of: from then on it is
// UNREACHABLE, OFFLINE, and forgotten.
type LivenessTimeouts struct {
	Unreachable time.Duration
	Offline     time.Duration
	Forget      time.Duration
}

// nextState is what a state leads to in silence, by which event, and when.
func (s LivenessTimeouts) nextState(state sm.WorkerState) (sm.WorkerState, sm.Event, time.Duration) {
	switch state {
	case sm.WorkerRegistered, sm.WorkerOnline:
		return sm.WorkerUnreachable, sm.EventWorkerHeartbeatMissed, s.Unreachable
	case sm.WorkerUnreachable:
		return sm.WorkerOffline, sm.EventWorkerLost, s.Offline
	case sm.WorkerOffline:
		return sm.WorkerRemoved, sm.EventWorkerForgotten, s.Forget
	case sm.WorkerRemoved:
	}
	return state, "", 0
}

// evaluate is the worker after its silence up to now, with the moment at which it
// has to be judged again.
func (s LivenessTimeouts) evaluate(w workflow.Worker, now time.Time) (workflow.Worker, error) {
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

// afterRegistration is the worker after it has said who it is. One that is known keeps
// its state, unless that says that it had fallen silent: then it has been started
// again, and holds nothing any more.
func (s LivenessTimeouts) afterRegistration(seen *workflow.Worker, w workflow.Worker, now time.Time) workflow.Worker {
	w.State, w.RegisteredAt, w.LastSeenAt, w.ClaimedPacks = sm.WorkerRegistered, now, now, nil
	if seen != nil && sm.Worker.Verdict(seen.State, sm.EventWorkerRegistered) == sm.Ignore {
		w.State, w.RegisteredAt, w.ClaimedPacks = seen.State, seen.RegisteredAt, seen.ClaimedPacks
	}
	w.DueAt = now.Add(s.Unreachable)
	return w
}

// afterHeartbeat is the worker after a heartbeat. The heartbeat of a worker that is not
// known, any more or yet, is refused: it has to register.
func (s LivenessTimeouts) afterHeartbeat(seen *workflow.Worker, now time.Time) (workflow.Worker, error) {
	if seen == nil || sm.Worker.Verdict(seen.State, sm.EventWorkerHeartbeat) == sm.Refuse {
		return workflow.Worker{}, workflow.Errorf(workflow.CodeNotFound, "this worker is not registered")
	}
	w := *seen
	w.State, w.LastSeenAt, w.DueAt = sm.WorkerOnline, now, now.Add(s.Unreachable)
	return w, nil
}
