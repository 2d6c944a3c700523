package definition

import (
	"encoding/json"

	"github.com/lockstep-run/lockstep/shared/definition/schema"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

// ValidateParameters checks a run's parameters: an object, and what the
// definition's schema says if it has one.
func ValidateParameters(d *spec.Definition, raw json.RawMessage) error {
	const what = "the parameters are not valid"
	var object map[string]json.RawMessage
	if err := json.Unmarshal(raw, &object); err != nil || object == nil {
		return workflow.Invalid(what, []workflow.Issue{{Path: "parameters", Code: "type", Message: "want an object"}})
	}
	return workflow.Invalid(what, schema.Validate(d.Parameters, raw, "parameters"))
}
