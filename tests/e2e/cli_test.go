package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/testkit"
)

// runLockstep runs the command and returns its exit code and output.
func runLockstep(t *testing.T, stdin string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), testkit.Binary(t, "lockstep"), args...)
	var out, err bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &err
	failure := cmd.Run()
	var exit *exec.ExitError
	if errors.As(failure, &exit) {
		return exit.ExitCode(), out.String(), err.String()
	}
	if failure != nil {
		t.Fatal(failure)
	}
	return 0, out.String(), err.String()
}

// The command's output and exit codes; errors name their place.
func TestCLI_OutputAndExitCodes(t *testing.T) {
	t.Parallel()
	requireEmbedded(t, "it tests the command, and hundreds of requests take minutes on LocalStack")
	s := startStack(t, stackOptions{})
	b := serveBlocks(t)
	b.register(s, workflow.Block{Name: "hello", Pure: true})
	b.register(s, workflow.Block{Name: "broken", Pure: true})
	b.handle("broken", func(call) blockAnswer { return errorAnswer("NO", false) })
	b.register(s, workflow.Block{Name: "shaky", Pure: true})
	b.handle("shaky", func(c call) blockAnswer {
		if c.Entity.ID == "a" {
			return errorAnswer("NO", false)
		}
		return nil
	})
	const tolerant = "package: test\nname: tolerant\nversion: 1.0.0\nconfig: {failureTolerance: 1}\nsteps:\n  - {label: shaky, functionBlock: test/shaky:1, runOn: device}\n"
	url := "--url=" + s.url

	for _, c := range []struct {
		name, stdin string
		args        []string
		code        int
		want        string // in the output
	}{
		{"publish", globalWorkflow, []string{"publish", "-"}, 0, "published test/hello:1.0.0"},
		{"publish again", globalWorkflow, []string{"publish", "-"}, 0, "unchanged test/hello:1.0.0"},
		{"publish other content", strings.Replace(globalWorkflow, "label: hello", "label: other", 1), []string{"publish", "-"}, 3, "other content"},
		{"publish an invalid definition", strings.Replace(globalWorkflow, "runOn: global", "runsOn: global", 1), []string{"publish", "-"}, 3, "6:"},
		{"publish no YAML", "a: [", []string{"publish", "-"}, 3, "(invalid)"},
		{"publish a second workflow", strings.ReplaceAll(strings.ReplaceAll(globalWorkflow, "name: hello", "name: broken"), "test/hello", "test/broken"), []string{"publish", "-"}, 0, "published"},
		{"import", `{"type":"device","id":"a"}` + "\n", []string{"entities", "import", "-"}, 0, "imported 1"},
		{"import an invalid entity", `{"type":"device","id":"a"}` + "\n" + `{"type":"device","id":"a/b"}` + "\n", []string{"entities", "import", "-"}, 3, "-:2 id:"},
		{"show", "", []string{"entities", "show", "device/a"}, 0, `"id": "a"`},
		{"run", "", []string{"run", "test/hello"}, 0, "COMPLETED_ACK"},
		{"run a failing workflow", "", []string{"run", "test/broken"}, 1, "FAILED_SAFE_ACK"},
		{"publish a tolerant workflow", tolerant, []string{"publish", "-"}, 0, "published"},
		{"import another device", `{"type":"device","id":"b"}` + "\n", []string{"entities", "import", "-"}, 0, "imported 1"},
		{"run one that fails for one of two", "", []string{"run", "test/tolerant", "--type", "device", "--id", "a,b"}, 5, "not everything succeeded"},
		{"run an unknown workflow", "", []string{"run", "test/missing"}, 3, "(not_found)"},
		{"run an invalid reference", "", []string{"run", "nonsense"}, 2, "(invalid)"},
		{"status of an unknown execution", "", []string{"status", "01890000-0000-7000-8000-000000000000"}, 3, "(not_found)"},
		{"list an illegal state", "", []string{"list", "--state", "SLEEPING"}, 2, "SLEEPING"},
		{"list", "", []string{"list", "--workflow", "test/hello"}, 0, "test/hello:1.0.0"},
		{"locks", "", []string{"locks"}, 0, "ENTITY"},
		{"an unknown flag", "", []string{"list", "--loud"}, 2, "--loud"},
		{"an unknown verb", "", []string{"dance"}, 2, "dance"},
		{"too few arguments", "", []string{"run"}, 2, "WORKFLOW is missing"},
		{"an unknown output", "", []string{"list", "-o", "xml"}, 2, "xml"},
	} {
		code, out, err := runLockstep(t, c.stdin, append([]string{url}, c.args...)...)
		if code != c.code || !strings.Contains(out+err, c.want) || strings.Contains(err, "goroutine") {
			t.Errorf("%s: exit %d, want %d with %q\n%s%s", c.name, code, c.code, c.want, out, err)
		}
	}
	if code, _, err := runLockstep(t, "", "--url=http://127.0.0.1:1", "list"); code != 4 || !strings.Contains(err, "lockstep dev") {
		t.Errorf("unreachable: exit %d: %s", code, err)
	}
	code, out, _ := runLockstep(t, "", url, "list", "--outcome", "PARTIAL", "-o", "json")
	var partial []struct{ ID string }
	if err := json.Unmarshal([]byte(out), &partial); err != nil || code != 0 || len(partial) != 1 {
		t.Fatalf("list --outcome PARTIAL: %d, %v\n%s", code, err, out)
	}
	if code, out, err := runLockstep(t, "", url, "watch", partial[0].ID); code != 5 || !strings.Contains(out, "not everything succeeded") {
		t.Errorf("watch of what ended in part: exit %d\n%s%s", code, out, err)
	}
	code, out, _ = runLockstep(t, "", url, "list", "-o", "json")
	var executions []struct {
		ID    string `json:"id"`
		State string `json:"state"`
	}
	if err := json.Unmarshal([]byte(out), &executions); err != nil || code != 0 || len(executions) != 3 {
		t.Fatalf("list -o json: %d, %v\n%s", code, err, out)
	}
	for _, verb := range []string{"status", "history", "steps", "jobs", "result", "cost"} {
		code, out, err := runLockstep(t, "", url, verb, executions[0].ID, "-o", "json")
		if code != 0 || !json.Valid([]byte(out)) {
			t.Errorf("%s -o json: exit %d %s%s", verb, code, out, err)
		}
		if code, out, err = runLockstep(t, "", url, verb, executions[0].ID); code != 0 || out == "" {
			t.Errorf("%s: exit %d %s%s", verb, code, out, err)
		}
	}
	if code, out, err := runLockstep(t, "", url, "run", "test/hello", "--probe"); code != 0 || !strings.Contains(out, "All steps are pure") {
		t.Errorf("run --probe: exit %d %s%s", code, out, err)
	}
	if code, out, err := runLockstep(t, "", url, "plan", "test/hello", "--probe"); code != 0 || !strings.Contains(out, "All steps are pure") {
		t.Errorf("plan --probe: exit %d %s%s", code, out, err)
	}
}

