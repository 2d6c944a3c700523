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
	"github.com/lockstep-run/lockstep/tests/testkit"
)

// newFixture makes a fixture on a stack.
func newFixture(t *testing.T, s *localStack, name string) *fixture {
	return &fixture{localStack: s, blocks: serveBlocks(t), name: name}
}

// The worker function is killed during jobs. An idempotent block runs again, with a
// higher fence. Another block does not, and the execution ends FAILED_UNSAFE.
func TestCrash_WorkerKilledInPack(t *testing.T) {
	t.Parallel()
	requireEmbedded(t, "it kills functions")
	s := startStack(t, stackOptions{})
	c := newFixture(t, s, "killed")
	ids := c.importEntities(c.entityType(), 2)
	var killed atomic.Int32
	entered := make(chan struct{}, 10)
	release := make(chan struct{})
	handler := func(k call) blockAnswer {
		if killed.Load() == 0 {
			entered <- struct{}{}
			<-release
		}
		return nil
	}
	c.registerBlock("again", workflow.Block{Idempotent: true, Reversible: true, Timeout: workflow.Duration(waitTimeout)}, handler)
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
			t.Errorf("%s was called with the fences %v, want a higher one after the crash", on, f)
		}
	}
	if len(keys) != 2 {
		t.Errorf("%d idempotency keys for 2 jobs: a job that is taken over keeps its key", len(keys))
	}

	// The same with a block that is not idempotent.
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

// N26: the execution is committed as RUNNING, and the process is killed before it sends
// the packs.
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
				x, _, err := c.Start(t.Context(), req) // the request fails with its process and is repeated with its key
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
		running := 0
		for x, err := range c.Executions(t.Context(), views.ExecutionFilter{State: sm.ExecutionRunning}) {
			if err != nil || x.Progress.Jobs.Total == 0 {
				t.Errorf("%+v, %v: want an execution that is committed with its jobs", x, err)
			}
			running++
		}
		if running != 1 {
			t.Errorf("%d executions are RUNNING, want one", running)
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

// The whole stack is killed twice and restarted on the same data and port. N43: a
// pending attempt is not lost.
func TestCrash_StackKilled(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "notes.txt"), []byte("another file"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := startStack(t, stackOptions{data: dir, port: testkit.FreePort(t)})
	c := newFixture(t, s, "power")
	ids := c.importEntities(c.entityType(), 30)
	var calls atomic.Int32
	slow := func(call) blockAnswer {
		calls.Add(1)
		time.Sleep(20 * time.Millisecond) // the time that a device takes
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
		t.Errorf("jobs of the retried step: %+v", jobs)
	}
}

// Every message is delivered twice, in random order.
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
	eventually(t, "all messages are consumed", func() bool {
		for p, err := range s.Pools(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			if p.Pool == "default" {
				return p.Waiting != nil && *p.Waiting+*p.Claimed+*p.Delayed == 0
			}
		}
		return false
	})
	once := map[string]int{}
	for _, k := range c.blocks.allCalls() {
		if strings.Contains(k.Block, "-once:") {
			if once[k.key]++; once[k.key] > 1 {
				t.Errorf("job %s of a block that is not idempotent was called twice", k.key)
			}
		}
	}
	if want := 3 * 6 * 4 * 2; len(once) != want {
		t.Errorf("%d jobs of the block that is not idempotent, want %d", len(once), want)
	}
}

