// Package schema validates JSON against JSON Schema (2020-12) and reports each violation at the
// field it is about. A schema is self-contained: nothing is loaded from a file or an address.
//
// value.go finds values that no schema forbids but no reader can use. limits.go bounds the work
// that a schema and a value can ask for.
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

// noLoader refuses to load other schemas.
type noLoader struct{}

func (noLoader) Load(url string) (any, error) {
	return nil, fmt.Errorf("a schema cannot refer to %s", url)
}

const schemaURL = "urn:lockstep:schema"

// schemaCache keeps compiled schemas by their text. It is cleared when it is full.
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
	if issue := CheckValue(doc, "schema", yamldoc.JoinPath); issue != nil {
		return nil, errors.New(issue.Path + ": " + issue.Message)
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
			if plainReport.collect(v, nil, "", &all); len(all) > 0 {
				return fmt.Errorf("this is not a JSON Schema: %s", all[0])
			}
		}
	}
	if err != nil {
		return fmt.Errorf("this is not a JSON Schema: %s", strings.ReplaceAll(firstLine(err), schemaURL, "schema"))
	}
	return nil
}

// Absent reports whether there is no schema. JSON null counts as none.
func Absent(schema json.RawMessage) bool {
	return len(schema) == 0 || string(bytes.TrimSpace(schema)) == "null"
}

// Validate lists where a value does not fit a schema. path names the value. An absent
// schema accepts every value.
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
	if issue := CheckValue(v, path, yamldoc.JoinPath); issue != nil {
		return []workflow.Issue{*issue}
	}
	if remaining := maxEvaluations; !withinBudget(s, v, &remaining, map[*jsonschema.Schema]bool{}) {
		return []workflow.Issue{{Path: path, Code: "limit", Message: "the value needs too much work to validate against this schema"}}
	}
	return violations(s, v, path)
}

// violations validates with the library. Values come from anywhere, so a panic of the library is
// reported as an issue of the value.
func violations(s *jsonschema.Schema, v any, path string) (issues []workflow.Issue) {
	defer func() {
		if recover() != nil {
			issues = []workflow.Issue{{Path: path, Code: "schema", Message: "the value cannot be validated against the schema"}}
		}
	}()
	return plainReport.Issues(s.Validate(v), v, path)
}

// Report turns violations into issues. Its fields are the differences between callers.
type Report struct {
	// Describe returns the code and the message of a violation.
	Describe func(jsonschema.ErrorKind) (code, message string)
	// Refused words why fields are refused that a schema does not have, "" for as Describe does. Nil is that for all.
	Refused func(schemaURL string) string
	// Near ends the message about a field that a schema does not have, with a similar one. Nil names none.
	Near func(schemaURL, name string) string
	// Join returns the path of a field of the object at path.
	Join func(path, name string) string
	// Causes returns the causes of a violation that are worth reporting. Nil reports all.
	Causes func(*jsonschema.ValidationError) []*jsonschema.ValidationError
	// Limit bounds how many violations are collected before they are sorted and cut. 0 means no
	// bound.
	Limit int
}

// plainReport uses the library's messages.
var plainReport = Report{Describe: describe, Join: yamldoc.JoinPath, Limit: 10 * yamldoc.MaxIssues}

var english = message.NewPrinter(language.English)

func describe(k jsonschema.ErrorKind) (code, text string) {
	code = "schema"
	if keywords := k.KeywordPath(); len(keywords) > 0 {
		code = keywords[len(keywords)-1]
	}
	switch k.(type) {
	case *kind.Required:
		return code, "the field is required"
	case *kind.AdditionalProperties:
		return code, "there is no such field"
	}
	return code, k.LocalizedString(english)
}

// Issues lists the violations in err, the result of validating v, in the order of their paths, at
// most [yamldoc.MaxIssues]. path names v. Any other error gives none.
func (r *Report) Issues(err error, v any, path string) []workflow.Issue {
	var invalid *jsonschema.ValidationError
	if !errors.As(err, &invalid) {
		return nil
	}
	var issues []workflow.Issue
	r.collect(invalid, v, path, &issues)
	slices.SortStableFunc(issues, func(a, b workflow.Issue) int { return cmp.Compare(a.Path, b.Path) })
	return issues[:min(len(issues), yamldoc.MaxIssues)]
}

// collect adds the violations that have no cause of their own, each at the field it is
// about. A missing or unknown field is reported at its own path.
func (r *Report) collect(e *jsonschema.ValidationError, v any, path string, all *[]workflow.Issue) {
	if len(e.Causes) > 0 {
		causes := e.Causes
		if r.Causes != nil {
			causes = r.Causes(e)
		}
		for _, c := range causes {
			if r.full(*all) {
				return
			}
			r.collect(c, v, path, all)
		}
		return
	}
	at := instancePath(v, e.InstanceLocation, path, r.Join)
	code, text := r.Describe(e.ErrorKind)
	add := func(at string) {
		if !r.full(*all) {
			*all = append(*all, workflow.Issue{Path: at, Code: code, Message: text})
		}
	}
	switch k := e.ErrorKind.(type) {
	case *kind.Required:
		for _, name := range k.Missing {
			add(r.Join(at, name))
		}
	case *kind.AdditionalProperties:
		if r.Refused != nil {
			text = cmp.Or(r.Refused(e.SchemaURL), text)
		}
		refusal := text
		for _, name := range k.Properties {
			if text = refusal; r.Near != nil {
				text += r.Near(e.SchemaURL, name)
			}
			add(r.Join(at, name))
		}
	default:
		add(at)
	}
}

func (r *Report) full(all []workflow.Issue) bool { return r.Limit > 0 && len(all) >= r.Limit }

// instancePath writes a location within v as a path: "steps[1].retry".
func instancePath(v any, location []string, path string, join func(path, name string) string) string {
	for _, word := range location {
		switch in := v.(type) {
		case []any:
			path += "[" + word + "]"
			v = nil
			if n, err := strconv.Atoi(word); err == nil && n >= 0 && n < len(in) {
				v = in[n]
			}
		case map[string]any:
			path, v = join(path, word), in[word]
		default:
			path = join(path, word)
		}
	}
	return path
}

func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}
