package definition

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// sealedIssue says what is wrong with the properties of a schema whose values are to be sealed, "" if
// nothing is. Nothing may tell what such a value is, or be another value than a text.
func sealedIssue(schema json.RawMessage) string {
	if !bytes.Contains(schema, []byte(workflow.SealedKeyword)) {
		return ""
	}
	var object map[string]any
	if json.Unmarshal(schema, &object) != nil {
		return "" // another check reports it
	}
	properties, _ := object["properties"].(map[string]any)
	found := 0
	for name, property := range properties {
		fields, _ := property.(map[string]any)
		sealed, marked := fields[workflow.SealedKeyword]
		if !marked {
			continue
		}
		found++
		if sealed != true || fields["type"] != "string" {
			return "property " + name + ": want x-sealed: true on a property with type: string"
		}
		for _, telling := range []string{"default", "const", "enum", "examples"} {
			if _, has := fields[telling]; has {
				return "property " + name + ": it is sealed, and " + telling + " would tell what it is"
			}
		}
	}
	for name := range properties {
		if found > workflow.MaxSecretPlaces || len(name) > maxSealedName && slices.Contains(workflow.SealedProperties(schema), name) {
			return fmt.Sprintf("at most %d properties are sealed, with names of at most %d bytes", workflow.MaxSecretPlaces, maxSealedName)
		}
	}
	if countKeyword(object) > found {
		return "x-sealed stands on a property of the schema itself, not of one in it"
	}
	return ""
}

// maxSealedName is the longest name of a sealed parameter, in bytes: it stays in the state item.
const maxSealedName = 128

// countKeyword counts how often the keyword stands in a schema.
func countKeyword(v any) (n int) {
	switch v := v.(type) {
	case map[string]any:
		for name, value := range v {
			if _, isSchema := value.(map[string]any); name == workflow.SealedKeyword && !isSchema {
				n++
			}
			n += countKeyword(value)
		}
	case []any:
		for _, value := range v {
			n += countKeyword(value)
		}
	}
	return n
}
