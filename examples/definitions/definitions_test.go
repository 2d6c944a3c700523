package definitions_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/lockstep-run/lockstep/shared/definition"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

func readExamples(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob("*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal("there are no examples", err)
	}
	all := map[string]string{}
	for _, file := range files {
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
		if err == nil {
			_, err = definition.Compile(d)
		}
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		if _, err := definition.Parse(definition.Canonical(d)); err != nil {
			t.Errorf("%s, in its canonical form: %v", file, err)
		}
	}
}

// plannedFields are fields of the format that are refused by name.
var plannedFields = []string{"http", "wait", "switch", "loop", "set", "onFailure", "next", "outputKey"}

// collectFields are the names of all fields that the schema knows, below any object.
func collectFields(v any, into map[string]bool) {
	switch v := v.(type) {
	case map[string]any:
		if properties, ok := v["properties"].(map[string]any); ok {
			for name := range properties {
				into[name] = true
			}
		}
		for _, below := range v {
			collectFields(below, into)
		}
	case []any:
		for _, below := range v {
			collectFields(below, into)
		}
	}
}

// Every field of the format is explained on the page and used in an example.
func TestFields_AreDocumentedAndUsed(t *testing.T) {
	var schema any
	if err := json.Unmarshal(definition.Schema(), &schema); err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	collectFields(schema, known)
	if len(known) < 50 {
		t.Fatalf("only %d fields were found", len(known))
	}
	explained := readPage(t)
	var used strings.Builder
	for _, text := range readExamples(t) {
		used.WriteString(text)
	}
	for name := range known {
		if !strings.Contains(explained, "`"+name+"`") {
			t.Errorf("docs/definitions.md does not explain %s", name)
		}
		in := regexp.MustCompile(`(?m)(^|[\s{\[])` + name + `:`).MatchString(used.String())
		if refused := slices.Contains(plannedFields, name) && name != "onFailure"; !in && !refused {
			t.Errorf("no example uses %s", name)
		}
	}
}

var codeBlockRE = regexp.MustCompile("(?s)```yaml\n(.*?)```")

// What the page shows stands in an example, word for word.
func TestDefinitionsPage_QuotesExamples(t *testing.T) {
	known := map[string]bool{}
	for _, text := range readExamples(t) {
		for line := range strings.Lines(text) {
			known[strings.TrimSpace(line)] = true
		}
	}
	shown := codeBlockRE.FindAllStringSubmatch(readPage(t), -1)
	if len(shown) < 10 {
		t.Fatalf("only %d excerpts were found", len(shown))
	}
	for _, excerpt := range shown {
		for line := range strings.Lines(excerpt[1]) {
			if line = strings.TrimSpace(line); line != "" && !known[line] {
				t.Errorf("no example has the line %q", line)
			}
		}
	}
}

// What is planned is refused by name, and so may be named on the page.
func TestPlannedFields_AreRefused(t *testing.T) {
	source := "package: a\nname: b\nversion: 1.0.0\nsteps: [{label: x, functionBlock: a/b:1, runOn: global, outputKey: y}]\n"
	if _, err := definition.Parse([]byte(source)); workflow.CodeOf(err) == "" {
		t.Error("a planned field is taken")
	}
}
