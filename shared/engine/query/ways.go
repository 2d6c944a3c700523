package query

import (
	"cmp"

	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// showWays fills in where the execution went from a step run: the case of a switch, the case of the
// onFailure that handles its failure, the cases that could not be evaluated, and where it
// continued.
func showWays(s *views.StepView, x *workflow.Execution, r *workflow.StepRun, p *spec.Program) {
	if p == nil || !r.Forward() || r.StepIndex >= len(p.Nodes) {
		return
	}
	if n := &p.Nodes[r.StepIndex]; r.Route > 0 && r.Route <= len(n.Switch) {
		s.Route = caseView(r.Route, n.Switch[r.Route-1])
	}
	if by := handlerOf(x, r, p); by >= 0 && r.Handled <= len(p.Nodes[by].OnFailure) {
		c := caseView(r.Handled, p.Nodes[by].OnFailure[r.Handled-1])
		s.Handled = &views.HandledCase{Step: p.Nodes[by].Label, Number: c.Number, When: c.When}
	}
	s.CaseErrors = caseErrorViews(r.CaseErrors, p)
	s.Next = targetLabel(p, targetOf(x, r, p))
}

// caseErrorViews returns the cases whose conditions had no value.
func caseErrorViews(all []workflow.CaseError, p *spec.Program) []views.CaseError {
	shown := []views.CaseError{} // not null
	for _, e := range all {
		n := &p.Nodes[e.StepIndex]
		cases := n.Switch
		if e.OnFailure {
			cases = n.OnFailure
		}
		c := caseView(e.Case, cases[e.Case-1])
		shown = append(shown, views.CaseError{Step: n.Label, Number: c.Number, When: c.When, Message: nonZeroPtr(e.Message)})
	}
	return shown
}

// waveView returns the wave in which a step run was entered, or the current wave of a rollout; nil
// for none.
func waveView(x *workflow.Execution, r *workflow.StepRun) *views.StepWave {
	rollout, number := x.WaveOf(r)
	switch {
	case len(r.Waves) > 0:
		rollout, number = r, r.Times
	case rollout == nil:
		return nil
	default:
		number++
	}
	w := &views.StepWave{Number: number, Of: len(rollout.Waves)}
	if number > 0 && number <= len(rollout.Waves) {
		w.Entities = rollout.Waves[number-1]
	}
	if rollout == r {
		w.StoppedAt = nonZeroPtr(r.StoppedAt)
	}
	return w
}

func caseView(number int, c spec.Case) *views.StepCase {
	return &views.StepCase{Number: number, When: nonZeroPtr(c.When)}
}

// handlerOf returns the node whose onFailure handles the failure of a step run; -1 if none does. It
// is the node of the step run itself, or the innermost surrounding node whose step run ended as
// CASE_HANDLED.
func handlerOf(x *workflow.Execution, r *workflow.StepRun, p *spec.Program) int {
	if r.Handled == 0 {
		return -1
	}
	if r.Status == sm.StepCaseHandled {
		return r.StepIndex
	}
	for at := p.Nodes[r.StepIndex].Parent; at >= 0; at = p.Nodes[at].Parent {
		if around := lastRunBefore(x, at, r.Seq); around != nil && around.Status == sm.StepCaseHandled {
			return at
		}
	}
	return -1
}

// lastRunBefore returns the last step run of a node before another step run; nil if there is none.
func lastRunBefore(x *workflow.Execution, node, seq int) *workflow.StepRun {
	for i := len(x.StepRuns) - 1; i >= 0; i-- {
		if o := &x.StepRuns[i]; o.Seq < seq && o.StepIndex == node && o.Forward() {
			return o
		}
	}
	return nil
}

// targetOf returns where the execution jumped after a step run; nil if it continued with the next
// step, or with a step inside this one.
func targetOf(x *workflow.Execution, r *workflow.StepRun, p *spec.Program) *spec.Target {
	n := &p.Nodes[r.StepIndex]
	switch r.Status {
	case sm.StepCompleted, sm.StepSkipped:
		if r.Wait != nil && r.Wait.Asked {
			return n.OnResume // or with the same step again
		}
		if isRepeated(x, r) || leftFromWithin(x, r, p) {
			return nil
		}
		if r.Next != "" {
			return targetNamed(p, n, r.Next)
		}
		if r.Route > 0 && r.Route <= len(n.Cases) && n.Cases[r.Route-1].Goto != nil {
			return n.Cases[r.Route-1].Goto
		}
		return cmp.Or(n.Goto, n.AfterGoto)
	case sm.StepCaseHandled:
		if r.Wait != nil && r.Handled == 0 {
			return n.OnTimeout
		}
		if r.Handled == 0 || r.Handled > len(n.Handlers) || n.Handlers[r.Handled-1].First >= 0 {
			return nil
		}
		return cmp.Or(n.Handlers[r.Handled-1].Goto, n.Goto, n.AfterGoto)
	}
	return nil
}

// targetNamed returns the target that the block of a node has named; nil if there is none.
func targetNamed(p *spec.Program, n *spec.Node, label string) *spec.Target {
	if around := p.Origins[n.Origin].NodeIndex; label == spec.NextEnd {
		if around < 0 {
			return &spec.Target{Node: len(p.Nodes), In: -1}
		}
		return &spec.Target{Node: p.Nodes[around].End, In: around}
	}
	for i := range p.Nodes {
		if o := &p.Nodes[i]; o.Origin == n.Origin && o.Step.Label == label {
			return &spec.Target{Node: i, In: o.Parent}
		}
	}
	return nil
}

// isRepeated reports whether the step was repeated after a step run.
func isRepeated(x *workflow.Execution, r *workflow.StepRun) bool {
	for i := range x.StepRuns {
		if o := &x.StepRuns[i]; o.Seq > r.Seq && o.StepIndex == r.StepIndex && o.Forward() && o.Try == r.Try {
			return r.Iteration > 0 && o.Iteration == r.Iteration+1
		}
	}
	return false
}

// leftFromWithin reports whether a step run that contains steps ended because one of these jumped
// out of it.
func leftFromWithin(x *workflow.Execution, r *workflow.StepRun, p *spec.Program) bool {
	if !p.Nodes[r.StepIndex].IsContainer() {
		return false
	}
	var last *workflow.StepRun
	for i := range x.StepRuns {
		o := &x.StepRuns[i]
		if o.Seq <= r.Seq || !o.Forward() || o.StepIndex >= len(p.Nodes) {
			continue
		}
		if o.StepIndex == r.StepIndex {
			break
		}
		if p.Encloses(r.StepIndex, o.StepIndex) {
			last = o
		}
	}
	for last != nil && last.Seq > r.Seq {
		if to := targetOf(x, last, p); to != nil && to.In != r.StepIndex && (to.In < 0 || !p.Encloses(r.StepIndex, to.In)) {
			return true
		}
		last = lastRunBefore(x, p.Nodes[last.StepIndex].Parent, last.Seq) // the surrounding step may have continued
	}
	return false
}

// targetLabel returns the label of a target: its step, or end.
func targetLabel(p *spec.Program, to *spec.Target) *string {
	switch {
	case to == nil:
		return nil
	case to.Node >= len(p.Nodes) || to.In >= 0 && to.Node >= p.Nodes[to.In].End:
		return ptr(spec.NextEnd)
	}
	return &p.Nodes[to.Node].Label
}
