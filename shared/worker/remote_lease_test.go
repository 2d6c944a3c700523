package worker_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/worker"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/faults"
)

// leaseRemote lends a message's pack and wants it lent.
func (r *fixture) leaseRemote(m *workflow.PackMessage) *worker.RemoteLease {
	r.Helper()
	remote, d, err := r.worker().LeaseRemote(context.Background(), m, r.ports())
	if err != nil || remote == nil {
		r.Fatalf("not lent: %+v %v", d, err)
	}
	return remote
}

// resumeRemote says something of a loan, as it stands now.
func (r *fixture) resumeRemote(m *workflow.PackMessage, results *worker.RemoteResult) (*worker.RemoteLease, worker.Disposition, error) {
	return r.worker().ResumeRemote(context.Background(), m, r.pack(m.Key), results, r.ports())
}

func (r *fixture) wantEnded(m *workflow.PackMessage, results *worker.RemoteResult) {
	r.Helper()
	if remote, d, err := r.resumeRemote(m, results); remote != nil || !d.Done || err != nil {
		r.Errorf("not over: %+v %+v %v", remote, d, err)
	}
}

func remoteResult(jobs ...*worker.Job) *worker.RemoteResult {
	results := &worker.RemoteResult{Results: map[string]worker.JobResult{}}
	for _, j := range jobs {
		results.Results[j.ID] = worker.JobResult{Outcome: sm.OutcomeOK, Result: json.RawMessage(`1`)}
	}
	return results
}

// Results come some at a time; what follows is sent when all are there.
func TestRemoteLease_ResultsArriveInParts(t *testing.T) {
	for _, kind := range kinds {
		r := newFixture(t)
		m := r.newMessage(kind, 0, 9, 3)
		remote := r.leaseRemote(m)
		r.wantPack(m.Key, workflow.PackClaimed, 1, codeStarted, codeStarted, codeStarted)
		if len(remote.Jobs) != 3 || remote.Jobs[1].Fence == "" || !remote.Jobs[1].Deadline.Equal(r.Now().Add(20*time.Minute)) {
			t.Errorf("lent %+v", remote.Jobs[1])
		}
		r.Advance(lease / 2)
		renewed, _, err := r.resumeRemote(m, remoteResult(remote.Jobs[1]))
		if err != nil || renewed == nil || !renewed.Pack.Lease.Equal(r.Now().Add(lease)) {
			t.Fatalf("left %+v, %v", renewed, err)
		}
		r.wantPack(m.Key, workflow.PackClaimed, 1, codeStarted, codeOK, codeStarted)
		if r.doneSet().Done[0] {
			t.Error("the lane is done before its pack")
		}
		r.wantEnded(m, remoteResult(remote.Jobs[0], remote.Jobs[2]))
		r.wantPack(m.Key, workflow.PackFinished, 1, codeOK, codeOK, codeOK)
		if !r.doneSet().Done[0] {
			t.Error("the lane is not done")
		}
	}
}

