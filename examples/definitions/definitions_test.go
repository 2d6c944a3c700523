// Package definitions has small workflow definitions that together use every field of
// the format; docs/definitions.md explains the fields with them. The tests parse and
// compile each, and check that page, examples and format agree.
package definitions_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/lockstep-run/lockstep/shared/definition"
)

func readExamples(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob("*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal("no examples", err)
	}
	all := map[string]string{}
	for _, file := range files {
		if strings.HasSuffix(file, ".test.yaml") {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all[file] = string(text)
	}
	return all
}

func readPage(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/definitions.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Every example can be published.
func TestExamples_ArePublishable(t *testing.T) {
	for file, text := range readExamples(t) {
		d, err := definition.Parse([]byte(text))
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		if _, err := definition.Parse(definition.Canonical(d)); err != nil {
			t.Errorf("%s, in its canonical form: %v", file, err)
		}
	}
}

// collectFields collects the names of all fields in a schema.
func collectFields(v any, into map[string]bool) {
	switch v := v.(type) {
	case map[string]any:
		if properties, ok := v["properties"].(map[string]any); ok {
			for name := range properties {
				into[name] = true
			}
		}
		for _, child := range v {
			collectFields(child, into)
		}
	case []any:
		for _, child := range v {
			collectFields(child, into)
		}
	}
}

// docs/definitions.md explains every field of the format, and an example uses it.
func TestFields_AreDocumentedAndUsed(t *testing.T) {
	var schema any
	if err := json.Unmarshal(definition.Schema(), &schema); err != nil {
		t.Fatal(err)
	}
	fields := map[string]bool{}
	collectFields(schema, fields)
	if len(fields) < 50 {
		t.Fatalf("found only %d fields", len(fields))
	}
	page := readPage(t)
	var examples strings.Builder
	for _, text := range readExamples(t) {
		examples.WriteString(text)
	}
	for name := range fields {
		if !strings.Contains(page, "`"+name+"`") {
			t.Errorf("docs/definitions.md does not explain %s", name)
		}
		used := regexp.MustCompile(`(?m)(^|[\s{\[])` + name + `:`).MatchString(examples.String())
		if !used {
			t.Errorf("no example uses %s", name)
		}
	}
}

var codeBlockRE = regexp.MustCompile("(?s)```yaml\n(.*?)```")

// Every line of YAML on the page is a line of an example.
func TestDefinitionsPage_QuotesExamples(t *testing.T) {
	var examples []string
	for _, text := range readExamples(t) {
		examples = append(examples, text)
	}
	checkExcerpts(t, readPage(t), examples, 10)
}

// checkExcerpts fails unless every line of the code blocks of a page, of which there are some, is a
// line of one of the texts.
func checkExcerpts(t *testing.T, page string, texts []string, some int) {
	t.Helper()
	lines := map[string]bool{}
	for _, text := range texts {
		for line := range strings.Lines(text) {
			lines[strings.TrimSpace(line)] = true
		}
	}
	excerpts := codeBlockRE.FindAllStringSubmatch(page, -1)
	if len(excerpts) < some {
		t.Fatalf("found only %d excerpts", len(excerpts))
	}
	for _, excerpt := range excerpts {
		for line := range strings.Lines(excerpt[1]) {
			if line = strings.TrimSpace(line); line != "" && !lines[line] {
				t.Errorf("no file has the line %q", line)
			}
		}
	}
}
