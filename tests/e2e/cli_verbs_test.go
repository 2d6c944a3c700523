package e2e

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// TestCLI_VerbsPrintJSON: every verb answers programs in JSON and nothing but JSON, and every
// wrong use has the exit code that the contract gives it.
func TestCLI_VerbsPrintJSON(t *testing.T) {
	t.Parallel()
	s := startStack(t, stackOptions{})
	c := newFixture(t, s, "verbs")
	ids := c.importEntities(c.entityType(), 2)
	g := newBlockGate()
	c.registerBlock("hang", workflow.Block{Timeout: workflow.Duration(waitTimeout)}, g.wait)
	c.publishWorkflow("", "label: hang, block: hang, runOn: KIND")
	id := c.startWorkflow("{}", ids...)
	<-g.entered
	url := "--url=" + s.url
	file := filepath.Join(t.TempDir(), "w.yaml")
	if err := os.WriteFile(file, []byte(globalWorkflow), 0o600); err != nil {
		t.Fatal(err)
	}
	lines := `{"type":"device","id":"a","groups":["core"]}` + "\n"

	// In this order: the run is cancelled, opened, and acknowledged on the way.
	for _, v := range []struct {
		args  []string
		stdin string
		want  string // in the JSON
	}{
		{[]string{"version"}, "", `"`},
		{[]string{"publish", file}, "", `"hello"`},
		{[]string{"entities", "import", "-"}, lines, `"imported": 1`},
		{[]string{"entities", "list", "device", "--group", "core"}, "", `"a"`},
		{[]string{"entities", "show", "device/a"}, "", `"core"`},
		{[]string{"blocks"}, "", `"verbs-hang"`},
		{[]string{"list", "--active"}, "", id},
		{[]string{"list", "--state", "running", "--workflow", "test/w-verbs"}, "", id},
		{[]string{"status", id}, "", `"RUNNING"`},
		{[]string{"locks"}, "", id},
		{[]string{"locks", c.entityType() + "/" + ids[0]}, "", id},
		{[]string{"history", id}, "", `"lock.granted"`},
		{[]string{"steps", id}, "", `"hang"`},
		{[]string{"jobs", id}, "", `"` + ids[1] + `"`},
		{[]string{"result", id}, "", id},
		{[]string{"cost", id}, "", `"dollars"`},
		{[]string{"cancel", id, "--reason", "enough"}, "", `"CANCELLING"`},
	} {
		c.wantJSON(url, v.stdin, v.want, v.args...)
	}
	if code, _, text := runLockstep(t, "", url, "cancel", id); code != 3 || !strings.Contains(text, "illegal_transition") || !strings.Contains(text, "CANCELLING") {
		t.Errorf("cancelled twice: exit %d, %s", code, text)
	}
	close(g.open)
	if code, out, text := runLockstep(t, "", url, "watch", id, "-o", "json"); code != 1 || !json.Valid([]byte(out)) {
		t.Errorf("watching a run that is cancelled: exit %d, %s%s", code, out, text)
	}
	c.waitForState(id, sm.ExecutionCancelled)
	c.wantJSON(url, "", `"CANCELLED_ACK"`, "acknowledge", id, "--reason", "looked")
	c.waitEnded(id, sm.ExecutionCancelledAck)

	for _, u := range []struct {
		code int
		want string
		args []string
	}{
		{2, "--nope", []string{"status", id, "--nope"}},
		{2, "--nope", []string{"dev", "--nope"}},
		{2, "70000", []string{"dev", "--port", "70000"}},
		{2, "unexpected argument", []string{"dev", "extra"}},
		{2, "there is no file", []string{"publish", file + ".missing"}},
		{2, "NAME=VALUE", []string{"run", "test/hello", "--set", "x"}},
		{2, "--parameters", []string{"run", "test/hello", "--parameters", "[1]"}},
		{2, "--parameters", []string{"run", "test/hello", "--parameters", "{"}},
		{2, "entit", []string{"entities", "show", "nonsense"}},
		{2, "limit", []string{"list", "--limit", "many"}},
		{2, "ID is missing", []string{"watch"}},
		{2, "--rollback", []string{"cancel", id, "--rollback", "perhaps"}},
		{3, "not_found", []string{"watch", unknownID}},
		{3, "not_found", []string{"locks", "device/nobody"}},
		{3, "not_found", []string{"entities", "show", "device/nobody"}},
		{3, "type", []string{"run", "test/hello", "--id", "a"}},
	} {
		code, out, text := runLockstep(t, "", append([]string{url}, u.args...)...)
		if code != u.code || !strings.Contains(text, u.want) || strings.Contains(text, "goroutine") || out != "" {
			t.Errorf("%v: exit %d, want %d with %q\n%s%s", u.args, code, u.code, u.want, out, text)
		}
	}

	// The address may come from the environment; nobody there is exit code 4.
	for _, e := range []struct {
		url  string
		code int
	}{{s.url, 0}, {"http://127.0.0.1:1", 4}} {
		cmd := exec.Command(bin(t, "lockstep"), "list")
		cmd.Env = append(os.Environ(), "LOCKSTEP_URL="+e.url)
		var text bytes.Buffer
		cmd.Stderr = &text
		_ = cmd.Run() // its exit code is what counts
		if code := cmd.ProcessState.ExitCode(); code != e.code {
			t.Errorf("with LOCKSTEP_URL=%s: exit %d, want %d: %s", e.url, code, e.code, text.String())
		}
	}
}

// wantJSON runs a verb that must succeed with one JSON value on standard output.
func (c *fixture) wantJSON(url, stdin, want string, args ...string) {
	c.t.Helper()
	code, out, text := runLockstep(c.t.(*testing.T), stdin, append([]string{url, "--output", "json"}, args...)...)
	if code != 0 || !json.Valid([]byte(out)) || !strings.Contains(out, want) {
		c.t.Errorf("%v: exit %d, want JSON with %s\n%.600s%s", args, code, want, out, text)
	}
}
