package query

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/lockstep-run/lockstep/shared/cost"
	"github.com/lockstep-run/lockstep/shared/engine"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

// Plan returns what a start with the request would do, as far as that is known without starting
// one.
func (v *Service) Plan(ctx context.Context, c workflow.Caller, req views.StartRequest) (views.PlanView, error) {
	p, err := v.engine.Preview(ctx, c, req)
	if err != nil {
		return views.PlanView{}, err
	}
	b := planBuilder{Preview: p, examined: map[string]int{}}
	answer := b.view()
	if p.Region != "" {
		answer.Region = &views.PlannedRegion{Name: p.Region, Known: slices.Contains(v.engine.Regions, p.Region), Regions: v.engine.Regions}
	}
	answer.Warnings = planWarnings(answer)
	return answer, nil
}

// planWarnings returns in words what keeps an execution from doing its work at once.
func planWarnings(p views.PlanView) []string {
	warnings := []string{}
	if p.Problem != nil {
		warnings = append(warnings, fmt.Sprintf("it ends before its first step with %s: %s", p.Problem.Code, p.Problem.Message))
	}
	if p.Region != nil && !p.Region.Known {
		warnings = append(warnings, fmt.Sprintf("no pool of the region %s is known", p.Region.Name))
	}
	if w := p.StartWhen; w != nil && !w.True {
		warnings = append(warnings, "it waits until this is true: "+w.Condition)
	}
	if n := p.Locked.Count; n > 0 {
		does := map[string]string{string(spec.OnLockedWait): "it waits for them", string(spec.OnLockedFail): "it fails", string(spec.OnLockedSkip): "it leaves them out"}[p.OnLocked]
		warnings = append(warnings, fmt.Sprintf("%d of its entities are locked by other executions: %s", n, does))
	}
	for i := range p.Steps {
		if s := &p.Steps[i]; s.Problem != nil && len(warnings) < workflow.MaxNamed {
			warnings = append(warnings, fmt.Sprintf("step %q: %s", s.Label, s.Problem.Message))
		}
	}
	return warnings
}

// planBuilder turns a preview into a view.
type planBuilder struct {
	*engine.Preview
	examined map[string]int // entities whose attributes were read, by type

	changes []*change // change of each step, by node; nil for none
	unmet   int       // entities that fail an assertion, within the definition's tolerance
}

// change describes what a step changes. irreversible says why that cannot be undone; "" if it can.
type change struct{ irreversible string }