// --wait follows an execution from one wait to the next and to its end, whatever time the service takes, and ends with
// the code of what it has come to.
func TestCLI_WaitFollowsToTheNextWait(t *testing.T) {
	t.Parallel()
	s := startStack(t, stackOptions{})
	b := serveBlocks(t)
	g := newBlockGate()
	b.handle("hello", g.wait)
	b.register(s, workflow.Block{Name: "hello", Idempotent: true, Timeout: workflow.Duration(waitTimeout)})
	s.publish("package: test\nname: waits\nversion: 1.0.0\nsteps:\n" +
		"  - {label: first, wait: {approval: {title: First, deadline: 1h}}}\n" +
		"  - {label: second, wait: {signal: {name: go, deadline: 1h}}}\n" +
		"  - {label: hello, functionBlock: \"test/hello:1\", runOn: global}\n")
	runs := func(want int, args ...string) (x struct{ ID, State, Outcome string }) {
		t.Helper()
		code, out, text := runLockstep(t, "", append([]string{"--url=" + s.url, "-o", "json"}, args...)...)
		if err := json.Unmarshal([]byte(out), &x); code != want || err != nil && want != 124 {
			t.Fatalf("%q: exit %d, want %d, %v\n%s%s", args, code, want, err, out, text)
		}
		return x
	}
	waits := func() string {
		t.Helper()
		id := runs(0, "run", "test/waits", "--detach").ID
		eventually(t, "it waits", func() bool {
			x, err := s.Execution(t.Context(), id)
			return err == nil && x.State == sm.ExecutionWaiting
		})
		return id
	}
	id := waits()
	if x := runs(0, "answer", id, "--step", "first", "--set", "approved=true", "--wait"); x.State != string(sm.ExecutionWaiting) {
		t.Errorf("after the first wait it is %s", x.State)
	}
	runs(124, "signal", id, "go", "--wait-timeout", "1s") // the block does not answer yet
	runs(124, "watch", id, "--wait-timeout", "1ms")
	<-g.entered
	close(g.open)
	if x := runs(0, "watch", id); x.Outcome != "SUCCEEDED" {
		t.Errorf("it ended %s", x.Outcome)
	}
	if x := runs(1, "cancel", waits(), "--wait"); x.State != string(sm.ExecutionCancelledAck) {
		t.Errorf("the other one is %s", x.State)
	}
}

