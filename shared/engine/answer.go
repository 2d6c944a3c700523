package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/lockstep-run/lockstep/shared/definition/schema"
	"github.com/lockstep-run/lockstep/shared/definition/yamldoc"
	"github.com/lockstep-run/lockstep/shared/lifecycle"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

// answer is the content of an answer request. It is checked again after every lost race.
type answer struct {
	caller workflow.Caller
	input  json.RawMessage // compact JSON

	byToken  bool   // the maker of the token was allowed to answer
	tokenFor string // not an answer: the request issues a token for this person
}

// Answer answers a step that waits for people. A repeated call with the same key is the same
// answer, whatever has happened to the step since.
//
// It returns CodeIllegalTransition if the step does not wait for input, if its deadline has passed,
// or if the caller has answered it already; CodeForbidden if the caller may not answer; and
// CodeInvalid if the value does not match the schema, in which case the step keeps waiting.
func (e *Engine) Answer(ctx context.Context, c workflow.Caller, id string, req views.AnswerRequest) (*workflow.Execution, error) {
	return e.sendAnswer(ctx, c, id, req, lifecycle.Command{Answer: &lifecycle.Answer{}})
}

// sendAnswer completes the command that answers with what the request says, and applies it.
func (e *Engine) sendAnswer(ctx context.Context, c workflow.Caller, id string, req views.AnswerRequest, cmd lifecycle.Command) (*workflow.Execution, error) {
	key := req.IdempotencyKey
	if key == "" {
		key = e.NewID() // generated once: it identifies a commit whose reply was lost
	}
	input, err := compactInput(req.Input)
	if err != nil {
		return nil, err
	}
	w := e.newWorkspace(c.Tenant, id)
	defer w.keepCost()
	w.inline = true
	if err := w.load(ctx); err != nil {
		return nil, err
	}
	r, err := waitingFor(w.execution, req.Step, req.Visit)
	if err != nil {
		return nil, err
	}
	w.answer = &answer{caller: c, input: input}
	cmd.Kind, cmd.Actor, cmd.Reason = lifecycle.CommandAnswer, c.Actor, req.Reason
	a := cmd.Answer
	a.Named, a.Key, a.Digest = req.Visit > 0, workflow.AnswerKey(key, c.Actor), workflow.AnswerDigest(input)
	if r != nil {
		a.StepRunSeq = r.Seq
	}
	return w.applyLoaded(ctx, cmd)
}

// compactInput checks an answer and removes its insignificant white space.
func compactInput(input json.RawMessage) (json.RawMessage, error) {
	if len(input) > workflow.MaxAnswerBytes {
		return nil, workflow.Errorf(workflow.CodeTooLarge, "the input takes %d bytes, the limit is %d", len(input), workflow.MaxAnswerBytes)
	}
	if issue := nestingIssue(input, "input"); issue != nil {
		return nil, workflow.Invalid("the input is not valid", []workflow.Issue{*issue})
	}
	return compactJSON(input, "input")
}

// nestingIssue is what is wrong with a value from a request that a step may make the value of a variable: it is nested
// deeper than that may be. Nil if nothing is.
func nestingIssue(value json.RawMessage, path string) *workflow.Issue {
	if workflow.JSONDepth(value) <= spec.MaxVariableDepth {
		return nil
	}
	return &workflow.Issue{Path: path, Code: "depth", Message: fmt.Sprintf("it is nested more than %d deep", spec.MaxVariableDepth)}
}

// compactJSON checks a JSON value from a request and removes its insignificant white space. what
// names the value in errors.
func compactJSON(value json.RawMessage, what string) (json.RawMessage, error) {
	if issue := schema.CheckJSON(value, what, yamldoc.JoinPath); issue != nil {
		return nil, workflow.Invalid("the "+what+" is not valid", []workflow.Issue{*issue})
	}
	var b bytes.Buffer
	if err := json.Compact(&b, value); err != nil {
		return nil, workflow.Errorf(workflow.CodeInvalid, "the %s is no JSON: %s", what, err)
	}
	return b.Bytes(), nil
}

