package worker_test

import (
	"context"
	"encoding/json"
	"net/http/httptest"
	"testing"

	"github.com/lockstep-run/lockstep/examples/fleet/simulator"
	fleet "github.com/lockstep-run/lockstep/examples/fleet/worker"
	"github.com/lockstep-run/lockstep/shared/sim"
	sdk "github.com/lockstep-run/lockstep/shared/worker"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// fixture is a worker with the blocks, and devices behind a real listener.
type fixture struct {
	*testing.T
	sim      *sim.World
	worker   *sdk.Worker
	devices  *simulator.Fleet
	server   *httptest.Server
	jobCount int
}

func newFixture(t *testing.T) *fixture {
	r := &fixture{T: t, sim: sim.New(1), devices: simulator.New(simulator.Options{Devices: simulator.NumberedDevices(3)})}
	r.sim.PoolQueue("fleet")
	r.server = httptest.NewServer(r.devices.Handler())
	t.Cleanup(func() {
		r.server.Close()
		if err := r.devices.Close(); err != nil {
			t.Error(err)
		}
	})
	r.worker = sdk.New(sdk.Options{Name: "w", Pool: "fleet", Sequential: true, Now: r.sim.Now, NewNonce: r.sim.Nonce})
	fleet.Add(r.worker, r.server.URL+"/")
	return r
}

// job describes a job. A zero attempt means 1, a zero token a new one.
type job struct {
	kind       workflow.JobKind
	block      string
	device     string // none: global
	parameters string
	token      int64
	result     string
}

// runJob delivers one job to the worker as the engine does, and returns its record.
func (r *fixture) runJob(j job) workflow.JobRecord {
	r.Helper()
	r.jobCount++
	if j.kind == "" {
		j.kind = workflow.JobExecute
	}
	if j.token == 0 {
		j.token = int64(r.jobCount)
	}
	stepRun := workflow.StepRunKey{Tenant: "t", Execution: "x", Ordinal: 1, Seq: r.jobCount}
	input := workflow.JobInput{Token: j.token, Parameters: json.RawMessage(j.parameters), Result: json.RawMessage(j.result)}
	if j.device != "" {
		input.Entity = &workflow.EntityKey{Type: "device", ID: j.device}
	}
	block := r.block(j.block)
	m := &workflow.PackMessage{
		Key: stepRun.Pack(0, 1),
		Work: workflow.Work{
			Kind: j.kind, Block: j.block, Step: "step", Pool: "fleet", Pure: block.Pure, Idempotent: block.Idempotent,
			Timeout: block.Timeout, Lanes: 1,
		},
		Jobs: []workflow.JobInput{input}, NotAfter: r.sim.Now().AddDate(0, 0, 1),
	}
	if m.Work.Timeout == 0 {
		m.Work.Timeout = workflow.Duration(fleet.UpgradeTimeout)
	}
	v := r.sim.Open()
	d, err := r.worker.Handle(context.Background(), m, sdk.Ports{Packs: v.Packs, Sender: v.Sender, Meter: v.Meter})
	if err != nil || !d.Done {
		r.Fatalf("not done: %+v, %v", d, err)
	}
	p, err := v.Packs.Pack(context.Background(), m.Key)
	if err != nil || p == nil || len(p.Jobs) != 1 {
		r.Fatalf("no record: %+v, %v", p, err)
	}
	return p.Jobs[0]
}

func (r *fixture) block(ref string) workflow.Block {
	r.Helper()
	for _, b := range r.worker.Blocks() {
		if b.Ref().String() == ref {
			return b
		}
	}
	r.Fatalf("no block %s", ref)
	return workflow.Block{}
}

// wantResult runs a job and checks its result, as JSON.
func (r *fixture) wantResult(j job, want string) {
	r.Helper()
	if got := r.runJob(j); got.Code != workflow.JobCodeOK || string(got.Result) != want {
		r.Errorf("%s on %q: %s %s %+v, want %s", j.block, j.device, got.Code, got.Result, got.Failure, want)
	}
}

// wantFailure runs a job and checks its failure.
func (r *fixture) wantFailure(j job, code string, retryable bool) {
	r.Helper()
	got := r.runJob(j)
	if got.Failure == nil || got.Failure.Code != code || got.Failure.Retryable != retryable || got.Failure.Message == "" {
		r.Errorf("%s on %q: %s %s %+v, want %s, retryable %v", j.block, j.device, got.Code, got.Result, got.Failure, code, retryable)
	}
}

// setBehaviour sets a device's behaviour, as JSON.
func (r *fixture) setBehaviour(device, behaviour string) {
	r.Helper()
	var b simulator.Behaviour
	if err := json.Unmarshal([]byte(behaviour), &b); err != nil {
		r.Fatal(err)
	}
	if err := r.devices.SetBehaviour(b, device); err != nil {
		r.Fatal(err)
	}
}

// wantVersion checks the version and the boot count of a device.
func (r *fixture) wantVersion(device, version string, boots int) {
	r.Helper()
	if s, _ := r.devices.Device(device); s.Version != version || s.BootCount != boots {
		r.Errorf("%s runs %s after %d boots, want %s after %d", device, s.Version, s.BootCount, version, boots)
	}
}
