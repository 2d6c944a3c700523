package engine

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/lockstep-run/lockstep/shared/definition/schema"
	"github.com/lockstep-run/lockstep/shared/definition/yamldoc"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/statemachines"
)

// SignalReceipt is the answer to an accepted signal.
type SignalReceipt = views.SignalReceipt

// Signal sends a signal to an execution and wakes it. A signal that arrives before the step that
// waits for it is kept. A repeated call with the same key is a duplicate for as long as the
// execution exists; without a key every call is a new signal. data is JSON, or empty for none.
//
// It returns CodeIllegalTransition if the execution has ended or is ending, CodeLimit if the
// mailbox is full, and CodeIdempotencyMismatch if the key belongs to another signal. On
// CodeUnavailable the signal may have been accepted: send it again with the same key.
func (e *Engine) Signal(ctx context.Context, c workflow.Caller, id, name string, data json.RawMessage, idempotencyKey, reason string) (SignalReceipt, error) {
	signal, err := e.newSignal(c, name, data, idempotencyKey, reason)
	if err != nil {
		return SignalReceipt{}, err
	}
	receipt, _, err := e.deliver(ctx, c.Tenant, id, signal)
	return receipt, err
}

// newSignal returns the signal that a request sends, if it is valid.
func (e *Engine) newSignal(c workflow.Caller, name string, data json.RawMessage, idempotencyKey, reason string) (workflow.Signal, error) {
	if idempotencyKey == "" {
		idempotencyKey = e.NewID()
	}
	return workflow.Signal{
		ID: workflow.NewSignalID(idempotencyKey), Name: name, At: e.now(), By: workflow.Truncate(c.Actor, workflow.MaxSignalSender),
		Reason: workflow.Truncate(reason, workflow.MaxSignalReason), Data: data, Digest: workflow.SignalDigest(name, data),
	}, validateSignal(name, data)
}

// deliver puts a signal into the mailbox of an execution, and wakes the execution. If the signal is
// refused, state is the execution's state.
func (e *Engine) deliver(ctx context.Context, tenant, id string, signal workflow.Signal) (_ SignalReceipt, state statemachines.ExecutionState, err error) {
	w := e.newWorkspace(tenant, id)
	defer w.keepCost()
	result, state, err := w.sendSignal(ctx, signal)
	if err != nil {
		return SignalReceipt{}, "", err
	}
	switch result {
	case workflow.SignalAccepted, workflow.SignalDuplicate:
	case workflow.SignalMismatch:
		return SignalReceipt{}, state, idempotencyMismatch(id)
	case workflow.SignalRefused:
		return SignalReceipt{}, state, cannotSignal(id, state)
	default:
		return SignalReceipt{}, state, workflow.Errorf(workflow.CodeLimit,
			"execution %s has no place for another signal %q: it holds %d that no step has taken, and keeps the other %d places for signals that a step waits for",
			id, signal.Name, workflow.MaxUnawaited, workflow.MaxSignals-workflow.MaxUnawaited)
	}
	// Also for a duplicate: the first sender may have failed before this point. A step that waits
	// for the signal may have no other timer than its deadline, so a lost wake-up is an error.
	if err := w.ports.Sender.SendWakeups(ctx, 0, workflow.Wakeup{Tenant: tenant, Execution: id, Reason: "signal"}); err != nil {
		return SignalReceipt{}, state, &workflow.Error{
			Code: workflow.CodeUnavailable, Message: fmt.Sprintf("execution %s has the signal and could not be woken: send it again with Idempotency-Key %q", id, signal.ID), Cause: err,
		}
	}
	return SignalReceipt{ID: signal.ID, Execution: id, Duplicate: result == workflow.SignalDuplicate}, state, nil
}

func cannotSignal(id string, state statemachines.ExecutionState) error {
	if statemachines.Terminal(state) {
		return workflow.Errorf(workflow.CodeIllegalTransition, "cannot signal execution %s in state %s", id, state)
	}
	return workflow.Errorf(workflow.CodeIllegalTransition, "cannot signal execution %s in state %s: it is ending; one that is started after its end takes signals again", id, state)
}

func validateSignal(name string, data json.RawMessage) error {
	if !workflow.ValidSignalName(name) {
		return workflow.Invalid("the signal is not valid", []workflow.Issue{{
			Path: "name", Code: "pattern", Message: "want 1 to 64 letters, digits, _ . or -, beginning with a letter or _",
		}})
	}
	if len(data) > workflow.MaxSignalBytes {
		return workflow.Errorf(workflow.CodeTooLarge, "the data of the signal take %d bytes, the limit is %d: send a reference to them", len(data), workflow.MaxSignalBytes)
	}
	if len(data) == 0 {
		return nil
	}
	if issue := nestingIssue(data, "data"); issue != nil {
		return workflow.Invalid("the signal is not valid", []workflow.Issue{*issue})
	}
	if issue := schema.CheckJSON(data, "data", yamldoc.JoinPath); issue != nil {
		return workflow.Invalid("the signal is not valid", []workflow.Issue{*issue})
	}
	return nil
}

// sendSignal puts a signal into the mailbox. It stores large data first, but only if the execution
// looks likely to accept the signal: otherwise nothing would refer to them.
func (w *workspace) sendSignal(ctx context.Context, signal workflow.Signal) (workflow.SignalResult, statemachines.ExecutionState, error) {
	if len(signal.Data) <= workflow.MaxInlineSignal {
		return w.ports.Store.SendSignal(ctx, w.tenant, w.id, signal)
	}
	x, err := w.ports.Store.Load(ctx, w.tenant, w.id)
	if err != nil {
		return "", "", err
	}
	result := x.KnowsSignal(signal)
	if result == "" && x.HeardOut == 0 {
		result = x.RefusesSignal(signal)
	}
	if result != "" {
		return result, x.State, nil
	}
	ref, err := w.ports.Store.SaveValue(ctx, w.tenant, w.id, workflow.ValueOfSignals, signal.Data)
	if err != nil {
		return "", "", err
	}
	signal.Data, signal.Stored = nil, &ref
	return w.ports.Store.SendSignal(ctx, w.tenant, w.id, signal)
}
