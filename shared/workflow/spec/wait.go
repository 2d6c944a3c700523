package spec

import (
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Wait is what a step waits for: a time, or a condition over entities.
type Wait struct {
	For   workflow.Duration `json:"for,omitempty"`
	Until string            `json:"until,omitempty"` // RFC 3339; may hold ${CEL}
	When  string            `json:"when,omitempty"`  // CEL, bool; reads the inventory with entity(type, id)

	Deadline  workflow.Duration `json:"deadline,omitempty"` // how long it waits; 0 for as long as a step may wait
	OnTimeout *OnTimeout        `json:"onTimeout,omitempty"`
}

// OnTimeout says how an execution goes on when the deadline of a wait has passed. nil fails
// the step.
type OnTimeout struct {
	Next string `json:"next,omitempty"` // label, or NextEnd
}

// Kind is what kind of thing the step waits for.
func (w *Wait) Kind() workflow.WaitKind {
	if w.When != "" {
		return workflow.WaitCondition
	}
	return workflow.WaitTimer
}

// HasResult reports whether something is the result of the wait: what somebody answered, or
// sent.
func (w *Wait) HasResult() bool { return false }
