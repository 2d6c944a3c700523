package testkit_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/tests/testkit"
)

func TestBuffer_KeepsTheEnd(t *testing.T) {
	b := &testkit.Buffer{Limit: 10}
	for range 5 {
		_, _ = b.Write([]byte("12345\n"))
	}
	if text := b.String(); len(text) > 20 || len(text) < 10 || !strings.HasSuffix(text, "12345\n") {
		t.Errorf("the buffer has %q", text)
	}
	if tail := b.Tail(2); tail != "12345\n" {
		t.Errorf("the last two lines are %q", tail)
	}
}

func TestStartProgram_WaitsForReadyLine(t *testing.T) {
	log := &testkit.Buffer{}
	p, err := testkit.StartProgram(exec.Command("/bin/sh", "-c", "echo starting >&2; echo ready http://x; exec sleep 600"), log, time.Minute)
	if err != nil || p.URL != "http://x" || !testkit.Alive(p.PID()) {
		t.Fatalf("%+v, %v", p, err)
	}
	if err := p.Terminate(time.Minute); err == nil || testkit.Alive(p.PID()) || log.String() != "starting\n" {
		t.Errorf("terminated: %v, log %q", err, log)
	}
}

func TestStartProgram_ReportsFailure(t *testing.T) {
	_, err := testkit.StartProgram(exec.Command("/bin/sh", "-c", "echo no room >&2; exit 3"), &testkit.Buffer{}, time.Minute)
	if err == nil || !strings.Contains(err.Error(), "exit status 3") || !strings.Contains(err.Error(), "no room") {
		t.Errorf("ended program: %v", err)
	}
	_, err = testkit.StartProgram(exec.Command("/bin/sleep", "600"), &testkit.Buffer{}, time.Millisecond)
	if err == nil || !strings.Contains(err.Error(), "not ready") {
		t.Errorf("silent program: %v", err)
	}
}

func TestStartAndReadLine_LeavesCommandRunning(t *testing.T) {
	cmd := exec.Command("/bin/sh", "-c", "echo one; exec sleep 600")
	if line := testkit.StartAndReadLine(t, cmd); line != "one" || !testkit.Alive(cmd.Process.Pid) {
		t.Errorf("line %q", line)
	}
	if pids := testkit.ChildPIDs(os.Getpid(), "sleep 600"); len(pids) == 0 {
		t.Error("the child process is not found")
	}
}
