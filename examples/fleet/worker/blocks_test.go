package worker_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/lockstep-run/lockstep/examples/fleet/simulator/devicelog"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

const (
	show    = "fleet/show_version:1.0.0"
	upgrade = "fleet/upgrade:1.0.0"
	verify  = "fleet/verify:1.0.0"
	report  = "fleet/report:1.0.0"

	toTwo = `{"target":"2.0.0","former":"1.0.0"}`
)

// TestPromises: what the engine decides on a failure hangs on these.
func TestPromises(t *testing.T) {
	r := newRig(t)
	for ref, want := range map[string]workflow.Block{
		show:    {RunOn: "device", Pure: true},
		upgrade: {RunOn: "device", Idempotent: true, Reversible: true, UndoHarmless: true},
		verify:  {RunOn: "device", Pure: true},
		report:  {RunOn: "global", Pure: true},
	} {
		b := r.block(ref)
		if b.RunOn != want.RunOn || b.Pure != want.Pure || b.Idempotent != want.Idempotent || b.Reversible != want.Reversible || b.UndoHarmless != want.UndoHarmless {
			t.Errorf("%s promises %+v", ref, b)
		}
		if b.Pool != "fleet" || !json.Valid(b.ParameterSchema) || !json.Valid(b.ResultSchema) {
			t.Errorf("%s: pool %q, schemas %s and %s", ref, b.Pool, b.ParameterSchema, b.ResultSchema)
		}
	}
	if n := len(r.worker.Blocks()); n != 4 {
		t.Errorf("%d blocks", n)
	}
}

func TestUpgradeAndBack(t *testing.T) {
	r := newRig(t)
	r.succeeds(job{block: show, device: "sw-001"}, `{"version":"1.0.0","bootCount":1}`)
	r.succeeds(job{block: upgrade, device: "sw-001", parameters: toTwo}, `{"version":"2.0.0","bootCount":2}`)
	r.runsVersion("sw-001", "2.0.0", 2)
	r.succeeds(job{block: verify, device: "sw-001", parameters: `{"target":"2.0.0"}`}, `{"version":"2.0.0","bootCount":2}`)
	undo := job{kind: workflow.JobRollback, block: upgrade, device: "sw-001", parameters: toTwo, result: `{"version":"2.0.0","bootCount":2}`}
	r.succeeds(undo, "")
	r.runsVersion("sw-001", "1.0.0", 3)
}

// TestUndoOfNothing: the undo of an upgrade that never reached the device leaves
// it as it is; the block says so with UndoHarmless.
func TestUndoOfNothing(t *testing.T) {
	r := newRig(t)
	r.succeeds(job{kind: workflow.JobRollback, block: upgrade, device: "sw-002", parameters: toTwo}, "")
	r.runsVersion("sw-002", "1.0.0", 1)
}

func TestReport(t *testing.T) {
	newRig(t).succeeds(job{block: report, parameters: `{"target":"2.0.0","upgraded":3}`}, `{"target":"2.0.0","upgraded":3}`)
}

// TestHeaders: the device knows who asked, by the fence and the job's id.
func TestHeaders(t *testing.T) {
	r := newRig(t)
	r.succeeds(job{block: upgrade, device: "sw-001", parameters: toTwo, token: 17}, `{"version":"2.0.0","bootCount":2}`)
	log := r.devices.Log("sw-001")
	if len(log) != 1 || log[0].Token != 17 || log[0].Fence != workflow.Fence(17, 1, 1, 1) || log[0].IdempotencyKey != workflow.JobID("x", 1, 0, 1) {
		t.Errorf("the device has logged %+v", log)
	}
}

// TestLateWorker (N28): one that comes late with a lower token changes nothing,
// and does not try again.
func TestLateWorker(t *testing.T) {
	r := newRig(t)
	r.succeeds(job{block: upgrade, device: "sw-001", parameters: toTwo, token: 18}, `{"version":"2.0.0","bootCount":2}`)
	r.fails(job{block: upgrade, device: "sw-001", parameters: `{"target":"3.0.0","former":"1.0.0"}`, token: 17}, "STALE_FENCE", false)
	r.runsVersion("sw-001", "2.0.0", 2)
}

func TestRefusals(t *testing.T) {
	for name, c := range map[string]struct {
		behaviour string
		code      string
		retryable bool
	}{
		"for now":         {`{"refuse":{}}`, "REFUSED", true},
		"broken":          {`{"refuse":{"status":500}}`, "REFUSED", true},
		"too many":        {`{"refuse":{"status":429}}`, "REFUSED", true},
		"for ever":        {`{"refuse":{"status":403}}`, "REFUSED", false},
		"cut before":      {`{"drop":{"when":"before"}}`, "UNREACHABLE", true},
		"cut after":       {`{"drop":{"when":"after"}}`, "UNREACHABLE", true},
		"half an answer":  {`{"drop":{"when":"answering"}}`, "UNREACHABLE", true},
		"refuses a while": {`{"refuse":{"times":1}}`, "REFUSED", true},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.misbehave("sw-001", c.behaviour)
			r.fails(job{block: upgrade, device: "sw-001", parameters: toTwo}, c.code, c.retryable)
			if n := len(r.devices.Log("sw-001")); n != 1 {
				t.Errorf("the device was asked %d times, want once", n)
			}
		})
	}
}

// TestAskedOnceOnAWarmConnection: net/http would send a request with an
// Idempotency-Key again by itself when a connection in use before breaks. Whether
// to repeat is the engine's to decide.
func TestAskedOnceOnAWarmConnection(t *testing.T) {
	r := newRig(t)
	r.succeeds(job{block: show, device: "sw-001"}, `{"version":"1.0.0","bootCount":1}`)
	r.misbehave("sw-001", `{"drop":{"when":"after","times":1}}`)
	r.fails(job{block: upgrade, device: "sw-001", parameters: toTwo}, "UNREACHABLE", true)
	if log := r.devices.Log("sw-001"); len(log) != 1 || log[0].Outcome != devicelog.Dropped {
		t.Errorf("the device has logged %+v", log)
	}
}

// TestComesBackWithTheOldVersion: the upgrade is told that it worked; only the
// verification finds out, and asking again would not help.
func TestComesBackWithTheOldVersion(t *testing.T) {
	r := newRig(t)
	r.misbehave("sw-001", `{"keepVersion":{}}`)
	r.succeeds(job{block: upgrade, device: "sw-001", parameters: toTwo}, `{"version":"2.0.0","bootCount":2}`)
	r.fails(job{block: verify, device: "sw-001", parameters: `{"target":"2.0.0"}`}, "WRONG_VERSION", false)
}

func TestNoSuchDevice(t *testing.T) {
	r := newRig(t)
	r.fails(job{block: show, device: "sw-999"}, "NOT_FOUND", false)
	r.server.Close()
	r.fails(job{block: show, device: "sw-001"}, "UNREACHABLE", true)
}

// TestMisspeltParameter: a parameter that the block does not have is no
// parameter to ignore.
func TestMisspeltParameter(t *testing.T) {
	r := newRig(t)
	got := r.do(job{block: verify, device: "sw-001", parameters: `{"tarqet":"2.0.0"}`})
	if got.Failure == nil || got.Failure.Retryable || !strings.Contains(got.Failure.Message, "tarqet") {
		t.Errorf("got %s %+v", got.Code, got.Failure)
	}
}
