package worker_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/sim/fate"
	"github.com/lockstep-run/lockstep/shared/worker"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// lend lends a message's pack and wants it lent.
func (r *rig) lend(m *workflow.PackMessage) *worker.Loan {
	r.Helper()
	loan, d, err := r.worker().Lend(context.Background(), m, r.ports())
	if err != nil || loan == nil {
		r.Fatalf("not lent: %+v %v", d, err)
	}
	return loan
}

// resume says something of a loan, as it stands now.
func (r *rig) resume(m *workflow.PackMessage, say *worker.Returned) (*worker.Loan, worker.Disposition, error) {
	return r.worker().Resume(context.Background(), m, r.pack(m.Key), say, r.ports())
}

func (r *rig) over(m *workflow.PackMessage, say *worker.Returned) {
	r.Helper()
	if loan, d, err := r.resume(m, say); loan != nil || !d.Done || err != nil {
		r.Errorf("not over: %+v %+v %v", loan, d, err)
	}
}

func answers(jobs ...*worker.Job) *worker.Returned {
	say := &worker.Returned{Answers: map[string]worker.Answer{}}
	for _, j := range jobs {
		say.Answers[j.ID] = worker.Answer{Outcome: sm.OutcomeOK, Result: json.RawMessage(`1`)}
	}
	return say
}

// Results come some at a time; what follows is sent when all are there.
func TestLentPacksComeBack(t *testing.T) {
	for _, kind := range kinds {
		r := newRig(t)
		m := r.message(kind, 0, 9, 3)
		loan := r.lend(m)
		r.want(m.Key, workflow.PackClaimed, 1, startedCode, startedCode, startedCode)
		if len(loan.Jobs) != 3 || loan.Jobs[1].Fence == "" || !loan.Jobs[1].Deadline.Equal(r.Now().Add(20*time.Minute)) {
			t.Errorf("lent %+v", loan.Jobs[1])
		}
		r.Advance(lease / 2)
		left, _, err := r.resume(m, answers(loan.Jobs[1]))
		if err != nil || left == nil || !left.Pack.Lease.Equal(r.Now().Add(lease)) {
			t.Fatalf("left %+v, %v", left, err)
		}
		r.want(m.Key, workflow.PackClaimed, 1, startedCode, ok, startedCode)
		if r.set().Done[0] {
			t.Error("the lane is done before its pack")
		}
		r.over(m, answers(loan.Jobs[0], loan.Jobs[2]))
		r.want(m.Key, workflow.PackFinished, 1, ok, ok, ok)
		if !r.set().Done[0] {
			t.Error("the lane is not done")
		}
	}
}

// Whoever comes while the lease runs waits; whoever comes later takes it over,
// and what must not run twice is not lent again.
func TestLentPacksAreTakenOver(t *testing.T) {
	for _, kind := range kinds {
		r := newRig(t)
		m := r.message(kind, 0, 9, 1)
		seen := r.lend(m).Pack
		if loan, d, err := r.worker().Lend(context.Background(), m, r.ports()); loan != nil || err != nil || d.Done || d.After < lease {
			t.Errorf("%s is lent twice: %+v %+v %v", kind, loan, d, err)
		}
		r.Advance(pastLease)
		loan, d, err := r.worker().Lend(context.Background(), m, r.ports())
		if kind == nd {
			if loan != nil || !d.Done || err != nil {
				t.Errorf("%s: %+v %+v %v", kind, loan, d, err)
			}
			r.want(m.Key, workflow.PackFinished, 2, unknown)
			continue
		}
		if err != nil || loan == nil || loan.Pack.Token != 2 {
			t.Fatalf("%s: %+v %v", kind, loan, err)
		}
		// The first holder has lost it, whatever it believes to have read.
		late, _, err := r.worker().Resume(context.Background(), m, seen, answers(loan.Jobs...), r.ports())
		if late != nil || !workflow.Is(err, workflow.CodeClaimLost) {
			t.Errorf("%s: a late result: %+v %v", kind, late, err)
		}
		late, _, err = r.worker().Resume(context.Background(), m, seen, nil, r.ports())
		if late != nil || !workflow.Is(err, workflow.CodeClaimLost) {
			t.Errorf("%s: a late heartbeat: %+v %v", kind, late, err)
		}
		r.want(m.Key, workflow.PackClaimed, 2, startedCode)
	}
}

// A holder that is asked to stop keeps what it has until it says what came of it;
// then the pack ends, and only what is certain counts as not executed.
func TestLentPacksAreCancelled(t *testing.T) {
	for _, c := range []struct {
		kind string
		want []workflow.JobCode
	}{
		{id, []workflow.JobCode{ok, notExecuted, unknown}},
		{nd, []workflow.JobCode{ok, unknown, unknown}},
	} {
		r := newRig(t)
		m := r.message(c.kind, 0, 9, 3)
		loan := r.lend(m)
		r.cancel(m.Key)
		before := r.pack(m.Key).Lease
		r.Advance(time.Second)
		left, _, err := r.resume(m, nil)
		if err != nil || left == nil || !left.Pack.Cancel || !left.Pack.Lease.Equal(before) {
			t.Fatalf("%s: %+v %v", c.kind, left, err)
		}
		say := answers(loan.Jobs[0])
		say.NotBegun = []string{loan.Jobs[1].ID}
		r.over(m, say)
		r.want(m.Key, workflow.PackCancelled, 1, c.want...)
	}
}

