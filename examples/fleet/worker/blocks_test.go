package worker_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/lockstep-run/lockstep/examples/fleet/simulator"
	"github.com/lockstep-run/lockstep/shared/worker/workertest"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

const (
	show    = "fleet/show_version:1.0.0"
	upgrade = "fleet/upgrade:1.0.0"
	verify  = "fleet/verify:1.0.0"
	report  = "fleet/report:1.0.0"

	toTwo = `{"target":"2.0.0","former":"1.0.0"}`
)

// The engine decides by these properties what to do after a failure.
func TestAdd_RegistersBlockProperties(t *testing.T) {
	r := newFixture(t)
	for ref, want := range map[string]workflow.Block{
		show:    {RunOn: "device", Pure: true},
		upgrade: {RunOn: "device", Idempotent: true, Reversible: true, UndoHarmless: true},
		verify:  {RunOn: "device", Pure: true},
		report:  {RunOn: "global", Pure: true},
	} {
		b := r.block(ref)
		if b.RunOn != want.RunOn || b.Pure != want.Pure || b.Idempotent != want.Idempotent || b.Reversible != want.Reversible || b.UndoHarmless != want.UndoHarmless {
			t.Errorf("%s has the properties %+v", ref, b)
		}
		if b.Pool != "fleet" || !json.Valid(b.ParameterSchema) || !json.Valid(b.ResultSchema) {
			t.Errorf("%s: pool %q, schemas %s and %s", ref, b.Pool, b.ParameterSchema, b.ResultSchema)
		}
	}
	if n := len(r.worker.Blocks()); n != 4 {
		t.Errorf("%d blocks", n)
	}
}

func TestUpgrade_RollsBack(t *testing.T) {
	r := newFixture(t)
	r.wantResult(job{block: show, device: "sw-001"}, `{"version":"1.0.0","bootCount":1}`)
	r.wantResult(job{block: upgrade, device: "sw-001", parameters: toTwo}, `{"version":"2.0.0","bootCount":2}`)
	r.wantVersion("sw-001", "2.0.0", 2)
	r.wantResult(job{block: verify, device: "sw-001", parameters: `{"target":"2.0.0"}`}, `{"version":"2.0.0","bootCount":2}`)
	rollback := job{kind: workflow.JobRollback, block: upgrade, device: "sw-001", parameters: toTwo, result: `{"version":"2.0.0","bootCount":2}`}
	r.wantResult(rollback, "")
	r.wantVersion("sw-001", "1.0.0", 3)
}

// The rollback of an upgrade that never reached the device changes nothing, as the block
// declares with UndoHarmless.
func TestUpgrade_RollbackWithoutUpgradeIsHarmless(t *testing.T) {
	r := newFixture(t)
	r.wantResult(job{kind: workflow.JobRollback, block: upgrade, device: "sw-002", parameters: toTwo}, "")
	r.wantVersion("sw-002", "1.0.0", 1)
}

func TestReport_ReturnsParameters(t *testing.T) {
	newFixture(t).wantResult(job{block: report, parameters: `{"target":"2.0.0","upgraded":3}`}, `{"target":"2.0.0","upgraded":3}`)
}

// A change carries the job's fence and the job's id as its key.
func TestUpgrade_SendsFenceAndKey(t *testing.T) {
	r := newFixture(t)
	r.wantResult(job{block: upgrade, device: "sw-001", parameters: toTwo, token: 17}, `{"version":"2.0.0","bootCount":2}`)
	log := r.devices.Log("sw-001")
	if len(log) != 1 || log[0].Token != 17 || log[0].Fence != workflow.Fence(17, 1, 1, 1) || log[0].IdempotencyKey != workflow.JobID("x", 1, 0, 1) {
		t.Errorf("the device has logged %+v", log)
	}
}

// Scenario N28: a late worker with a lower token changes nothing, and its failure is
// terminal.
func TestUpgrade_StaleFenceIsTerminal(t *testing.T) {
	r := newFixture(t)
	r.wantResult(job{block: upgrade, device: "sw-001", parameters: toTwo, token: 18}, `{"version":"2.0.0","bootCount":2}`)
	r.wantFailure(job{block: upgrade, device: "sw-001", parameters: `{"target":"3.0.0","former":"1.0.0"}`, token: 17}, "STALE_FENCE", false)
	r.wantVersion("sw-001", "2.0.0", 2)
}

