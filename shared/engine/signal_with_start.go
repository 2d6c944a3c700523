package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lockstep-run/lockstep/shared/engine/definitions"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/statemachines"
)

// refuseHeldKey refuses a start while another execution holds its business key. This only avoids an
// execution that would have to give way. If several are started at the same time, the check-in
// decides which gets the key.
func (w *workspace) refuseHeldKey(ctx context.Context, ref workflow.Ref, key string) error {
	if key == "" {
		return nil
	}
	owner, err := w.readKeyHolder(ctx, ref.FullName(), key)
	if owner == "" || err != nil {
		return err
	}
	return keyHeld(owner, ref, key, "send it a signal, or start again after its end")
}

// keyHeld returns the error for a request that would be in vain because another execution holds the
// key.
func keyHeld(owner string, ref workflow.Ref, key, next string) error {
	return &workflow.Error{
		Code: workflow.CodeConflict, Message: fmt.Sprintf("execution %s of %s has the key %q and has not ended: %s", owner, ref.FullName(), key, next),
		Issues: []workflow.Issue{{Path: "key", Code: issueHeld, Message: owner}},
	}
}

const issueHeld = "held"

// keyIsHeld reports whether an error comes from keyHeld.
func keyIsHeld(err error) bool {
	var coded *workflow.Error
	return errors.As(err, &coded) && coded.Code == workflow.CodeConflict && slices.ContainsFunc(coded.Issues, func(i workflow.Issue) bool { return i.Code == issueHeld })
}

// refuseOtherHolder works like refuseHeldKey, for a request that may be repeated with an
// idempotency key. If the request has started an execution before, it returns that one, even if it
// is the holder of the business key. The holder exists, so its idempotency key has been bound.
func (w *workspace) refuseOtherHolder(ctx context.Context, ref workflow.Ref, key, idempotencyKey, digest string) (existing *workflow.Execution, err error) {
	held := w.refuseHeldKey(ctx, ref, key)
	if held == nil || idempotencyKey == "" || !workflow.Is(held, workflow.CodeConflict) {
		return nil, held
	}
	if _, existing, err = w.lookupIdempotencyKey(ctx, idempotencyKey, digest); existing != nil || err != nil {
		return existing, err
	}
	return nil, held
}

// useKeyHolder returns the execution that holds the business key of a request, nil if none does.
// The idempotency key of the request, if it has one, is bound to it, as to one that was started.
func (w *workspace) useKeyHolder(ctx context.Context, ref workflow.Ref, req views.StartRequest, digest string) (*workflow.Execution, error) {
	owner, err := w.readKeyHolder(ctx, ref.FullName(), req.Key)
	if owner == "" || err != nil {
		return nil, err
	}
	holder := w.e.newWorkspace(w.tenant, owner)
	if _, err := holder.bindIdempotencyKey(ctx, req.IdempotencyKey, digest, req.IdempotencyLife); err != nil {
		return nil, err
	}
	x, err := w.ports.Store.Load(ctx, w.tenant, holder.id)
	if workflow.Is(err, workflow.CodeNotFound) && holder.id != owner { // an earlier request has bound the key, and was never written
		x, err = w.ports.Store.Load(ctx, w.tenant, owner)
	}
	return x, err
}

// orKeyOwner is the execution to which one has given way because that has its business key, or
// itself.
func (w *workspace) orKeyOwner(ctx context.Context, x *workflow.Execution) (*workflow.Execution, error) {
	if x.KeyOwner == "" {
		return x, nil
	}
	owner, err := w.ports.Store.Load(ctx, w.tenant, x.KeyOwner)
	if workflow.Is(err, workflow.CodeNotFound) {
		return x, nil
	}
	return owner, err
}

// readKeyHolder returns the id of the execution that holds a business key; empty if none does.
func (w *workspace) readKeyHolder(ctx context.Context, workflowName, key string) (string, error) {
	k, err := w.ports.Registry.BusinessKey(ctx, w.tenant, workflowName, key)
	if err != nil {
		return "", err
	}
	if state, err := w.keyHolder(ctx, k); state == "" || err != nil {
		return "", err
	}
	return k.Execution, nil
}

