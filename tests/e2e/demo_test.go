package e2e

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// demoTimeout is how long the demo may take on a busy machine.
const demoTimeout = 3 * time.Minute

// startDemo starts the demo on a free port; its devices change at once.
func startDemo(ctx context.Context, t *testing.T, args ...string) (*exec.Cmd, *logBuffer) {
	t.Helper()
	cmd := exec.CommandContext(ctx, bin(t, "fleet-demo"), append([]string{"--port", "0", "--pace", "0"}, args...)...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 30 * time.Second
	cmd.Env = append(os.Environ(), "TMPDIR="+t.TempDir()) // one that is killed leaves its logs behind
	out := &logBuffer{}
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, out
}

// TestDemo_BothUpgradesEndAsExpected: both upgrades end as promised on the devices themselves (N18, N21),
// people are told what they are promised to be told, and nothing is left behind.
func TestDemo_BothUpgradesEndAsExpected(t *testing.T) {
	requireEmbedded(t, "the demo brings up a stack of its own")
	ctx, cancel := context.WithTimeout(t.Context(), demoTimeout)
	defer cancel()
	cmd, out := startDemo(ctx, t)
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, out.tail(200))
	}
	text := out.tail(1000)
	for _, want := range []string{
		"the monitor is at http://localhost:", "RUNNING", "COMPLETED_ACK", "FAILED_SAFE_ACK",
		"Each of the 100 devices was asked what it runs: 100 x 2.0.0, as promised.", "were brought back.",
		"ROLLBACK 1", "write units and", "for 301 jobs", "requests to DynamoDB", "$0.00 this run", "per million jobs", "Both runs ended as promised",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("it does not say %q", want)
		}
	}
	if strings.Contains(text, "\x1b") {
		t.Error("there are control codes for a terminal in it")
	}
	if t.Failed() {
		t.Log(text)
	}
}

// TestDemo_InterruptEndsEverything: Ctrl-C in the middle of a run ends all that was started.
func TestDemo_InterruptEndsEverything(t *testing.T) {
	requireEmbedded(t, "the demo brings up a stack of its own")
	ctx, cancel := context.WithTimeout(t.Context(), demoTimeout)
	defer cancel()
	cmd, out := startDemo(ctx, t, "--pace", "1s")
	eventually(t, "the upgrade has begun", func() bool { return strings.Contains(out.tail(200), "step upgrade") })
	started := descendants(cmd.Process.Pid)
	if len(started) < 8 {
		t.Fatalf("it has started %v: the devices, the stack, its database, its functions and the worker were expected", started)
	}
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 130 {
		t.Errorf("it ended with %v\n%s", err, out.tail(50))
	}
	for _, pid := range started {
		if alive(pid) {
			t.Errorf("process %d is left", pid)
		}
	}
}

// TestDemo_KillEndsEverything: when the demo cannot end anything any more, the kernel does.
func TestDemo_KillEndsEverything(t *testing.T) {
	requireEmbedded(t, "the demo brings up a stack of its own")
	ctx, cancel := context.WithTimeout(t.Context(), demoTimeout)
	defer cancel()
	cmd, out := startDemo(ctx, t, "--pace", "1s")
	eventually(t, "the upgrade has begun", func() bool { return strings.Contains(out.tail(200), "step upgrade") })
	started := descendants(cmd.Process.Pid)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	for _, pid := range started {
		eventually(t, "process "+strconv.Itoa(pid)+" has ended", func() bool { return !alive(pid) })
	}
}

// descendants are all processes below one.
func descendants(pid int) []int {
	out, _ := exec.Command("pgrep", "-P", strconv.Itoa(pid)).Output()
	var all []int
	for _, word := range strings.Fields(string(out)) {
		if child, err := strconv.Atoi(word); err == nil {
			all = append(append(all, child), descendants(child)...)
		}
	}
	return all
}

// alive reports whether a process runs. One that nobody has reaped does not.
func alive(pid int) bool {
	state, err := exec.Command("ps", "-o", "stat=", "-p", strconv.Itoa(pid)).Output()
	return err == nil && !bytes.HasPrefix(bytes.TrimSpace(state), []byte("Z"))
}
