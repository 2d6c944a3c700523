package inventory

import (
	"encoding/json"
	"fmt"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

const (
	maxGroups = 32 // of one entity

	// MaxLineBytes is the length of the longest line, in bytes.
	MaxLineBytes = 64 << 10
)

// ValidateEntity lists what is wrong with an entity, and gives it empty attributes if it
// has none.
func ValidateEntity(e *workflow.Entity, path string) []workflow.Issue {
	var issues []workflow.Issue
	bad := func(field, code, message string) {
		issues = append(issues, workflow.Issue{Path: path + field, Code: code, Message: message})
	}
	const form = "up to 128 letters, digits and . _ : @ + -, no slash"
	if !workflow.ValidID(e.Type) {
		bad("type", "format", form)
	}
	if e.Type == workflow.RunOnGlobal {
		bad("type", "reserved", "global is what steps without entities run on, and no type of entities")
	}
	if !workflow.ValidID(e.ID) {
		bad("id", "format", form)
	}
	if len(e.Attributes) == 0 || string(e.Attributes) == "null" {
		e.Attributes = json.RawMessage("{}")
	}
	var object map[string]json.RawMessage
	if json.Unmarshal(e.Attributes, &object) != nil {
		bad("attributes", "type", "want an object")
	}
	if len(e.Attributes) > workflow.MaxAttributesBytes {
		bad("attributes", "too_large", fmt.Sprintf("at most %d bytes", workflow.MaxAttributesBytes))
	}
	if bad := unsupportedValue(e.Attributes, path+"attributes"); bad != nil {
		issues = append(issues, *bad)
	}
	if len(e.Groups) > maxGroups {
		bad("groups", "limit", fmt.Sprintf("at most %d groups", maxGroups))
	}
	for i, g := range e.Groups {
		if !workflow.ValidID(g) {
			bad(fmt.Sprintf("groups[%d]", i), "format", form)
		}
	}
	return issues
}