// SignalKey sends a signal to the execution that holds a business key of a workflow, as
// [Engine.Signal] does. It returns CodeNotFound if no execution holds the key, and
// CodeIllegalTransition if the holder is ending.
func (e *Engine) SignalKey(ctx context.Context, c workflow.Caller, workflowName, key, name string, data json.RawMessage, idempotencyKey, reason string) (SignalReceipt, error) {
	signal, err := e.newSignal(c, name, data, idempotencyKey, reason)
	if err != nil {
		return SignalReceipt{}, err
	}
	w := e.newWorkspace(c.Tenant, "")
	for range maxKeyRounds {
		owner, err := w.readKeyHolder(ctx, workflowName, key)
		if err != nil {
			return SignalReceipt{}, err
		}
		if owner == "" {
			return SignalReceipt{}, workflow.Errorf(workflow.CodeNotFound, "no execution of %s has the key %q", workflowName, key)
		}
		receipt, state, err := e.deliver(ctx, c.Tenant, owner, signal)
		if !endedBeforeSignal(state, err) {
			return receipt, err
		}
	}
	return SignalReceipt{}, keyKeepsChanging(workflowName, key)
}

// endedBeforeSignal reports whether a signal was refused because its execution had ended, or no
// longer existed. Then its key is free. An execution that is still ending keeps its key.
func endedBeforeSignal(state statemachines.ExecutionState, err error) bool {
	return workflow.Is(err, workflow.CodeIllegalTransition) && statemachines.Terminal(state) || workflow.Is(err, workflow.CodeNotFound)
}

func keyKeepsChanging(workflowName, key string) error {
	return workflow.Errorf(workflow.CodeUnavailable, "the key %q of %s changes all the time: send the request again", key, workflowName)
}

// SignalWithStart sends the signal of a request to the execution that holds the request's business
// key, or starts one with the signal in its mailbox. So the signal is accepted whether or not there
// is an execution, and it is not lost if the new execution gives way to another. It returns the
// execution that has the signal; started is set if it was created for this request.
//
// The idempotency key is bound to that execution before the signal is sent. It moves to another
// execution only if the first has ended without the signal, so that a repeated request finds the
// right one.
func (e *Engine) SignalWithStart(ctx context.Context, c workflow.Caller, req views.StartRequest) (x *workflow.Execution, started, existed bool, err error) {
	if req.Key == "" || req.Signal == nil {
		return nil, false, false, workflow.Invalid("the request is not valid", []workflow.Issue{{Path: "key", Code: "required", Message: "a start with a signal needs the key of the execution"}})
	}
	signal, err := e.newSignal(c, req.Signal.Name, req.Signal.Data, cmp.Or(req.Signal.ID, req.IdempotencyKey), req.Signal.Reason)
	if err != nil {
		return nil, false, false, err
	}
	w := e.newWorkspace(c.Tenant, e.NewID())
	defer w.keepCost()
	w.inline = true
	w.pendingCost.Add(workflow.Cost{Invocations: 1}) // the request itself
	s := startWithSignal{workspace: w, caller: c, req: req, signal: signal}
	if s.digest, err = startDigest(req); err != nil {
		return nil, false, false, err
	}
	if s.definition, err = w.resolveWorkflow(ctx, req); err != nil {
		return nil, false, false, err
	}
	if s.input, err = validateStart(s.definition.Definition, req); err != nil {
		return nil, false, false, err
	}
	if s.digest, err = w.digestToBind(ctx, s.digest, s.input); err != nil {
		return nil, false, false, err
	}
	return s.run(ctx)
}

// startWithSignal is a request that sends a signal or starts an execution.
type startWithSignal struct {
	*workspace
	caller     workflow.Caller
	req        views.StartRequest
	signal     workflow.Signal
	digest     string
	definition *definitions.Definition
	input      workflow.Input
}

