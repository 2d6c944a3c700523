package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/testkit"
)

// shortLivenessConfig makes workers unreachable after seconds.
const shortLivenessConfig = `
sweepInterval: 500ms
job: {lease: 2s, stuck: 2s, unclaimed: 8s}
worker: {heartbeat: 300ms, unreachable: 2s, offline: 5s, forget: 9s}
log: {level: info}
`

// publishPolledWorkflow registers a block for polling workers in a separate pool, and
// publishes a workflow that runs it on devices.
func (s *localStack) publishPolledWorkflow(name string, b workflow.Block) {
	s.t.Helper()
	requireEmbedded(s.t, "its workers poll a pool that is not deployed")
	b.Package, b.Name, b.Version, b.Pool = "test", name, "1.0.0", "edge-"+name
	if _, err := s.RegisterBlock(s.t.Context(), b); err != nil {
		s.t.Fatalf("register %s: %v", name, err)
	}
	s.publish(fmt.Sprintf("package: test\nname: %s\nversion: 1.0.0\nseedEntity: device\nsteps: [{label: one, functionBlock: test/%s:1, runOn: device}]\n", name, name))
}

// pollOnce polls for a pack as a worker.
func (s *localStack) pollOnce(worker, name string, wait time.Duration) *views.PackOffer {
	s.t.Helper()
	d := workflow.Duration(wait)
	offer, err := s.Poll(s.t.Context(), views.JobPoll{Worker: worker, Blocks: []string{"test/" + name}, Wait: &d})
	if err != nil {
		s.t.Fatalf("%s polls: %v", worker, err)
	}
	return offer
}

// pollUntilPack polls until there is a pack.
func (s *localStack) pollUntilPack(worker, name string) *views.PackOffer {
	s.t.Helper()
	var offer *views.PackOffer
	eventually(s.t, "a pack for "+worker, func() bool {
		offer = s.pollOnce(worker, name, 5*time.Second)
		return offer != nil
	})
	return offer
}

// decodeJob decodes a job of a polling worker.
func decodeJob(t testing.TB, raw json.RawMessage) (c call) {
	t.Helper()
	if err := json.Unmarshal(raw, &c); err != nil {
		t.Fatal(err)
	}
	return c
}

// finishPack finishes every job of a pack with the same outcome and result.
func (s *localStack) finishPack(o *views.PackOffer, outcome, result string) error {
	s.t.Helper()
	r := views.PackResults{Pack: o.Pack, Token: o.Token}
	for _, raw := range o.Jobs {
		r.Results = append(r.Results, json.RawMessage(fmt.Sprintf(`{"job":%q,"outcome":%q,"result":%s}`, decodeJob(s.t, raw).Job.ID, outcome, result)))
	}
	_, err := s.FinishPack(s.t.Context(), r)
	return err
}

// waitForPackInPool waits until a pool shows a waiting pack.
func (s *localStack) waitForPackInPool(pool string) {
	s.t.Helper()
	eventually(s.t, "a pack waits in pool "+pool, func() bool {
		for p, err := range s.Pools(s.t.Context()) {
			if err != nil {
				s.t.Fatal(err)
			}
			if p.Pool == pool && p.Waiting != nil && *p.Waiting > 0 {
				return true
			}
		}
		return false
	})
}

func (s *localStack) wantClaimLost(what string, err error) {
	s.t.Helper()
	if !workflow.Is(err, workflow.CodeClaimLost) {
		s.t.Errorf("%s: %v, want claim_lost", what, err)
	}
}

// onlyJob returns the only job of an execution.
func (s *localStack) onlyJob(id string) (last workflow.Job) {
	s.t.Helper()
	for j, err := range s.Jobs(s.t.Context(), id, views.JobFilter{}) {
		if err != nil {
			s.t.Fatal(err)
		}
		last = j
	}
	return last
}