// Whoever comes while the lease runs waits; whoever comes later takes it over,
// and what must not run twice is not lent again.
func TestRemoteLease_IsTakenOverAfterExpiry(t *testing.T) {
	for _, kind := range kinds {
		r := newFixture(t)
		m := r.newMessage(kind, 0, 9, 1)
		seen := r.leaseRemote(m).Pack
		if remote, d, err := r.worker().LeaseRemote(context.Background(), m, r.ports()); remote != nil || err != nil || d.Done || d.RetryAfter < lease {
			t.Errorf("%s is lent twice: %+v %+v %v", kind, remote, d, err)
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
		// The first holder has lost it, whatever it believes to have read.
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

// A holder that is asked to stop keeps what it has until it says what came of it;
// then the pack ends, and only what is certain counts as not executed.
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

// A cancel that comes between the reading and the renewal is learnt all the same.
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

// N52: heartbeats keep a job up to its deadline, and not for ever: then it has
// failed, and may be tried again if it may run again.
func TestRemoteLease_JobsFailAtDeadline(t *testing.T) {
	for _, kind := range []string{idempotent, nonIdempotent} {
		r := newFixture(t)
		m := r.newMessage(kind, 0, 9, 1)
		r.leaseRemote(m)
		for range 10 {
			r.Advance(lease)
			if renewed, _, err := r.resumeRemote(m, nil); renewed == nil || err != nil {
				t.Fatalf("%s: given up after %s: %v", kind, r.Now().Sub(r.pack(m.Key).ClaimedAt), err)
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

// A push whose end is written and whose answer is lost is found final by the next
// copy of the message, which sends what follows.
func TestRemoteLease_SurvivesLostReply(t *testing.T) {
	r := newFixture(t)
	m := r.newMessage(idempotent, 0, 9, 1)
	remote := r.leaseRemote(m)
	r.Faults = faults.Next("packs.add_done", faults.Throttled)
	if _, _, err := r.resumeRemote(m, remoteResult(remote.Jobs...)); err == nil {
		t.Fatal("nothing went wrong")
	}
	r.wantPack(m.Key, workflow.PackFinished, 1, codeOK)
	if again, d, err := r.worker().LeaseRemote(context.Background(), m, r.ports()); again != nil || !d.Done || err != nil {
		t.Errorf("%+v %+v %v", again, d, err)
	}
	if !r.doneSet().Done[0] {
		t.Error("the lane is not done")
	}
	r.Advance(25 * time.Hour)
	if old, d, err := r.worker().LeaseRemote(context.Background(), r.newMessage(idempotent, 1, 9, 1), r.ports()); old == nil || d.Done || err != nil {
		t.Errorf("%+v %+v %v", old, d, err)
	}
	m.Key.Lane = 2
	if old, d, err := r.worker().LeaseRemote(context.Background(), m, r.ports()); old != nil || !d.Done || err != nil {
		t.Errorf("a message past its time: %+v %+v %v", old, d, err)
	}
}

// Two functions that hear of one loan at the same time, and have read it before
// either has written, lose nothing of what they hear.
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
		// The one that ends it is held against what stands there too.
		results := remoteResult(remote.Jobs[2])
		results.Results[remote.Jobs[0].ID] = worker.JobResult{Outcome: sm.OutcomeError}
		if renewed, d, err := r.worker().ResumeRemote(context.Background(), m, seen, results, r.ports()); renewed != nil || !d.Done || err != nil {
			t.Errorf("%s: %+v %+v %v", kind, renewed, d, err)
		}
		r.wantPack(m.Key, workflow.PackFinished, 1, codeOK, codeOK, codeOK)
	}
}

// A pool may be served by programs, for which pure packs are claimed, and by
// workers, which do not claim them: whoever dies with one is replaced by the other.
func TestRemoteLease_ExpiredPurePackIsFinishedByWorker(t *testing.T) {
	r := newFixture(t)
	m := r.newMessage(pure, 0, 2, 2)
	w := r.worker()
	if remote, _, err := w.LeaseRemote(t.Context(), m, r.ports()); remote == nil || err != nil {
		t.Fatal(remote, err)
	}
	d, crashed, err := r.handle(w, m)
	if d.Done || crashed || err != nil || d.RetryAfter < lease {
		t.Fatalf("it is lent, and comes back as %+v, crashed %v, %v", d, crashed, err)
	}
	r.Advance(pastLease)
	r.mustHandle(w, m)
	r.wantPack(m.Key, workflow.PackFinished, 2, codeOK, codeOK)
}

// A loan that nobody may take over is the engine's to close: whoever meets it with
// pure jobs drops the message, and does not do them again and again.
func TestRemoteLease_PurePackOwnedByEngineIsLeft(t *testing.T) {
	for name, prepare := range map[string]func(r *fixture, m *workflow.PackMessage){
		"cancelled": func(r *fixture, m *workflow.PackMessage) {
			r.cancel(m.Key)
			r.Advance(pastLease)
		},
		"worn": func(r *fixture, m *workflow.PackMessage) {
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
		if n := len(r.started); n != 2 {
			t.Errorf("%s: %d calls of 2 jobs", name, n)
		}
	}
}
