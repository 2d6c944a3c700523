package lifecycle

import (
	"slices"

	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// Events of signals. Like [EventMessageDeadLettered] they belong to no layer's transition table:
// they change no state and name none.
const (
	EventSignalReceived   = "signal.received"   // a step has taken a signal, whether it matches or not
	EventSignalUnconsumed = "signal.unconsumed" // signals that no step has taken when the execution stops accepting them
)

// consumeSignal takes a signal out of the mailbox for a step run. fits means that it matches what
// the step waits for; a signal that does not match is removed as well. The history records the
// first of these.
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

// takeSignals takes signals with the name that a step run waits for, in order of arrival, up to the
// first one that matches. It only considers signals sent before the step run's deadline, and leaves
// a signal that matches another step run to that one. It reports whether one matched. So whether a
// step run has waited too long depends on when the signals were sent, not on when somebody looks.
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

// checkSignal returns whether a signal matches what a step run waits for, or nil after asking for
// that.
func (d *decider) checkSignal(s workflow.Signal, r *workflow.StepRun) *SignalCheck {
	need := Need{Kind: NeedSignal, StepRunSeq: r.Seq, StepIndex: r.StepIndex, Signal: s.ID}
	f := d.facts.Signals[need]
	if f == nil {
		d.need(need)
	}
	return f
}

// awaits reports whether a step run waits for signals of that name, and the signal was sent before
// its deadline.
func awaits(r *workflow.StepRun, s workflow.Signal) bool {
	return s.Name == r.Wait.Title && s.At.Before(r.Wait.Until)
}

// fitsAnother reports whether a signal matches what a step run in another branch waits for. missing
// means that a fact is missing.
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

// awaitSignals records the names that the open waits want, so that the mailbox reserves space for
// them.
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

// closeMailbox makes the commit require that it has seen every signal that the execution has
// accepted. It records signals that nobody took and that were not handed over. They stay in the
// mailbox: a retry may still take them, and duplicates are still recognised.
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