// N23: one of many polling workers gets a job. N25: a result that is sent twice changes
// nothing.
func TestPolling_OneWorkerGetsPack(t *testing.T) {
	t.Parallel()
	s := startStack(t, stackOptions{})
	s.importEntities("device", 1)
	s.publishPolledWorkflow("once", workflow.Block{})
	offers := make([]*views.PackOffer, 12)
	var all sync.WaitGroup
	for i := range offers {
		all.Go(func() {
			d := workflow.Duration(3 * time.Second)
			o, err := s.Poll(t.Context(), views.JobPoll{Worker: fmt.Sprintf("w%02d", i), Blocks: []string{"test/once:1"}, Wait: &d})
			if err != nil {
				t.Errorf("w%02d: %v", i, err)
			}
			offers[i] = o
		})
	}
	id := s.startExecution("test/once", `{}`, "e-0001")
	all.Wait()
	var offer *views.PackOffer
	for i, o := range offers {
		if o != nil && offer != nil {
			t.Errorf("w%02d got the pack too", i)
		}
		if o != nil {
			offer = o
		}
	}
	if offer == nil {
		offer = s.pollUntilPack("late", "once")
	}
	c := decodeJob(t, offer.Jobs[0])
	if len(offer.Jobs) != 1 || c.entityID() != "e-0001" || c.Operation != "EXECUTE" || c.Fence == "" || c.Token == nil || c.Deadline == "" || offer.Token != 1 {
		t.Errorf("offered %+v: %s", offer, offer.Jobs)
	}
	for what, text := range map[string]string{
		"no outcome":    `{"job":"ID","outcome":"MAYBE"}`,
		"no error":      `{"job":"ID","outcome":"ERROR"}`,
		"unknown field": `{"job":"ID","outcome":"OK","foo":3}`,
		"unknown job":   `{"job":"01a1fdc3-42ee-72c1-8d23-bad40e43d256-1-0-1","outcome":"OK"}`,
		"no job":        `{"outcome":"OK"}`,
		"not an object": `"OK"`,
		"wrong type":    `{"job":7,"outcome":"OK"}`,
	} {
		raw := json.RawMessage(strings.ReplaceAll(text, "ID", c.Job.ID))
		_, err := s.FinishPack(t.Context(), views.PackResults{Pack: offer.Pack, Token: offer.Token, Results: []json.RawMessage{raw}})
		if !workflow.Is(err, workflow.CodeInvalid) || !strings.Contains(err.Error(), "results[0]") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := s.finishPack(offer, "OK", `{"n":1}`); err != nil {
		t.Fatal(err)
	}
	s.wantClaimLost("the same results again", s.finishPack(offer, "OK", `{"n":2}`))
	s.waitForState(id, sm.ExecutionCompletedAck)
	if j := s.onlyJob(id); string(j.Result) != `{"n":1}` || j.Attempt != 1 || *j.Worker == "" {
		t.Errorf("%+v", j)
	}
	// Results for a pack that was not offered are rejected.
	forged := *offer
	forged.Token++
	s.wantClaimLost("another token", s.finishPack(&forged, "OK", `{}`))
	forged.Pack = "nonsense"
	if err := s.finishPack(&forged, "OK", `{}`); !workflow.Is(err, workflow.CodeInvalid) {
		t.Errorf("invalid pack: %v", err)
	}
	if _, err := s.clientFor("other").FinishPack(t.Context(), views.PackResults{Pack: offer.Pack, Token: offer.Token}); err == nil {
		t.Error("results of another tenant were accepted")
	}
}

// A poll that is repeated because it got no answer gets the pack that was claimed for it,
// and only until the worker has reported about it.
func TestPolling_RepeatedPollGetsSamePack(t *testing.T) {
	t.Parallel()
	s := startStack(t, stackOptions{})
	s.importEntities("device", 1)
	s.publishPolledWorkflow("lost", workflow.Block{})
	id := s.startExecution("test/lost", `{}`, "e-0001")
	s.waitForPackInPool("edge-lost")
	wait := workflow.Duration(10 * time.Second)
	poll := func() *views.PackOffer {
		offer, err := s.Poll(t.Context(), views.JobPoll{Worker: "w1", Blocks: []string{"test/lost:1"}, Wait: &wait, Attempt: "only-once"})
		if err != nil {
			t.Fatal(err)
		}
		return offer
	}
	lost, again := poll(), poll()
	if lost == nil || again == nil || again.Pack != lost.Pack || again.Token != lost.Token || again.Lease.Before(lost.Lease) {
		t.Fatalf("first %+v, then %+v", lost, again)
	}
	if _, err := s.ExtendPack(t.Context(), again.Pack, again.Token); err != nil {
		t.Fatal(err)
	}
	if o := poll(); o != nil {
		t.Errorf("after a heartbeat: %+v", o)
	}
	if err := s.finishPack(again, "OK", `{}`); err != nil {
		t.Fatal(err)
	}
	s.waitForState(id, sm.ExecutionCompletedAck)
}

// N44: an idempotent pack is dispatched to another worker after the lease of the first;
// N25: the first worker has lost its claim.
func TestPolling_LostPackIsRedispatched(t *testing.T) {
	t.Parallel()
	s := startStack(t, stackOptions{})
	s.importEntities("device", 1)
	s.publishPolledWorkflow("again", workflow.Block{Idempotent: true})
	id := s.startExecution("test/again", `{}`, "e-0001")
	first := s.pollUntilPack("w1", "again")
	second := s.pollUntilPack("w2", "again")
	if second.Token != first.Token+1 || decodeJob(t, second.Jobs[0]).Job.ID != decodeJob(t, first.Jobs[0]).Job.ID {
		t.Errorf("first %+v, then %+v", first, second)
	}
	if a, b := decodeJob(t, first.Jobs[0]).Fence, decodeJob(t, second.Jobs[0]).Fence; a >= b {
		t.Errorf("fence %s after %s", b, a)
	}
	s.wantClaimLost("the first worker's result", s.finishPack(first, "OK", `"late"`))
	_, err := s.ExtendPack(t.Context(), first.Pack, first.Token)
	s.wantClaimLost("the first worker's heartbeat", err)
	if err := s.finishPack(second, "OK", `"in time"`); err != nil {
		t.Fatal(err)
	}
	s.waitForState(id, sm.ExecutionCompletedAck)
	if j := s.onlyJob(id); string(j.Result) != `"in time"` || *j.Worker != "w2" || j.Attempt != 1 {
		t.Errorf("%+v", j)
	}
}

// R27, F56: a job whose worker stalls is continued by another one from all that was saved of it, and
// the first one can save nothing more. How far it is can be seen.
func TestPolling_JobIsContinuedFromItsCheckpoints(t *testing.T) {
	t.Parallel()
	s := startStack(t, stackOptions{})
	s.importEntities("device", 1)
	s.publishPolledWorkflow("long", workflow.Block{Idempotent: true})
	id := s.startExecution("test/long", `{}`, "e-0001")
	first := s.pollUntilPack("w1", "long")
	job := decodeJob(t, first.Jobs[0]).Job.ID
	report := func(o *views.PackOffer, key, value string) error {
		_, err := s.ExtendPack(t.Context(), o.Pack, o.Token, views.JobReport{
			Job: job, Checkpoints: workflow.Checkpoints{key: json.RawMessage(value)}, Progress: &views.JobReportProgress{Percent: 40, Message: "copied " + key},
			Logs: workflow.LogLines{{Level: "WARNING", Text: "copied " + key + "\x1b[2J"}},
		})
		return err
	}
	for key, value := range map[string]string{"boot": `{"bytes":4096}`, "image": `"half"`} {
		if err := report(first, key, value); err != nil {
			t.Fatal(err)
		}
	}
	if j := s.onlyJob(id); j.Progress == nil || j.Progress.Percent != 40 || len(j.Checkpoints) != 2 {
		t.Errorf("the job is shown as %+v", j)
	}
	if x, err := s.Execution(t.Context(), id); err != nil || x.Progress.Percent == nil || *x.Progress.Percent != 40 || x.Progress.Message == nil {
		t.Errorf("the execution is shown with %+v, %v", x.Progress, err)
	}
	if _, out, _ := runLockstep(t, "", "--url="+s.url, "status", id); !strings.Contains(out, "40 %, copied ") {
		t.Errorf("status prints %s", out)
	}
	if _, out, _ := runLockstep(t, "", "--url="+s.url, "jobs", id); !strings.Contains(out, "40 % copied ") {
		t.Errorf("jobs prints %s", out)
	}
	if _, out, _ := runLockstep(t, "", "--url="+s.url, "logs", id, "--level", "warn"); strings.Count(out, "\n") != 2 || !strings.Contains(out, `  WARN   one device/e-0001  copied boot\x1b[2J`) {
		t.Errorf("logs prints %s", out)
	}
	if _, out, err := runLockstep(t, "", "--url="+s.url, "logs", id, "--level", "error"); out != "" || !strings.Contains(err, "has logged anything that matches") {
		t.Errorf("logs prints %s%s", out, err)
	}

	second := s.pollUntilPack("w2", "long")
	var offered struct{ Checkpoints map[string]json.RawMessage }
	if err := json.Unmarshal(second.Jobs[0], &offered); err != nil {
		t.Fatal(err)
	}
	if len(offered.Checkpoints) != 2 || string(offered.Checkpoints["boot"]) != `{"bytes":4096}` || string(offered.Checkpoints["image"]) != `"half"` {
		t.Errorf("offered %s", second.Jobs[0])
	}
	s.wantClaimLost("what the first worker saves", report(first, "late", "1"))
	if err := report(second, "rest", "1"); err != nil {
		t.Fatal(err)
	}
	if _, late := s.onlyJob(id).Checkpoints["late"]; late {
		t.Error("the first worker has saved something")
	}
	if err := s.finishPack(second, "OK", `{}`); err != nil {
		t.Fatal(err)
	}
	s.waitForState(id, sm.ExecutionCompletedAck)
	if j := s.onlyJob(id); j.Progress != nil || len(j.Checkpoints) > 0 {
		t.Errorf("after its end the job is shown as %+v", j)
	}
}

// F37: a worker that is drained gets no packs and is told so, ends the one that it has, and is given
// packs again after it has registered again.
func TestPolling_DrainedWorkerEndsWhatItHas(t *testing.T) {
	t.Parallel()
	s := startStack(t, stackOptions{})
	s.importEntities("device", 2)
	s.publishPolledWorkflow("drain", workflow.Block{})
	first := s.startExecution("test/drain", `{}`, "e-0001")
	held := s.pollUntilPack("w1", "drain")
	second := s.startExecution("test/drain", `{}`, "e-0002")
	s.waitForPackInPool("edge-drain")
	if code, out, err := runLockstep(t, "", "--url="+s.url, "workers", "drain", "w1", "--reason", "upgrade"); code != 0 || !strings.Contains(out, "w1 is DRAINING and holds 1 packs") {
		t.Errorf("exit code %d: %s%s", code, out, err)
	}
	if o := s.pollOnce("w1", "drain", time.Second); o != nil {
		t.Errorf("it gets %+v", o)
	}
	reply, err := http.Post(s.url+"/blackboard/job", "application/json", strings.NewReader(`{"worker": "w1", "blocks": ["test/drain"], "wait": "1s"}`))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = reply.Body.Close() }()
	if reply.StatusCode != 204 || reply.Header.Get("Lockstep-Drain") != "true" {
		t.Errorf("a poll is answered %s %v", reply.Status, reply.Header)
	}
	if _, err := s.ExtendPack(t.Context(), held.Pack, held.Token); err != nil {
		t.Error(err)
	}
	if err := s.finishPack(held, "OK", `{}`); err != nil {
		t.Error(err)
	}
	s.waitForState(first, sm.ExecutionCompletedAck)
	if w, err := s.Worker(t.Context(), "w1"); err != nil || w.State != sm.WorkerDraining || len(w.Packs) != 0 {
		t.Errorf("%+v, %v", w, err)
	}
	if _, err := s.RegisterWorker(t.Context(), views.WorkerRegistration{ID: "w1", Pool: "edge-drain", Blocks: []string{"test/drain"}}); err != nil {
		t.Fatal(err)
	}
	if err := s.finishPack(s.pollUntilPack("w1", "drain"), "OK", `{}`); err != nil {
		t.Error(err)
	}
	s.waitForState(second, sm.ExecutionCompletedAck)
	if code, _, _ := runLockstep(t, "", "--url="+s.url, "workers", "drain", "nobody"); code == 0 {
		t.Error("an unknown worker is drained")
	}
}