func (b *planBuilder) view() views.PlanView {
	answer := views.PlanView{
		Workflow: b.Ref, Problem: views.NewFailureView(b.Problem), Fails: b.Problem != nil, LockMode: string(workflow.LockExclusive), OnLocked: string(spec.OnLockedWait),
		NotBefore: timePtr(b.Start.NotBefore), Entities: views.PlannedEntities{ByType: b.Counts, Examined: len(b.First), Named: []string{}, More: []views.PlannedMore{}},
		Locked: views.PlannedLocks{Count: len(b.Locked), Named: []views.PlannedLock{}}, Steps: []views.PlannedStep{}, Blocks: map[string]string{},
	}
	for reference, block := range b.Blocks {
		answer.Blocks[reference] = block.Ref().String()
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
	b.changes = make([]*change, len(b.Steps))
	for i := range b.Steps {
		s := b.step(i, answer.Entities.Total)
		answer.Steps = append(answer.Steps, s)
		answer.Fails = answer.Fails || s.Fails && b.isReached(i)
	}
	for i := range b.Steps {
		s := &answer.Steps[i]
		b.setFailure(i, s)
		if s.Jobs > 0 {
			work.Steps, work.Packs = work.Steps+1, work.Packs+s.Messages
		}
	}
	answer.Messages = work.Packs
	bill := cost.NewBill(cost.Estimate(work))
	answer.Cost = views.PlannedCost{Lines: bill.Lines, Dollars: bill.Total, PricesAsOf: bill.AsOf}
	return answer
}

// isReached reports whether the step is certain to be entered unless an earlier step fails, and a
// failure of it is certain to fail the execution.
func (b *planBuilder) isReached(i int) bool {
	if b.Program.FailureHandler(i) >= 0 || b.Ways.Reach[i] != spec.ReachAlways {
		return false
	}
	for ; i >= 0; i = b.Program.Nodes[i].Parent {
		if !b.Steps[i].ConditionKnown {
			return false
		}
	}
	return true
}

// step shows one step, and adds it to what the steps so far have done.
func (b *planBuilder) step(i, scope int) views.PlannedStep {
	n, planned := &b.Program.Nodes[i], &b.Steps[i]
	s := views.PlannedStep{
		Label: n.Label, RunOn: nonZeroPtr(n.RunOn), Skipped: planned.Plan.Skipped, SkippedBy: nonZeroPtr(planned.SkippedBy), Unmet: planned.Plan.Unmet,
		Unknown: planned.Unknown, AtMost: !planned.ConditionKnown, Repeats: n.Repeat != nil, Problem: views.NewFailureView(planned.Plan.Problem), Fails: planned.Plan.Problem != nil, Waves: planned.Waves,
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
	if n.Reference != nil && len(n.Reference.Among) == 0 {
		ref, err := workflow.ParseRef(n.Reference.Workflow)
		if ref.Version = b.Program.Workflows[n.Reference.Workflow]; err == nil {
			s.Workflow = ptr(ref.String())
		}
	}
	b.setWays(i, &s)
	switch {
	case len(n.Cases) > 0:
		s.Effect = views.EffectChooses
		return s
	case n.IsContainer():
		s.Effect = views.EffectContainer
		return s
	case len(n.Set) > 0:
		s.Effect = views.EffectSets
		return s
	case n.Insert != nil:
		s.Effect = views.EffectInserts
		return s
	case n.Schedule != nil:
		s.Effect = views.EffectSchedules
		return s
	case n.Wait != nil:
		s.Effect = views.EffectWaits
		return s
	case n.StartsChild():
		s.Effect = views.EffectStarts
		if s.SkippedBy == nil && s.Skipped == 0 {
			b.changes[i] = new(change)
			if n.Compensate == nil {
				b.changes[i].irreversible = fmt.Sprintf("what the execution that step %q started has changed remains", n.Label)
			}
		}
		return s
	}
	block := b.Blocks[n.FunctionBlock]
	s.Block, s.Effect = ptr(block.Ref().String()), views.EffectIrreversible
	if s.Jobs = planned.Plan.Jobs; s.SkippedBy == nil && n.OnEntities() && !s.Fails {
		s.Jobs += b.Counts[n.RunOn] - b.examined[n.RunOn] // entities that were not read are not known to be skipped
	}
	if s.Jobs > 0 {
		size := b.Policy.PackSizeFor(block.Repeatable() && n.Pace.IsZero(), s.Jobs, b.Program.MaxInFlight(i))
		s.Messages = (s.Jobs + size - 1) / size
	}
	switch {
	case block.Pure:
		s.Effect = views.EffectPure
	case block.Reversible || n.Compensate != nil:
		s.Effect = views.EffectReversible
	}
	s.Tolerated = b.tolerated(i, s.Jobs+s.Unmet, scope)
	if s.Unmet > 0 && !s.Fails {
		counted := s.Unmet
		if n.FailureTolerance == nil && n.Foreach == nil && b.Program.FailureHandler(i) < 0 && b.Ways.Reach[i] == spec.ReachAlways {
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
		b.changes[i] = &change{fmt.Sprintf("step %q has no rollback", n.Label)}
	case views.EffectReversible:
		b.changes[i] = &change{}
	}
	return s
}

// setWays sets whether the execution reaches a step, and where it continues from there.
func (b *planBuilder) setWays(i int, s *views.PlannedStep) {
	n := &b.Program.Nodes[i]
	s.Reached = map[spec.Reach]views.StepReach{
		spec.ReachAlways: views.ReachedAlways, spec.ReachChoice: views.ReachedByChoice, spec.ReachFailure: views.ReachedByFailure, spec.ReachNever: views.ReachedNever,
	}[b.Ways.Reach[i]]
	if by := b.Ways.DecidedBy[i]; by >= 0 {
		s.DecidedBy = &b.Program.Nodes[by].Label
	}
	to := cmp.Or(n.Goto, n.AfterGoto)
	if route := b.Steps[i].Plan.Route; route > 0 {
		s.Route = caseView(route, n.Switch[route-1])
		to = cmp.Or(n.Cases[route-1].Goto, to)
	} else if len(n.Cases) > 0 {
		to = nil // each case has its own target
	}
	s.Next = targetLabel(&b.Program.Program, to)
}

// tolerated returns how many entities or items may fail in a step; see lifecycle's tolerates.
func (b *planBuilder) tolerated(i, entities, scope int) int {
	n := &b.Program.Nodes[i]
	t := b.Program.DefinitionTolerance(n)
	total := scope
	handler, rollout := b.Program.FailureHandler(i), b.Program.RolloutAround(i)
	switch {
	case n.Foreach != nil:
		t, total = n.Foreach.FailureTolerance, entities
	case !n.OnEntities():
		return 0
	case n.FailureTolerance != nil:
		t, total = *n.FailureTolerance, entities
	case rollout >= 0 && b.Program.Nodes[rollout].Rollout.FailureTolerance != nil:
		t, total = *b.Program.Nodes[rollout].Rollout.FailureTolerance, smallestWave(b.Steps[rollout].Waves, entities)
	case handler >= 0 && !b.Program.Nodes[handler].StopsAtFailure():
		total = entities
	}
	return t.Most(total)
}

// smallestWave returns the number of entities in the smallest wave of a rollout; entities if the
// waves are unknown.
func smallestWave(waves []workflow.Wave, entities int) int {
	for _, w := range waves {
		entities = min(entities, w.Entities)
	}
	return entities
}

// setFailure sets what a failure of the step would mean, given what may have been done before it
// and by the step itself.
func (b *planBuilder) setFailure(i int, s *views.PlannedStep) {
	n := &b.Program.Nodes[i]
	why := ""
	switch s.Effect {
	case views.EffectStarts:
		if b.changes[i] == nil {
			return
		}
	case views.EffectWaits:
		if why = n.Wait.Failure(); why == "" || s.SkippedBy != nil || s.Skipped > 0 {
			return
		}
		why += ": "
	default:
		if s.Jobs == 0 {
			return
		}
		if w := n.Waits(); w != nil && w.Failure() != "" {
			why = "if its job fails, or " + w.Failure() + ": "
		}
	}
	done := b.doneBefore(i, -1)
	effect, text := b.failureOf(i, s, done)
	text = why + text
	s.OnFailure, s.IfFails = &effect, text
	if s.Tolerated > 0 && n.Foreach != nil {
		s.IfFails = fmt.Sprintf("up to %d items may fail, with the outcome PARTIAL; more: %s", s.Tolerated, text)
	}
	if s.Tolerated == 0 || !n.OnEntities() {
		return
	}
	s.IfFails = fmt.Sprintf("up to %d entities may fail: %s; more: %s", s.Tolerated, b.toleratedEnd(done), text)
}

// done is what may have been changed when a step fails, including by the step itself.
type done struct {
	labels       []string // labels of the steps that change something
	irreversible string   // why something remains; "" if everything can be undone
	perhaps      bool     // whether some of it was executed depends on a choice or a failure
}

// doneBefore returns what may have been changed when step i fails. If outside is a rollout, it
// leaves out what the steps of that rollout did.
func (b *planBuilder) doneBefore(i, outside int) (d done) {
	certain := false // whether an irreversible change is certain
	for at, c := range b.changes {
		if c == nil || outside >= 0 && b.Program.Encloses(outside, at) || at != i && !b.Ways.MayPrecede(at, i) {
			continue
		}
		must := at == i || b.Ways.MustPrecede(at, i)
		d.labels = append(d.labels, b.Program.Nodes[at].Label)
		d.perhaps = d.perhaps || !must
		if c.irreversible == "" || certain || d.irreversible != "" && !must {
			continue
		}
		if certain, d.irreversible = must, c.irreversible; !must {
			d.irreversible += fmt.Sprintf(", if step %q was executed", b.Program.Nodes[at].Label)
		}
	}
	return d
}

// failureOf returns the effect of a step's failure: that of the innermost surrounding step that
// handles it, or the end of the execution.
func (b *planBuilder) failureOf(i int, s *views.PlannedStep, d done) (views.FailureEffect, string) {
	var ways string
	for h := b.Program.FailureHandler(i); h >= 0; h = b.Program.FailureHandler(b.Program.Nodes[h].Parent) {
		n := &b.Program.Nodes[h]
		if n.StopsAtFailure() {
			effect, text := b.stops(n, d)
			if !b.Program.InWave(h, i) {
				effect, text = b.stopsBetween(n, b.doneBefore(i, h))
			}
			return effect, ways + text
		}
		if n.ContinueOnError {
			return views.FailureContinues, ways + fmt.Sprintf("goes on after step %q (continueOnError), with the outcome PARTIAL", n.Label)
		}
		ways += fmt.Sprintf("onFailure of step %q: ", n.Label)
		for k, c := range n.OnFailure {
			ways += b.handlerWay(n, n.Handlers[k])
			if c.When == "" {
				return views.FailureHandled, ways
			}
			ways += fmt.Sprintf(" if %s; else ", workflow.Truncate(c.When, maxShownCondition))
		}
	}
	effect, text := b.endOf(i, s, d)
	return effect, ways + text
}

// stops returns how an execution ends if a wave of a rollout fails.
func (b *planBuilder) stops(rollout *spec.Node, d done) (views.FailureEffect, string) {
	text := fmt.Sprintf("rollout %q stops, the waves before stand: ", rollout.Label)
	switch {
	case len(d.labels) == 0:
		return views.FailureStops, text + "nothing has been changed"
	case d.irreversible != "":
		return views.FailureUnsafe, text + "FAILED_UNSAFE for the entities of the wave: " + d.irreversible + remaining(d)
	case b.Program.Config.Rollback == workflow.RollbackNever:
		return views.FailureUnsafe, text + "FAILED_UNSAFE for the entities of the wave: rollback is switched off" + remaining(d)
	}
	return views.FailureStops, text + "the wave is undone, PARTIAL: " + lastFirst(d.labels)
}

// stopsBetween returns how an execution ends if the work between two waves fails, when the next
// wave has not begun. before is what steps before the rollout have changed.
func (b *planBuilder) stopsBetween(rollout *spec.Node, before done) (views.FailureEffect, string) {
	text := fmt.Sprintf("rollout %q stops, the waves before stand and the next ones never begin: ", rollout.Label)
	switch {
	case len(before.labels) == 0:
		return views.FailureStops, text + "nothing is undone, PARTIAL"
	case before.irreversible != "":
		return views.FailureUnsafe, text + "FAILED_UNSAFE for the entities of the next ones: " + before.irreversible + remaining(before)
	case b.Program.Config.Rollback == workflow.RollbackNever:
		return views.FailureUnsafe, text + "FAILED_UNSAFE for the entities of the next ones: rollback is switched off" + remaining(before)
	}
	return views.FailureStops, text + "what was changed on their entities is undone, PARTIAL: " + lastFirst(before.labels)
}

// remaining describes what remains if something cannot be undone, so that nothing is undone: the
// steps that have changed something, if there are several.
func remaining(d done) string {
	if len(d.labels) < 2 {
		return ""
	}
	text := "; nothing is rolled back then, and what these steps have changed remains: " + lastFirst(d.labels)
	if d.perhaps {
		text += ", as far as they were executed"
	}
	return text
}

// maxShownCondition bounds how many bytes of a condition appear in a text.
const maxShownCondition = 80

// handlerWay describes how a case of onFailure continues.
func (b *planBuilder) handlerWay(n *spec.Node, way spec.Way) string {
	to := targetLabel(&b.Program.Program, cmp.Or(way.Goto, n.Goto, n.AfterGoto))
	switch {
	case way.First >= 0:
		return fmt.Sprintf("goes on with step %q", b.Program.Nodes[way.First].Label)
	case to == nil:
		return "goes on after it"
	case *to == spec.NextEnd:
		return "ends well"
	}
	return fmt.Sprintf("goes on with step %q", *to)
}

// endOf returns how the execution ends if a step fails and nothing handles the failure.
func (b *planBuilder) endOf(i int, s *views.PlannedStep, d done) (views.FailureEffect, string) {
	switch {
	case len(d.labels) == 0:
		return views.FailureNothingLeft, "FAILED_SAFE: nothing has been changed"
	case d.irreversible != "":
		return views.FailureUnsafe, "FAILED_UNSAFE: " + d.irreversible + remaining(d)
	case b.Program.Config.Rollback == workflow.RollbackNever:
		return views.FailureUnsafe, "FAILED_UNSAFE: rollback is switched off" + remaining(d)
	}
	text := "rolled back, then FAILED_SAFE: " + lastFirst(d.labels)
	if d.perhaps {
		text += ", as far as they were executed"
	}
	// If a worker dies, no rollback can settle whether its job was done.
	if s.Effect == views.EffectReversible && !b.undoHarmless(i) {
		text += "; FAILED_UNSAFE if a worker dies during it"
	}
	return views.FailureRolledBack, text
}

// undoHarmless reports whether a step can be undone although it is unknown how far a job of it got.
func (b *planBuilder) undoHarmless(i int) bool {
	n := &b.Program.Nodes[i]
	block := b.Blocks[n.FunctionBlock]
	if n.Compensate != nil {
		return block.Idempotent || n.Compensate.UndoHarmless
	}
	return block.Idempotent || block.UndoHarmless
}

// toleratedEnd describes what happens to entities that fail within the tolerance.
func (b *planBuilder) toleratedEnd(d done) string {
	switch {
	case len(d.labels) == 0:
		return "nothing is left on them"
	case b.Program.Config.OnEntityFailure == spec.OnEntityFailureLeave:
		return "they are left as they are"
	case d.irreversible != "" || b.Program.Config.Rollback == workflow.RollbackNever:
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
