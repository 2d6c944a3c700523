package engine

import (
	"context"
	"fmt"
	"strings"

	"github.com/lockstep-run/lockstep/shared/lifecycle"
	"github.com/lockstep-run/lockstep/shared/token"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// maxSubject bounds the name for which a token is issued, with the same limit as actors.
const maxSubject = 256

var errNoTokenKeys = workflow.Errorf(workflow.CodeNotImplemented, "there are no keys to make tokens with: configure token.keys")

var errNoAddress = workflow.Errorf(workflow.CodeNotImplemented, "nobody has said at which address people reach this service: configure token.address")

// linkOf returns the address at which the bearer of a token answers in a browser.
func (e *Engine) linkOf(token string) (string, error) {
	if e.Address == "" {
		return "", errNoAddress
	}
	return strings.TrimSuffix(e.Address, "/") + workflow.AnswerPage + "#" + token, nil
}

// callbackToken makes the token that the job of a step carries to whoever has to answer. It is the
// same each time the job is sent, as long as the key stays the same.
func (w *workspace) callbackToken(ctx context.Context, stepRunSeq int) (string, error) {
	keys, err := w.e.tokenKeys(ctx)
	if err != nil {
		return "", err
	}
	if !keys.Set() {
		return "", errNoTokenKeys
	}
	return keys.Make(token.Claims{Tenant: w.tenant, Execution: w.id, StepRunSeq: stepRunSeq, Subject: workflow.CallbackBearer})
}

// IssueToken makes a token with which somebody can answer a step that waits for people. The answer
// carries the name req.For and the rights of the caller, who must be allowed to answer. The token
// is returned only here; it is not stored anywhere.
func (e *Engine) IssueToken(ctx context.Context, c workflow.Caller, id string, req views.TokenRequest) (views.TokenView, error) {
	var made views.TokenView
	keys, err := e.tokenKeys(ctx)
	if err != nil {
		return made, err
	}
	if !keys.Set() {
		return made, errNoTokenKeys
	}
	var issues []workflow.Issue
	if !workflow.IsVisible(req.For, maxSubject) {
		issues = append(issues, workflow.Issue{Path: "for", Code: "pattern", Message: fmt.Sprintf("want up to %d visible characters", maxSubject)})
	}
	tokens := lifecycle.Tokens{For: req.For}
	if req.ExpiresAt != nil {
		if tokens.ExpiresAt = req.ExpiresAt.UTC(); !tokens.ExpiresAt.After(e.now()) {
			issues = append(issues, workflow.Issue{Path: "expiresAt", Code: "range", Message: "it has passed"})
		}
	}
	if len(issues) > 0 {
		return made, workflow.Invalid("the request is not valid", issues)
	}
	w := e.newWorkspace(c.Tenant, id)
	defer w.keepCost()
	w.answer = &answer{caller: c, tokenFor: req.For}
	r, err := w.applyToTokens(ctx, lifecycle.Command{Kind: lifecycle.CommandIssueToken, Actor: c.Actor, Reason: req.Reason, Tokens: &tokens}, req.Step, req.Visit)
	if err != nil {
		return made, err
	}
	text, err := keys.Make(token.Claims{
		Tenant: c.Tenant, Execution: id, StepRunSeq: r.Seq, Generation: r.Wait.Generation, Subject: req.For, Maker: c.Actor, ExpiresAt: tokens.ExpiresAt,
	})
	if err != nil {
		return made, err
	}
	made = views.TokenView{Token: text, Execution: id, Step: r.Label, Visit: r.Ordinal, For: req.For, ExpiresAt: req.ExpiresAt}
	if link, err := e.linkOf(text); err == nil { // without a link the token is returned alone
		made.URL = &link
	}
	return made, nil
}

// RevokeTokens invalidates all tokens of a waiting step.
func (e *Engine) RevokeTokens(ctx context.Context, c workflow.Caller, id string, req views.RevokeRequest) (*workflow.Execution, error) {
	w := e.newWorkspace(c.Tenant, id)
	defer w.keepCost()
	_, err := w.applyToTokens(ctx, lifecycle.Command{Kind: lifecycle.CommandRevoke, Actor: c.Actor, Reason: req.Reason, Tokens: &lifecycle.Tokens{}}, req.Step, req.Visit)
	return w.execution, err
}

// applyToTokens applies a command to the tokens of the waiting step run. It determines that step
// run once, at the start. It returns the step run as committed.
func (w *workspace) applyToTokens(ctx context.Context, c lifecycle.Command, step string, visit int) (*workflow.StepRun, error) {
	w.inline = true
	if err := w.load(ctx); err != nil {
		return nil, err
	}
	r, err := waitingFor(w.execution, step, visit)
	if err != nil {
		return nil, err
	}
	if r != nil {
		c.Tokens.StepRunSeq = r.Seq
	}
	if _, err := w.applyLoaded(ctx, c); err != nil {
		return nil, err
	}
	if r = w.execution.StepRunBySeq(c.Tokens.StepRunSeq); r == nil || r.Wait == nil {
		return nil, workflow.Errorf(workflow.CodeInternal, "the step run of a token is gone")
	}
	return r, nil
}

// tokenKeys returns the keys of tokens; the zero value if there are none.
func (e *Engine) tokenKeys(ctx context.Context) (token.Keys, error) {
	if e.TokenKeys == nil {
		return token.Keys{}, nil
	}
	keys, err := e.TokenKeys(ctx)
	if err != nil {
		return token.Keys{}, &workflow.Error{Code: workflow.CodeUnavailable, Message: "the keys of tokens cannot be read", Cause: err}
	}
	return keys, nil
}

// verify returns the claims of a token. For an invalid token nothing is read.
func (e *Engine) verify(ctx context.Context, text string) (token.Claims, error) {
	keys, err := e.tokenKeys(ctx)
	if err != nil {
		return token.Claims{}, err
	}
	return keys.Verify(text)
}

// AnswerByToken answers the step that a token names. The bearer needs no other right. It returns
// CodeUnauthorized if no key has signed the token, and CodeIllegalTransition if the token is
// revoked, expired or used, or if its step no longer waits.
func (e *Engine) AnswerByToken(ctx context.Context, text string, req views.TokenAnswer) (views.TokenReceipt, error) {
	claims, err := e.verify(ctx, text)
	if err != nil {
		return views.TokenReceipt{}, err
	}
	input, err := compactInput(req.Input)
	if err != nil {
		return views.TokenReceipt{}, err
	}
	digest := workflow.AnswerDigest(input)
	key := req.IdempotencyKey
	if key == "" {
		key = text + " " + digest
	}
	c := workflow.Caller{Tenant: claims.Tenant, Actor: claims.Subject}
	w := e.newWorkspace(claims.Tenant, claims.Execution)
	defer w.keepCost()
	w.inline = true
	if err := w.loadForToken(ctx); err != nil {
		return views.TokenReceipt{}, err
	}
	w.answer = &answer{caller: c, input: input, byToken: true}
	x, err := w.applyLoaded(ctx, lifecycle.Command{Kind: lifecycle.CommandAnswer, Actor: c.Actor, Answer: &lifecycle.Answer{
		StepRunSeq: claims.StepRunSeq, Named: true, Key: workflow.AnswerKey(key, c.Actor), Digest: digest,
		ByToken: true, TokenBy: claims.Maker, Generation: claims.Generation, ExpiresAt: claims.ExpiresAt,
	}})
	if err != nil {
		return views.TokenReceipt{}, err
	}
	receipt := views.TokenReceipt{Execution: claims.Execution}
	if r := x.StepRunBySeq(claims.StepRunSeq); r != nil {
		receipt.Step = r.Label
	}
	return receipt, nil
}

// QuestionOfToken returns what the bearer of a token is asked, or why an answer is no longer
// possible.
func (e *Engine) QuestionOfToken(ctx context.Context, text string) (views.QuestionView, error) {
	var v views.QuestionView
	claims, err := e.verify(ctx, text)
	if err != nil {
		return v, err
	}
	w := e.newWorkspace(claims.Tenant, claims.Execution)
	defer w.keepCost()
	if err := w.loadForToken(ctx); err != nil {
		return v, err
	}
	r, err := lifecycle.CheckToken(w.execution, &lifecycle.Answer{
		StepRunSeq: claims.StepRunSeq, ByToken: true, TokenBy: claims.Maker, Generation: claims.Generation, ExpiresAt: claims.ExpiresAt,
	}, claims.Subject, e.now())
	if err != nil {
		return v, err
	}
	q, err := w.question(ctx, r)
	if err != nil {
		return v, err
	}
	v = views.QuestionView{Step: r.Label, For: claims.Subject, Schema: q.Schema, Show: q.Show, Approval: r.Wait.Approval, Until: r.Wait.Until}
	if q.Title != "" {
		v.Title = &q.Title
	}
	if !claims.ExpiresAt.IsZero() {
		v.ExpiresAt = &claims.ExpiresAt
	}
	return v, nil
}

// loadForToken loads the execution that a token names. An execution that has been removed takes no
// answer.
func (w *workspace) loadForToken(ctx context.Context) error {
	err := w.load(ctx)
	if err == nil && !w.execution.DiscardedAt.IsZero() || workflow.Is(err, workflow.CodeNotFound) {
		return &workflow.Error{Code: workflow.CodeIllegalTransition, Message: fmt.Sprintf("execution %s does not exist any more", w.id), Issues: []workflow.Issue{{
			Path: "input", Code: "closed", Message: "the step takes no answer, or none any more",
		}}}
	}
	return err
}
