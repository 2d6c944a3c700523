package engine

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/lockstep-run/lockstep/shared/engine/definitions"
	"github.com/lockstep-run/lockstep/shared/lifecycle"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Rerun starts an execution of the same version of the definition as one that has ended, over some
// of its entities, and records that in the ended one. The new execution gets the same labels,
// business key, region, rollback, timeout and limits, and the same parameters unless the request sets
// others.
//
// The idempotency key works as in [Engine.Start]; repeating a request with it also makes up for a
// missing record. An archived version allows no new executions, so no reruns either.
func (e *Engine) Rerun(ctx context.Context, c workflow.Caller, of string, req views.RerunRequest) (x *workflow.Execution, existed bool, err error) {
	digest, err := requestDigest(struct {
		RerunOf string
		Request views.RerunRequest
	}{of, req})
	if err != nil {
		return nil, false, err
	}
	old := e.newWorkspace(c.Tenant, of)
	defer old.keepCost()
	old.inline = true
	if err := old.load(ctx); err != nil {
		return nil, false, err
	}
	if !old.execution.DiscardedAt.IsZero() {
		return nil, false, workflow.Errorf(workflow.CodeNotFound, "execution %s has been removed: its retention is over", of)
	}
	w := e.newWorkspace(c.Tenant, e.NewID())
	defer w.keepCost()
	w.inline = true
	w.pendingCost.Add(workflow.Cost{Invocations: 1}) // the request itself
	existing, existed, err := w.findStarted(ctx, req.IdempotencyKey, digest)
	if err != nil {
		return nil, false, err
	}
	if existing != nil {
		return existing, true, old.recordRerun(ctx, c, existing.ID)
	}
	d, in, err := old.rerunInput(ctx, req)
	if err != nil {
		return nil, false, err
	}
	existing, err = w.refuseOtherHolder(ctx, d.Ref(), old.execution.Key, req.IdempotencyKey, digest)
	if err != nil {
		return nil, false, err
	}
	if existing != nil { // as above: it has been started in between
		err = old.recordRerun(ctx, c, existing.ID)
		return existing, true, err
	}
	if digest, err = w.digestToBind(ctx, digest, in); err != nil {
		return nil, false, err
	}
	bound, err := w.bindIdempotencyKey(ctx, req.IdempotencyKey, digest, 0)
	if err != nil {
		return nil, false, err
	}
	existed = existed || bound
	err = w.createAndAdvance(ctx, workflow.Execution{
		StepRunSeq: lifecycle.ForgottenStepRuns(e.Policy, existed), Workflow: d.Ref(), RerunOf: of, Reason: req.Reason,
		CreatedBy: c.Actor, CorrelationID: c.CorrelationID, TraceParent: w.recorder.TraceParent(ctx),
		Labels: old.execution.Labels, Key: old.execution.Key, Rollback: old.execution.Rollback, Timeout: old.execution.Timeout, Limits: old.execution.Limits, Region: old.execution.Region,
	}, in, nil)
	if err != nil {
		return nil, false, err
	}
	if err := old.recordRerun(ctx, c, w.execution.ID); err != nil {
		if req.IdempotencyKey != "" {
			return nil, false, err // the request can be repeated
		}
		w.recorder.Warn(ctx, "an execution was started that repeats another one, which does not name it", err)
	}
	return w.execution, existed, nil
}

// recordRerun records in an ended execution that another one repeats it. If it has been retried, it
// is not ended any more and gets no record.
func (w *workspace) recordRerun(ctx context.Context, c workflow.Caller, by string) error {
	err := w.advance(ctx, &lifecycle.Command{Kind: lifecycle.CommandRerun, Actor: c.Actor, RerunBy: by})
	if err == nil || w.commandCommitted || workflow.Is(err, workflow.CodeIllegalTransition) {
		return nil
	}
	return err
}

// rerunInput returns the definition and the input of an execution that repeats this one.
func (w *workspace) rerunInput(ctx context.Context, req views.RerunRequest) (*definitions.Definition, workflow.Input, error) {
	x := w.execution
	if err := lifecycle.CheckRerun(x); err != nil {
		return nil, workflow.Input{}, err
	}
	version, err := definitions.NewestVersion(ctx, w.ports.Registry, w.tenant, x.Workflow)
	if err != nil {
		return nil, workflow.Input{}, err
	}
	if version == "" {
		return nil, workflow.Input{}, workflow.Errorf(workflow.CodeConflict, "%s is archived or a draft, and allows no new executions: restore or publish it, or start another version over these entities", x.Workflow)
	}
	d, err := w.definition(ctx, x.Workflow)
	if err != nil {
		return nil, workflow.Input{}, err
	}
	in, err := w.startInput(ctx)
	if err != nil {
		return nil, workflow.Input{}, err
	}
	start := views.StartRequest{Parameters: in.Parameters, Metadata: in.Metadata}
	if len(req.Parameters) > 0 {
		start.Parameters = req.Parameters
	} else if start.Parameters, err = w.openInput(ctx, in); err != nil {
		return nil, workflow.Input{}, err
	}
	if start.ExecuteOnParameters, err = w.rerunSelector(ctx, req.Entities, in.Selector, d.SeedEntity); err != nil {
		return nil, workflow.Input{}, err
	}
	again, err := validateStart(d.Definition, start)
	return d, again, err
}

