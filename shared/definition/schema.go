package definition

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// noLoader refuses to load schemas from anywhere: a schema stands by itself.
type noLoader struct{}

func (noLoader) Load(url string) (any, error) {
	return nil, fmt.Errorf("a schema cannot refer to %s", url)
}

const schemaURL = "urn:lockstep:schema"

// compiledSchemas keeps compiled schemas by their text; it is emptied when full.
var compiledSchemas = struct {
	sync.Mutex
	byText map[string]*jsonschema.Schema
}{byText: map[string]*jsonschema.Schema{}}

const schemasKept = 256

func compileSchema(raw json.RawMessage) (*jsonschema.Schema, error) {
	compiledSchemas.Lock()
	known := compiledSchemas.byText[string(raw)]
	compiledSchemas.Unlock()
	if known != nil {
		return known, nil
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.UseLoader(noLoader{})
	if err := c.AddResource(schemaURL, doc); err != nil {
		return nil, err
	}
	s, err := c.Compile(schemaURL)
	if err != nil {
		return nil, err
	}
	compiledSchemas.Lock()
	defer compiledSchemas.Unlock()
	if len(compiledSchemas.byText) >= schemasKept {
		clear(compiledSchemas.byText)
	}
	compiledSchemas.byText[string(raw)] = s
	return s, nil
}

// CheckSchema reports why a JSON value is not a JSON Schema (2020-12).
func CheckSchema(raw json.RawMessage) error {
	_, err := compileSchema(raw)
	var invalid *jsonschema.SchemaValidationError
	if errors.As(err, &invalid) {
		var v *jsonschema.ValidationError
		if errors.As(invalid.Err, &v) {
			i := leaves(v, "")
			if len(i) > 0 {
				return fmt.Errorf("this is no JSON Schema: %s", i[0])
			}
		}
	}
	if err != nil {
		return fmt.Errorf("this is no JSON Schema: %s", strings.ReplaceAll(firstLine(err), schemaURL, "schema"))
	}
	return nil
}

// ValidateAgainst lists where a value does not fit a schema. path names the
// value.
func ValidateAgainst(schema, value json.RawMessage, path string) []workflow.Issue {
	s, err := compileSchema(schema)
	if err != nil {
		return []workflow.Issue{{Path: path, Code: "schema", Message: err.Error()}}
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(value))
	if err != nil {
		return []workflow.Issue{{Path: path, Code: "json", Message: firstLine(err)}}
	}
	var bad *jsonschema.ValidationError
	if err := s.Validate(v); errors.As(err, &bad) {
		return leaves(bad, path)
	}
	return nil
}

// leaves are the violations that have no cause of their own.
func leaves(e *jsonschema.ValidationError, path string) []workflow.Issue {
	if len(e.Causes) == 0 {
		at := path
		for _, word := range e.InstanceLocation {
			at = join(at, word)
		}
		kind := e.ErrorKind.KeywordPath()
		code := "schema"
		if len(kind) > 0 {
			code = kind[len(kind)-1]
		}
		return []workflow.Issue{{Path: at, Code: code, Message: e.ErrorKind.LocalizedString(message.NewPrinter(language.English))}}
	}
	var all []workflow.Issue
	for _, c := range e.Causes {
		all = append(all, leaves(c, path)...)
	}
	return all
}

// ValidateParameters checks a run's parameters: an object, and what the
// definition's schema says if it has one.
func ValidateParameters(d *workflow.Definition, raw json.RawMessage) error {
	const what = "the parameters are not valid"
	var object map[string]json.RawMessage
	if err := json.Unmarshal(raw, &object); err != nil || object == nil {
		return workflow.Invalid(what, []workflow.Issue{{Path: "parameters", Code: "type", Message: "want an object"}})
	}
	if len(d.Parameters) == 0 {
		return nil
	}
	return workflow.Invalid(what, ValidateAgainst(d.Parameters, raw, "parameters"))
}
