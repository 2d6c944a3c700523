package definitions

import (
	"encoding/json"

	"github.com/lockstep-run/lockstep/shared/definition/program"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// FollowUpParameters returns the parameters of the workflow that an end of a kind starts.
func (d *Definition) FollowUpParameters(kind workflow.EndKind, x *program.EndedExecution) (json.RawMessage, error) {
	return d.compiled.FollowUpParameters(kind, x)
}