// waitingFor returns the step run that an answer request is about: the run of the step that waits,
// or that waited last. It returns nil if no step has ever waited. The request must name the step if
// several wait, and may name which run of the step.
func waitingFor(x *workflow.Execution, step string, visit int) (*workflow.StepRun, error) {
	var last *workflow.StepRun
	var open, asking []string
	for i := range x.StepRuns {
		r := &x.StepRuns[i]
		if r.Waiting() && r.Wait.Need > 0 {
			asking = append(asking, r.Label)
		}
		if r.Wait == nil || r.Wait.Need == 0 || step != "" && r.Label != step || visit > 0 && r.Ordinal != visit {
			continue
		}
		if r.Waiting() {
			open = append(open, r.Label)
		}
		if last == nil || r.Waiting() || !last.Waiting() {
			last = r
		}
	}
	switch {
	case visit > 0 && step == "":
		return nil, workflow.Invalid("the request is not valid", []workflow.Issue{{Path: "step", Code: "required", Message: "visit counts the runs of a step: name it"}})
	case len(open) > 1 && step == "":
		return nil, workflow.Invalid("several steps wait for input", []workflow.Issue{{Path: "step", Code: "required", Message: "name one of these: " + strings.Join(open, ", ")}})
	case last == nil && len(asking) == 0 && x.Wait != nil && x.Wait.Kind == workflow.WaitChildInput && x.Wait.Child != "":
		return nil, &workflow.Error{Code: workflow.CodeIllegalTransition, Message: fmt.Sprintf("cannot answer execution %s in state %s: it has not asked for input itself; answer execution %s, which it has started", x.ID, x.State, x.Wait.Child)}
	case last == nil && step != "" && len(asking) == 0:
		return nil, &workflow.Error{Code: workflow.CodeIllegalTransition, Message: fmt.Sprintf("cannot answer execution %s in state %s: neither step %q nor any other has asked for input", x.ID, x.State, step)}
	case last == nil && step != "":
		return nil, &workflow.Error{Code: workflow.CodeIllegalTransition, Message: fmt.Sprintf("cannot answer execution %s in state %s: step %q has not asked for input; who has: %s", x.ID, x.State, step, strings.Join(asking, ", "))}
	}
	return last, nil
}

// fetchAnswer answers NeedAnswer: whether the sender may give this answer, and whether the answer
// matches the schema. It stores a large value in an item of its own.
func (w *workspace) fetchAnswer(ctx context.Context, n lifecycle.Need) error {
	r := w.execution.StepRunBySeq(n.StepRunSeq)
	if r == nil || r.Wait == nil || r.Wait.Question == nil || w.answer == nil {
		return workflow.Errorf(workflow.CodeInternal, "step run %d asks nobody", n.StepRunSeq)
	}
	q, err := w.question(ctx, r)
	if err != nil {
		return err
	}
	f := &lifecycle.AnswerCheck{StepRunSeq: r.Seq}
	w.facts.Answer = f
	c := w.answer.caller
	switch {
	case !w.answer.byToken && !q.At(r.Wait.Level).Allows(c.Actor, c.RoleNames(), w.execution.CreatedBy):
		f.Problem = workflow.Errorf(workflow.CodeForbidden, "%s may not answer step %q of execution %s; who may: %s", c.Actor, r.Label, w.id, q.At(r.Wait.Level))
		return nil
	case q.Who.NotStarter && w.answer.tokenFor != "" && w.answer.tokenFor == w.execution.CreatedBy:
		f.Problem = workflow.Errorf(workflow.CodeForbidden, "%s has started execution %s, and may not answer step %q", w.answer.tokenFor, w.id, r.Label)
		return nil
	case w.answer.tokenFor != "":
		return nil
	}
	if f.Problem = checkAnswer(q, w.answer.input); f.Problem != nil {
		return nil
	}
	f.Rejects = r.Wait.Approval && !spec.Approves(w.answer.input)
	f.Value, err = w.offloadValue(ctx, &workflow.Value{Inline: w.answer.input})
	return err
}

// checkAnswer checks a value against the schema of a question.
func checkAnswer(q *workflow.Question, input json.RawMessage) error {
	if schema.Absent(q.Schema) {
		return nil
	}
	return workflow.Invalid("the input does not match the schema of the question", schema.Validate(q.Schema, input, "input"))
}

// question returns what a step run asks.
func (w *workspace) question(ctx context.Context, r *workflow.StepRun) (*workflow.Question, error) {
	raw, err := w.loadValue(ctx, r.Wait.Question)
	if err != nil {
		return nil, err
	}
	var q workflow.Question
	if err := json.Unmarshal(raw, &q); err != nil {
		return nil, workflow.Errorf(workflow.CodeInternal, "the question of step %q cannot be decoded: %w", r.Label, err)
	}
	return &q, nil
}
