package definition

import (
	"bytes"
	"encoding/json"
	"slices"
	"sync"

	"github.com/lockstep-run/lockstep/shared/definition/yamldoc"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

//go:generate go run ./internal/generate ../../docs/definition.schema.json

// Schema is the JSON Schema (2020-12) of what authors write, for editors and
// other tools. It comes from the declarations by which definitions are read, and
// so knows every field they know; what refers to what it cannot know.
func Schema() []byte { return slices.Clone(schemaJSON()) }

var schemaJSON = sync.OnceValue(func() []byte {
	r := &reader{&yamldoc.Reader{}}
	shape := yamldoc.SchemaOf(r.definition(&spec.Definition{}).WithSchema(yamldoc.Schema{
		"$id":   "urn:lockstep:definition",
		"title": "A Lockstep workflow definition",
	}))
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(shape); err != nil {
		panic("definition: the schema has no JSON form: " + err.Error()) // it is made of maps and texts
	}
	return out.Bytes()
})
