package e2e

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/tests/testkit"
)

// demoTimeout is how long the demo may take on a busy machine.
const demoTimeout = 3 * time.Minute

// startDemo starts the demo on a free port, with devices that change without delay.
func startDemo(ctx context.Context, t *testing.T, args ...string) (*exec.Cmd, *testkit.Buffer) {
	t.Helper()
	cmd := exec.CommandContext(ctx, testkit.Binary(t, "fleet-demo"), append([]string{"--port", "0", "--pace", "0"}, args...)...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 30 * time.Second
	cmd.Env = append(os.Environ(), "TMPDIR="+t.TempDir()) // a killed demo leaves its logs there
	out := &testkit.Buffer{}
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, out
}

// N18, N21: both upgrades of the demo end on the devices as expected, and the output says
// so.
func TestDemo_BothUpgradesEndAsExpected(t *testing.T) {
	requireEmbedded(t, "the demo starts its own stack")
	ctx, cancel := context.WithTimeout(t.Context(), demoTimeout)
	defer cancel()
	cmd, out := startDemo(ctx, t)
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, out.Tail(200))
	}
	text := out.Tail(1000)
	for _, want := range []string{
		"the monitor is at http://localhost:", "RUNNING", "COMPLETED_ACK", "FAILED_SAFE_ACK",
		"Each of the 100 devices reports its version: 100 x 2.0.0, as expected.", "were rolled back.",
		"ROLLBACK 1", "write units and", "for 301 jobs", "requests to DynamoDB", " this execution", "per million jobs", "Both executions ended as expected",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the output does not contain %q", want)
		}
	}
	if strings.Contains(text, "\x1b") {
		t.Error("the output has terminal control codes")
	}
	if t.Failed() {
		t.Log(text)
	}
}

// Ctrl-C ends the demo and everything that it has started.
func TestDemo_InterruptEndsEverything(t *testing.T) {
	requireEmbedded(t, "the demo starts its own stack")
	ctx, cancel := context.WithTimeout(t.Context(), demoTimeout)
	defer cancel()
	cmd, out := startDemo(ctx, t, "--pace", "1s")
	eventually(t, "the upgrade has started", func() bool { return strings.Contains(out.Tail(200), "step upgrade") })
	started := descendants(cmd.Process.Pid)
	if len(started) < 8 {
		t.Fatalf("the demo started the processes %v, want at least the devices, the stack, DynamoDB, four functions and the worker", started)
	}
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 130 {
		t.Errorf("the demo ended with %v\n%s", err, out.Tail(50))
	}
	for _, pid := range started {
		if testkit.Alive(pid) {
			t.Errorf("process %d still runs", pid)
		}
	}
}

// When the demo is killed, the kernel ends everything that it has started.
func TestDemo_KillEndsEverything(t *testing.T) {
	requireEmbedded(t, "the demo starts its own stack")
	ctx, cancel := context.WithTimeout(t.Context(), demoTimeout)
	defer cancel()
	cmd, out := startDemo(ctx, t, "--pace", "1s")
	eventually(t, "the upgrade has started", func() bool { return strings.Contains(out.Tail(200), "step upgrade") })
	started := descendants(cmd.Process.Pid)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // killed
	for _, pid := range started {
		eventually(t, "process "+strconv.Itoa(pid)+" has ended", func() bool { return !testkit.Alive(pid) })
	}
}

// descendants lists the child processes of a process and theirs.
func descendants(pid int) []int {
	var all []int
	for _, child := range testkit.ChildPIDs(pid, ".") {
		all = append(append(all, child), descendants(child)...)
	}
	return all
}
