package lifecycle

import (
	"fmt"
	"slices"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// Events about tokens. Like [EventSignalReceived] they change no state. None of them contains a
// token.
const (
	EventTokenIssued  = "token.issued"  // somebody has issued a token for an answer
	EventTokenRevoked = "token.revoked" // the tokens of a step have been revoked
)

// issueToken records that a token is issued. Its bearer answers under another name, with the right
// of the issuer. One person counts once. So somebody who has answered cannot issue a token. If
// several people must answer, each can issue tokens for only one other person at a time, and then
// does not answer himself. Tokens that were revoked, or expired unused, no longer count.
func (d *decider) issueToken(c Command) error {
	r, err := d.openWait(c)
	if r == nil {
		return err
	}
	to := r.BearerOf(c.Actor, d.now)
	switch {
	case r.HasAnswered(c.Actor):
		return refusedAnswer("used", fmt.Sprintf("%s has answered step %q of execution %s already, and cannot let another one answer", c.Actor, r.Label, d.execution.ID))
	case r.HasUsedRight(c.Actor):
		return refusedAnswer("used", fmt.Sprintf("step %q of execution %s has been answered with a token of %s already", r.Label, d.execution.ID, c.Actor))
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
	if err := d.keepToken(r, c); err != nil {
		return err
	}
	data := map[string]any{"for": c.Tokens.For}
	if !c.Tokens.ExpiresAt.IsZero() {
		data["expiresAt"] = c.Tokens.ExpiresAt.Format(time.RFC3339)
	}
	d.recordTokens(r, EventTokenIssued, c, data)
	return nil
}

// keepToken records for whom a token is issued, and replaces an earlier record with the same issuer
// and bearer; the record lasts until the last of their tokens expires. If there is no space, tokens
// that were revoked or expired unused are dropped first, and then the oldest. But if several people
// must answer, no token is dropped that somebody could still use.
func (d *decider) keepToken(r *workflow.StepRun, c Command) error {
	w := *r.Wait
	issued := workflow.IssuedToken{By: c.Actor, For: c.Tokens.For, At: d.now, ExpiresAt: c.Tokens.ExpiresAt, Generation: w.Generation}
	w.Issued = slices.DeleteFunc(slices.Clone(w.Issued), func(l workflow.IssuedToken) bool {
		same := l.By == issued.By && l.For == issued.For
		if same && l.Generation == issued.Generation && (l.ExpiresAt.IsZero() || !issued.ExpiresAt.IsZero() && l.ExpiresAt.After(issued.ExpiresAt)) {
			issued.ExpiresAt = l.ExpiresAt // the earlier token is valid for longer
		}
		return same
	})
	if len(w.Issued) >= workflow.MaxAnswers {
		w.Issued = slices.DeleteFunc(w.Issued, func(l workflow.IssuedToken) bool {
			state := r.StateOf(l, d.now)
			return state == workflow.TokenRevoked || state == workflow.TokenExpired
		})
	}
	if len(w.Issued) >= workflow.MaxAnswers && w.Need > 1 {
		return workflow.Errorf(workflow.CodeLimit, "step %q of execution %s has tokens of %d people already: revoke them first", r.Label, d.execution.ID, len(w.Issued))
	}
	if err := d.refuseForRoom(r, issued); err != nil {
		return err
	}
	w.Issued = append(w.Issued[max(0, len(w.Issued)-workflow.MaxAnswers+1):], issued)
	r.Wait = &w
	return nil
}

// revokeTokens invalidates all tokens of a waiting step run. Answers that were given with them
// stay.
func (d *decider) revokeTokens(c Command) error {
	r, err := d.openWait(c)
	if r == nil {
		return err
	}
	w := *r.Wait
	w.Generation++
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

// openWait returns the step run that a command about tokens names, if it still waits for people. It
// returns nil without an error if something else must be decided first.
func (d *decider) openWait(c Command) (*workflow.StepRun, error) {
	if d.somethingIsDue() {
		d.decision.CommandPending = true
		return nil, nil
	}
	r := d.execution.StepRunBySeq(c.Tokens.StepRunSeq)
	if !d.asksPeople(r) {
		return nil, d.answerRefusal(r)
	}
	if d.facts.Resolution == nil {
		d.need(Need{Kind: NeedResolution})
		return nil, nil
	}
	return r, nil
}
