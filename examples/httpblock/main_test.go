package main

import (
	"encoding/json"
	"net/http/httptest"
	"os"
	"testing"

	"github.com/lockstep-run/lockstep/shared/definition"
	"github.com/lockstep-run/lockstep/shared/worker"
	"github.com/lockstep-run/lockstep/shared/worker/httpblock"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// The registered block is valid, and its answers to the stock worker's HTTP caller follow
// docs/http-blocks.md.
func TestBannerServer_KeepsBlockContract(t *testing.T) {
	source, err := os.ReadFile("block.json")
	if err != nil {
		t.Fatal(err)
	}
	var registered workflow.Block
	if err := json.Unmarshal(source, &registered); err != nil {
		t.Fatal(err)
	}
	if err := definition.ValidateBlock(&registered); err != nil {
		t.Fatal(err)
	}
	devices := newBannerServer()
	s := httptest.NewServer(devices)
	defer s.Close()
	caller := httpblock.New([]string{httpblock.Loopback})
	job := worker.Job{
		ID: "x.1.0.1", ExecutionID: "x", Step: "banner", Block: registered.Ref().String(), Operation: workflow.JobExecute, Attempt: 1,
		Entity: &workflow.EntityKey{Type: "device", ID: "sw-001"}, Parameters: []byte(`{"banner":"new"}`), Fence: "0000000002-000001-01-01",
	}
	devices.banner["sw-001"] = "old"
	var result []byte
	for range 2 { // the second call repeats the job
		a := caller.Call(t.Context(), &workflow.Endpoint{URL: s.URL}, &job)
		if a.Failure != nil || string(a.Result) != `{"former":"old"}` || devices.banner["sw-001"] != "new" {
			t.Fatalf("%+v, banner %q", a, devices.banner["sw-001"])
		}
		result = a.Result
	}
	late := job
	late.ID, late.Fence = "y.1.0.1", "0000000001-000001-01-01"
	if a := caller.Call(t.Context(), &workflow.Endpoint{URL: s.URL}, &late); a.Failure == nil || a.Failure.Code != "STALE" || a.Failure.Retryable {
		t.Errorf("a late worker: %+v", a)
	}
	rollback := job
	rollback.ID, rollback.Operation, rollback.Result, rollback.Fence = "x.2.0.1", workflow.JobRollback, result, "0000000002-000002-01-01"
	if a := caller.Call(t.Context(), &workflow.Endpoint{URL: s.URL}, &rollback); a.Failure != nil || devices.banner["sw-001"] != "old" {
		t.Errorf("rollback: %+v, banner %q", a, devices.banner["sw-001"])
	}
}