func (s *startWithSignal) run(ctx context.Context) (x *workflow.Execution, started, existed bool, err error) {
	bound, name := "", s.definition.Ref().FullName()
	if s.req.IdempotencyKey != "" {
		record, err := s.ports.Registry.IdempotencyRecord(ctx, s.tenant, s.req.IdempotencyKey, s.e.now())
		if err != nil {
			return nil, false, false, err
		}
		if bound = record.Execution; bound != "" {
			if same, err := s.sameRequest(ctx, record.Digest, s.digest); err != nil || !same {
				return nil, false, false, cmp.Or(err, idempotencyMismatch(bound))
			}
		}
	}
	target, owner, existed := bound, "", bound != ""
	rateAt := time.Time{}
	for range maxKeyRounds {
		unwritten := ""
		if target != "" {
			receipt, state, err := s.e.deliver(ctx, s.tenant, target, s.signal)
			if err == nil {
				x, err := s.ports.Store.Load(ctx, s.tenant, receipt.Execution)
				return x, false, existed, err
			}
			if !endedBeforeSignal(state, err) {
				return nil, false, false, err
			}
			if workflow.Is(err, workflow.CodeNotFound) && target != owner {
				unwritten = target // a request with this idempotency key was about to write it
			}
		}
		if owner, err = s.readKeyHolder(ctx, name, s.req.Key); err != nil {
			return nil, false, false, err
		}
		if owner == "" && rateAt.IsZero() { // before the key is bound: a refused request binds nothing
			if rateAt, err = s.refuseAboveRate(ctx, s.definition, s.req, s.input.Parameters); err != nil {
				return nil, false, false, err
			}
		}
		want := cmp.Or(owner, unwritten, s.id)
		if bound, err = s.bind(ctx, bound, want); err != nil {
			return nil, false, false, err
		}
		if bound == want && owner == "" {
			s.id = want
			return s.start(ctx, existed, rateAt)
		}
		target = bound
	}
	return nil, false, false, keyKeepsChanging(name, s.req.Key)
}

// bind binds the idempotency key of the request, if it has one, to an execution. It returns the
// execution to which the key is bound afterwards: another request with the key may have been
// faster.
func (s *startWithSignal) bind(ctx context.Context, from, to string) (bound string, err error) {
	key := s.req.IdempotencyKey
	if key == "" || from == to {
		return to, nil
	}
	now := s.e.now()
	if from != "" {
		if ok, err := s.ports.Registry.MoveIdempotencyKey(ctx, s.tenant, key, from, to, now); ok || err != nil {
			return to, err
		}
	}
	want := workflow.IdempotencyRecord{Execution: to, Digest: s.digest, ExpiresAt: now.Add(cmp.Or(s.req.IdempotencyLife, s.e.IdempotencyKeyTTL))}
	got, _, err := s.ports.Registry.BindIdempotencyKey(ctx, s.tenant, key, want, now)
	if err == nil && got.Digest != s.digest {
		return "", idempotencyMismatch(got.Execution)
	}
	return got.Execution, err
}

// start writes an execution with the signal in its mailbox.
func (s *startWithSignal) start(ctx context.Context, existed bool, rateAt time.Time) (*workflow.Execution, bool, bool, error) {
	x := s.requested(ctx, s.caller, s.req, s.definition.Ref(), existed)
	x.RateAt = rateAt
	signal := s.signal
	if len(signal.Data) > workflow.MaxInlineSignal {
		ref, err := s.ports.Store.SaveValue(ctx, s.tenant, s.id, workflow.ValueOfSignals, signal.Data)
		if err != nil {
			return nil, false, false, err
		}
		signal.Data, signal.Stored = nil, &ref
	}
	x.Signals, x.SignalOrder = []workflow.Signal{signal}, 1
	if err := s.createAndAdvance(ctx, x, s.input, nil); err != nil {
		return nil, false, false, err
	}
	return s.execution, true, existed, nil
}
