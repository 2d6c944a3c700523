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
	if !f.bare {
		v.State, v.Version, v.LastHeartbeat = statemachines.WorkerOnline, ptr("2"), ptr(at)
		v.Blocks, v.Jobs = []string{"fleet/upgrade:1"}, []string{runID + "/1.1/0.0.1"}
	}
	return v
}

func (f *fake) RegisterWorker(_ context.Context, c workflow.Caller, r views.WorkerRegistration) (views.WorkerView, error) {
	return f.worker(r.ID), f.called("RegisterWorker", c)
}

func (f *fake) BeatWorker(_ context.Context, c workflow.Caller, id string) (views.WorkerView, error) {
	return f.worker(id), f.called("BeatWorker "+id, c)
}

func (f *fake) UnregisterWorker(_ context.Context, c workflow.Caller, id string) (views.WorkerView, error) {
	return f.worker(id), f.called("UnregisterWorker "+id, c)
}

func (f *fake) Worker(_ context.Context, c workflow.Caller, id string) (views.WorkerView, error) {
	return f.worker(id), f.called("Worker "+id, c)
}

func (f *fake) Workers(_ context.Context, c workflow.Caller, block *workflow.Ref, page workflow.Page) (workflow.List[views.WorkerView], error) {
	f.page = page
	name := "Workers"
	if block != nil {
		name += " " + block.String()
	}
	return workflow.List[views.WorkerView]{Items: []views.WorkerView{f.worker("w1")}, Next: f.next}, f.called(name, c)
}

func (f *fake) Poll(_ context.Context, c workflow.Caller, r views.JobPoll) (*views.PackOffer, error) {
	if err := f.called("Poll "+r.Worker, c); err != nil || r.Worker == "idle" {
		return nil, err
	}
	job := json.RawMessage(`{"operation":"EXECUTE","block":"fleet/upgrade:1.0.0","job":{"id":"j","execution":"x","step":"s","attempt":1},
		"entity":null,"parameters":{},"result":null,"token":null,"fence":"0","deadline":"2026-11-21T05:00:00Z"}`)
	return &views.PackOffer{Pack: "p", Token: 1, Lease: at, Jobs: []json.RawMessage{job}}, nil
}

func (f *fake) lease() views.PackLease {
	if f.bare {
		return views.PackLease{}
	}
	return views.PackLease{Lease: ptr(at), Cancel: true}
}

func (f *fake) Extend(_ context.Context, c workflow.Caller, r views.PackResults) (views.PackLease, error) {
	f.results = r
	return f.lease(), f.called("Extend", c)
}

func (f *fake) Finish(_ context.Context, c workflow.Caller, r views.PackResults) (views.PackLease, error) {
	f.results = r
	return f.lease(), f.called("Finish", c)
}

func (f *fake) Pools(_ context.Context, c workflow.Caller) ([]views.PoolView, error) {
	v := views.PoolView{Pool: "edge"}
	if !f.bare {
		v.Waiting, v.Claimed, v.Delayed = ptr(3), ptr(2), ptr(1)
		v.Claims = []views.ClaimView{{Pack: runID + "/1.1/0.0.1", Execution: runID, Worker: "w1"}}
	}
	return []views.PoolView{v}, f.called("Pools", c)
}

// What a worker says arrives whole, and nothing to do is no body.
func TestWorkersSayAndAreTold(t *testing.T) {
	f := newFake()
	h := serve(f)
	ask(h, "POST /blackboard/job/result", `{"pack":"p","token":3,"results":[{"job":"j","outcome":"NOOP"}],"notBegun":["k"]}`)
	if f.results.Pack != "p" || f.results.Token != 3 || len(f.results.Results) != 1 || string(f.results.Results[0]) != `{"job":"j","outcome":"NOOP"}` || f.results.NotBegun[0] != "k" {
		t.Errorf("%+v", f.results)
	}
	if w := ask(h, "POST /blackboard/job", `{"worker":"idle","blocks":["a/b"]}`); w.Code != 204 || w.Body.Len() != 0 {
		t.Errorf("nothing to do: %d %q", w.Code, w.Body)
	}
	ask(h, "GET /function-blocks/fleet/upgrade/1.2.3/workers", "")
	if got := f.calls[len(f.calls)-1]; got != "Workers fleet/upgrade:1.2.3" {
		t.Error(got)
	}
	for _, body := range []string{`{"worker":"w","blocks":[]}`, `{"blocks":["a/b"]}`, `{"worker":"w","blocks":["a/b"],"wait":"soon"}`} {
		if w := ask(h, "POST /blackboard/job", body); w.Code != 400 {
			t.Errorf("%s: %d", body, w.Code)
		}
	}
}