// N25, N31: a worker is stopped for longer than its lease, and another takes its pack
// over. When the first one continues, its write fails because of the pack's token, and
// the device rejects its fence.
func TestFence_RefusesLateWorker(t *testing.T) {
	t.Parallel()
	fleet := simulator.New(simulator.Options{Devices: simulator.NumberedDevices(3)})
	devices := httptest.NewServer(fleet.Handler())
	defer devices.Close()
	defer func() { _ = fleet.Close() }()
	worker := testkit.Binary(t, "fleet-worker")
	s := startStack(t, stackOptions{env: []string{"FLEET_URL=" + devices.URL}, args: []string{"--worker", worker, "--worker", worker}})
	fleetReady(t, s)
	// Both workers are stopped during an upgrade; only one continues before the end and
	// takes over.
	if err := fleet.SetBehaviour(simulator.Behaviour{Slow: &simulator.Slow{Delay: simulator.Duration(1500 * time.Millisecond)}}, "sw-001"); err != nil {
		t.Fatal(err)
	}
	id := s.startUpgrade("2.0.0", "sw-001")
	eventually(t, "the upgrade has begun", func() bool { d, _ := fleet.Device("sw-001"); return d.Busy })
	pids := s.pids("fleet-worker")
	if len(pids) != 2 {
		t.Fatalf("%d worker processes, want 2", len(pids))
	}
	for _, pid := range pids {
		_ = syscall.Kill(pid, syscall.SIGSTOP)
	}
	time.Sleep(4 * time.Second) // longer than the lease of 3 s; part of the test
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

// The polling worker is killed repeatedly during a fleet upgrade. The devices' logs show
// whether every job ran correctly.
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
	s := startStack(t, stackOptions{env: []string{"FLEET_URL=" + devices.URL}, args: []string{"--worker", testkit.Binary(t, "fleet-worker")}})
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

// fleetReady imports the devices, publishes the definition of the example and waits for
// the worker's blocks.
func fleetReady(t *testing.T, s *localStack) {
	t.Helper()
	source, err := os.ReadFile(filepath.Join(testkit.Root(t), "examples", "fleet", "upgrade_firmware.yaml"))
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

// The whole stack is killed while a block that is not idempotent runs and another
// execution waits for the lock. All child processes end. After the restart the first
// execution ends FAILED_UNSAFE, because the result of its jobs is unknown, and no job
// is called again. Its locks stay until it is acknowledged; then the second execution
// continues.
func TestPowerLoss_EndsUnsafe(t *testing.T) {
	t.Parallel()
	s := startStack(t, stackOptions{data: t.TempDir(), port: testkit.FreePort(t)})
	c := newFixture(t, s, "cut")
	ids := c.importEntities(c.entityType(), 6)
	var cut atomic.Bool
	entered, release := make(chan struct{}, 100), make(chan struct{})
	c.registerBlock("once", workflow.Block{Timeout: workflow.Duration(waitTimeout)}, func(call) blockAnswer {
		if !cut.Load() {
			entered <- struct{}{}
			<-release
		}
		return nil
	})
	c.publishWorkflow("config: {maxInFlight: 2}\n", "label: once, block: once, runOn: KIND")
	first := c.startWorkflow("{}", ids...)
	<-entered
	<-entered
	second := c.startWorkflow("{}", ids[0], ids[5])
	eventually(t, "the second execution waits", func() bool {
		x, err := c.Execution(t.Context(), second)
		return err == nil && x.Waiting != nil && x.Waiting.Kind == workflow.WaitLock
	})
	children := s.pids(".")
	cut.Store(true)
	s.killAndRestart()
	close(release)
	for _, pid := range children {
		eventually(t, "a child process ends with its parent", func() bool { return syscall.Kill(pid, 0) != nil })
	}
	x := c.waitEnded(first, sm.ExecutionFailedUnsafe)
	if x.Cause == nil || *x.Cause != workflow.CauseWorkerCrash || x.Error == nil || x.Error.Entity == nil {
		t.Errorf("cause %v, error %+v", deref(x.Cause), x.Error)
	}
	keys := map[string]int{}
	for _, k := range c.blocks.allCalls() {
		keys[k.key]++
	}
	for key, n := range keys {
		if n > 1 {
			t.Errorf("job %s was called %d times", key, n)
		}
	}
	unknown, cancelled := 0, 0
	for _, j := range c.listJobs(first, views.JobFilter{}) {
		switch j.State {
		case sm.JobUnknown:
			unknown++
		case sm.JobCancelled:
			cancelled++
		}
	}
	if unknown != 2 || cancelled+unknown+c.countJobs(first, sm.JobCompleted) != 6 {
		t.Errorf("%d jobs unknown, %d cancelled, %d completed; want the two that were running unknown, and none lost", unknown, cancelled, c.countJobs(first, sm.JobCompleted))
	}
	if w, err := c.Execution(t.Context(), second); err != nil || w.State != sm.ExecutionScheduled {
		t.Errorf("the waiting execution is in %s, %v", w.State, err)
	}
	if _, err := c.Acknowledge(t.Context(), first, "checked both"); err != nil {
		t.Fatal(err)
	}
	c.waitEnded(first, sm.ExecutionFailedUnsafeAck)
	c.waitEnded(second, sm.ExecutionCompletedAck)
}

func (c *fixture) countJobs(id string, state sm.JobState) (n int) {
	c.t.Helper()
	for _, j := range c.listJobs(id, views.JobFilter{}) {
		if j.State == state {
			n++
		}
	}
	return n
}

// A stack with hanging jobs ends within 15 s of SIGTERM, with all its child processes.
func TestDev_TerminatesWithJobsInProgress(t *testing.T) {
	t.Parallel()
	requireEmbedded(t, "it stops the stack")
	s := startStack(t, stackOptions{})
	c := newFixture(t, s, "term")
	ids := c.importEntities(c.entityType(), 2)
	g := newBlockGate()
	c.registerBlock("hang", workflow.Block{Idempotent: true, Timeout: workflow.Duration(waitTimeout)}, g.wait)
	c.publishWorkflow("", "label: hang, block: hang, runOn: KIND")
	c.startWorkflow("{}", ids...)
	<-g.entered
	children := s.pids(".")
	start := time.Now()
	s.stopProcess() // fails the test after 15 s
	for _, pid := range children {
		if syscall.Kill(pid, 0) == nil {
			t.Errorf("process %d still runs %s after SIGTERM", pid, time.Since(start))
		}
	}
}

// A worker program that was started by hand goes on after a restart of the stack: the addresses of the
// tables and the queues stay the same with the data.
func TestStack_KeepsItsAddresses(t *testing.T) {
	t.Parallel()
	requireEmbedded(t, "it restarts the stack")
	dir := t.TempDir()
	s := startStack(t, stackOptions{data: dir, port: testkit.FreePort(t)})
	read := func() string {
		text, err := os.ReadFile(filepath.Join(dir, "worker.env"))
		if err != nil || !strings.Contains(string(text), "AWS_ENDPOINT_URL_SQS=http://127.") {
			t.Fatalf("%v\n%s", err, text)
		}
		rest, _, _ := strings.Cut(string(text), "export LOCKSTEP_CONFIG=") // each start of the test has a file of its own
		lines := strings.Split(rest, "\n")
		slices.Sort(lines)
		return strings.Join(lines, "\n")
	}
	before := read()
	s.stopProcess()
	s.startProcess()
	if after := read(); after != before {
		t.Errorf("before:\n%s\nafter:\n%s", before, after)
	}
}
