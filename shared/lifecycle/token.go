package lifecycle

import (
	"fmt"
	"slices"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// The events about tokens. Like [EventSignalReceived] they move nothing. None of them has a
// token in it.
const (
	EventTokenIssued  = "token.issued"
	EventTokenRevoked = "token.revoked"
)

// lend records that a token is made. Its bearer answers by another name, with the right of
// whoever makes it: one person counts once, so who has answered lends nothing, and where several
// have to answer everybody lends to one person, and answers by a token or himself.
func (d *decider) lend(c Command) error {
	r, err := d.openWait(c)
	if r == nil {
		return err
	}
	to := r.Wait.LentTo(c.Actor)
	switch {
	case r.HasAnswered(c.Actor):
		return refusedAnswer("used", fmt.Sprintf("%s has answered step %q of execution %s already, and cannot let another one answer", c.Actor, r.Label, d.execution.ID))
	case r.HasAnswered(c.Tokens.For):
		return refusedAnswer("used", fmt.Sprintf("%s has answered step %q of execution %s already", c.Tokens.For, r.Label, d.execution.ID))
	case to != "" && to != c.Tokens.For:
		return refusedAnswer("used", fmt.Sprintf("%s has made a token for %s already, and one person counts once", c.Actor, to))
	}
	if f := d.facts.Answer; f == nil || f.StepRunSeq != r.Seq {
		d.need(Need{Kind: NeedAnswer, StepRunSeq: r.Seq})
		return nil
	} else if f.Problem != nil {
		return f.Problem
	}
	if r.Wait.Need > 1 && to == "" {
		if len(r.Wait.Lent) >= workflow.MaxAnswers {
			return workflow.Errorf(workflow.CodeLimit, "step %q of execution %s has tokens of %d people already: revoke them first", r.Label, d.execution.ID, len(r.Wait.Lent))
		}
		w := *r.Wait
		w.Lent = append(slices.Clone(w.Lent), workflow.Lent{By: c.Actor, For: c.Tokens.For})
		r.Wait = &w
	}
	data := map[string]any{"for": c.Tokens.For}
	if !c.Tokens.ExpiresAt.IsZero() {
		data["expiresAt"] = c.Tokens.ExpiresAt.Format(time.RFC3339)
	}
	d.recordTokens(r, EventTokenIssued, c, data)
	return nil
}

// revokeTokens makes all tokens of a step run that waits invalid. Answers that came by them stay.
func (d *decider) revokeTokens(c Command) error {
	r, err := d.openWait(c)
	if r == nil {
		return err
	}
	w := *r.Wait
	w.Generation++
	w.Lent = slices.DeleteFunc(slices.Clone(w.Lent), func(l workflow.Lent) bool { return !r.HasAnswered(l.For) })
	r.Wait = &w
	d.recordTokens(r, EventTokenRevoked, c, map[string]any{})
	return nil
}

func (d *decider) recordTokens(r *workflow.StepRun, event string, c Command, data map[string]any) {
	if c.Reason != "" {
		data["reason"] = c.Reason
	}
	d.record(workflow.Event{Layer: string(sm.LayerStep), Type: event, Step: r.Label, Actor: c.Actor}, data)
}

// openWait is the step run that a command about tokens names, if it still waits for people. It is
// nil, without an error, if something else comes first.
func (d *decider) openWait(c Command) (*workflow.StepRun, error) {
	if d.somethingIsDue() {
		d.decision.CommandPending = true
		return nil, nil
	}
	r := d.execution.StepRunBySeq(c.Tokens.StepRunSeq)
	if r == nil || !d.execution.TakesAnswers() || !r.Waiting() || r.Wait.Need == 0 {
		return nil, d.answerRefusal(r)
	}
	if d.facts.Resolution == nil {
		d.need(Need{Kind: NeedResolution})
		return nil, nil
	}
	return r, nil
}
