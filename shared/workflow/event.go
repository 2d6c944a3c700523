package workflow

import (
	"encoding/json"
	"time"
)

// Event is one line of a run's history. Sequence starts at 1 and has no gaps.
// Only events of the layer "execution" may open or close a run.
type Event struct {
	Sequence int64           `json:"sequence"`
	At       time.Time       `json:"at"`
	Layer    string          `json:"layer"` // execution, workflow, step
	Type     string          `json:"type"`  // execution.validated, step.exited, ...
	From     string          `json:"from,omitempty"`
	To       string          `json:"to,omitempty"`
	Step     string          `json:"step,omitempty"`
	Entity   string          `json:"entity,omitempty"` // "type/id"
	Actor    string          `json:"actor,omitempty"`  // who asked; empty for the engine itself
	Data     json.RawMessage `json:"data,omitempty"`
}