// N44, N52: a job that is not idempotent fails with its worker and is not dispatched
// again.
func TestPolling_NonIdempotentJobFailsWithWorker(t *testing.T) {
	t.Parallel()
	s := startStack(t, stackOptions{config: shortLivenessConfig})
	s.importEntities("device", 1)
	s.publishPolledWorkflow("never", workflow.Block{})
	id := s.startExecution("test/never", `{}`, "e-0001")
	first := s.pollUntilPack("w1", "never")
	// No worker polls; job.stuck ends some time after the lease.
	x := s.waitForState(id, sm.ExecutionFailedUnsafe)
	if x.Cause == nil || *x.Cause != workflow.CauseWorkerCrash {
		t.Errorf("cause %v", deref(x.Cause))
	}
	if j := s.onlyJob(id); j.State != sm.JobUnknown {
		t.Errorf("%+v", j)
	}
	s.wantClaimLost("its result", s.finishPack(first, "OK", `{}`))
	if o := s.pollOnce("w2", "never", time.Second); o != nil {
		t.Errorf("dispatched again: %+v", o)
	}
}

// N52: a job keeps its worker as long as it sends heartbeats.
func TestPolling_HeartbeatsExtendLease(t *testing.T) {
	t.Parallel()
	s := startStack(t, stackOptions{config: shortLivenessConfig})
	s.importEntities("device", 1)
	s.publishPolledWorkflow("long", workflow.Block{Timeout: workflow.Duration(10 * time.Minute)})
	id := s.startExecution("test/long", `{}`, "e-0001")
	o := s.pollUntilPack("w1", "long")
	for start := time.Now(); time.Since(start) < 10*time.Second; { // more than twice lease and stuck
		lease, err := s.ExtendPack(t.Context(), o.Pack, o.Token)
		if err != nil || lease.Lease == nil || lease.Cancel {
			t.Fatalf("after %s: %+v %v", time.Since(start), lease, err)
		}
		if other := s.pollOnce("w2", "long", time.Second); other != nil {
			t.Fatalf("dispatched to another worker after %s: %+v", time.Since(start), other)
		}
		if _, err := s.HeartbeatWorker(t.Context(), "w2"); err != nil {
			t.Fatal(err)
		}
	}
	if w, err := s.Worker(t.Context(), "w1"); err != nil || w.State != sm.WorkerOnline || len(w.Packs) != 1 {
		t.Errorf("the worker is %+v, %v", w, err)
	}
	if err := s.finishPack(o, "OK", `{}`); err != nil {
		t.Fatal(err)
	}
	s.waitForState(id, sm.ExecutionCompletedAck)
	if w, err := s.Worker(t.Context(), "w1"); err != nil || len(w.Packs) != 0 {
		t.Errorf("after the end the worker is %+v, %v", w, err)
	}
}

