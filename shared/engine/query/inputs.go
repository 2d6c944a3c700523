package query

import (
	"context"
	"time"

	"github.com/lockstep-run/lockstep/shared/engine"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// Inputs lists what an execution is asking people. With mine, it lists only what the caller may
// answer and has not answered.
func (v *Service) Inputs(ctx context.Context, c workflow.Caller, id string, mine bool) ([]views.InputView, error) {
	i, err := v.engine.Inspect(ctx, c.Tenant, id)
	if err != nil {
		return nil, err
	}
	if mine {
		return v.inputs(ctx, i, &c)
	}
	return v.inputs(ctx, i, nil)
}

// Inbox lists what the executions of the tenant are asking people, newest execution first. With
// mine, it lists only what the caller may answer and has not answered.
func (v *Service) Inbox(ctx context.Context, c workflow.Caller, mine bool, p workflow.Page) (workflow.List[views.InputView], error) {
	var list workflow.List[views.InputView]
	below := ""
	if p.Token != "" {
		var err error
		if below, err = decodePageToken(p); err != nil {
			return list, err
		}
	}
	var asks *workflow.Caller
	if mine {
		asks = &c
	}
	limit, bytes := pageLimit(p), 0
	listed := v.listStates(c.Tenant, []sm.ExecutionState{sm.ExecutionWaiting, sm.ExecutionRunning}, workflow.OrderNewest)
	for range maxListReads {
		batch, end, err := listed.next(ctx, below, limit)
		if err != nil {
			return list, err
		}
		list.Skipped = append(list.Skipped, batch.skipped...)
		for _, x := range batch.executions {
			items, err := v.inputs(ctx, v.engine.InspectLoaded(x), asks)
			if err != nil {
				return list, err
			}
			list.Items = append(list.Items, items...)
			for i := range items {
				bytes += len(items[i].Show) + len(items[i].Schema)
			}
			if below = x.ID; len(list.Items) >= limit || bytes > maxPageBytes/2 {
				list.NextToken, list.Skipped = encodePageToken(below), skippedUntil(list.Skipped, below, workflow.OrderNewest)
				return list, nil
			}
		}
		if end {
			return list, nil
		}
		below = batch.last
	}
	list.NextToken = encodePageToken(below)
	return list, nil
}

// inputs returns the open questions of an execution, or those that a caller may answer.
func (v *Service) inputs(ctx context.Context, i *engine.Inspection, mine *workflow.Caller) ([]views.InputView, error) {
	x := i.Execution()
	items := []views.InputView{}
	for n := range x.StepRuns {
		r := &x.StepRuns[n]
		if !x.TakesAnswers() || !r.Waiting() || r.Wait.Need == 0 || mine != nil && r.HasAnswered(mine.Actor) {
			continue
		}
		q, err := i.Question(ctx, r)
		if err != nil {
			return nil, err
		}
		if who := q.At(r.Wait.Level); mine == nil || who.Allows(mine.Actor, mine.RoleNames(), x.CreatedBy) {
			items = append(items, inputView(x, r, q, who, v.engine.Now()))
		}
	}
	return items, nil
}

func inputView(x *workflow.Execution, r *workflow.StepRun, q *workflow.Question, who workflow.Who, now time.Time) views.InputView {
	view := views.InputView{
		Execution: x.ID, Workflow: x.Workflow, Step: r.Label, Visit: r.Ordinal, Title: nonZeroPtr(q.Title), Schema: q.Schema, Show: q.Show,
		Who:      views.WhoView{Actors: append([]string{}, who.Actors...), Roles: append([]string{}, who.Roles...), NotStarter: who.NotStarter},
		Approval: r.Wait.Approval, Need: r.Wait.Need, Level: r.Wait.Level, Answers: answerViews(r), Tokens: []views.TokenInfo{}, Since: r.Wait.Since, Until: r.Wait.Until,
	}
	for _, l := range r.Wait.Issued {
		view.Tokens = append(view.Tokens, views.TokenInfo{By: l.By, For: l.For, At: l.At, ExpiresAt: timePtr(l.ExpiresAt), State: r.StateOf(l, now)})
	}
	return view
}

// Tokens lists what has become of the tokens of an execution, those of the newest step run first:
// as long as the step runs are kept.
func (v *Service) Tokens(ctx context.Context, c workflow.Caller, id string) ([]views.TokenStateView, error) {
	i, err := v.engine.Inspect(ctx, c.Tenant, id)
	if err != nil {
		return nil, err
	}
	x, now, items := i.Execution(), v.engine.Now(), []views.TokenStateView{}
	for n := len(x.StepRuns) - 1; n >= 0; n-- {
		r := &x.StepRuns[n]
		if r.Wait == nil {
			continue
		}
		for _, l := range r.Wait.Issued {
			state := r.StateOf(l, now)
			if state == workflow.TokenActive && !x.TakesAnswers() {
				state = workflow.TokenRevoked // it is being cancelled, or has failed
			}
			items = append(items, views.TokenStateView{Step: r.Label, Visit: r.Ordinal, By: l.By, For: l.For, At: l.At, ExpiresAt: timePtr(l.ExpiresAt), State: state})
		}
	}
	return items, nil
}

// answerViews returns the answers to a step run, without their values.
func answerViews(r *workflow.StepRun) []views.AnswerView {
	shown := []views.AnswerView{} // not null
	for _, a := range r.Answers {
		shown = append(shown, views.AnswerView{By: a.By, At: a.At, Via: nonZeroPtr(a.Via)})
	}
	return shown
}
