package definition

import (
	"encoding/json"

	"github.com/lockstep-run/lockstep/shared/definition/schema"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

// CheckSchema reports why a JSON value is not a JSON Schema (2020-12).
func CheckSchema(raw json.RawMessage) error { return schema.Check(raw) }

// ValidateAgainst lists where a value does not fit a schema, be it parameters or
// a result. path names the value. No schema accepts everything.
func ValidateAgainst(against, value json.RawMessage, path string) []workflow.Issue {
	return schema.Validate(against, value, path)
}

// ValidateParameters checks a run's parameters: an object, and what the
// definition's schema says if it has one.
func ValidateParameters(d *spec.Definition, raw json.RawMessage) error {
	const what = "the parameters are not valid"
	var object map[string]json.RawMessage
	if err := json.Unmarshal(raw, &object); err != nil || object == nil {
		return workflow.Invalid(what, []workflow.Issue{{Path: "parameters", Code: "type", Message: "want an object"}})
	}
	return workflow.Invalid(what, ValidateAgainst(d.Parameters, raw, "parameters"))
}
