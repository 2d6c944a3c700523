package workflow

import "encoding/json"

// Block is a function block: a named, versioned unit of work that a worker
// offers. Registered blocks are immutable.
type Block struct {
	Package     string `json:"package"`
	Name        string `json:"name"`
	Version     string `json:"version"`
	Description string `json:"description,omitempty"`
	RunOn       string `json:"runOn,omitempty"` // entity type or "global"; empty accepts both

	Pure         bool `json:"pure"`         // changes nothing
	Idempotent   bool `json:"idempotent"`   // may run again with the same effect
	Reversible   bool `json:"reversible"`   // has a rollback
	UndoHarmless bool `json:"undoHarmless"` // rolling back is harmless where nothing was done

	Pool    string   `json:"pool,omitempty"`    // the worker pool's queue; "default" if empty
	Timeout Duration `json:"timeout,omitempty"` // one attempt; 30s if zero

	ParameterSchema json.RawMessage `json:"parameterSchema,omitempty"`
	ResultSchema    json.RawMessage `json:"resultSchema,omitempty"`

	HTTP *Endpoint `json:"http,omitempty"` // served by the stock worker instead of a Go worker
}

// Endpoint is where a block served over HTTP is called.
type Endpoint struct {
	URL     string            `json:"url"`
	Timeout Duration          `json:"timeout,omitempty"`
	Headers map[string]string `json:"headers,omitempty"`
}

// Ref is the block's exact reference.
func (b *Block) Ref() Ref { return Ref{b.Package, b.Name, b.Version} }

// Repeatable reports whether the block's jobs may run again: pure and
// idempotent blocks may, any other second start is an accident.
func (b *Block) Repeatable() bool { return b.Pure || b.Idempotent }

// RunOnGlobal is the runOn of a step that runs once, not once per entity.
const RunOnGlobal = "global"
