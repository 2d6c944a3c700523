package workflow

import "encoding/json"

// Block is a function block: a named, versioned unit of work that workers serve.
// Registered blocks are immutable.
type Block struct {
	Package     string `json:"package"`
	Name        string `json:"name"`
	Version     string `json:"version"`
	Description string `json:"description,omitempty"`
	RunOn       string `json:"runOn,omitempty"` // entity type or "global"; empty accepts any

	Pure         bool `json:"pure"`         // changes nothing
	Idempotent   bool `json:"idempotent"`   // may be executed again with the same effect
	Reversible   bool `json:"reversible"`   // has a rollback
	UndoHarmless bool `json:"undoHarmless"` // its rollback is harmless if nothing was done

	Pool    string   `json:"pool,omitempty"`    // worker pool; "default" if empty
	Timeout Duration `json:"timeout,omitempty"` // for one attempt; 30s if zero

	ParameterSchema json.RawMessage `json:"parameterSchema,omitempty"`
	ResultSchema    json.RawMessage `json:"resultSchema,omitempty"`
	Metadata        json.RawMessage `json:"metadata,omitempty"` // object of editors: kept and never read

	HTTP *Endpoint `json:"http,omitempty"` // served over HTTP by the standard worker instead of by a Go worker
}

// Ref is the block's exact reference.
func (b *Block) Ref() Ref { return Ref{b.Package, b.Name, b.Version} }

// Repeatable reports whether the jobs of the block may be executed again, which is true for pure
// and idempotent blocks.
func (b *Block) Repeatable() bool { return b.Pure || b.Idempotent }

// RunOnGlobal is the runOn of a step that has one job instead of one for each entity. RunOnItem is
// the runOn of a step that has one job for each item of its foreach; without foreach it is an
// entity type.
const (
	RunOnGlobal = "global"
	RunOnItem   = "item"
)
