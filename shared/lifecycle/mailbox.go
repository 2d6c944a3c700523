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

// consumeSignal takes a signal out of the mailbox for a step. fits says whether it is what
// the step waits for; one that is not is gone too.
func (d *decider) consumeSignal(s workflow.Signal, step string, fits bool) {
	d.execution.Signals = slices.DeleteFunc(d.execution.Signals, func(other workflow.Signal) bool { return other.ID == s.ID })
	d.decision.Consumed = append(d.decision.Consumed, s.ID)
	data := map[string]any{"name": s.Name, "id": s.ID, "sentAt": s.At}
	if s.Reason != "" {
		data["reason"] = s.Reason
	}
	if !fits {
		data["fits"] = false
	}
	d.record(workflow.Event{Layer: string(sm.LayerStep), Type: EventSignalReceived, Step: step, Actor: s.By}, data)
}

// closeMailbox makes the commit depend on that it has seen every signal that the execution
// has accepted, and records those that nobody took. They stay where they are: a retry may
// still take them, and a duplicate is still known.
func (d *decider) closeMailbox() {
	d.decision.ClosesMailbox = true
	left := d.execution.Signals
	if len(left) == 0 {
		return
	}
	var names []string
	for _, s := range left[:min(len(left), workflow.MaxNamed)] {
		names = append(names, s.Name)
	}
	d.record(workflow.Event{Layer: string(sm.LayerWorkflow), Type: EventSignalUnconsumed}, map[string]any{"names": names, "count": len(left)})
}
