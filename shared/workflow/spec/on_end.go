package spec

import (
	"encoding/json"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// FollowUp is a workflow that the end of an execution starts. Nothing in the execution depends on
// it.
type FollowUp struct {
	Workflow   string          `json:"workflow"`
	Parameters json.RawMessage `json:"parameters,omitempty"` // object; strings may contain ${CEL} over execution, parameters, error and output
}

// OnEnd is what the ends of an execution start.
type OnEnd struct {
	Completed *FollowUp `json:"completed,omitempty"`
	Failed    *FollowUp `json:"failed,omitempty"`
	Cancelled *FollowUp `json:"cancelled,omitempty"`
}

// Of returns what ends of a kind start; nil for nothing.
func (o *OnEnd) Of(kind workflow.EndKind) *FollowUp {
	switch kind {
	case workflow.EndCompleted:
		return o.Completed
	case workflow.EndFailed:
		return o.Failed
	case workflow.EndCancelled:
		return o.Cancelled
	}
	return nil
}

// Kinds returns the kinds of ends that start something.
func (o *OnEnd) Kinds() (kinds []workflow.EndKind) {
	for _, kind := range workflow.EndKinds {
		if o.Of(kind) != nil {
			kinds = append(kinds, kind)
		}
	}
	return kinds
}
