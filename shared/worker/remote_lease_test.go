package worker_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/sim/faults"
	"github.com/lockstep-run/lockstep/shared/worker"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// leaseRemote leases a message's pack. It fails the test if there is no lease.
func (r *fixture) leaseRemote(m *workflow.PackMessage) *worker.RemoteLease {
	r.Helper()
	remote, d, err := r.worker().LeaseRemote(context.Background(), m, r.ports())
	if err != nil || remote == nil {
		r.Fatalf("no lease: %+v %v", d, err)
	}
	return remote
}

// resumeRemote reports results of a leased pack as it is now.
func (r *fixture) resumeRemote(m *workflow.PackMessage, results *worker.RemoteResult) (*worker.RemoteLease, worker.Disposition, error) {
	return r.worker().ResumeRemote(context.Background(), m, r.pack(m.Key), results, r.ports())
}

// wantEnded reports results and wants the pack final.
func (r *fixture) wantEnded(m *workflow.PackMessage, results *worker.RemoteResult) {
	r.Helper()
	if remote, d, err := r.resumeRemote(m, results); remote != nil || !d.Done || err != nil {
		r.Errorf("not final: %+v %+v %v", remote, d, err)
	}
}

// remoteResult reports a success for each job.
func remoteResult(jobs ...*worker.Job) *worker.RemoteResult {
	results := &worker.RemoteResult{Results: map[string]worker.JobResult{}}
	for _, j := range jobs {
		results.Results[j.ID] = worker.JobResult{Outcome: sm.OutcomeOK, Result: json.RawMessage(`1`)}
	}
	return results
}

// Results may arrive in parts. The pack is finished when all have arrived.
func TestRemoteLease_ResultsArriveInParts(t *testing.T) {
	for _, kind := range kinds {
		r := newFixture(t)
		m := r.newMessage(kind, 0, 9, 3)
		remote := r.leaseRemote(m)
		r.wantPack(m.Key, workflow.PackClaimed, 1, codeStarted, codeStarted, codeStarted)
		if len(remote.Jobs) != 3 || remote.Jobs[1].Fence == "" || !remote.Jobs[1].Deadline.Equal(r.Now().Add(20*time.Minute)) {
			t.Errorf("leased %+v", remote.Jobs[1])
		}
		r.Advance(lease / 2)
		renewed, _, err := r.resumeRemote(m, remoteResult(remote.Jobs[1]))
		if err != nil || renewed == nil || !renewed.Pack.Lease.Equal(r.Now().Add(lease)) {
			t.Fatalf("renewed %+v, %v", renewed, err)
		}
		r.wantPack(m.Key, workflow.PackClaimed, 1, codeStarted, codeOK, codeStarted)
		if r.doneSet().Done[0] {
			t.Error("the lane is in the done set before its pack is final")
		}
		r.wantEnded(m, remoteResult(remote.Jobs[0], remote.Jobs[2]))
		r.wantPack(m.Key, workflow.PackFinished, 1, codeOK, codeOK, codeOK)
		if !r.doneSet().Done[0] {
			t.Error("the lane is not in the done set")
		}
	}
}

// Failures that a poll reports are retried as the step says, like those of other workers.
func TestRemoteLease_RepeatsTheCodesOfItsRetry(t *testing.T) {
	r := newFixture(t)
	m := r.newMessage(kinds[0], 0, 9, 2)
	m.Work.Retry = &workflow.Retry{MaxRetries: 1, On: []string{"BUSY"}}
	remote := r.leaseRemote(m)
	results := &worker.RemoteResult{Results: map[string]worker.JobResult{
		remote.Jobs[0].ID: {Outcome: sm.OutcomeError, Failure: &workflow.Failure{Code: "BUSY"}},
		remote.Jobs[1].ID: {Outcome: sm.OutcomeError, Failure: &workflow.Failure{Code: "OTHER", Retryable: true}},
	}}
	r.wantEnded(m, results)
	if p := r.pack(m.Key); !p.Jobs[0].Failure.Retryable || p.Jobs[1].Failure.Retryable {
		t.Errorf("%+v, %+v", p.Jobs[0].Failure, p.Jobs[1].Failure)
	}
}

