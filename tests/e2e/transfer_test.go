package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// An export that another stack imports is exported there again byte for byte, and the
// imported workflow works.
func TestTransfer_RoundTrips(t *testing.T) {
	t.Parallel()
	requireEmbedded(t, "it tests the command, and hundreds of requests take minutes on LocalStack")
	from, to := startStack(t, stackOptions{}), startStack(t, stackOptions{})
	b := serveBlocks(t)
	b.register(from, workflow.Block{Name: "hello", Idempotent: true, ParameterSchema: []byte(`{"type":"object","x-order":["b","a"]}`)})
	from.publish(globalWorkflow)
	from.publish(strings.Replace(globalWorkflow, "version: 1.0.0", "version: 1.10.0", 1))
	from.publish(strings.Replace(globalWorkflow, "version: 1.0.0", "version: 1.9.0", 1))
	if _, err := from.Archive(t.Context(), workflow.Ref{Package: "test", Name: "hello", Version: "1.9.0"}, ""); err != nil {
		t.Fatal(err)
	}
	if _, err := from.PutEntity(t.Context(), workflow.Entity{Type: "site", ID: "zrh", Attributes: []byte(`{"b":12345678901234567890,"a":"<&>"}`), Groups: []string{"z", "a"}}); err != nil {
		t.Fatal(err)
	}
	from.importEntities("device", 1200) // more than one page, and more than one request
	id := from.startExecution("test/hello:1.0.0", `{}`)
	from.waitForState(id, sm.ExecutionCompletedAck)

	dir := t.TempDir()
	first, second := filepath.Join(dir, "first.jsonl"), filepath.Join(dir, "second.jsonl")
	succeed := func(want string, args ...string) string {
		t.Helper()
		code, out, err := runLockstep(t, "", args...)
		if code != 0 || !strings.Contains(out+err, want) {
			t.Fatalf("%v: exit %d, want %q\n%s%s", args, code, want, out, err)
		}
		return out
	}
	source, target := "--url="+from.url, "--url="+to.url
	succeed("exported 1 blocks, 3 definitions, 1201 entities", source, "export", first)
	text := readFile(t, first)
	if strings.Contains(text, id) || strings.Index(text, `"1.9.0"`) > strings.Index(text, `"1.10.0"`) {
		t.Error("the file has an execution, or versions out of order")
	}
	if out := succeed("", source, "export", "-"); out != text {
		t.Error("a second export differs")
	}
	if out := succeed("", source, "export", "--only=entities", "--type=site", "-"); strings.Count(out, "\n") != 3 || !strings.Contains(out, "zrh") {
		t.Errorf("export of sites: %s", out)
	}

	counts := func(args ...string) string {
		t.Helper()
		var c map[string]json.RawMessage
		if err := json.Unmarshal([]byte(succeed("", append(args, "-o", "json")...)), &c); err != nil {
			t.Fatal(err)
		}
		return strings.Join(strings.Fields(string(c["blocks"])+string(c["definitions"])+string(c["entities"])), "")
	}
	all := `{"new":1,"replaced":0,"unchanged":0}{"new":3,"replaced":0,"unchanged":0}{"new":1201,"replaced":0,"unchanged":0}`
	if got := counts(target, "import", "--dry-run", first); got != all {
		t.Errorf("dry run: %s", got)
	}
	for e, err := range to.Entities(t.Context(), workflow.Selector{Type: "device"}) {
		t.Fatalf("a dry run imported %v, %v", e, err)
	}
	if got := counts(target, "import", first); got != all {
		t.Errorf("import: %s", got)
	}
	succeed("exported", target, "export", second)
	if readFile(t, second) != text {
		t.Error("the export after the import differs")
	}

	before, err := to.Entity(t.Context(), workflow.EntityKey{Type: "site", ID: "zrh"})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := counts(target, "import", first), strings.NewReplacer(`"new":1201`, `"new":0`, `"new":1`, `"new":0`, `"new":3`, `"new":0`).Replace(
		`{"new":1,"replaced":0,"unchanged":1}{"new":3,"replaced":0,"unchanged":3}{"new":1201,"replaced":0,"unchanged":1201}`); got != want {
		t.Errorf("second import: %s, want %s", got, want)
	}
	after, err := to.Entity(t.Context(), before.Key())
	if err != nil || after.Version != before.Version {
		t.Errorf("after a second import the entity has version %d, before %d, %v", after.Version, before.Version, err)
	}
	x, _, err := to.Start(t.Context(), views.StartRequest{Workflow: "test/hello"})
	if err != nil {
		t.Fatal(err)
	}
	if ended := to.waitForState(x.ID, sm.ExecutionCompletedAck); ended.Workflow.Version != "1.10.0" {
		t.Errorf("the newest version is %s", ended.Workflow.Version)
	}
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// A file with an error, or with a conflict with the stack, is not imported at all; every
// place is named.
func TestTransfer_RefusesInvalidFile(t *testing.T) {
	t.Parallel()
	s := startStack(t, stackOptions{})
	b := serveBlocks(t)
	b.register(s, workflow.Block{Name: "hello", Pure: true})
	s.publish(globalWorkflow)
	s.importEntities("device", 2)
	file := filepath.Join(t.TempDir(), "stage.jsonl")
	url := "--url=" + s.url
	if code, out, err := runLockstep(t, "", url, "export", file); code != 0 {
		t.Fatalf("exit %d\n%s%s", code, out, err)
	}
	good := readFile(t, file)
	block := strings.Split(good, "\n")[1]
	edited := func(edit ...string) string { return strings.NewReplacer(edit...).Replace(good) }
	fresh := []string{`"name":"hello"`, `"name":"fresh"`, `e-000`, `f-000`} // nothing of it exists in the stack
	for _, c := range []struct {
		name string
		text string
		args []string
		code int
		want []string
	}{
		{"end is missing", good[:strings.LastIndex(good, `{"end"`)], nil, 2, []string{"cut short"}},
		{"cut within a line", strings.Split(edited(fresh...), "f-0002")[0], nil, 2, []string{file + ":5", "ends too early"}},
		{"line is missing", strings.Replace(good, block+"\n", "", 1), nil, 2, []string{file + ":5", "the file has 0 blocks"}},
		{"another format", "{\"type\":\"device\",\"id\":\"a\"}\n", nil, 2, []string{file + ":1", "entities import"}},
		{"empty file", "", nil, 2, []string{"it is empty"}},
		{"a newer format", edited(`"format":1`, `"format":2`), nil, 2, []string{file + ":1", "use a newer one"}},
		{"two broken lines", edited(append(fresh, `"runOn":"global"`, `"runsOn":"global"`, `"attributes":{"n":2}`, `"attributes":2`)...), nil, 2, []string{file + ":3", "runsOn", file + ":5", "attributes"}},
		{"duplicate line", strings.Replace(good, block, block+"\n"+block, 1), nil, 2, []string{file + ":3", "is already on line 2"}},
		{"an unknown kind", good, []string{"--only=runs"}, 2, []string{"blocks, definitions, entities"}},
		{"another block", edited(`"pure":true`, `"pure":false`), nil, 3, []string{file + ":2", "pure is true in the stage and false in the file"}},
		{"another definition", edited(`"label":"hello"`, `"label":"other"`, `e-000`, `f-000`), nil, 3, []string{file + ":3", `steps[0].label is "hello" in the stage and "other" in the file`}},
		{"other entities", edited(`{"n":2}`, `{"m":2}`), nil, 3, []string{file + ":5", "attributes.m is absent in the stage", "entity device/e-0002"}},
		{"definition that the service rejects", edited(append(fresh, `"steps":[{`, `"parameters":{"additionalProperties":false},"steps":[{"condition":"parameters.x",`)...), []string{"--dry-run"}, 3,
			[]string{file + ":3", "definition test/fresh:1.0.0 is refused", `takes no parameter "x"`}},
		{"nothing new", good, []string{"--dry-run"}, 0, []string{"dry run"}},
	} {
		if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		code, out, err := runLockstep(t, "", append([]string{url, "import", file}, c.args...)...)
		if code != c.code || strings.Contains(err, "goroutine") {
			t.Errorf("%s: exit %d, want %d\n%s%s", c.name, code, c.code, out, err)
		}
		for _, want := range c.want {
			if !strings.Contains(out+err, want) {
				t.Errorf("%s: want %q in\n%s%s", c.name, want, out, err)
			}
		}
	}
	if code, out, err := runLockstep(t, "", url, "import", filepath.Join(t.TempDir(), "none")); code != 2 || !strings.Contains(err, "there is no file") {
		t.Errorf("no file: exit %d\n%s%s", code, out, err)
	}
	code, now, err := runLockstep(t, "", url, "export", "-")
	if code != 0 || now != good {
		t.Errorf("a failed import changed something: exit %d, %s\n%s\nbefore\n%s", code, err, now, good)
	}

	// With --replace, entities that differ are replaced.
	if err := os.WriteFile(file, []byte(edited(`{"n":2}`, `{"m":2}`)), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, out, err := runLockstep(t, "", url, "import", "--replace", "--only=entities", file); code != 0 {
		t.Errorf("exit %d\n%s%s", code, out, err)
	}
	e, failure := s.Entity(t.Context(), workflow.EntityKey{Type: "device", ID: "e-0002"})
	if failure != nil || string(e.Attributes) != `{"m":2}` {
		t.Errorf("the entity has %s, %v", e.Attributes, failure)
	}
}

// The values of headers that look secret are not exported; an import requires them for a
// new block.
func TestTransfer_WithholdsSecrets(t *testing.T) {
	t.Parallel()
	from, to := startStack(t, stackOptions{}), startStack(t, stackOptions{})
	endpoint := &workflow.Endpoint{URL: "http://127.0.0.1:1/", Headers: map[string]string{"X-Api-Key": "hunter2", "X-Site": "zrh"}}
	if _, err := from.RegisterBlock(t.Context(), workflow.Block{Package: "test", Name: "hello", Version: "1.0.0", Pure: true, HTTP: endpoint}); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "stage.jsonl")
	if code, out, err := runLockstep(t, "", "--url="+from.url, "export", file); code != 0 || !strings.Contains(err, "look secret") {
		t.Fatalf("exit %d\n%s%s", code, out, err)
	}
	text := readFile(t, file)
	if strings.Contains(text, "hunter2") || !strings.Contains(text, "zrh") {
		t.Errorf("exported: %s", text)
	}
	if code, out, err := runLockstep(t, "", "--url="+from.url, "import", file); code != 0 || !strings.Contains(out, "1") {
		t.Errorf("import into the same stack: exit %d\n%s%s", code, out, err)
	}
	if code, out, err := runLockstep(t, "", "--url="+to.url, "import", file); code != 3 || !strings.Contains(err, file+":2") || !strings.Contains(err, "X-Api-Key") {
		t.Errorf("import into another stack: exit %d\n%s%s", code, out, err)
	}
	text = strings.NewReplacer(`,"withheld":["X-Api-Key"]`, "", `"X-Site":"zrh"`, `"X-Site":"zrh","X-Api-Key":"other"`).Replace(text)
	if code, out, err := runLockstep(t, text, "--url="+to.url, "import", "-"); code != 0 {
		t.Errorf("import with the value: exit %d\n%s%s", code, out, err)
	}
	for b, err := range to.Blocks(t.Context()) {
		if err != nil || b.HTTP.Headers["X-Api-Key"] != "other" {
			t.Errorf("registered %+v, %v", b.HTTP, err)
		}
	}
}
