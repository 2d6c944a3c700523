package lifecycle

import (
	"slices"

	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// The events of signals. Like [EventMessageDeadLettered] they belong to no layer's transition
// table: they move nothing and name no states.
const (
	EventSignalReceived   = "signal.received"   // a step has taken a signal, whether it fits or not
	EventSignalUnconsumed = "signal.unconsumed" // signals that no step has taken when the execution stops accepting them
)

// consumeSignal takes a signal out of the mailbox for a step run. fits says whether it is what
// the step waits for; one that is not is gone too. The history has the first of these.
func (d *decider) consumeSignal(s workflow.Signal, r *workflow.StepRun, fits bool) {
	d.execution.Signals = slices.DeleteFunc(d.execution.Signals, func(other workflow.Signal) bool { return other.ID == s.ID })
	d.decision.Consumed = append(d.decision.Consumed, s.ID)
	d.changed = true
	data := map[string]any{"name": s.Name, "id": s.ID, "sentAt": s.At}
	if s.Reason != "" {
		data["reason"] = s.Reason
	}
	if !fits {
		data["fits"] = false
		counted := *r.Wait
		counted.Unfit++
		if r.Wait = &counted; counted.Unfit > workflow.MaxPassed {
			return
		}
	}
	d.record(workflow.Event{Layer: string(sm.LayerStep), Type: EventSignalReceived, Step: r.Label, Actor: s.By}, data)
}

// takeSignals takes the signals of the name for which a step run waits, in the order in which
// they came, up to the first that fits: of those that were sent before its deadline. One that
// fits another step run is left for that. It reports whether there is one. So whether the step
// run has waited too long depends on when the signals were sent, and not on when somebody looks.
func (d *decider) takeSignals(r *workflow.StepRun) (ended bool) {
	for _, s := range slices.Clone(d.execution.Signals) {
		if !awaits(r, s) {
			continue
		}
		f := d.checkSignal(s, r)
		if f == nil {
			return false
		}
		if !f.Fits {
			other, missing := d.fitsAnother(s, r)
			switch {
			case missing:
				return false
			case !other: // else it is for that one
				d.consumeSignal(s, r, false)
			}
			continue
		}
		d.consumeSignal(s, r, true)
		decided := *r.Wait
		decided.Decided = true
		r.Wait, r.Value = &decided, f.Value
		d.leaveWaiting(sm.EventExecutionResumed, "", map[string]any{"step": r.Label, "signal": s.Name})
		d.endWait(r, sm.StepCompleted)
		return true
	}
	return false
}

// checkSignal says whether a signal is what a step run waits for, or nil after asking.
func (d *decider) checkSignal(s workflow.Signal, r *workflow.StepRun) *SignalCheck {
	need := Need{Kind: NeedSignal, StepRunSeq: r.Seq, StepIndex: r.StepIndex, Signal: s.ID}
	f := d.facts.Signals[need]
	if f == nil {
		d.need(need)
	}
	return f
}

// awaits reports whether a step run waits for signals of that name, and the signal was sent
// before its deadline.
func awaits(r *workflow.StepRun, s workflow.Signal) bool {
	return s.Name == r.Wait.Title && s.At.Before(r.Wait.Until)
}

// fitsAnother reports whether a signal is what a step run waits for in another branch. missing
// says that a fact is missing.
func (d *decider) fitsAnother(s workflow.Signal, than *workflow.StepRun) (fits, missing bool) {
	for i := range d.execution.StepRuns {
		r := &d.execution.StepRuns[i]
		if r.Seq == than.Seq || !r.Waiting() || r.Wait.Kind != workflow.WaitSignal || !awaits(r, s) {
			continue
		}
		if f := d.checkSignal(s, r); f == nil || f.Fits {
			return f != nil, f == nil
		}
	}
	return false, false
}

// awaitSignals keeps which names the open waits want: places of the mailbox are kept for them.
func (d *decider) awaitSignals() {
	var names []string
	for _, r := range d.waitingStepRuns() {
		if r.Wait.Kind == workflow.WaitSignal && len(names) < workflow.MaxAwaitedSignals {
			names = append(names, r.Wait.Title)
		}
	}
	slices.Sort(names)
	d.execution.AwaitedSignals = slices.Compact(names)
}

// closeMailbox makes the commit depend on that it has seen every signal that the execution
// has accepted, and records those that nobody took and that it has not handed over. They stay where they are: a retry may
// still take them, and a duplicate is still known.
func (d *decider) closeMailbox() {
	d.decision.DependsOnSignals = true
	left := d.execution.Signals
	if len(left) == 0 || d.handedOver {
		return
	}
	var names []string
	for _, s := range left[:min(len(left), workflow.MaxNamed)] {
		names = append(names, s.Name)
	}
	d.record(workflow.Event{Layer: string(sm.LayerWorkflow), Type: EventSignalUnconsumed}, map[string]any{"names": names, "count": len(left)})
}
