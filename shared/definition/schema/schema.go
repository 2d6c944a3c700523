package schema

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"github.com/lockstep-run/lockstep/shared/definition/yamldoc"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// noLoader refuses to load schemas from anywhere: a schema stands by itself.
type noLoader struct{}

func (noLoader) Load(url string) (any, error) {
	return nil, fmt.Errorf("a schema cannot refer to %s", url)
}

const schemaURL = "urn:lockstep:schema"

// schemaCache keeps compiled schemas by their text; it is emptied when full.
var schemaCache = struct {
	sync.Mutex
	byText map[string]*jsonschema.Schema
}{byText: map[string]*jsonschema.Schema{}}

const maxCachedSchemas = 256

func compileSchema(raw json.RawMessage) (*jsonschema.Schema, error) {
	schemaCache.Lock()
	known := schemaCache.byText[string(raw)]
	schemaCache.Unlock()
	if known != nil {
		return known, nil
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	if bad := CheckValue(doc, "schema"); bad != nil {
		return nil, errors.New(bad.Path + ": " + bad.Message)
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
	if err := (&fanOut{map[*jsonschema.Schema]int{}, map[*jsonschema.Schema]bool{}}).check(s); err != nil {
		return nil, err
	}
	schemaCache.Lock()
	defer schemaCache.Unlock()
	if len(schemaCache.byText) >= maxCachedSchemas {
		clear(schemaCache.byText)
	}
	schemaCache.byText[string(raw)] = s
	return s, nil
}

// Check reports why a JSON value is not a JSON Schema (2020-12).
func Check(raw json.RawMessage) error {
	_, err := compileSchema(raw)
	var invalid *jsonschema.SchemaValidationError
	if errors.As(err, &invalid) {
		var v *jsonschema.ValidationError
		if errors.As(invalid.Err, &v) {
			var all []workflow.Issue
			if collectViolations(v, nil, "", &all); len(all) > 0 {
				return fmt.Errorf("this is no JSON Schema: %s", all[0])
			}
		}
	}
	if err != nil {
		return fmt.Errorf("this is no JSON Schema: %s", strings.ReplaceAll(firstLine(err), schemaURL, "schema"))
	}
	return nil
}

// Absent reports whether there is no schema: JSON writes that as null too.
func Absent(schema json.RawMessage) bool {
	return len(schema) == 0 || string(bytes.TrimSpace(schema)) == "null"
}

// Validate lists where a value does not fit a schema. path names the
// value.
func Validate(schema, value json.RawMessage, path string) []workflow.Issue {
	if Absent(schema) {
		return nil
	}
	s, err := compileSchema(schema)
	if err != nil {
		return []workflow.Issue{{Path: path, Code: "schema", Message: firstLine(err)}}
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(value))
	if err != nil {
		return []workflow.Issue{{Path: path, Code: "json", Message: firstLine(err)}}
	}
	if bad := CheckValue(v, path); bad != nil {
		return []workflow.Issue{*bad}
	}
	if remaining := maxEvaluations; !withinBudget(s, v, &remaining, map[*jsonschema.Schema]bool{}) {
		return []workflow.Issue{{Path: path, Code: "limit", Message: "there is too much in it to be held against this schema"}}
	}
	return violations(s, v, path)
}

// violations asks the library. Values come from wherever, so that should it
// panic on one, that is what is wrong with the value.
func violations(s *jsonschema.Schema, v any, path string) (issues []workflow.Issue) {
	defer func() {
		if recover() != nil {
			issues = []workflow.Issue{{Path: path, Code: "schema", Message: "this cannot be held against the schema"}}
		}
	}()
	var bad *jsonschema.ValidationError
	if err := s.Validate(v); errors.As(err, &bad) {
		collectViolations(bad, v, path, &issues)
		slices.SortStableFunc(issues, func(a, b workflow.Issue) int { return cmp.Compare(a.Path, b.Path) })
		return issues[:min(len(issues), yamldoc.MaxIssues)]
	}
	return nil
}

var english = message.NewPrinter(language.English)

// maxViolations is how many violations are collected, to sort and cut them.
const maxViolations = 10 * yamldoc.MaxIssues

// collectViolations collects the violations that have no cause of their own, each at the
// field it is about: a field that is missing or unknown is named itself.
func collectViolations(e *jsonschema.ValidationError, v any, path string, all *[]workflow.Issue) {
	for _, c := range e.Causes {
		if len(*all) >= maxViolations {
			return
		}
		collectViolations(c, v, path, all)
	}
	if len(e.Causes) > 0 {
		return
	}
	at, code := instancePath(v, e.InstanceLocation, path), "schema"
	if keywords := e.ErrorKind.KeywordPath(); len(keywords) > 0 {
		code = keywords[len(keywords)-1]
	}
	add := func(at, message string) {
		if len(*all) < maxViolations {
			*all = append(*all, workflow.Issue{Path: at, Code: code, Message: message})
		}
	}
	switch k := e.ErrorKind.(type) {
	case *kind.Required:
		for _, name := range k.Missing {
			add(yamldoc.JoinPath(at, name), "the field is required")
		}
	case *kind.AdditionalProperties:
		for _, name := range k.Properties {
			add(yamldoc.JoinPath(at, name), "there is no such field")
		}
	default:
		add(at, e.ErrorKind.LocalizedString(english))
	}
}

// instancePath writes a location as a path; an item of a list has its index in
// brackets.
func instancePath(v any, location []string, path string) string {
	for _, word := range location {
		switch in := v.(type) {
		case []any:
			path += "[" + word + "]"
			v = nil
			if n, err := strconv.Atoi(word); err == nil && n >= 0 && n < len(in) {
				v = in[n]
			}
		case map[string]any:
			path, v = yamldoc.JoinPath(path, word), in[word]
		default:
			path = yamldoc.JoinPath(path, word)
		}
	}
	return path
}

func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}
