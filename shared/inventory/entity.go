// Package inventory checks entities: entity.go an entity itself, import.go the JSON lines of an
// import. The service checks imports with it, and the command what it is about to send.
package inventory

import (
	"encoding/json"
	"fmt"

	"github.com/lockstep-run/lockstep/shared/definition/schema"
	"github.com/lockstep-run/lockstep/shared/definition/yamldoc"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

const maxGroups = 32 // of one entity

// ValidateEntity lists what is wrong with an entity. It sets absent attributes to {}. path is
// a prefix of the paths of issues.
func ValidateEntity(e *workflow.Entity, path string) []workflow.Issue {
	var issues []workflow.Issue
	addIssue := func(field, code, message string) {
		issues = append(issues, workflow.Issue{Path: path + field, Code: code, Message: message})
	}
	const form = "up to 128 letters, digits and . _ : @ + -, no slash"
	if !workflow.ValidID(e.Type) {
		addIssue("type", "format", form)
	}
	if e.Type == workflow.RunOnGlobal {
		addIssue("type", "reserved", "global is reserved for steps without entities; name an entity type")
	}
	if !workflow.ValidID(e.ID) {
		addIssue("id", "format", form)
	}
	if len(e.Attributes) == 0 || string(e.Attributes) == "null" {
		e.Attributes = json.RawMessage("{}")
	}
	var object map[string]json.RawMessage
	if json.Unmarshal(e.Attributes, &object) != nil {
		addIssue("attributes", "type", "want an object")
	}
	if len(e.Attributes) > workflow.MaxAttributesBytes {
		addIssue("attributes", "too_large", fmt.Sprintf("at most %d bytes", workflow.MaxAttributesBytes))
	}
	if issue := schema.CheckJSON(e.Attributes, path+"attributes", yamldoc.JoinPath); issue != nil {
		issues = append(issues, *issue)
	}
	if len(e.Groups) > maxGroups {
		addIssue("groups", "limit", fmt.Sprintf("at most %d groups", maxGroups))
	}
	for i, g := range e.Groups {
		if !workflow.ValidID(g) {
			addIssue(fmt.Sprintf("groups[%d]", i), "format", form)
		}
	}
	return issues
}