// N47: pending jobs of a cancelled execution are never dispatched; a worker with a job
// learns of the cancel with its next heartbeat.
func TestPolling_CancelledJobsAreNotDispatched(t *testing.T) {
	t.Parallel()
	s := startStack(t, stackOptions{})
	s.importEntities("device", 2)
	s.publishPolledWorkflow("cancelled", workflow.Block{Pure: true})
	queued := s.startExecution("test/cancelled", `{}`, "e-0001", "e-0002")
	s.waitForPackInPool("edge-cancelled")
	if _, err := s.Cancel(t.Context(), queued, views.CancelRequest{}); err != nil {
		t.Fatal(err)
	}
	if o := s.pollOnce("w1", "cancelled", 2*time.Second); o != nil {
		t.Errorf("a queued pack was dispatched after the cancel: %+v", o)
	}
	s.waitForState(queued, sm.ExecutionCancelledAck)
	for j, err := range s.Jobs(t.Context(), queued, views.JobFilter{}) {
		if err != nil || j.State != sm.JobCancelled || j.Worker != nil {
			t.Errorf("%+v, %v", j, err)
		}
	}
	id := s.startExecution("test/cancelled", `{}`, "e-0001", "e-0002")
	held := s.pollUntilPack("w1", "cancelled")
	if _, err := s.Cancel(t.Context(), id, views.CancelRequest{Reason: "enough"}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the worker is asked to stop", func() bool {
		lease, err := s.ExtendPack(t.Context(), held.Pack, held.Token)
		if err != nil {
			t.Fatal(err)
		}
		return lease.Cancel
	})
	if o := s.pollOnce("w2", "cancelled", 2*time.Second); o != nil {
		t.Errorf("dispatched after the cancel: %+v", o)
	}
	if err := s.finishPack(held, "OK", `{}`); err != nil {
		t.Fatal(err)
	}
	s.waitForState(id, sm.ExecutionCancelledAck)
	if o := s.pollOnce("w2", "cancelled", time.Second); o != nil {
		t.Errorf("dispatched after the end: %+v", o)
	}
}

