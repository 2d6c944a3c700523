package engine

import (
	"context"

	"github.com/lockstep-run/lockstep/shared/lifecycle"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/statemachines"
)

// maxKeyRounds bounds how often one request or wake-up begins anew with a business key that
// changes.
const maxKeyRounds = 10

// fetchCheckIn takes the business key of the execution if it is free, or hands the signals of a
// new execution over to the one that has it. One that is tried again does not give way: it would
// be cancelled, and could never be finished. It waits for the end of the one that has the key.
//
// The execution exists, and has not begun: it is read before the key, and the key before its
// owner. An owner that has ended may be tried again, and then writes its key once more; so the
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
		owner := statemachines.ExecutionState("") // it has ended, if this is the owner
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
		result, err := w.handOver(ctx, key.Execution)
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

// keyHolder is the state of the execution that holds a key; empty if none does. It is read
// strongly, and after the key.
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

// handOver puts every signal of the mailbox into that of the owner of the key, and wakes it. The
// result is accepted if the owner has all of them now; refused if it has ended, or is about to
// check in again; and limit if it cannot take one of them yet: its mailbox has no place, or it is
// ending.
func (w *workspace) handOver(ctx context.Context, owner string) (workflow.SignalResult, error) {
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
			// The owner has another signal of this id: this one gets an id of its own.
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
	// Also for duplicates: who sent them before may not have got this far.
	return workflow.SignalAccepted, to.ports.Sender.SendWakeups(ctx, 0, workflow.Wakeup{Tenant: w.tenant, Execution: owner, Reason: "signal"})
}