// One answer carries only so many bytes of inputs. The jobs beyond that fail without having
// been called, and the next attempt carries them.
func TestRemoteLease_BoundsOneAnswer(t *testing.T) {
	for _, kind := range kinds {
		for _, retry := range []*workflow.Retry{nil, {MaxRetries: 1}} { // what was never handed out has used no attempt
			boundsOneAnswer(t, kind, retry)
		}
	}
}

func boundsOneAnswer(t *testing.T, kind string, retry *workflow.Retry) {
	t.Helper()
	r := newFixture(t)
	m := r.newMessage(kind, 0, 1, 8)
	m.Work.Retry = retry
	for i := range m.Jobs {
		m.Jobs[i].Parameters = json.RawMessage(`"` + strings.Repeat("x", 1<<20-2) + `"`)
	}
	for _, want := range []int{3, 3, 2} {
		remote := r.leaseRemote(m)
		if len(remote.Jobs) != want {
			t.Fatalf("%s: %d jobs are offered in attempt %d, want %d", kind, len(remote.Jobs), m.Key.Attempt, want)
		}
		for _, rec := range r.pack(m.Key).Jobs[len(remote.Jobs):] {
			if rec.Executed() || rec.Code != codeFailed || !rec.Failure.Withheld() {
				t.Errorf("%s, %+v", rec.Code, rec.Failure)
			}
		}
		r.wantEnded(m, remoteResult(remote.Jobs...))
		sent := r.sentPacks()
		if want == 2 && len(sent) == 0 {
			return
		}
		if len(sent) != 1 || sent[0].Key.Attempt != m.Key.Attempt+1 {
			t.Fatalf("sent %+v", sent)
		}
		m = sent[0]
	}
	t.Errorf("%s: a pack is sent when all jobs have been executed", kind)
}

// A pack that is taken over may also be withheld in part: jobs that an earlier worker had begun,
// and that may be repeated, are called again without a retry.
func TestRemoteLease_ExecutesWhatItWithholdsFromAPackThatWasTakenOver(t *testing.T) {
	r := newFixture(t)
	m := r.newMessage(idempotent, 0, 1, 4)
	for i := range m.Jobs {
		m.Jobs[i].Attributes = json.RawMessage(`{"a":"` + strings.Repeat("x", 1<<20-8) + `"}`)
	}
	r.crashOnStart(4)
	_, _, _ = r.handle(r.worker(), m)
	r.Advance(pastLease)
	remote := r.leaseRemote(m)
	if len(remote.Jobs) != 3 {
		t.Fatalf("%d jobs are offered", len(remote.Jobs))
	}
	if rec := r.pack(m.Key).Jobs[3]; !rec.Failure.Withheld() || rec.Failure.Unsent {
		t.Errorf("%+v", rec.Failure)
	}
	r.wantEnded(m, remoteResult(remote.Jobs...))
	sent := r.sentPacks()
	if len(sent) != 1 {
		t.Fatalf("sent %+v", sent)
	}
	if again := r.leaseRemote(sent[0]); len(again.Jobs) != 1 || again.Pack.Jobs[0].Index != 3 {
		t.Errorf("%+v", again.Pack.Jobs)
	}
}

// Another worker has to wait while the lease is valid. After that it takes the pack
// over, but jobs that must not run twice are not leased again.
func TestRemoteLease_IsTakenOverAfterExpiry(t *testing.T) {
	for _, kind := range kinds {
		r := newFixture(t)
		m := r.newMessage(kind, 0, 9, 1)
		seen := r.leaseRemote(m).Pack
		if remote, d, err := r.worker().LeaseRemote(context.Background(), m, r.ports()); remote != nil || err != nil || d.Done || d.RetryAfter < lease {
			t.Errorf("%s is leased twice: %+v %+v %v", kind, remote, d, err)
		}
		r.Advance(pastLease)
		remote, d, err := r.worker().LeaseRemote(context.Background(), m, r.ports())
		if kind == nonIdempotent {
			if remote != nil || !d.Done || err != nil {
				t.Errorf("%s: %+v %+v %v", kind, remote, d, err)
			}
			r.wantPack(m.Key, workflow.PackFinished, 2, codeUnknown)
			continue
		}
		if err != nil || remote == nil || remote.Pack.Token != 2 {
			t.Fatalf("%s: %+v %v", kind, remote, err)
		}
		// The first holder has lost its claim, even with an old read of the pack.
		late, _, err := r.worker().ResumeRemote(context.Background(), m, seen, remoteResult(remote.Jobs...), r.ports())
		if late != nil || !workflow.Is(err, workflow.CodeClaimLost) {
			t.Errorf("%s: a late result: %+v %v", kind, late, err)
		}
		late, _, err = r.worker().ResumeRemote(context.Background(), m, seen, nil, r.ports())
		if late != nil || !workflow.Is(err, workflow.CodeClaimLost) {
			t.Errorf("%s: a late heartbeat: %+v %v", kind, late, err)
		}
		r.wantPack(m.Key, workflow.PackClaimed, 2, codeStarted)
	}
}