// N51: a silent worker becomes UNREACHABLE and gets no packs, then OFFLINE, then it is
// removed. A heartbeat before that makes it ONLINE.
func TestWorkers_SilentBecomeOffline(t *testing.T) {
	t.Parallel()
	s := startStack(t, stackOptions{config: shortLivenessConfig, args: []string{"--worker", testkit.Binary(t, "fleet-worker")}})
	s.importEntities("device", 1)
	s.publishPolledWorkflow("any", workflow.Block{Idempotent: true})
	state := func(id string) sm.WorkerState {
		w, err := s.Worker(t.Context(), id)
		if workflow.Is(err, workflow.CodeNotFound) {
			return sm.WorkerRemoved
		}
		if err != nil {
			t.Fatal(err)
		}
		return w.State
	}
	becomes := func(id string, want sm.WorkerState) {
		t.Helper()
		eventually(t, id+" becomes "+string(want), func() bool { return state(id) == want })
	}
	w, err := s.RegisterWorker(t.Context(), views.WorkerRegistration{ID: "w1", Pool: "edge-any", Blocks: []string{"test/any:1"}})
	if err != nil || w.State != sm.WorkerRegistered || w.LastHeartbeat != nil {
		t.Fatalf("%+v %v", w, err)
	}
	if w, err = s.HeartbeatWorker(t.Context(), "w1"); err != nil || w.State != sm.WorkerOnline || w.LastHeartbeat == nil {
		t.Fatalf("%+v %v", w, err)
	}
	serving := 0
	for range s.BlockWorkers(t.Context(), workflow.Ref{Package: "test", Name: "any", Version: "1.0.0"}) {
		serving++
	}
	if serving != 1 {
		t.Errorf("%d workers serve the block", serving)
	}
	becomes("w1", sm.WorkerUnreachable)
	id := s.startExecution("test/any", `{}`, "e-0001")
	if _, err := s.Poll(t.Context(), views.JobPoll{Worker: "w1", Blocks: []string{"test/any"}}); !workflow.Is(err, workflow.CodeConflict) {
		t.Errorf("poll while UNREACHABLE: %v", err)
	}
	if _, err := s.HeartbeatWorker(t.Context(), "w1"); err != nil {
		t.Fatal(err)
	}
	o := s.pollUntilPack("w1", "any")
	if err := s.finishPack(o, "OK", `{}`); err != nil {
		t.Fatal(err)
	}
	s.waitForState(id, sm.ExecutionCompletedAck)
	becomes("w1", sm.WorkerOffline)
	if _, err := s.HeartbeatWorker(t.Context(), "w1"); err != nil || state("w1") != sm.WorkerOnline {
		t.Errorf("heartbeat while OFFLINE: %s, %v", state("w1"), err)
	}
	becomes("w1", sm.WorkerRemoved)
	if _, err := s.HeartbeatWorker(t.Context(), "w1"); !workflow.Is(err, workflow.CodeNotFound) {
		t.Errorf("heartbeat after removal: %v", err)
	}

	// The worker program registered itself and stayed ONLINE.
	out, err := exec.Command(testkit.Binary(t, "lockstep"), "workers", "--output", "json", "--url", s.url).Output()
	if err != nil {
		t.Fatal(err)
	}
	var listed []views.WorkerView
	if err := json.Unmarshal(out, &listed); err != nil || len(listed) != 1 || listed[0].State != sm.WorkerOnline || !strings.Contains(strings.Join(listed[0].Blocks, " "), "fleet/") {
		t.Fatalf("%v: %s", err, out)
	}
	if table, err := exec.Command(testkit.Binary(t, "lockstep"), "workers", listed[0].ID, "--url", s.url).Output(); err != nil || !strings.Contains(string(table), "ONLINE") {
		t.Errorf("%v: %s", err, table)
	}
	if _, err := s.UnregisterWorker(t.Context(), listed[0].ID); err != nil {
		t.Error(err)
	}
}

// N53: unclaimed jobs end their execution; before that their pack is shown as waiting.
func TestPolling_UnclaimedJobsEndExecution(t *testing.T) {
	t.Parallel()
	s := startStack(t, stackOptions{config: shortLivenessConfig})
	s.importEntities("device", 1)
	s.publishPolledWorkflow("alone", workflow.Block{})
	id := s.startExecution("test/alone", `{}`, "e-0001")
	s.waitForPackInPool("edge-alone")
	x := s.waitForState(id, sm.ExecutionFailedSafeAck)
	if x.Cause == nil || *x.Cause != workflow.CauseUnclaimed {
		t.Errorf("cause %v", deref(x.Cause))
	}
	if o := s.pollOnce("w1", "alone", time.Second); o != nil {
		t.Errorf("dispatched after the end: %+v", o)
	}
}
