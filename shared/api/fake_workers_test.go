package api_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/statemachines"
)

func (f *fake) worker(id string) views.WorkerView {
	v := views.WorkerView{ID: id, State: statemachines.WorkerRegistered, Pool: "edge", RegisteredAt: at}
	if !f.minimal {
		v.State, v.Version, v.LastHeartbeat = statemachines.WorkerOnline, ptr("2"), ptr(at)
		v.Blocks, v.Packs = []string{"fleet/upgrade:1"}, []string{executionID + "/1.1/0.0.1"}
	}
	return v
}

func (f *fake) RegisterWorker(_ context.Context, c workflow.Caller, r views.WorkerRegistration) (views.WorkerView, error) {
	return f.worker(r.ID), f.record("RegisterWorker", c)
}

func (f *fake) HeartbeatWorker(_ context.Context, c workflow.Caller, id string) (views.WorkerView, error) {
	return f.worker(id), f.record("BeatWorker "+id, c)
}

func (f *fake) UnregisterWorker(_ context.Context, c workflow.Caller, id string) (views.WorkerView, error) {
	return f.worker(id), f.record("UnregisterWorker "+id, c)
}

func (f *fake) Worker(_ context.Context, c workflow.Caller, id string) (views.WorkerView, error) {
	return f.worker(id), f.record("Worker "+id, c)
}

func (f *fake) Workers(_ context.Context, c workflow.Caller, block *workflow.Ref, page workflow.Page) (workflow.List[views.WorkerView], error) {
	f.page = page
	name := "Workers"
	if block != nil {
		name += " " + block.String()
	}
	return workflow.List[views.WorkerView]{Items: []views.WorkerView{f.worker("w1")}, NextToken: f.next}, f.record(name, c)
}

func (f *fake) Poll(_ context.Context, c workflow.Caller, r views.JobPoll) (*views.PackOffer, error) {
	if err := f.record("Poll "+r.Worker, c); err != nil || r.Worker == "idle" {
		return nil, err
	}
	job := json.RawMessage(`{"operation":"EXECUTE","block":"fleet/upgrade:1.0.0","job":{"id":"j","execution":"x","step":"s","attempt":1},
		"entity":null,"parameters":{},"result":null,"token":null,"fence":"0","deadline":"2026-11-21T05:00:00Z"}`)
	return &views.PackOffer{Pack: "p", Token: 1, Lease: at, Jobs: []json.RawMessage{job}}, nil
}

func (f *fake) lease() views.PackLease {
	if f.minimal {
		return views.PackLease{}
	}
	return views.PackLease{Lease: ptr(at), Cancel: true}
}

func (f *fake) Extend(_ context.Context, c workflow.Caller, r views.PackResults) (views.PackLease, error) {
	f.results = r
	return f.lease(), f.record("Extend", c)
}

func (f *fake) Finish(_ context.Context, c workflow.Caller, r views.PackResults) (views.PackLease, error) {
	f.results = r
	return f.lease(), f.record("Finish", c)
}

func (f *fake) Pools(_ context.Context, c workflow.Caller) ([]views.PoolView, error) {
	v := views.PoolView{Pool: "edge"}
	if !f.minimal {
		v.Waiting, v.Claimed, v.Delayed = ptr(3), ptr(2), ptr(1)
		v.Claims = []views.ClaimView{{Pack: executionID + "/1.1/0.0.1", Execution: executionID, Worker: "w1"}}
	}
	return []views.PoolView{v}, f.record("Pools", c)
}

// What a worker says arrives whole, and nothing to do is no body.
func TestHandler_WorkerPollingRoutes(t *testing.T) {
	f := newFake()
	h := newHandler(f)
	sendRequest(h, "POST /blackboard/job/result", `{"pack":"p","token":3,"results":[{"job":"j","outcome":"NOOP"}],"notBegun":["k"]}`)
	if f.results.Pack != "p" || f.results.Token != 3 || len(f.results.Results) != 1 || string(f.results.Results[0]) != `{"job":"j","outcome":"NOOP"}` || f.results.NotStarted[0] != "k" {
		t.Errorf("%+v", f.results)
	}
	if w := sendRequest(h, "POST /blackboard/job", `{"worker":"idle","blocks":["a/b"]}`); w.Code != 204 || w.Body.Len() != 0 {
		t.Errorf("nothing to do: %d %q", w.Code, w.Body)
	}
	sendRequest(h, "GET /function-blocks/fleet/upgrade/1.2.3/workers", "")
	if got := f.calls[len(f.calls)-1]; got != "Workers fleet/upgrade:1.2.3" {
		t.Error(got)
	}
	for _, body := range []string{`{"worker":"w","blocks":[]}`, `{"blocks":["a/b"]}`, `{"worker":"w","blocks":["a/b"],"wait":"soon"}`} {
		if w := sendRequest(h, "POST /blackboard/job", body); w.Code != 400 {
			t.Errorf("%s: %d", body, w.Code)
		}
	}
}