// After a cancel request the holder keeps the pack until it reports results. Then the
// pack is final, and only jobs that certainly did not start count as not executed.
func TestRemoteLease_EndsWithResultsWhenCancelled(t *testing.T) {
	for _, c := range []struct {
		kind string
		want []workflow.JobCode
	}{
		{idempotent, []workflow.JobCode{codeOK, codeNotExecuted, codeUnknown}},
		{nonIdempotent, []workflow.JobCode{codeOK, codeUnknown, codeUnknown}},
	} {
		r := newFixture(t)
		m := r.newMessage(c.kind, 0, 9, 3)
		remote := r.leaseRemote(m)
		r.cancel(m.Key)
		before := r.pack(m.Key).Lease
		r.Advance(time.Second)
		renewed, _, err := r.resumeRemote(m, nil)
		if err != nil || renewed == nil || !renewed.Pack.CancelRequested || !renewed.Pack.Lease.Equal(before) {
			t.Fatalf("%s: %+v %v", c.kind, renewed, err)
		}
		results := remoteResult(remote.Jobs[0])
		results.NotBegun = []string{remote.Jobs[1].ID}
		r.wantEnded(m, results)
		r.wantPack(m.Key, workflow.PackCancelled, 1, c.want...)
	}
}

// A cancel request between the read and the renewal is noticed.
func TestRemoteLease_SeesCancelDuringRenewal(t *testing.T) {
	r := newFixture(t)
	m := r.newMessage(idempotent, 0, 9, 1)
	remote := r.leaseRemote(m)
	seen := r.pack(m.Key)
	r.cancel(m.Key)
	renewed, _, err := r.worker().ResumeRemote(context.Background(), m, seen, nil, r.ports())
	if err != nil || renewed == nil || !renewed.Pack.CancelRequested {
		t.Fatalf("%+v %v", renewed, err)
	}
	r.wantEnded(m, remoteResult(remote.Jobs...))
	r.wantPack(m.Key, workflow.PackFinished, 1, codeOK)
}

// N52: heartbeats keep a job until its deadline. Then it fails, and is retryable if its
// block may run again.
func TestRemoteLease_JobsFailAtDeadline(t *testing.T) {
	for _, kind := range []string{idempotent, nonIdempotent} {
		r := newFixture(t)
		m := r.newMessage(kind, 0, 9, 1)
		r.leaseRemote(m)
		for range 10 {
			r.Advance(lease)
			if renewed, _, err := r.resumeRemote(m, nil); renewed == nil || err != nil {
				t.Fatalf("%s: failed after %s: %v", kind, r.Now().Sub(r.pack(m.Key).ClaimedAt), err)
			}
		}
		r.Advance(lease)
		r.wantEnded(m, nil)
		r.wantPack(m.Key, workflow.PackFinished, 1, codeFailed)
		if f := r.pack(m.Key).Jobs[0].Failure; f.Code != "TIMEOUT" || f.Retryable != (kind == idempotent) {
			t.Errorf("%s: %+v", kind, f)
		}
	}
}