// A cancel that comes between the reading and the renewal is learnt all the same.
func TestLentPacksLearnOfACancelMeanwhile(t *testing.T) {
	r := newRig(t)
	m := r.message(id, 0, 9, 1)
	loan := r.lend(m)
	seen := r.pack(m.Key)
	r.cancel(m.Key)
	left, _, err := r.worker().Resume(context.Background(), m, seen, nil, r.ports())
	if err != nil || left == nil || !left.Pack.Cancel {
		t.Fatalf("%+v %v", left, err)
	}
	r.over(m, answers(loan.Jobs...))
	r.want(m.Key, workflow.PackFinished, 1, ok)
}

// N52: heartbeats keep a job up to its deadline, and not for ever: then it has
// failed, and may be tried again if it may run again.
func TestN52LentJobsHaveADeadline(t *testing.T) {
	for _, kind := range []string{id, nd} {
		r := newRig(t)
		m := r.message(kind, 0, 9, 1)
		r.lend(m)
		for range 10 {
			r.Advance(lease)
			if left, _, err := r.resume(m, nil); left == nil || err != nil {
				t.Fatalf("%s: given up after %s: %v", kind, r.Now().Sub(r.pack(m.Key).ClaimedAt), err)
			}
		}
		r.Advance(lease)
		r.over(m, nil)
		r.want(m.Key, workflow.PackFinished, 1, failed)
		if f := r.pack(m.Key).Jobs[0].Failure; f.Code != "TIMEOUT" || f.Retryable != (kind == id) {
			t.Errorf("%s: %+v", kind, f)
		}
	}
}

// A push whose end is written and whose answer is lost is found final by the next
// copy of the message, which sends what follows.
func TestLentPacksSurviveALostReply(t *testing.T) {
	r := newRig(t)
	m := r.message(id, 0, 9, 1)
	loan := r.lend(m)
	r.Faults = fate.Next("packs.add_done", fate.Throttled)
	if _, _, err := r.resume(m, answers(loan.Jobs...)); err == nil {
		t.Fatal("nothing went wrong")
	}
	r.want(m.Key, workflow.PackFinished, 1, ok)
	if again, d, err := r.worker().Lend(context.Background(), m, r.ports()); again != nil || !d.Done || err != nil {
		t.Errorf("%+v %+v %v", again, d, err)
	}
	if !r.set().Done[0] {
		t.Error("the lane is not done")
	}
	r.Advance(25 * time.Hour)
	if old, d, err := r.worker().Lend(context.Background(), r.message(id, 1, 9, 1), r.ports()); old == nil || d.Done || err != nil {
		t.Errorf("%+v %+v %v", old, d, err)
	}
	m.Key.Lane = 2
	if old, d, err := r.worker().Lend(context.Background(), m, r.ports()); old != nil || !d.Done || err != nil {
		t.Errorf("a message past its time: %+v %+v %v", old, d, err)
	}
}

// Two functions that hear of one loan at the same time, and have read it before
// either has written, lose nothing of what they hear.
func TestTwoAnswersToOneLoanAreBothKept(t *testing.T) {
	for _, kind := range kinds {
		r := newRig(t)
		m := r.message(kind, 0, 9, 3)
		loan := r.lend(m)
		seen := r.pack(m.Key)
		r.Advance(time.Second)
		for i := range 2 {
			left, _, err := r.worker().Resume(context.Background(), m, seen, answers(loan.Jobs[i]), r.ports())
			if left == nil || err != nil {
				t.Fatalf("%s: %+v %v", kind, left, err)
			}
		}
		r.want(m.Key, workflow.PackClaimed, 1, ok, ok, startedCode)
		// The one that ends it is held against what stands there too.
		say := answers(loan.Jobs[2])
		say.Answers[loan.Jobs[0].ID] = worker.Answer{Outcome: sm.OutcomeError}
		if left, d, err := r.worker().Resume(context.Background(), m, seen, say, r.ports()); left != nil || !d.Done || err != nil {
			t.Errorf("%s: %+v %+v %v", kind, left, d, err)
		}
		r.want(m.Key, workflow.PackFinished, 1, ok, ok, ok)
	}
}

// A pool may be served by programs, for which pure packs are claimed, and by
// workers, which do not claim them: whoever dies with one is replaced by the other.
func TestPureLoanOfTheDeadIsEnded(t *testing.T) {
	r := newRig(t)
	m := r.message(pure, 0, 2, 2)
	w := r.worker()
	if loan, _, err := w.Lend(t.Context(), m, r.ports()); loan == nil || err != nil {
		t.Fatal(loan, err)
	}
	d, crashed, err := r.handle(w, m)
	if d.Done || crashed || err != nil || d.After < lease {
		t.Fatalf("it is lent, and comes back as %+v, crashed %v, %v", d, crashed, err)
	}
	r.Advance(pastLease)
	r.done(w, m)
	r.want(m.Key, workflow.PackFinished, 2, ok, ok)
}

// A loan that nobody may take over is the engine's to close: whoever meets it with
// pure jobs drops the message, and does not do them again and again.
func TestPureLoanThatIsTheEnginesIsLeft(t *testing.T) {
	for name, spoil := range map[string]func(r *rig, m *workflow.PackMessage){
		"cancelled": func(r *rig, m *workflow.PackMessage) {
			r.cancel(m.Key)
			r.Advance(pastLease)
		},
		"worn": func(r *rig, m *workflow.PackMessage) {
			for r.Advance(pastLease); r.pack(m.Key).Token < 5; r.Advance(pastLease) {
				r.lend(m)
			}
		},
	} {
		r := newRig(t)
		m := r.message(pure, 0, 2, 2)
		r.lend(m)
		spoil(r, m)
		before := r.pack(m.Key)
		r.done(r.worker(), m)
		r.want(m.Key, workflow.PackClaimed, before.Token, startedCode, startedCode)
		if n := len(r.started); n != 2 {
			t.Errorf("%s: %d calls of 2 jobs", name, n)
		}
	}
}
