package e2e

import (
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/examples/fleet/simulator"
	"github.com/lockstep-run/lockstep/localstack/embedded/sqs"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// newFixture makes a scene on a stack of its own.
func newFixture(t *testing.T, s *localStack, name string) *fixture {
	return &fixture{localStack: s, blocks: serveBlocks(t), name: name}
}

// TestCrash_WorkerKilledInPack: the worker function dies in the middle of jobs. A
// block that may run again does, under a higher fence; one that must not does
// not, and the run is told as unsafe.
func TestCrash_WorkerKilledInPack(t *testing.T) {
	t.Parallel()
	requireEmbedded(t, "it kills functions")
	s := startStack(t, stackOptions{})
	c := newFixture(t, s, "killed")
	ids := c.importEntities(c.entityType(), 2)
	var killed atomic.Int32
	entered := make(chan struct{}, 10)
	release := make(chan struct{})
	does := func(k call) blockAnswer {
		if killed.Load() == 0 {
			entered <- struct{}{}
			<-release
		}
		return nil
	}
	c.registerBlock("again", workflow.Block{Idempotent: true, Reversible: true, Timeout: workflow.Duration(waitTimeout)}, does)
	c.publishWorkflow("", "label: work, block: again, runOn: KIND")
	id := c.startWorkflow("{}", ids...)
	<-entered
	<-entered
	killed.Store(1)
	if s.killAll("functions/worker/bootstrap") == 0 {
		t.Fatal("there is no worker function to kill")
	}
	close(release)
	c.waitEnded(id, sm.ExecutionCompletedAck)
	fences, keys := map[string][]string{}, map[string]bool{}
	for _, k := range c.blocks.allCalls() {
		fences[k.entityID()] = append(fences[k.entityID()], k.Fence)
		keys[k.key] = true
	}
	for on, f := range fences {
		if len(f) < 2 || !slices.IsSorted(f) || f[0] == f[len(f)-1] {
			t.Errorf("%s was called under the fences %v: want a higher one after the crash", on, f)
		}
	}
	if len(keys) != 2 {
		t.Errorf("a taken over job keeps its key: %d keys for 2 jobs", len(keys))
	}

	// The same with a block that must not run twice.
	d := &fixture{localStack: s, blocks: c.blocks, name: "killed-once"}
	ids = d.importEntities(d.entityType(), 1)
	unblock := make(chan struct{})
	began := make(chan struct{}, 10)
	d.registerBlock("once", workflow.Block{Reversible: true, Timeout: workflow.Duration(waitTimeout)}, func(call) blockAnswer {
		began <- struct{}{}
		<-unblock
		return nil
	})
	d.publishWorkflow("", "label: once, block: once, runOn: KIND")
	id = d.startWorkflow("{}", ids...)
	<-began
	s.killAll("functions/worker/bootstrap")
	close(unblock)
	x := d.waitEnded(id, sm.ExecutionFailedUnsafe)
	if x.Cause == nil || *x.Cause != workflow.CauseWorkerCrash || d.countCalls("once", "EXECUTE") != 1 || d.countCalls("once", "ROLLBACK") != 0 {
		t.Errorf("cause %v, %d calls", deref(x.Cause), d.countCalls("once", "EXECUTE"))
	}
}

// TestCrash_EngineKilledBeforeEffects is N26: the run is committed as
// RUNNING, its packs are about to be sent, and the process dies.
func TestCrash_EngineKilledBeforeEffects(t *testing.T) {
	t.Parallel()
	q := serveQueues(t)
	s := startStack(t, stackOptions{env: []string{q.env()}})
	c := newFixture(t, s, "between")
	ids := c.importEntities(c.entityType(), 3)
	c.registerBlock("work", workflow.Block{}, nil)
	c.publishWorkflow("", "label: one, block: work, runOn: KIND", "label: two, block: work, runOn: KIND")

	for _, function := range []string{"api", "lifecycle"} {
		held := make(chan struct{})
		never := make(chan struct{})
		var once sync.Once
		step := map[string]string{"api": `\"one\"`, "lifecycle": `\"two\"`}[function]
		q.onRequest(func(operation, body string) <-chan struct{} {
			if operation == "SendMessageBatch" && strings.Contains(body, `\"step\":`+step) {
				once.Do(func() { close(held) })
				return never
			}
			return nil
		})
		started := make(chan string, 1)
		go func() {
			req := views.StartRequest{Workflow: "test/w-" + c.name, ExecuteOnParameters: &workflow.Selector{IDs: ids}, IdempotencyKey: function}
			for {
				x, _, err := c.Start(t.Context(), req) // the request dies with its process, and is sent again under its key
				if err == nil {
					started <- x.ID
					return
				}
				if t.Context().Err() != nil {
					return
				}
			}
		}()
		<-held
		underWay := 0
		for x, err := range c.Executions(t.Context(), views.ExecutionFilter{State: sm.ExecutionRunning}) {
			if err != nil || x.Progress.Jobs.Total == 0 {
				t.Errorf("%+v, %v: want a run that is committed with its jobs", x, err)
			}
			underWay++
		}
		if underWay != 1 {
			t.Errorf("%d runs are RUNNING, want the one whose packs are about to be sent", underWay)
		}
		if s.killAll("functions/"+function+"/bootstrap") == 0 {
			t.Fatalf("there is no %s function to kill", function)
		}
		q.onRequest(nil)
		id := <-started
		c.waitEnded(id, sm.ExecutionCompletedAck)
		for _, step := range []string{"one", "two"} {
			if n := c.blocks.count(func(k call) bool { return k.Job.Execution == id && k.Job.Step == step }); n != len(ids) {
				t.Errorf("killed %s: step %s made %d calls for %d devices", function, step, n, len(ids))
			}
		}
	}
}

// TestCrash_StackKilled: everything dies at once, twice, and comes back on the same
// data and the same port. N43: an attempt that is to come is not forgotten.
func TestCrash_StackKilled(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "notes.txt"), []byte("not ours"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := startStack(t, stackOptions{data: dir, port: freePort(t)})
	c := newFixture(t, s, "power")
	ids := c.importEntities(c.entityType(), 30)
	var calls atomic.Int32
	slow := func(call) blockAnswer {
		calls.Add(1)
		time.Sleep(20 * time.Millisecond) // a device takes its time
		return nil
	}
	c.registerBlock("again", workflow.Block{Idempotent: true, Reversible: true}, slow)
	c.registerBlock("shaky", workflow.Block{Idempotent: true}, func(k call) blockAnswer {
		if k.Job.Attempt == 1 {
			return errorAnswer("BUSY", true)
		}
		return nil
	})
	c.publishWorkflow("config: {maxInFlight: 5}\n", "label: one, block: again, runOn: KIND", "label: two, block: again, runOn: KIND")
	shaky := c.startRef(c.publishExtra("shaky", "", "label: shaky, block: shaky, runOn: global, retry: {maxRetries: 3, delay: 4s}"), "{}")
	c.waitForKind(shaky, workflow.WaitRetry)
	id := c.startWorkflow("{}", ids...)
	for _, after := range []int32{5, 40} {
		eventually(t, "calls are made", func() bool { return calls.Load() >= after })
		s.killAndRestart()
	}
	c.waitEnded(id, sm.ExecutionCompletedAck)
	keys := map[string]int{}
	for _, k := range c.blocks.allCalls() {
		if k.Job.Execution == id {
			keys[k.key]++
		}
	}
	if len(keys) != 60 {
		t.Errorf("%d jobs were called, want 60", len(keys))
	}
	c.waitEnded(shaky, sm.ExecutionCompletedAck)
	jobs := c.listJobs(shaky, views.JobFilter{})
	if len(jobs) != 2 || deref(jobs[1].Replaces) != jobs[0].ID || jobs[0].State != sm.JobFailed || jobs[1].State != sm.JobCompleted || jobs[1].StartedAt.Sub(*jobs[0].EndedAt) < 3*time.Second {
		t.Errorf("the attempt that was due is %+v", jobs)
	}
}

// TestQueue_DuplicateAndReorderedMessages: every message comes twice, in random order.
func TestQueue_DuplicateAndReorderedMessages(t *testing.T) {
	t.Parallel()
	q := serveQueues(t)
	s := startStack(t, stackOptions{env: []string{q.env()}})
	c := newFixture(t, s, "twice")
	ids := c.importEntities(c.entityType(), 8)
	c.registerBlock("once", workflow.Block{Reversible: true}, nil)
	c.registerBlock("again", workflow.Block{Idempotent: true, Reversible: true}, func(k call) blockAnswer {
		if k.Job.Attempt == 1 && k.entityID() == "e-0003" {
			return errorAnswer("BUSY", true)
		}
		return nil
	})
	c.publishWorkflow("config: {maxInFlight: 3}\n", "label: one, block: once, runOn: KIND",
		"label: two, block: again, runOn: KIND, retry: {maxRetries: 1, delay: 10ms}", "label: three, block: once, runOn: KIND")
	for seed := range uint64(3) {
		q.setFaults(t, sqs.Faults{Seed: seed + 1, Duplicate: 1, Reorder: 1, MaxDelayMillis: 50})
		var executionIDs []string
		for i := range 6 {
			executionIDs = append(executionIDs, c.startWorkflow("{}", ids[i], ids[(i+1)%8], ids[(i+2)%8], ids[(i+5)%8]))
		}
		for _, id := range executionIDs {
			c.waitEnded(id, sm.ExecutionCompletedAck)
		}
	}
	once := map[string]int{}
	for _, k := range c.blocks.allCalls() {
		if strings.Contains(k.Block, "-once:") {
			if once[k.key]++; once[k.key] > 1 {
				t.Errorf("job %s of a block that must not run twice was called twice", k.key)
			}
		}
	}
	if want := 3 * 6 * 4 * 2; len(once) != want {
		t.Errorf("%d jobs of the block that must not run twice, want %d", len(once), want)
	}
}

// TestFence_RefusesLateWorker is N25 and N31: a worker is stopped past its lease, another
// takes its pack over, and the first one comes back: its write is refused by the
// pack's token, and the device refuses its fence.
func TestFence_RefusesLateWorker(t *testing.T) {
	t.Parallel()
	fleet := simulator.New(simulator.Options{Devices: simulator.NumberedDevices(3)})
	devices := httptest.NewServer(fleet.Handler())
	defer devices.Close()
	defer func() { _ = fleet.Close() }()
	worker := bin(t, "fleet-worker")
	s := startStack(t, stackOptions{env: []string{"FLEET_URL=" + devices.URL}, args: []string{"--worker", worker, "--worker", worker}})
	fleetReady(t, s)
	// Both workers are stopped in the middle of an upgrade; only one wakes up in
	// time to take over.
	if err := fleet.SetBehaviour(simulator.Behaviour{Slow: &simulator.Slow{Delay: simulator.Duration(1500 * time.Millisecond)}}, "sw-001"); err != nil {
		t.Fatal(err)
	}
	id := s.startUpgrade("2.0.0", "sw-001")
	eventually(t, "the upgrade has begun", func() bool { d, _ := fleet.Device("sw-001"); return d.Busy })
	pids := s.pids("fleet-worker")
	if len(pids) != 2 {
		t.Fatalf("%d workers run, want 2", len(pids))
	}
	for _, pid := range pids {
		_ = syscall.Kill(pid, syscall.SIGSTOP)
	}
	time.Sleep(4 * time.Second) // longer than the lease of 3 s: what is tested is that time passes
	_ = syscall.Kill(pids[0], syscall.SIGCONT)
	s.waitForState(id, sm.ExecutionCompletedAck)
	_ = syscall.Kill(pids[1], syscall.SIGCONT)
	before, err := s.Result(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	second := s.startUpgrade("3.0.0", "sw-001")
	s.waitForState(second, sm.ExecutionCompletedAck)
	for _, executionID := range []string{id, second} {
		s.history(executionID)
		s.wantNoLocks(executionID)
	}
	after, err := s.Result(t.Context(), id)
	if err != nil || string(after.Steps["upgrade"].Results["sw-001"]) != string(before.Steps["upgrade"].Results["sw-001"]) {
		t.Errorf("a late worker changed a result: %s, then %s, %v", before.Steps["upgrade"].Results, after.Steps["upgrade"].Results, err)
	}
	if v := fleet.CheckLogs(); len(v) > 0 {
		t.Errorf("the device's log: %v", v)
	}
	if d, _ := fleet.Device("sw-001"); d.Version != "3.0.0" {
		t.Errorf("the device runs %s", d.Version)
	}
}

// TestCrash_FleetWorkerKilled: the polling worker is killed again and again while a
// fleet is upgraded; the devices' own logs are the judge.
func TestCrash_FleetWorkerKilled(t *testing.T) {
	t.Parallel()
	fleet := simulator.New(simulator.Options{Devices: simulator.NumberedDevices(40)})
	devices := httptest.NewServer(fleet.Handler())
	defer devices.Close()
	defer func() { _ = fleet.Close() }()
	slow := simulator.Behaviour{Slow: &simulator.Slow{Delay: simulator.Duration(150 * time.Millisecond)}}
	if err := fleet.SetBehaviour(slow, fleet.IDs()...); err != nil {
		t.Fatal(err)
	}
	s := startStack(t, stackOptions{env: []string{"FLEET_URL=" + devices.URL}, args: []string{"--worker", bin(t, "fleet-worker")}})
	fleetReady(t, s)
	id := s.startUpgrade("2.0.0", fleet.IDs()...)
	for kill := range 2 {
		eventually(t, "devices are being upgraded", func() bool { return fleet.Versions()["2.0.0"] > 10*kill })
		eventually(t, "there is a worker to kill", func() bool { return s.killAll("fleet-worker") > 0 })
	}
	s.waitForState(id, sm.ExecutionCompletedAck)
	s.history(id)
	s.wantNoLocks(id)
	if fleet.Versions()["2.0.0"] != 40 {
		t.Errorf("the devices report %v", fleet.Versions())
	}
	if v := fleet.CheckLogs(); len(v) > 0 {
		t.Errorf("the devices' logs: %v", v)
	}
}

// fleetReady imports the devices, publishes the example's definition and waits
// for the worker's blocks.
func fleetReady(t *testing.T, s *localStack) {
	t.Helper()
	source, err := os.ReadFile(filepath.Join(root(t), "examples", "fleet", "upgrade_firmware.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	s.publish(string(source))
	var lines strings.Builder
	if err := simulator.WriteInventory(&lines, simulator.NumberedDevices(100)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.ImportEntities(t.Context(), strings.NewReader(lines.String())); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the worker registers its blocks", func() bool {
		n := 0
		for _, err := range s.Blocks(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			n++
		}
		return n == 4
	})
}

func (s *localStack) startUpgrade(target string, ids ...string) string {
	s.t.Helper()
	return s.startExecution("fleet/upgrade_firmware", fmt.Sprintf(`{"target":%q}`, target), ids...)
}
