package definition_test

import (
	"bytes"
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/lockstep-run/lockstep/shared/definition"
	"github.com/lockstep-run/lockstep/shared/definition/schema"
)

// TestSchema_MatchesDocumentation: the file in docs is generated from the current declarations.
func TestSchema_MatchesDocumentation(t *testing.T) {
	file, err := os.ReadFile("../../docs/definition.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(file, definition.Schema()) {
		t.Error("docs/definition.schema.json is out of date: run make generate")
	}
	if err := schema.Check(definition.Schema()); err != nil {
		t.Error(err)
	}
}

// TestSchema_AcceptsValidDefinitions: a valid definition fits the schema, as written and in its canonical
// form.
func TestSchema_AcceptsValidDefinitions(t *testing.T) {
	for name, source := range validSources(t) {
		written, err := yaml.YAMLToJSON([]byte(source))
		if err != nil {
			t.Fatal(err)
		}
		for form, value := range map[string][]byte{"written": written, "canonical": definition.Canonical(parse(t, source))} {
			for _, i := range schema.Validate(definition.Schema(), value, "") {
				t.Errorf("%s, %s: %s: %s", name, form, i.Path, i.Message)
			}
		}
	}
}

// TestSchema_DeclaresSameFieldsAsReader: in every object, both the reader and the schema refuse an unknown
// field. everything.yaml and flow.yaml together have every field of the schema.
func TestSchema_DeclaresSameFieldsAsReader(t *testing.T) {
	text := ""
	for _, name := range []string{"everything", "flow"} {
		text += walkObjects(t, "testdata/valid/"+name+".yaml")
	}
	var shape any
	if err := json.Unmarshal(definition.Schema(), &shape); err != nil {
		t.Fatal(err)
	}
	for _, name := range properties(shape, nil) {
		if !regexp.MustCompile(`\b`+name+`"?:`).MatchString(text) && name != "triggers" {
			t.Errorf("no definition has the field %s", name)
		}
	}
}

// walkObjects adds an unknown field to each object of a definition in turn. It returns the
// text of the definition, in both forms.
func walkObjects(t *testing.T, file string) string {
	source, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	objects := 0
	var everything any
	canonical := definition.Canonical(parse(t, string(source)))
	if err := json.Unmarshal(canonical, &everything); err != nil {
		t.Fatal(err)
	}
	var walk func(v any, path string)
	walk = func(v any, path string) {
		switch v := v.(type) {
		case map[string]any:
			if isUserDefined(path) {
				return
			}
			objects++
			v["colour"] = "red"
			raw, err := json.Marshal(everything)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := definition.Parse(raw); err == nil {
				t.Errorf("the reader accepts %s.colour", path)
			}
			if len(schema.Validate(definition.Schema(), raw, "")) == 0 {
				t.Errorf("the schema accepts %s.colour", path)
			}
			delete(v, "colour")
			for key, item := range v {
				walk(item, path+"."+key)
			}
		case []any:
			for _, item := range v {
				walk(item, path)
			}
		}
	}
	walk(everything, "")
	if objects < 20 {
		t.Errorf("found only %d objects in %s", objects, file)
	}
	return string(source) + string(canonical)
}

// isUserDefined reports whether the author chooses the fields of an object.
func isUserDefined(path string) bool {
	if path == ".cron.executeOnParameters" || strings.HasPrefix(path, ".triggers.") && strings.HasSuffix(path, ".executeOnParameters") {
		return false
	}
	for _, own := range []string{"parameters", "rawParameters", "labels", "set", "template", "static", "output", "row", "metadata", "pipes.map", "branches.result", "schema", "pattern", "show", "answer", "query", "headers", "body"} {
		if strings.HasSuffix(path, "."+own) {
			return true
		}
	}
	return false
}

// properties are the names of all properties of a schema.
func properties(v any, names []string) []string {
	switch v := v.(type) {
	case map[string]any:
		for key, item := range v {
			if all, ok := item.(map[string]any); ok && key == "properties" {
				for name := range all {
					names = append(names, name)
				}
			}
			names = properties(item, names)
		}
	case []any:
		for _, item := range v {
			names = properties(item, names)
		}
	}
	return names
}

