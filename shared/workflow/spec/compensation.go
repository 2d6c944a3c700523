package spec

import (
	"encoding/json"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Compensation undoes a step with another block than its own: the block is executed once for each
// job that the step has executed. A step that starts an execution and waits for it is undone by an
// execution of another workflow, over the entities that the step selects.
type Compensation struct {
	FunctionBlock string          `json:"functionBlock,omitempty"` // reference; the version may be a major or a minor
	Workflow      string          `json:"workflow,omitempty"`      // the same
	Parameters    json.RawMessage `json:"parameters,omitempty"`    // object; strings may contain ${CEL}, which may read the result of the step
	RawParameters json.RawMessage `json:"rawParameters,omitempty"` // object, passed on unchanged
	UndoHarmless  bool            `json:"undoHarmless,omitempty"`  // it does no harm if the step has done nothing

	Retry *workflow.Retry `json:"retry,omitempty"`
}
