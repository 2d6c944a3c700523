package engine

import (
	"context"

	"github.com/lockstep-run/lockstep/shared/lifecycle"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/statemachines"
)

// maxKeyRounds bounds how often one request or wake-up starts over because a business key has
// changed.
const maxKeyRounds = 10

// fetchCheckIn takes the business key of the execution if the key is free. If another execution
// holds it, a new execution hands its signals over to that one. An execution that is being retried
// does not give way, since it would be cancelled and could never be finished: it waits until the
// holder ends.
//
// The order of the reads matters: first the execution, which has not begun, then the key, then the
// owner of the key. An owner that has ended may be retried and then writes its key again, so the
// key is taken only at the revision that was read.
func (w *workspace) fetchCheckIn(ctx context.Context) error {
	x := w.execution
	for range maxKeyRounds {
		key, err := w.ports.Registry.BusinessKey(ctx, w.tenant, x.Workflow.FullName(), x.Key)
		if err != nil {
			return err
		}
		if key.Execution == x.ID && x.State == statemachines.ExecutionNew {
			w.facts.CheckIn = &lifecycle.CheckIn{Key: lifecycle.KeyMine}
			return nil
		}
		owner := statemachines.ExecutionState("") // if this execution is the owner, its earlier try has ended
		if key.Execution != x.ID {
			if owner, err = w.keyHolder(ctx, key); err != nil {
				return err
			}
		}
		if owner == "" {
			taken, err := w.ports.Registry.TakeBusinessKey(ctx, w.tenant, x.Workflow.FullName(), x.Key, key.Revision, x.ID)
			if err != nil {
				return err
			}
			if taken {
				w.facts.CheckIn = &lifecycle.CheckIn{Key: lifecycle.KeyMine}
				return nil
			}
			continue
		}
		if statemachines.ChecksIn(owner) || x.State != statemachines.ExecutionNew {
			w.facts.CheckIn = &lifecycle.CheckIn{Key: lifecycle.KeyUndecided, Owner: key.Execution}
			return nil
		}
		result, err := w.transferSignals(ctx, key.Execution)
		if err != nil {
			return err
		}
		switch result {
		case workflow.SignalAccepted:
			w.facts.CheckIn = &lifecycle.CheckIn{Key: lifecycle.KeyHeld, Owner: key.Execution}
			return nil
		case workflow.SignalLimit:
			w.facts.CheckIn = &lifecycle.CheckIn{Key: lifecycle.KeyUndecided, Owner: key.Execution}
			return nil
		}
	}
	w.facts.CheckIn = &lifecycle.CheckIn{Key: lifecycle.KeyUndecided}
	return nil
}

// keyHolder returns the state of the execution that holds a key; empty if none does. The read is
// strongly consistent, and comes after the read of the key.
func (w *workspace) keyHolder(ctx context.Context, key workflow.BusinessKey) (statemachines.ExecutionState, error) {
	if key.Execution == "" {
		return "", nil
	}
	heads, err := w.ports.Store.Heads(ctx, w.tenant, []string{key.Execution})
	if err != nil {
		return "", err
	}
	if state := heads[key.Execution].State; !statemachines.Terminal(state) {
		return state, nil
	}
	return "", nil
}

// transferSignals moves every signal of the mailbox to the owner of the key, and wakes the owner. The
// result is SignalAccepted if the owner now has all of them; SignalRefused if the owner has ended
// or is about to check in again; SignalLimit if it cannot take one of them yet, because its mailbox
// is full or it is ending.
func (w *workspace) transferSignals(ctx context.Context, owner string) (workflow.SignalResult, error) {
	if len(w.execution.Signals) == 0 {
		return workflow.SignalAccepted, nil
	}
	to := w.e.newWorkspace(w.tenant, owner)
	defer to.keepCost()
	for _, signal := range w.execution.Signals {
		if signal.Stored != nil {
			data, err := w.ports.Store.LoadValue(ctx, w.tenant, w.id, workflow.ValueOfSignals, *signal.Stored)
			if err != nil {
				return "", err
			}
			signal.Data, signal.Stored = data, nil
		}
		signal.Forwarded = true
		result, state, err := to.sendSignal(ctx, signal)
		if err == nil && result == workflow.SignalMismatch {
			// The owner has a different signal with this id, so this one gets a new id.
			signal.ID = workflow.NewSignalID(signal.ID + "@" + w.id)
			result, state, err = to.sendSignal(ctx, signal)
		}
		switch {
		case workflow.Is(err, workflow.CodeNotFound):
			return workflow.SignalRefused, nil
		case err != nil:
			return "", err
		case result == workflow.SignalLimit, result == workflow.SignalRefused && !statemachines.Terminal(state) && !statemachines.ChecksIn(state):
			return workflow.SignalLimit, nil
		case result != workflow.SignalAccepted && result != workflow.SignalDuplicate:
			return workflow.SignalRefused, nil
		}
	}
	// Also for duplicates: whoever sent them may have failed before this point.
	return workflow.SignalAccepted, to.ports.Sender.SendWakeups(ctx, 0, workflow.Wakeup{Tenant: w.tenant, Execution: owner, Reason: "signal"})
}