// If the pack is finished but its follow-ups fail, the next delivery of the message
// finds it final and sends them.
func TestRemoteLease_SurvivesLostReply(t *testing.T) {
	r := newFixture(t)
	m := r.newMessage(idempotent, 0, 9, 1)
	remote := r.leaseRemote(m)
	r.Faults = faults.Next("packs.add_done", faults.Throttled)
	if _, _, err := r.resumeRemote(m, remoteResult(remote.Jobs...)); err == nil {
		t.Fatal("the fault had no effect")
	}
	r.wantPack(m.Key, workflow.PackFinished, 1, codeOK)
	if again, d, err := r.worker().LeaseRemote(context.Background(), m, r.ports()); again != nil || !d.Done || err != nil {
		t.Errorf("%+v %+v %v", again, d, err)
	}
	if !r.doneSet().Done[0] {
		t.Error("the lane is not in the done set")
	}
	r.Advance(25 * time.Hour)
	if fresh, d, err := r.worker().LeaseRemote(context.Background(), r.newMessage(idempotent, 1, 9, 1), r.ports()); fresh == nil || d.Done || err != nil {
		t.Errorf("%+v %+v %v", fresh, d, err)
	}
	m.Key.Lane = 2
	if old, d, err := r.worker().LeaseRemote(context.Background(), m, r.ports()); old != nil || !d.Done || err != nil {
		t.Errorf("a message after its NotAfter: %+v %+v %v", old, d, err)
	}
}

// Two processes receive results for the same lease. Both have read the pack before
// either writes it; no result is lost.
func TestRemoteLease_KeepsConcurrentResults(t *testing.T) {
	for _, kind := range kinds {
		r := newFixture(t)
		m := r.newMessage(kind, 0, 9, 3)
		remote := r.leaseRemote(m)
		seen := r.pack(m.Key)
		r.Advance(time.Second)
		for i := range 2 {
			renewed, _, err := r.worker().ResumeRemote(context.Background(), m, seen, remoteResult(remote.Jobs[i]), r.ports())
			if renewed == nil || err != nil {
				t.Fatalf("%s: %+v %v", kind, renewed, err)
			}
		}
		r.wantPack(m.Key, workflow.PackClaimed, 1, codeOK, codeOK, codeStarted)
		// The last result does not overwrite what is recorded already.
		results := remoteResult(remote.Jobs[2])
		results.Results[remote.Jobs[0].ID] = worker.JobResult{Outcome: sm.OutcomeError}
		if renewed, d, err := r.worker().ResumeRemote(context.Background(), m, seen, results, r.ports()); renewed != nil || !d.Done || err != nil {
			t.Errorf("%s: %+v %+v %v", kind, renewed, d, err)
		}
		r.wantPack(m.Key, workflow.PackFinished, 1, codeOK, codeOK, codeOK)
	}
}

// A pool may be served by polling programs, for which pure packs are claimed, and by SDK
// workers, which do not claim them. An SDK worker finishes the pack of a program that
// crashed.
func TestRemoteLease_ExpiredPurePackIsFinishedByWorker(t *testing.T) {
	r := newFixture(t)
	m := r.newMessage(pure, 0, 2, 2)
	w := r.worker()
	if remote, _, err := w.LeaseRemote(t.Context(), m, r.ports()); remote == nil || err != nil {
		t.Fatal(remote, err)
	}
	d, crashed, err := r.handle(w, m)
	if d.Done || crashed || err != nil || d.RetryAfter < lease {
		t.Fatalf("while it is leased: %+v, crashed %v, %v", d, crashed, err)
	}
	r.Advance(pastLease)
	r.mustHandle(w, m)
	r.wantPack(m.Key, workflow.PackFinished, 2, codeOK, codeOK)
}

// A remote lease that may not be taken over is left to the engine. A worker with the
// same pure jobs drops the message instead of running them again and again.
func TestRemoteLease_PurePackOwnedByEngineIsLeft(t *testing.T) {
	for name, prepare := range map[string]func(r *fixture, m *workflow.PackMessage){
		"cancelled": func(r *fixture, m *workflow.PackMessage) {
			r.cancel(m.Key)
			r.Advance(pastLease)
		},
		"too many claims": func(r *fixture, m *workflow.PackMessage) {
			for r.Advance(pastLease); r.pack(m.Key).Token < 5; r.Advance(pastLease) {
				r.leaseRemote(m)
			}
		},
	} {
		r := newFixture(t)
		m := r.newMessage(pure, 0, 2, 2)
		r.leaseRemote(m)
		prepare(r, m)
		before := r.pack(m.Key)
		r.mustHandle(r.worker(), m)
		r.wantPack(m.Key, workflow.PackClaimed, before.Token, codeStarted, codeStarted)
		if n := len(r.started); n != 0 {
			t.Errorf("%s: %d jobs began", name, n)
		}
	}
}
