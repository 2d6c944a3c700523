package planner

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/lockstep-run/lockstep/shared/definition/schema"
	"github.com/lockstep-run/lockstep/shared/engine/definitions"
	"github.com/lockstep-run/lockstep/shared/lifecycle"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// planWait completes the plan of a step that waits: until when it waits, or what it asks people.
func planWait(planned *lifecycle.Plan, n *spec.Node, at int, expressions *definitions.Expressions, fail func(code string, cause workflow.Cause, message string)) {
	until, err := expressions.WaitUntil(at)
	var q *workflow.Question
	if err == nil {
		q, err = expressions.Question(at)
	}
	if err != nil {
		code, cause := valueFailure(err)
		fail(code, cause, err.Error())
		return
	}
	planned.Until = until
	var raw json.RawMessage
	if q != nil {
		raw, err = workflow.EncodeJSON(q)
	}
	var answer json.RawMessage
	if err == nil {
		answer, err = expressions.TimeoutAnswer(at)
	}
	if err == nil && answer != nil && !schema.Absent(n.Waits().Schema()) {
		err = workflow.Invalid("the answer of onTimeout does not match the schema", schema.Validate(n.Waits().Schema(), answer, "onTimeout.answer"))
	}
	tooDeep := TooDeep(n.Label, "the answer of onTimeout", answer)
	switch {
	case err != nil:
		code, cause := valueFailure(err)
		fail(code, cause, err.Error())
	case len(raw)+len(answer) > workflow.MaxValueBytes:
		fail(workflow.FailureLimitValue, workflow.CauseLimit, fmt.Sprintf("what step %q asks takes %d bytes, the limit is %d", n.Label, len(raw)+len(answer), workflow.MaxValueBytes))
	case tooDeep != nil:
		fail(workflow.FailureLimitDepth, workflow.CauseLimit, tooDeep.Message)
	default:
		if q != nil {
			planned.Question, planned.Title = &workflow.Value{Inline: raw}, workflow.Truncate(q.Title, workflow.MaxWaitTitle)
		}
		if answer != nil {
			planned.Default = &workflow.Value{Inline: answer}
			planned.DefaultRejects = n.Wait != nil && n.Wait.Approval != nil && !spec.Approves(answer)
		}
	}
}

// asked reports whether a step run has only waited because its block had asked for that, and the
// result of its step is that of the call that follows. There is none where onResume says how to go on: then the
// result is what has come.
func (p *Planner) asked(o *workflow.StepRun) bool {
	return o.Wait != nil && o.Wait.Asked && p.Program.Nodes[o.StepIndex].OnResume == nil
}

// approvalResult is the result of an approval.
type approvalResult struct {
	Approved bool             `json:"approved"`
	Answers  []approvalAnswer `json:"answers"`
}

type approvalAnswer struct {
	By       string    `json:"by"`
	At       time.Time `json:"at"`
	Approved bool      `json:"approved"`
	Note     string    `json:"note,omitempty"`
}

// waitResult returns the result of a step run that has waited; nil if it has none. It is the
// answer, or the value used in place of an answer.
func (p *Planner) waitResult(ctx context.Context, o *workflow.StepRun) (json.RawMessage, error) {
	if o.Wait.Asked && o.Status == sm.StepCompleted && o.Value == nil { // a time has come, or nothing
		return json.RawMessage("null"), nil
	}
	if !o.Wait.Approval {
		if o.Status != sm.StepCompleted || o.Value == nil {
			return nil, nil
		}
		return p.loadValue(ctx, o)
	}
	taken := o.Answers
	switch {
	case o.Wait.Lapsed && o.Wait.Default != nil: // by nobody
		taken = append(slices.Clone(taken), workflow.Answer{At: o.Wait.Until, Rejects: o.Wait.DefaultRejects, Value: o.Wait.Default})
	case !o.Wait.Decided:
		return nil, nil
	}
	result := approvalResult{Approved: o.Status == sm.StepCompleted, Answers: []approvalAnswer{}}
	for i := range taken {
		a := &taken[i]
		raw, err := p.loadStored(ctx, a.Value)
		if err != nil {
			return nil, err
		}
		shown := approvalAnswer{By: a.By, At: a.At, Approved: !a.Rejects}
		if err := json.Unmarshal(raw, &struct {
			Note *string `json:"note"`
		}{&shown.Note}); err != nil {
			return nil, workflow.Errorf(workflow.CodeInternal, "an answer to step %q cannot be decoded: %w", o.Label, err)
		}
		result.Answers = append(result.Answers, shown)
	}
	return workflow.EncodeJSON(result)
}

// WaitExpressions returns the expressions of a step, bound to what its waiting step run sees.
func (p *Planner) WaitExpressions(ctx context.Context, x *workflow.Execution, n lifecycle.Need) (*definitions.Expressions, error) {
	r := x.StepRunBySeq(n.StepRunSeq)
	if r == nil {
		return nil, workflow.Errorf(workflow.CodeInternal, "the step run %d that waits does not exist", n.StepRunSeq)
	}
	s, err := p.scopeOf(ctx, x, r)
	if err != nil {
		return nil, err
	}
	return s.expressions.ForPlan(ctx, p.MaxPlanCost), nil
}