func TestBlocks_MapDeviceErrors(t *testing.T) {
	for name, c := range map[string]struct {
		behaviour string
		code      string
		retryable bool
	}{
		"unavailable":     {`{"refuse":{}}`, "REFUSED", true},
		"server error":    {`{"refuse":{"status":500}}`, "REFUSED", true},
		"throttled":       {`{"refuse":{"status":429}}`, "REFUSED", true},
		"forbidden":       {`{"refuse":{"status":403}}`, "REFUSED", false},
		"cut before":      {`{"drop":{"when":"before"}}`, "UNREACHABLE", true},
		"cut after":       {`{"drop":{"when":"after"}}`, "UNREACHABLE", true},
		"half a response": {`{"drop":{"when":"answering"}}`, "UNREACHABLE", true},
		"refused once":    {`{"refuse":{"times":1}}`, "REFUSED", true},
	} {
		t.Run(name, func(t *testing.T) {
			r := newFixture(t)
			r.setBehaviour("sw-001", c.behaviour)
			r.wantFailure(job{block: upgrade, device: "sw-001", parameters: toTwo}, c.code, c.retryable)
			if n := len(r.devices.Log("sw-001")); n != 1 {
				t.Errorf("the device got %d requests, want one", n)
			}
		})
	}
}

// By itself net/http would repeat a request with an Idempotency-Key when a reused
// connection breaks. The client prevents that, since the engine decides about retries.
func TestUpgrade_TransportDoesNotRetry(t *testing.T) {
	r := newFixture(t)
	r.wantResult(job{block: show, device: "sw-001"}, `{"version":"1.0.0","bootCount":1}`)
	r.setBehaviour("sw-001", `{"drop":{"when":"after","times":1}}`)
	r.wantFailure(job{block: upgrade, device: "sw-001", parameters: toTwo}, "UNREACHABLE", true)
	if log := r.devices.Log("sw-001"); len(log) != 1 || log[0].Outcome != simulator.OutcomeDropped {
		t.Errorf("the device has logged %+v", log)
	}
}

// The device claims that the upgrade worked. Only the verification finds out, and a retry
// would not help.
func TestVerify_FailsOnOldVersion(t *testing.T) {
	r := newFixture(t)
	r.setBehaviour("sw-001", `{"keepVersion":{}}`)
	r.wantResult(job{block: upgrade, device: "sw-001", parameters: toTwo}, `{"version":"2.0.0","bootCount":2}`)
	r.wantFailure(job{block: verify, device: "sw-001", parameters: `{"target":"2.0.0"}`}, "WRONG_VERSION", false)
}

func TestBlocks_UnknownDeviceFails(t *testing.T) {
	r := newFixture(t)
	r.wantFailure(job{block: show, device: "sw-999"}, "NOT_FOUND", false)
	r.server.Close()
	r.wantFailure(job{block: show, device: "sw-001"}, "UNREACHABLE", true)
}

// An unknown parameter is an error.
func TestBlocks_UnknownParameterFails(t *testing.T) {
	r := newFixture(t)
	got := r.runJob(job{block: verify, device: "sw-001", parameters: `{"tarqet":"2.0.0"}`})
	if got.Failure == nil || got.Failure.Retryable || !strings.Contains(got.Failure.Message, "tarqet") {
		t.Errorf("got %s %+v", got.Code, got.Failure)
	}
}

// A block can be called without a simulated queue, by package workertest.
func TestUpgrade_CalledByWorkertest(t *testing.T) {
	r := newFixture(t)
	call := workertest.Job{Block: "fleet/upgrade", Entity: "device/sw-001", Parameters: json.RawMessage(toTwo)}
	done := workertest.Call(t, r.worker, call)
	if done.Failure != nil || string(done.JSON) != `{"version":"2.0.0","bootCount":2}` {
		t.Errorf("%s, %+v", done.JSON, done.Failure)
	}
	r.wantVersion("sw-001", "2.0.0", 2)
	call.Operation, call.Undo = workflow.JobRollback, done.JSON
	call.Token = 2
	if undone := workertest.Call(t, r.worker, call); undone.Failure != nil {
		t.Errorf("%+v", undone.Failure)
	}
	r.wantVersion("sw-001", "1.0.0", 3)
}