// rerunSelector selects the entities to repeat. A selector has one type: that of the first start,
// or the seed entity. The definition acquires entities of other types itself.
func (w *workspace) rerunSelector(ctx context.Context, chosen views.RerunEntities, first *workflow.Selector, seed string) (*workflow.Selector, error) {
	entities, err := w.loadAllEntities(ctx, w.execution.Scope)
	if err != nil {
		return nil, err
	}
	if chosen.Choice == views.RerunAll && (len(entities) == 0 || first.Empty()) {
		if first.None() {
			return &workflow.Selector{Type: first.Type, IDs: []string{}}, nil
		}
		return first, nil // the new execution selects and acquires them itself
	}
	keys, err := w.rerunEntities(ctx, chosen, entities)
	if err != nil {
		return nil, err
	}
	sel := workflow.Selector{Type: seed}
	if !first.Empty() {
		sel.Type = first.Type
	}
	var others []string
	for _, key := range keys {
		if key.Type == sel.Type {
			sel.IDs = append(sel.IDs, key.ID)
		} else if len(others) < workflow.MaxNamedFailures {
			others = append(others, key.String())
		}
	}
	switch {
	case len(sel.IDs) > 0:
		return &sel, nil
	case sel.Type == "":
		return nil, rerunInvalid("other_type", fmt.Sprintf("the definition %s acquires its entities itself and has no seedEntity, so that no execution of it can be started for %s only: rerun all", w.execution.Workflow, strings.Join(others, ", ")))
	}
	return nil, rerunInvalid("other_type", fmt.Sprintf("%s can only be started for entities of type %s, and acquires %s itself: rerun all, or name the entities of type %s through which it acquires them", w.execution.Workflow, sel.Type, strings.Join(others, ", "), sel.Type))
}

// rerunEntities returns the entities that the request names or describes.
func (w *workspace) rerunEntities(ctx context.Context, chosen views.RerunEntities, entities []workflow.ScopeEntity) (keys []workflow.EntityKey, err error) {
	x := w.execution
	if len(chosen.Keys) > 0 {
		known := map[workflow.EntityKey]bool{}
		for _, e := range entities {
			known[e.Key] = true
		}
		for _, b := range x.Dropped {
			known[b.Entity] = true
		}
		for _, key := range chosen.Keys {
			if !known[key] {
				return nil, rerunInvalid("unknown", fmt.Sprintf("%s is not an entity of execution %s", key, x.ID))
			}
		}
		keys = slices.Clone(chosen.Keys)
		slices.SortFunc(keys, workflow.EntityKey.Compare)
		return slices.Compact(keys), nil
	}
	if chosen.Choice != views.RerunAll {
		if err := ReadOutcomes(ctx, w.ports.Packs, x); err != nil {
			return nil, err
		}
	}
	counts := map[workflow.EntityOutcome]int{}
	for _, e := range entities {
		outcome, _ := x.EntityOutcome(e.Place) // known, unless all are chosen
		counts[outcome]++
		if repeats(chosen.Choice, outcome) {
			keys = append(keys, e.Key)
		}
	}
	if chosen.Choice == views.RerunSkipped || chosen.Choice == views.RerunUnfinished {
		counts[workflow.EntitySkipped] += x.DroppedCount
		if x.DroppedCount > len(x.Dropped) {
			return nil, rerunInvalid("unknown", fmt.Sprintf("execution %s left out %d entities because they were locked, and keeps the first %d: name them", x.ID, x.DroppedCount, len(x.Dropped)))
		}
		for _, b := range x.Dropped {
			keys = append(keys, b.Entity)
		}
	}
	if len(keys) > 0 {
		return keys, nil
	}
	var found []string
	for _, outcome := range workflow.EntityOutcomes() {
		if n := counts[outcome]; n > 0 {
			found = append(found, fmt.Sprintf("%d %s", n, outcome))
		}
	}
	others := ""
	if slices.ContainsFunc(x.StepRuns, func(r workflow.StepRun) bool { return r.Child != nil }) {
		others = "; what its steps have started are executions of their own: rerun those that failed"
	}
	return nil, rerunInvalid("none", fmt.Sprintf("execution %s has no %s entities; it has: %s%s", x.ID, chosen.Choice, cmp.Or(strings.Join(found, ", "), "none"), others))
}

// repeats reports whether a choice includes an entity with this outcome.
func repeats(c views.RerunChoice, outcome workflow.EntityOutcome) bool {
	switch c {
	case views.RerunAll:
		return true
	case views.RerunSkipped:
		return outcome == workflow.EntitySkipped
	case views.RerunFailed:
		return outcome.Failed()
	case views.RerunUnfinished:
		return outcome == workflow.EntitySkipped || outcome.Failed()
	}
	return outcome == workflow.EntityFailedUnsafe
}

func rerunInvalid(code, message string) error {
	return workflow.Invalid("the request is not valid", []workflow.Issue{{Path: "entities", Code: code, Message: message}})
}