// TestSchema_RejectsWhatReaderRejects: the schema refuses what the reader refuses, as far as a schema
// can.
func TestSchema_RejectsWhatReaderRejects(t *testing.T) {
	for name, source := range map[string]string{
		"no steps":             head + "steps: []",
		"two kinds":            head + "steps: [{label: a, functionBlock: p/b, runOn: global, workflowReference: {workflow: p/x}}]",
		"no kind":              head + "steps: [{label: a}]",
		"runOn of a container": head + "steps: [{label: a, runOn: global, workflow: {steps: [{label: b, functionBlock: p/b, runOn: global}]}}]",
		"planned":              head + "steps: [{label: a, loop: {over: 'parameters.list'}}]",
		"a label":              head + "steps: [{label: Ab, functionBlock: p/b, runOn: global}]",
		"a version":            "package: p\nname: w\nversion: '1.0'\nsteps: [{label: a, functionBlock: p/b, runOn: global}]",
		"a reference":          head + "steps: [{label: a, functionBlock: b, runOn: global}]",
		"a duration":           head + "config: {timeout: soon}\nsteps: [{label: a, functionBlock: p/b, runOn: global}]",
		"a long time":          head + "config: {timeout: 99999999}\nsteps: [{label: a, functionBlock: p/b, runOn: global}]",
		"ids":                  head + "acquire: [{type: d, ids: a}]\nsteps: [{label: a, functionBlock: p/b, runOn: global}]",
		"repeat":               head + "steps: [{label: a, functionBlock: p/b, runOn: global, repeat: {delay: 1s}}]",
		"a mode":               head + "steps: [{label: a, workflowReference: {workflow: p/b, mode: call}}]",
		"nested deep inside":   head + "steps: [{label: a, workflow: {steps: [{label: b, workflow: {steps: [{label: c}]}}]}}]",
		"a tolerance":          head + "config: {failureTolerance: some}\nsteps: [{label: a, functionBlock: p/b, runOn: global}]",
		"a schedule":           head + "cron: {schedule: '@daily'}\nsteps: [{label: a, functionBlock: p/b, runOn: global}]",
	} {
		value, err := yaml.YAMLToJSON([]byte(source))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := definition.Parse([]byte(source)); err == nil {
			t.Errorf("%s: the reader accepts it", name)
		}
		if len(schema.Validate(definition.Schema(), value, "")) == 0 {
			t.Errorf("%s: the schema accepts it", name)
		}
	}
}

// TestSchema_PatternsMatchReader: the patterns of the schema accept the same values as the reader.
func TestSchema_PatternsMatchReader(t *testing.T) {
	for _, text := range []string{
		"", "a", "A1_-", "1a", "a b", "a/b", "a/b:1", "a/b:1.2", "a/b:1.2.3", "a/b:01", "a/b:", "a/b:1.2.3.4", "/b", "a/",
		"1.2.3", "1.2", "01.2.3", "0.0.0", "1234567.0.0", "v1.2.3", strings.Repeat("x", 64), strings.Repeat("x", 65),
		"5s", "1h30m", "+5s", "-5s", "1.5h", ".5s", "5.s", "5", "0", " 5s ", "5 s", "1h 5m", "5µs", "5μs", "s", "",
		"10%", "100%", "10.5%", "%", "10.1234%", "a.b:c@d+e-f", ".a", "-a", "ü",
	} {
		quoted, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		for field, template := range map[string]string{
			"name":      `{"package":"p","name":X,"version":"1.0.0","steps":[{"label":"a","functionBlock":"p/b","runOn":"global"}]}`,
			"version":   `{"package":"p","name":"w","version":X,"steps":[{"label":"a","functionBlock":"p/b","runOn":"global"}]}`,
			"reference": `{"package":"p","name":"w","version":"1.0.0","steps":[{"label":"a","functionBlock":X,"runOn":"global"}]}`,
			"id":        `{"package":"p","name":"w","version":"1.0.0","steps":[{"label":"a","functionBlock":"p/b","runOn":X}]}`,
			"duration":  `{"package":"p","name":"w","version":"1.0.0","steps":[{"label":"a","functionBlock":"p/b","runOn":"global","delay":X}]}`,
			"tolerance": `{"package":"p","name":"w","version":"1.0.0","config":{"failureTolerance":X},"steps":[{"label":"a","functionBlock":"p/b","runOn":"global"}]}`,
			"label":     `{"package":"p","name":"w","version":"1.0.0","steps":[{"label":X,"functionBlock":"p/b","runOn":"global"}]}`,
		} {
			source := []byte(strings.Replace(template, "X", string(quoted), 1))
			_, err := definition.Parse(source)
			fits := len(schema.Validate(definition.Schema(), source, "")) == 0
			if (err == nil) != fits {
				t.Errorf("%s %q: the reader says %v, the schema %v", field, text, err, fits)
			}
		}
	}
}
