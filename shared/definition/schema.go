package definition

import (
	"bytes"
	"encoding/json"
	"slices"
	"sync"

	"github.com/lockstep-run/lockstep/shared/definition/schema"
	"github.com/lockstep-run/lockstep/shared/definition/yamldoc"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

//go:generate go run ./internal/generate ../../docs/definition.schema.json

// Schema returns the JSON Schema (2020-12) of definitions, for editors and other tools. It is made
// from the declarations that read definitions, and so has every field. It cannot check references
// between parts of a definition.
func Schema() []byte { return slices.Clone(schemaJSON()) }

var schemaJSON = sync.OnceValue(func() []byte {
	r := &reader{&yamldoc.Reader{}}
	document := yamldoc.SchemaOf(r.definition(&spec.Definition{}).WithSchema(yamldoc.Schema{
		"$id":   "urn:lockstep:definition",
		"title": "A Lockstep workflow definition",
	}))
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(document); err != nil {
		panic("definition: the schema has no JSON form: " + err.Error()) // it consists of maps, lists and strings
	}
	return out.Bytes()
})

// ValidateParameters checks the parameters of an execution: they must be an object, and fit the
// definition's schema if it has one. The error is CodeInvalid with every issue.
func ValidateParameters(d *spec.Definition, raw json.RawMessage) error {
	const message = "the parameters are not valid"
	var object map[string]json.RawMessage
	if err := json.Unmarshal(raw, &object); err != nil || object == nil {
		return workflow.Invalid(message, []workflow.Issue{{Path: "parameters", Code: "type", Message: "want an object"}})
	}
	issues, sealed := schema.Validate(d.Parameters, raw, "parameters"), []string(nil)
	if len(issues) > 0 {
		sealed = workflow.SealedProperties(d.Parameters)
	}
	for i := range issues {
		for _, name := range sealed {
			if issues[i].Path == "parameters."+name && issues[i].Code != "required" { // the text of an issue may quote the value, unless there is none
				issues[i].Message = "the value, which is sealed, does not fit"
			}
		}
	}
	return workflow.Invalid(message, issues)
}
