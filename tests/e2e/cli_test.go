package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// runLockstep runs the command and returns its exit code and what it wrote.
func runLockstep(t *testing.T, stdin string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), bin(t, "lockstep"), args...)
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

// TestCLI_OutputAndExitCodes walks through the command line: what it prints, its exit codes,
// and that a mistake is told with its place.
func TestCLI_OutputAndExitCodes(t *testing.T) {
	t.Parallel()
	s := startStack(t, stackOptions{})
	b := serveBlocks(t)
	b.register(s, workflow.Block{Name: "hello", Pure: true})
	b.register(s, workflow.Block{Name: "broken", Pure: true})
	b.handle("broken", func(call) blockAnswer { return errorAnswer("NO", false) })
	url := "--url=" + s.url

	for _, c := range []struct {
		name, stdin string
		args        []string
		code        int
		want        string // in what it wrote
	}{
		{"publish", globalWorkflow, []string{"publish", "-"}, 0, "published test/hello:1.0.0"},
		{"publish again", globalWorkflow, []string{"publish", "-"}, 0, "unchanged test/hello:1.0.0"},
		{"publish other content", strings.Replace(globalWorkflow, "label: hello", "label: other", 1), []string{"publish", "-"}, 3, "other content"},
		{"publish a mistake", strings.Replace(globalWorkflow, "runOn: global", "runsOn: global", 1), []string{"publish", "-"}, 3, "6:"},
		{"publish no YAML", "a: [", []string{"publish", "-"}, 3, "(invalid)"},
		{"publish a second workflow", strings.ReplaceAll(strings.ReplaceAll(globalWorkflow, "name: hello", "name: broken"), "test/hello", "test/broken"), []string{"publish", "-"}, 0, "published"},
		{"import", `{"type":"device","id":"a"}` + "\n", []string{"entities", "import", "-"}, 0, "imported 1"},
		{"import a mistake", `{"type":"device","id":"a"}` + "\n" + `{"type":"device","id":"a/b"}` + "\n", []string{"entities", "import", "-"}, 3, "-:2 id:"},
		{"show", "", []string{"entities", "show", "device/a"}, 0, `"id": "a"`},
		{"run", "", []string{"run", "test/hello"}, 0, "COMPLETED_ACK"},
		{"run what fails", "", []string{"run", "test/broken"}, 1, "FAILED_SAFE_ACK"},
		{"run the unknown", "", []string{"run", "test/nobody"}, 3, "(not_found)"},
		{"run nonsense", "", []string{"run", "nonsense"}, 2, "(invalid)"},
		{"status of the unknown", "", []string{"status", "01890000-0000-7000-8000-000000000000"}, 3, "(not_found)"},
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
	code, out, _ := runLockstep(t, "", url, "list", "-o", "json")
	var executions []struct {
		ID    string `json:"id"`
		State string `json:"state"`
	}
	if err := json.Unmarshal([]byte(out), &executions); err != nil || code != 0 || len(executions) != 2 {
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
}

// TestCLI_InterruptedFollowLeavesExecutionRunning: Ctrl-C leaves the run going and says how to watch it,
// and a shell does not take it for a success.
func TestCLI_InterruptedFollowLeavesExecutionRunning(t *testing.T) {
	t.Parallel()
	s := startStack(t, stackOptions{})
	b := serveBlocks(t)
	g := newBlockGate()
	b.handle("hello", g.wait)
	b.register(s, workflow.Block{Name: "hello", Idempotent: true, Timeout: workflow.Duration(waitTimeout)})
	s.publish(globalWorkflow)
	cmd := exec.Command(bin(t, "lockstep"), "--url="+s.url, "run", "test/hello")
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

// TestDev_ReportsPortInUse: a second start says so and touches nothing.
func TestDev_ReportsPortInUse(t *testing.T) {
	t.Parallel()
	requireEmbedded(t, "it is about lockstep dev")
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	port := listener.Addr().(*net.TCPAddr).Port
	code, out, text := runLockstep(t, "", "dev", "--port", fmt.Sprint(port))
	if code == 0 || out != "" || !strings.Contains(text, fmt.Sprintf("port %d is in use", port)) {
		t.Errorf("exit %d: %s%s", code, out, text)
	}
}

// TestDev_RefusesUnknownKey: an unknown key is refused with its place.
func TestDev_RefusesUnknownKey(t *testing.T) {
	t.Parallel()
	requireEmbedded(t, "it is about lockstep dev")
	file := t.TempDir() + "/config.yaml"
	if err := exec.Command("/bin/sh", "-c", "printf 'job:\\n  leese: 3s\\n' > "+file).Run(); err != nil {
		t.Fatal(err)
	}
	code, _, text := runLockstep(t, "", "dev", "--port", "0", "--config", file)
	if code != 2 || !strings.Contains(text, file+":2:3") || !strings.Contains(text, "leese") {
		t.Errorf("exit %d: %s", code, text)
	}
}

// TestDev_LeavesNoProcess: after SIGTERM no process of the stack remains.
func TestDev_LeavesNoProcess(t *testing.T) {
	t.Parallel()
	requireEmbedded(t, "it stops the stack")
	s := startStack(t, stackOptions{})
	children := s.pids(".")
	if len(children) < 5 {
		t.Fatalf("%d children, want DynamoDB and four functions at least", len(children))
	}
	s.stopProcess()
	for _, pid := range children {
		eventually(t, fmt.Sprintf("process %d ends", pid), func() bool { return syscall.Kill(pid, 0) != nil })
	}
}