// Ctrl-C leaves the execution running, prints how to watch it, and is not a success for
// the shell.
func TestCLI_InterruptedFollowLeavesExecutionRunning(t *testing.T) {
	t.Parallel()
	s := startStack(t, stackOptions{})
	b := serveBlocks(t)
	g := newBlockGate()
	b.handle("hello", g.wait)
	b.register(s, workflow.Block{Name: "hello", Idempotent: true, Timeout: workflow.Duration(waitTimeout)})
	s.publish(globalWorkflow)
	cmd := exec.Command(testkit.Binary(t, "lockstep"), "--url="+s.url, "run", "test/hello")
	var err bytes.Buffer
	cmd.Stderr = &err
	if failure := cmd.Start(); failure != nil {
		t.Fatal(failure)
	}
	id := <-g.entered
	_ = cmd.Process.Signal(syscall.SIGINT)
	if failure := cmd.Wait(); cmd.ProcessState.ExitCode() != 130 || !strings.Contains(err.String(), "lockstep watch "+id) {
		t.Errorf("%v: %s", failure, err.String())
	}
	close(g.open)
	s.waitForState(id, sm.ExecutionCompletedAck)
}

// A second start on a used port fails.
func TestDev_ReportsPortInUse(t *testing.T) {
	t.Parallel()
	requireEmbedded(t, "it tests lockstep dev")
	port := testkit.OccupyPort(t)
	code, out, text := runLockstep(t, "", "dev", "--port", fmt.Sprint(port))
	if code == 0 || out != "" || !strings.Contains(text, fmt.Sprintf("port %d is in use", port)) {
		t.Errorf("exit %d: %s%s", code, out, text)
	}
}

// An unknown key of the configuration is rejected with its place.
func TestDev_RefusesUnknownKey(t *testing.T) {
	t.Parallel()
	requireEmbedded(t, "it tests lockstep dev")
	file := t.TempDir() + "/config.yaml"
	if err := exec.Command("/bin/sh", "-c", "printf 'job:\\n  leese: 3s\\n' > "+file).Run(); err != nil {
		t.Fatal(err)
	}
	code, _, text := runLockstep(t, "", "dev", "--port", "0", "--config", file)
	if code != 2 || !strings.Contains(text, file+":2:3") || !strings.Contains(text, "leese") {
		t.Errorf("exit %d: %s", code, text)
	}
}

// After SIGTERM no process of the stack remains.
func TestDev_LeavesNoProcess(t *testing.T) {
	t.Parallel()
	requireEmbedded(t, "it stops the stack")
	s := startStack(t, stackOptions{})
	children := s.pids(".")
	if len(children) < 5 {
		t.Fatalf("%d child processes, want DynamoDB and at least four functions", len(children))
	}
	s.stopProcess()
	for _, pid := range children {
		eventually(t, fmt.Sprintf("process %d ends", pid), func() bool { return syscall.Kill(pid, 0) != nil })
	}
}

// With --output json every verb prints JSON only, and every wrong use has the exit code
// of the contract.
func TestCLI_VerbsPrintJSON(t *testing.T) {
	t.Parallel()
	requireEmbedded(t, "it tests the command, and hundreds of requests take minutes on LocalStack")
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

	// The order matters: the last verb cancels the execution.
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
		{[]string{"plan", "test/w-verbs", "--id", ids[0]}, "", `"heldBy": "` + id + `"`},
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
		t.Errorf("watch a cancelled execution: exit %d, %s%s", code, out, text)
	}
	c.waitForState(id, sm.ExecutionCancelled)
	c.wantJSON(url, "", `"CANCELLED_ACK"`, "acknowledge", id, "--reason", "checked")
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
		{3, "not_found", []string{"locks", "device/missing"}},
		{3, "not_found", []string{"entities", "show", "device/missing"}},
		{3, "type", []string{"run", "test/hello", "--id", "a"}},
		{3, "type", []string{"plan", "test/hello", "--id", "a"}},
		{3, "not_found", []string{"plan", "test/missing"}},
	} {
		code, out, text := runLockstep(t, "", append([]string{url}, u.args...)...)
		if code != u.code || !strings.Contains(text, u.want) || strings.Contains(text, "goroutine") || out != "" {
			t.Errorf("%v: exit %d, want %d with %q\n%s%s", u.args, code, u.code, u.want, out, text)
		}
	}

	// The URL may come from the environment. An unreachable service is exit code 4.
	for _, e := range []struct {
		url  string
		code int
	}{{s.url, 0}, {"http://127.0.0.1:1", 4}} {
		cmd := exec.Command(testkit.Binary(t, "lockstep"), "list")
		cmd.Env = append(os.Environ(), "LOCKSTEP_URL="+e.url)
		var text bytes.Buffer
		cmd.Stderr = &text
		_ = cmd.Run() // the exit code is checked below
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
