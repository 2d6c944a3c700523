package engine

import (
	"cmp"
	"context"
	"time"

	"github.com/lockstep-run/lockstep/shared/engine/definitions"
	"github.com/lockstep-run/lockstep/shared/lifecycle"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

// Start creates an execution and, if its scope is small, advances it until it has to wait. It
// resolves and pins the definition's version before it returns. If the idempotency key is already
// bound, Start returns the execution that it is bound to, with existed set. If the key was used for
// a different request, it returns CodeIdempotencyMismatch.
func (e *Engine) Start(ctx context.Context, c workflow.Caller, req views.StartRequest) (x *workflow.Execution, existed bool, err error) {
	id := e.NewID()
	w := e.newWorkspace(c.Tenant, id)
	defer w.keepCost()
	w.inline = true
	w.pendingCost.Add(workflow.Cost{Invocations: 1}) // the start request itself
	digest, err := startDigest(req)
	if err != nil {
		return nil, false, err
	}
	existing, existed, err := w.findStarted(ctx, req.IdempotencyKey, digest)
	if existing != nil && req.OnKey == views.OnKeyUse {
		existing, err = w.orKeyOwner(ctx, existing)
	}
	if existing != nil || err != nil {
		return existing, existing != nil, err
	}
	d, err := w.resolveAndReadAhead(ctx, c, req)
	if err != nil {
		return nil, false, err
	}
	in, err := validateStart(d.Definition, req)
	if err != nil {
		return nil, false, err
	}
	toBind, err := w.digestToBind(ctx, digest, in)
	if err != nil {
		return nil, false, err
	}
	if req.OnKey == views.OnKeyUse {
		if holder, err := w.useKeyHolder(ctx, d.Ref(), req, toBind); holder != nil || err != nil {
			return holder, false, err
		}
	}
	existing, err = w.refuseOtherHolder(ctx, d.Ref(), req.Key, req.IdempotencyKey, digest)
	if existing != nil || err != nil {
		return existing, existing != nil, err
	}
	rateAt, err := w.refuseAboveRate(ctx, d, req, in.Parameters)
	if err != nil {
		return nil, false, err
	}
	bound, err := w.bindIdempotencyKey(ctx, req.IdempotencyKey, toBind, req.IdempotencyLife)
	if err != nil {
		return nil, false, err
	}
	existed = existed || bound
	asked := w.requested(ctx, c, req, d.Ref(), existed)
	asked.RateAt = rateAt
	if err := w.createAndAdvance(ctx, asked, in, nil); err != nil {
		return nil, false, err
	}
	if req.OnKey == views.OnKeyUse {
		x, err := w.orKeyOwner(ctx, w.execution)
		return x, existed, err
	}
	return w.execution, existed, nil
}

// requested returns the execution that a request asks for. known means that its id was known
// before.
func (w *workspace) requested(ctx context.Context, c workflow.Caller, req views.StartRequest, ref workflow.Ref, known bool) workflow.Execution {
	return workflow.Execution{
		StepRunSeq: lifecycle.ForgottenStepRuns(w.e.Policy, known), Workflow: ref,
		CreatedBy: c.Actor, CorrelationID: c.CorrelationID, TraceParent: w.recorder.TraceParent(ctx),
		Labels: req.Labels, Probe: req.Mode == views.ModeProbe, Stepping: req.Mode == views.ModeStep, Hold: req.Hold, NotBefore: req.NotBefore.UTC().Truncate(time.Millisecond),
		Key: req.Key, Rollback: req.Rollback, Timeout: req.Timeout, Limits: req.Limits, Region: req.Region,
	}
}

// findStarted returns the execution that an earlier request with the key has started, if there is
// one. begun means that an earlier request bound the key but has not written the execution: it
// crashed, or is about to write it. Either way, this request finishes that work.
func (w *workspace) findStarted(ctx context.Context, key, digest string) (existing *workflow.Execution, begun bool, err error) {
	if key == "" {
		return nil, false, nil
	}
	boundID, existing, err := w.lookupIdempotencyKey(ctx, key, digest)
	if existing == nil && boundID != "" {
		w.id, begun = boundID, true
	}
	return existing, begun, err
}

// bindIdempotencyKey binds the key of a valid request, if it has one, to the execution that it
// starts. bound means that the key was already bound; the workspace then switches to that
// execution.
func (w *workspace) bindIdempotencyKey(ctx context.Context, key, digest string, life time.Duration) (bound bool, err error) {
	if key == "" {
		return false, nil
	}
	want := workflow.IdempotencyRecord{Execution: w.id, Digest: digest, ExpiresAt: w.e.now().Add(cmp.Or(life, w.e.IdempotencyKeyTTL))}
	got, fresh, err := w.ports.Registry.BindIdempotencyKey(ctx, w.tenant, key, want, w.e.now())
	if err != nil || fresh {
		return false, err
	}
	if got.Digest != digest {
		return false, idempotencyMismatch(got.Execution)
	}
	w.id = got.Execution
	return true, nil
}

// lookupIdempotencyKey reads a key without binding it. It returns the execution that the key is
// bound to, or only its id if that execution was never written.
func (w *workspace) lookupIdempotencyKey(ctx context.Context, key, digest string) (id string, x *workflow.Execution, err error) {
	b, err := w.ports.Registry.IdempotencyRecord(ctx, w.tenant, key, w.e.now())
	if err != nil || b.Execution == "" {
		return "", nil, err
	}
	same, err := w.sameRequest(ctx, b.Digest, digest)
	if err != nil {
		return "", nil, err
	}
	if !same {
		return "", nil, idempotencyMismatch(b.Execution)
	}
	x, err = w.ports.Store.Load(ctx, w.tenant, b.Execution)
	if workflow.Is(err, workflow.CodeNotFound) {
		return b.Execution, nil, nil
	}
	return b.Execution, x, err
}

// resolveWorkflow resolves a request's workflow to the newest published version that matches and is
// not archived, or to the draft that the request names and allows.
func (w *workspace) resolveWorkflow(ctx context.Context, req views.StartRequest) (*definitions.Definition, error) {
	ref, err := req.Ref()
	if err != nil {
		return nil, &workflow.Error{Code: workflow.CodeInvalid, Message: "the request is not valid",
			Issues: []workflow.Issue{{Path: "workflow", Code: "format", Message: err.Error()}}}
	}
	exact := ref
	if exact.Version, err = definitions.NewestVersion(ctx, w.ports.Registry, w.tenant, ref); err != nil {
		return nil, err
	}
	if exact.Version == "" {
		if err := w.checkDraft(ctx, ref, req.AllowDraft); err != nil {
			return nil, err
		}
		return w.definition(ctx, ref)
	}
	w.e.definitions.Remember(w.tenant, ref, exact)
	return w.definition(ctx, exact)
}

// checkDraft returns an error unless a reference that no published version matches names a draft, and
// drafts are allowed. It reads the version only if there is an exact one.
func (w *workspace) checkDraft(ctx context.Context, ref workflow.Ref, allowed bool) error {
	none := workflow.Errorf(workflow.CodeNotFound, "no published workflow matches %s", ref)
	if !ref.Exact() {
		return none
	}
	stored, err := w.ports.Registry.Definition(ctx, w.tenant, ref)
	switch {
	case workflow.Is(err, workflow.CodeNotFound):
		return none
	case err != nil:
		return err
	case !stored.Draft || stored.Archived:
		return none
	case !allowed:
		return workflow.Errorf(workflow.CodeNotFound, "%s is a draft: allow a draft with the start (allowDraft), or publish it", ref)
	}
	return nil
}

// newExecution returns a new execution for the workspace. It stores a large input, but not the
// execution itself. The caller sets every field that differs between requests, schedules and
// children.
func (w *workspace) newExecution(ctx context.Context, x workflow.Execution, in workflow.Input) (*workflow.Execution, error) {
	if err := w.sealInput(ctx, &in); err != nil {
		return nil, err
	}
	stored, err := w.offloadInput(ctx, in)
	if err != nil {
		return nil, err
	}
	x.Tenant, x.ID, x.Input = w.tenant, w.id, stored
	if !x.Probe && w.e.SubscriptionsAge > 0 {
		d, err := w.definition(ctx, x.Workflow)
		if err != nil {
			return nil, err
		}
		x.OnEnd = d.OnEnd.Kinds()
	}
	return lifecycle.NewExecution(x, w.e.now()), nil
}

// createAndAdvance writes a new execution and advances it, starting with the command if there is
// one. Once the execution is written, the start has succeeded: its timer covers any later failure.
func (w *workspace) createAndAdvance(ctx context.Context, x workflow.Execution, in workflow.Input, command *lifecycle.Command) error {
	var err error
	if w.execution, err = w.newExecution(ctx, x, in); err != nil {
		return err
	}
	if w.e.StartsByWakeup {
		return w.createForWakeup(ctx, w.execution, "start")
	}
	if w.ahead.of != x.Workflow {
		w.readAhead(ctx, in.Selector)
	}
	if err = w.advance(ctx, command); err == nil {
		return nil
	}
	if w.execution.Version == 0 {
		return err
	}
	w.recorder.Warn(ctx, "execution started, but not advanced; a wake-up will retry", err)
	w.sendWakeups(ctx, "itself", []workflow.Wakeup{wakeup(w.execution, "start")})
	return nil
}

// scheduleActor is the creator of executions that a schedule starts.
const scheduleActor = "schedule"

// StartScheduled creates the execution of a schedule under the given id, unless it exists, and
// sends a wake-up for it. The scheduler starts many executions, so it leaves advancing them to the
// handlers of the wake-ups.
func (e *Engine) StartScheduled(ctx context.Context, s spec.Schedule, id string) error {
	w := e.newWorkspace(s.Tenant, id)
	ref, err := w.scheduledDefinition(ctx, &s)
	if err != nil {
		return err
	}
	d, err := w.definition(ctx, ref)
	if err != nil {
		return err
	}
	// An existing execution keeps its state and its stored input: the schedule may have been
	// published again since.
	heads, err := w.ports.Store.Heads(ctx, s.Tenant, []string{id})
	if err != nil {
		return err
	}
	if heads[id].State != "" {
		return w.ports.Sender.SendWakeups(ctx, 0, workflow.Wakeup{Tenant: s.Tenant, Execution: id, Reason: "schedule"})
	}
	in, err := validateStart(d.Definition, views.StartRequest{Parameters: s.Cron.Parameters, ExecuteOnParameters: s.Cron.ExecuteOnParameters})
	if err != nil {
		return err
	}
	x, err := w.newExecution(ctx, workflow.Execution{
		Workflow: d.Ref(), CreatedBy: scheduleActor, Labels: map[string]string{spec.LabelSchedule: s.Name},
	}, in)
	if err != nil {
		return err
	}
	return w.createForWakeup(ctx, x, "schedule")
}

// createOnly creates an execution with a derived id, unless it exists. Its timer covers the wake-up
// that has to follow.
func (w *workspace) createOnly(ctx context.Context, x *workflow.Execution) error {
	x.Version, x.MinFencingToken = 1, w.e.Policy.MinFencingToken
	if err := w.prepareCommit(ctx, x, x); err != nil {
		return err
	}
	x.DueAt = w.e.now().Add(w.e.Policy.PollInterval)
	created, err := w.ports.Store.Create(ctx, x)
	if created && err == nil {
		w.pendingCost = workflow.Cost{} // it is that of the execution
	}
	return err
}

// createForWakeup creates an execution, unless one with its id exists, and leaves advancing it to
// the handler of a wake-up. what names the cause of the start, in one word.
func (w *workspace) createForWakeup(ctx context.Context, x *workflow.Execution, what string) error {
	x.TraceParent = w.recorder.RecordRootSpan(ctx, what)
	if err := w.createOnly(ctx, x); err != nil {
		return err
	}
	return w.sendWithCost(ctx, wakeup(x, what))
}
