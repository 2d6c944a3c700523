package definition_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-run/lockstep/shared/definition"
	"github.com/lockstep-run/lockstep/shared/expr"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// TestParse_ListsAllIssues: everything that is wrong is reported at once, in the order of the text, each
// issue with its line, column and path. The same file always gives the same list.
func TestParse_ListsAllIssues(t *testing.T) {
	files, err := filepath.Glob("testdata/issues/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			source, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			golden := strings.TrimSuffix(file, ".yaml") + ".golden"
			got := issueList(definition.Parse(source))
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			for range 3 {
				if diff := cmp.Diff(string(want), issueList(definition.Parse(source))); diff != "" {
					t.Fatalf("-want +got:\n%s", diff)
				}
			}
		})
	}
}

func issueList(_ *spec.Definition, err error) string {
	var e *workflow.Error
	if !errors.As(err, &e) {
		return fmt.Sprint(err)
	}
	var out strings.Builder
	fmt.Fprintln(&out, e.Code)
	for _, i := range e.Issues {
		fmt.Fprintf(&out, "%d:%d %s %s: %s\n", i.Line, i.Column, i.Path, i.Code, i.Message)
	}
	return out.String()
}

// TestParse_RejectsHostileText: text that would take the parser minutes or overflow its stack is
// refused. So are more expressions than can be compiled in reasonable time.
func TestParse_RejectsHostileText(t *testing.T) {
	var keys, indent strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&keys, "k%d: 1\n", i)
	}
	for i := range 600 {
		indent.WriteString(strings.Repeat(" ", i) + "a:\n")
	}
	for name, source := range map[string]string{
		"sequences":     strings.Repeat("- ", 100_000) + "a",
		"explicit keys": strings.Repeat("? ", 100_000) + "a",
		"tags":          strings.Repeat("!a ", 80_000) + "a",
		"anchors":       strings.Repeat("&a ", 80_000) + "a",
		"colons":        strings.Repeat("a: ", 80_000),
		"brackets":      strings.Repeat("[", 250_000),
		"braces":        strings.Repeat("{a: ", 60_000),
		"keys":          keys.String(),
		"indentation":   indent.String(),
		"items":         "a:\n" + strings.Repeat("- x\n", 60_000),
		"dashes":        strings.Repeat("-\n", 120_000),
		"documents":     strings.Repeat("---\n", 60_000),
		"quotes":        strings.Repeat(`"`, 250_000),
		"not UTF-8":     "package: \xff\xfe",
		"expressions":   head + "steps: [{label: a, functionBlock: p/b, runOn: global, parameters: {x: [" + strings.Repeat(`"${1}",`, 12_000) + "]}}]",
		"long expressions": head + "steps: [{label: a, functionBlock: p/b, runOn: global, parameters: {x: [" +
			strings.Repeat(`"${'`+strings.Repeat("x", 4000)+`'}",`, 20) + "]}}]",
	} {
		if _, err := definition.Parse([]byte(source)); !workflow.Is(err, workflow.CodeInvalid) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// TestParse_AcceptsLargestDefinition: the limits accept the largest definition that anybody writes.
func TestParse_AcceptsLargestDefinition(t *testing.T) {
	var b strings.Builder
	b.WriteString(head + "acquire:\n  - type: device\n    ids:\n")
	for i := range 10_000 {
		fmt.Fprintf(&b, "    - sw-%05d\n", i)
	}
	b.WriteString("steps:\n")
	for i := range 200 {
		fmt.Fprintf(&b, "- label: s%d\n  functionBlock: p/b\n  runOn: device\n  condition: entity.site == 'zrh'\n  parameters: {a: '${entity.id}', b: [1, 2, 3]}\n", i)
	}
	d, err := definition.Parse([]byte(b.String()))
	if err != nil {
		t.Fatal(err)
	}
	if len(d.Steps) != 200 || len(d.Acquire[0].IDs) != 10_000 {
		t.Errorf("read %d steps, %d ids", len(d.Steps), len(d.Acquire[0].IDs))
	}
}

// TestCompiled_RawParametersAreUnchanged is N16: raw parameters arrive as written, from YAML and from
// JSON.
func TestCompiled_RawParametersAreUnchanged(t *testing.T) {
	for source, want := range map[string]string{
		`{"x":"{{ ${a} }} {% b %} $${c} }{"}`:                    `{"x":"{{ ${a} }} {% b %} $${c} }{"}`,
		`{"x":"\u00e9\ud83d\ude00 \/ \t\\ \" <>&","y":"\u003c"}`: `{"x":"é😀 / \t\\ \" <>&","y":"<"}`,
		`{"x":12345678901234567890123,"y":18446744073709551615}`: `{"x":12345678901234567890123,"y":18446744073709551615}`,
		`{"x":-9223372036854775808,"y":-0,"z":0.1}`:              `{"x":-9223372036854775808,"y":0,"z":0.1}`,
		`{"x":1e3,"y":-1E-7,"z":2.50}`:                           `{"x":1000,"y":-1e-7,"z":2.5}`,
		`{"x":"1e3","y":"010","z":"null","n":null,"t":"true"}`:   `{"n":null,"t":"true","x":"1e3","y":"010","z":"null"}`,
		`{"x":"","y":" a ","z":"- a: b #c"}`:                     `{"x":"","y":" a ","z":"- a: b #c"}`,
		`{x: 0o14, y: 0x1F, z: yes, w: 12:30:00, v: 2001-01-01}`: `{"v":"2001-01-01","w":"12:30:00","x":12,"y":31,"z":"yes"}`,
		`{1: a, 1.50: b, true: c, null: d}`:                      `{"1":"a","1.50":"b","null":"d","true":"c"}`,
		`{x: [], y: {}, z: [[1], {a: }]}`:                        `{"x":[],"y":{},"z":[[1],{"a":null}]}`,
	} {
		d := parse(t, head+"steps: [{label: a, functionBlock: p/b, runOn: global, rawParameters: "+source+"}]")
		if got := string(d.Steps[0].RawParameters); got != want {
			t.Errorf("%s: read as %s, want %s", source, got, want)
		}
		_, c, err := definition.ParseAndCompile(definition.Canonical(d))
		if err != nil {
			t.Fatal(err)
		}
		got, err := c.Parameters(0, expr.Scope{})
		if err != nil || string(got) != want {
			t.Errorf("%s: evaluates to %s, %v, want %s", source, got, err, want)
		}
	}
	d := parse(t, head+"steps:\n- label: a\n  functionBlock: p/b\n  runOn: global\n  rawParameters:\n    x: |\n      {{ a }}\n        ${b}\n    y: >-\n      c\n      d\n")
	if got, want := string(d.Steps[0].RawParameters), `{"x":"{{ a }}\n  ${b}\n","y":"c d"}`; got != want {
		t.Errorf("block scalars: %s, want %s", got, want)
	}
}

// TestDigest_IgnoresNotation: a definition has the same digest in every notation.
func TestDigest_IgnoresNotation(t *testing.T) {
	want := parse(t, head+"config: {rollback: auto}\nsteps: [{label: a, functionBlock: p/b, runOn: global, timeout: 90s, assert: [\"true\"]}]")
	for name, source := range map[string]string{
		"byte order mark":  "\ufeff" + head + "steps: [{label: a, functionBlock: p/b, runOn: global, timeout: 90, assert: \"true\"}]",
		"line ends":        strings.ReplaceAll(head+"steps:\n- label: a\n  functionBlock: p/b\n  runOn: global\n  timeout: 1m30s\n  assert: 'true'\n", "\n", "\r\n"),
		"tabs":             "{\n\t\"package\":\"p\",\n\t\"name\":\"w\",\n\t\"version\":\"1.0.0\",\n\t\"steps\":[\n\t\t{\"label\":\"a\",\"functionBlock\":\"p/b\",\"runOn\":\"global\",\"timeout\":\"90s\",\"assert\":[\"true\"]}\n\t]\n}\n",
		"defaults written": head + "config: {onLocked: wait, lockMode: exclusive, rollback: auto, executionStrategy: {parallel: false}}\nsteps: [{label: a, functionBlock: p/b, runOn: global, timeout: 90.0, assert: [\"true\"]}]",
		"document marks":   "---\n" + head + "steps: [{label: a, functionBlock: p/b, runOn: global, timeout: 90s, assert: [\"true\"]}]\n...\n",
	} {
		d := parse(t, source)
		if definition.Digest(d) != definition.Digest(want) {
			t.Errorf("%s: %s", name, cmp.Diff(want, d))
		}
	}
	none := parse(t, head+"config: {failureTolerance: 0}\nsteps: [{label: a, functionBlock: p/b, runOn: global, timeout: 90s, assert: [\"true\"]}]")
	if definition.Digest(none) == definition.Digest(want) {
		t.Error("a tolerance of 0, which holds where the definition is embedded, counts as none given")
	}
}

// Names that got a meaning later are refused when a definition is published. One that was published
// before is still read, and its label hides them.
func TestParseStrict_RefusesNamesWithAMeaning(t *testing.T) {
	for _, name := range []string{"vars", "context", "error", "item", "index", "resume", "secret", "callback", "now"} {
		step := "package: p\nname: w\nversion: 1.0.0\nsteps: [{label: " + name + ", set: {a: 1}}]\n"
		if _, err := definition.Parse([]byte(step)); err != nil {
			t.Errorf("published before with the step %s: %v", name, err)
		}
		if _, _, err := definition.ParseStrict([]byte(step)); !strings.Contains(issueList(nil, err), "steps[0].label reserved") {
			t.Errorf("the step %s: %v", name, err)
		}
		for at, field := range map[string]string{"foreach": "runOn: item, functionBlock: a/b, foreach: {items: '${[1]}', as: NAME}", "loop": "loop: {over: '${[1]}', as: NAME}, workflow: {steps: [{label: b, set: {a: 1}}]}"} {
			source := "package: p\nname: w\nversion: 1.0.0\nsteps: [{label: a, " + strings.ReplaceAll(field, "NAME", name) + "}]\n"
			_, _, err := definition.ParseStrict([]byte(source))
			if refused := strings.Contains(issueList(nil, err), "steps[0]."+at+".as reserved"); refused != (name != "item") {
				t.Errorf("items named %s in %s: %v", name, at, err)
			}
		}
	}
}

// What is no YAML is explained: what an author has probably written, and what to write instead.
func TestParse_ExplainsSyntax(t *testing.T) {
	for text, want := range map[string]string{
		"x: \"a ${p.join(\", \")}\"": "7:23  syntax: value is not allowed in this context: a quote of the same kind ends a text: put the whole value into quotes of the other kind",
		"x: 'it's'":                  "7:14  syntax: value is not allowed in this context: a quote of the same kind ends a text",
		"x: [1, 2].size()":           "7:16  syntax: value is not allowed in this context: a value that begins with a bracket ends with it",
		"x: {y: ${parameters.n}}":    "7:15  syntax: ',' or '}' must be specified: put \"${...}\" into quotes",
		"x: {y: 'it's'}":             "7:18  syntax: ',' or '}' must be specified: a quote of the same kind ends a text",
		"x: note: this":              "7:10  syntax: mapping value is not allowed in this context: a text with \": \" in it needs quotes",
		"x: @home":                   "7:10  syntax: '@' is a reserved character: put the text into quotes",
		"x: !parameters.n":           "7:10  tag: tags and directives are not supported; a text that begins with ! or % needs quotes",
		"x: 1\n\ty: 2":               "cannot start any token: lines are indented with spaces, not with tabs",
		"x: 1\n     y: 2":            "8:6  syntax: value is not allowed in this context: is the line indented like those beside it?",
	} {
		_, err := definition.Parse([]byte("package: p\nname: w\nversion: 1.0.0\nsteps:\n  - label: a\n    set:\n      " + text + "\n"))
		if got := issueList(nil, err); !strings.Contains(got, want) {
			t.Errorf("%s:\n%s\nwant %s", text, got, want)
		}
	}
}
