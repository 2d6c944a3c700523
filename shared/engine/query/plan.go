package query

import (
	"context"
	"fmt"
	"math"
	"strings"

	"github.com/lockstep-run/lockstep/shared/cost"
	"github.com/lockstep-run/lockstep/shared/engine"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

// Plan is what a start with the request would do, as far as that can be told without one.
func (v *Service) Plan(ctx context.Context, c workflow.Caller, req views.StartRequest) (views.PlanView, error) {
	p, err := v.engine.Preview(ctx, c, req)
	if err != nil {
		return views.PlanView{}, err
	}
	b := planBuilder{Preview: p, examined: map[string]int{}}
	return b.view(), nil
}

// planBuilder words a preview.
type planBuilder struct {
	*engine.Preview
	examined map[string]int // entities whose attributes were read, by type

	// What the steps so far have done, the first one last.
	changed      []string // labels of those that are not pure
	irreversible string   // why what they did cannot be undone, "" if it can
	unmet        int      // entities that assertions fail under the definition's tolerance
}

func (b *planBuilder) view() views.PlanView {
	answer := views.PlanView{
		Workflow: b.Ref, Problem: views.NewFailureView(b.Problem), Fails: b.Problem != nil, LockMode: string(workflow.LockExclusive), OnLocked: string(spec.OnLockedWait),
		NotBefore: timePtr(b.Start.NotBefore), Entities: views.PlannedEntities{ByType: b.Counts, Examined: len(b.First), Named: []string{}, More: []views.PlannedMore{}},
		Locked: views.PlannedLocks{Count: len(b.Locked), Named: []views.PlannedLock{}}, Steps: []views.PlannedStep{},
	}
	if b.Start.Condition != "" {
		answer.StartWhen = &views.PlannedCondition{Condition: b.Start.Condition, True: b.Start.Ready, Reason: nonZeroPtr(b.Start.Reason)}
	}
	for _, n := range b.Counts {
		answer.Entities.Total += n
	}
	for i := range b.First {
		b.examined[b.First[i].Key.Type]++
		if i < workflow.MaxNamed {
			answer.Entities.Named = append(answer.Entities.Named, b.First[i].Key.String())
		}
	}
	for _, u := range b.UncalledBlocks {
		answer.Entities.More = append(answer.Entities.More, views.PlannedMore{Step: nonZeroPtr(u.Step), Block: u.Block})
	}
	for i := range b.Locked[:min(len(b.Locked), workflow.MaxNamed)] {
		l := &b.Locked[i]
		shown := views.PlannedLock{Entity: l.Entity.String(), Since: timePtr(l.Since), NeedsPerson: l.NeedsPerson}
		if l.Reservation {
			shown.ReservedBy = &l.Execution
		} else {
			shown.HeldBy = &l.Execution
		}
		answer.Locked.Named = append(answer.Locked.Named, shown)
	}
	work := cost.Work{Entities: answer.Entities.Total}
	if b.Program != nil {
		config := b.Program.Config
		if config.LockMode != "" {
			answer.LockMode = string(config.LockMode)
		}
		if b.Probe {
			answer.LockMode = string(workflow.LockShared)
		}
		if config.OnLocked != "" {
			answer.OnLocked = string(config.OnLocked)
		}
		answer.Fails = answer.Fails || config.OnLocked == spec.OnLockedFail && len(b.Locked) > 0
	}
	for i := range b.Steps {
		s := b.step(i, answer.Entities.Total)
		answer.Steps = append(answer.Steps, s)
		answer.Fails = answer.Fails || s.Fails && b.isReached(i)
		if s.Jobs > 0 {
			work.Steps, work.Packs = work.Steps+1, work.Packs+s.Messages
		}
	}
	answer.Messages = work.Packs
	bill := cost.NewBill(cost.Estimate(work))
	answer.Cost = views.PlannedCost{Lines: bill.Lines, Dollars: bill.Total, PricesAsOf: bill.AsOf}
	return answer
}

// isReached reports whether it is certain that the step is entered, unless one before it
// fails, and that a failure of it fails the execution.
func (b *planBuilder) isReached(i int) bool {
	if b.Program.FailureHandler(i) >= 0 {
		return false
	}
	for ; i >= 0; i = b.Program.Nodes[i].Parent {
		if !b.Steps[i].ConditionKnown {
			return false
		}
	}
	return true
}

// step shows one step, and adds to what the steps so far have done.
func (b *planBuilder) step(i, scope int) views.PlannedStep {
	n, planned := &b.Program.Nodes[i], &b.Steps[i]
	s := views.PlannedStep{
		Label: n.Label, RunOn: nonZeroPtr(n.RunOn), Skipped: planned.Plan.Skipped, SkippedBy: nonZeroPtr(planned.SkippedBy), Unmet: planned.Plan.Unmet,
		Unknown: planned.Unknown, AtMost: !planned.ConditionKnown, Repeats: n.Repeat != nil, Problem: views.NewFailureView(planned.Plan.Problem), Fails: planned.Plan.Problem != nil,
	}
	if s.Unknown == nil {
		s.Unknown = []string{}
	}
	if s.Problem == nil {
		s.Problem = views.NewFailureView(planned.Plan.UnmetFailure)
	}
	if n.Parent >= 0 {
		s.Inside = &b.Program.Nodes[n.Parent].Label
		for at := n.Parent; at >= 0; at = b.Program.Nodes[at].Parent {
			s.AtMost = s.AtMost || !b.Steps[at].ConditionKnown
		}
	}
	if n.Reference != nil {
		ref, err := workflow.ParseRef(n.Reference.Workflow)
		if ref.Version = b.Program.Workflows[n.Reference.Workflow]; err == nil {
			s.Workflow = ptr(ref.String())
		}
	}
	switch {
	case n.IsContainer():
		s.Effect = views.EffectContainer
		return s
	case n.StartsChild():
		s.Effect = views.EffectStarts
		if s.SkippedBy == nil && s.Skipped == 0 {
			b.addIrreversible(n.Label, fmt.Sprintf("what the execution that step %q started has changed remains", n.Label))
			b.setFailure(&s, n, false)
		}
		return s
	}
	block := b.Blocks[n.FunctionBlock]
	s.Block, s.Effect = ptr(block.Ref().String()), views.EffectIrreversible
	if s.Jobs = planned.Plan.Jobs; s.SkippedBy == nil && n.OnEntities() && !s.Fails {
		s.Jobs += b.Counts[n.RunOn] - b.examined[n.RunOn] // of those that were not read, none is known to be skipped
	}
	if s.Jobs > 0 {
		size := b.Policy.PackSizeFor(block.Repeatable(), s.Jobs, b.Program.MaxInFlight(i))
		s.Messages = (s.Jobs + size - 1) / size
	}
	switch {
	case block.Pure:
		s.Effect = views.EffectPure
	case block.Reversible:
		s.Effect = views.EffectReversible
	}
	s.Tolerated = b.tolerated(i, s.Jobs+s.Unmet, scope)
	if s.Unmet > 0 && !s.Fails {
		counted := s.Unmet
		if n.FailureTolerance == nil && b.Program.FailureHandler(i) < 0 {
			b.unmet += s.Unmet
			counted = b.unmet
		}
		s.Fails = counted > s.Tolerated
	}
	if s.Jobs == 0 {
		return s
	}
	switch s.Effect {
	case views.EffectIrreversible:
		b.addIrreversible(n.Label, fmt.Sprintf("step %q has no rollback", n.Label))
	case views.EffectReversible:
		b.changed = append(b.changed, n.Label)
	}
	b.setFailure(&s, n, s.Effect == views.EffectReversible && !block.Idempotent && !block.UndoHarmless)
	return s
}

func (b *planBuilder) addIrreversible(label, why string) {
	b.changed = append(b.changed, label)
	if b.irreversible == "" {
		b.irreversible = why
	}
}

// tolerated is how many entities may fail in a step: see lifecycle's tolerates.
func (b *planBuilder) tolerated(i, entities, scope int) int {
	n, t := &b.Program.Nodes[i], b.Program.Config.FailureTolerance
	if n.DefinitionTolerance != nil {
		t = *n.DefinitionTolerance
	}
	total := scope
	switch {
	case !n.OnEntities():
		return 0
	case n.FailureTolerance != nil:
		t, total = *n.FailureTolerance, entities
	case b.Program.FailureHandler(i) >= 0:
		total = entities
	}
	if t.Percent > 0 {
		return int(math.Floor(t.Percent * float64(total) / 100))
	}
	return t.Count
}

// setFailure says what a failure of the step would mean, given what has been done so far,
// the step itself included. inDoubt says that a worker that dies leaves a doubt which no
// rollback settles.
func (b *planBuilder) setFailure(s *views.PlannedStep, n *spec.Node, inDoubt bool) {
	never := b.Program.Config.Rollback == workflow.RollbackNever
	effect, text := views.FailureRolledBack, ""
	handler := b.Program.FailureHandler(b.Program.IndexOf(n.Label))
	switch {
	case handler >= 0:
		effect, text = views.FailureContinues, fmt.Sprintf("goes on after step %q (continueOnError), with the outcome PARTIAL", b.Program.Nodes[handler].Label)
	case len(b.changed) == 0:
		effect, text = views.FailureNothingLeft, "FAILED_SAFE: nothing has been changed"
	case b.irreversible != "":
		effect, text = views.FailureUnsafe, "FAILED_UNSAFE: "+b.irreversible
	case never:
		effect, text = views.FailureUnsafe, "FAILED_UNSAFE: rollback is switched off"
	default:
		text = "rolled back, then FAILED_SAFE: " + lastFirst(b.changed)
		if inDoubt {
			text += "; FAILED_UNSAFE if a worker dies during it"
		}
	}
	s.OnFailure, s.IfFails = &effect, text
	if s.Tolerated == 0 || !n.OnEntities() {
		return
	}
	s.IfFails = fmt.Sprintf("up to %d entities may fail: %s; more: %s", s.Tolerated, b.toleratedEnd(never), text)
}

// toleratedEnd is what becomes of entities that fail within the tolerance.
func (b *planBuilder) toleratedEnd(never bool) string {
	switch {
	case len(b.changed) == 0:
		return "nothing is left on them"
	case b.Program.Config.OnEntityFailure == spec.OnEntityFailureLeave:
		return "they are left as they are"
	case b.irreversible != "" || never:
		return "they are FAILED_UNSAFE and stay locked"
	}
	return "they are undone"
}

// lastFirst lists labels in the order in which they are undone.
func lastFirst(labels []string) string {
	var list []string
	for i := len(labels) - 1; i >= 0 && len(list) < 5; i-- {
		list = append(list, labels[i])
	}
	if more := len(labels) - len(list); more > 0 {
		list = append(list, fmt.Sprintf("%d more", more))
	}
	return strings.Join(list, ", ")
}
