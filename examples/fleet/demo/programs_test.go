package demo

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/tests/testkit"
)

// writeScript writes a shell script in place of a built program.
func writeScript(t *testing.T, d *Demo, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(d.Bin, name), []byte("#!/bin/sh\n"+text+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
}

func newDemo(t *testing.T) (*Demo, *bytes.Buffer) {
	t.Helper()
	out := &bytes.Buffer{}
	d := &Demo{Bin: t.TempDir(), logDir: t.TempDir(), Out: out, Progress: &bytes.Buffer{}}
	t.Cleanup(d.stopPrograms)
	return d, out
}

func TestStartProgram_StopsIt(t *testing.T) {
	d, _ := newDemo(t)
	writeScript(t, d, "good", `echo "$SAYS" >&2; echo first; echo "ready http://here:1"; exec sleep 600`)
	p, err := d.startProgram(t.Context(), programSpec{name: "good", env: []string{"SAYS=hello"}})
	if err != nil {
		t.Fatal(err)
	}
	if p.url != "http://here:1" {
		t.Errorf("its URL is %q", p.url)
	}
	pid := p.process.PID()
	d.stopPrograms()
	if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("it still runs: %v", err)
	}
	if text := lastLines(filepath.Join(d.logDir, "good.log")); text != "hello" {
		t.Errorf("its log is %q", text)
	}
}

func TestStartProgram_ReportsFailure(t *testing.T) {
	d, _ := newDemo(t)
	_, err := d.startProgram(t.Context(), programSpec{name: "absent"})
	wantError(t, err, "run make build")

	writeScript(t, d, "bad", `echo "no room" >&2; exit 3`)
	_, err = d.startProgram(t.Context(), programSpec{name: "bad"})
	wantError(t, err, "bad exited before it was ready", "no room")

	writeScript(t, d, "slow", `exec sleep 600`)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := d.startProgram(gone, programSpec{name: "slow"}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestRunLockstep_ReturnsExitCodeAndOutput(t *testing.T) {
	d, out := newDemo(t)
	d.url = "http://here"
	writeScript(t, d, "lockstep", `echo "$@"; [ "$3" = ok ] || exit 3`)
	if code, output, err := d.runLockstep(t.Context(), "ok"); code != 0 || output != "--url http://here ok\n" || err != nil {
		t.Errorf("%d %q %v", code, output, err)
	}
	if code, _, err := d.runLockstep(t.Context(), "bad"); code != 3 || err != nil {
		t.Errorf("%d %v", code, err)
	}
	if !strings.Contains(out.String(), "http://here bad") {
		t.Errorf("the output is %q", out)
	}
	writeScript(t, d, "lockstep", `exec sleep 600`)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := d.runLockstep(gone, "run"); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestShellQuote_EscapesQuotes(t *testing.T) {
	d, out := newDemo(t)
	const odd = `it's $HOME "here"`
	writeScript(t, d, "lockstep", "printf %s "+shellQuote(odd))
	if _, _, err := d.runLockstep(t.Context()); err != nil || out.String() != odd {
		t.Errorf("the shell reads %q, %v", out, err)
	}
}

// A port in use is reported before anything starts, with what to do.
func TestRun_ReportsPortInUse(t *testing.T) {
	d := &Demo{Bin: t.TempDir(), Example: "..", Port: testkit.OccupyPort(t), Out: &bytes.Buffer{}}
	err := d.Run(t.Context())
	wantError(t, err, "port "+strconv.Itoa(d.Port)+" is in use", "--port ")
	if strings.Contains(err.Error(), "logs") {
		t.Errorf("the error names logs, and there are none: %v", err)
	}
}

func TestReadDeviceIDs_ReadsInventory(t *testing.T) {
	ids, err := readDeviceIDs(filepath.Join("..", "inventory.jsonl"))
	if err != nil || len(ids) != 100 || ids[41] != refusingDevice {
		t.Errorf("%d devices, %v", len(ids), err)
	}
	_, err = readDeviceIDs("nowhere.jsonl")
	wantError(t, err, "nowhere.jsonl")
}

func TestCostSummary_FormatsDollars(t *testing.T) {
	got := costSummary(views.CostView{
		WriteUnits: map[string]float64{"jobs": 400.5, "locks": 100}, ReadUnits: map[string]float64{"jobs": 20},
		DynamoRequests: 544, QueueRequests: 627, Dollars: 0.0006,
	}, 300)
	for _, want := range []string{"500.5 write units", "20.0 read units", "544 requests to DynamoDB", "627 requests to SQS", "$0.0006 this execution", "$600.00 per million such executions", "$2.00 per million jobs"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q lacks %q", got, want)
		}
	}
}
