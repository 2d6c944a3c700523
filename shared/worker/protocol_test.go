package worker_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/sim"
	"github.com/lockstep-run/lockstep/shared/sim/faults"
	"github.com/lockstep-run/lockstep/shared/worker"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Each test here is for one known way to break the delivery protocol. Its comment
// names the mistake that it would detect.

// Mistake: a takeover ignores the lease.
func TestWorker_DoesNotTakeOverLiveLease(t *testing.T) {
	for _, kind := range []string{idempotent, nonIdempotent} {
		r := newFixture(t)
		m := r.newMessage(kind, 0, 1, 1)
		r.crashOnStart(1)
		if _, crashed, _ := r.handle(r.worker(), m); !crashed {
			t.Fatal("the worker did not crash")
		}
		r.blockFunc = nil
		// The other worker's clock may be ahead of the holder's.
		for _, at := range []time.Duration{0, lease, lease + time.Second} {
			r.Advance(at)
			d, _, err := r.handle(r.worker(), m)
			if err != nil || d.Done || d.RetryAfter <= 0 || d.RetryAfter > lease+3*time.Second-at {
				t.Errorf("%s, %s after the claim: %+v %v", kind, at, d, err)
			}
			r.Advance(-at)
		}
		r.wantPack(m.Key, workflow.PackClaimed, 1, codeStarted)
		if n := len(r.started); n != 1 {
			t.Errorf("%s: started %d times", kind, n)
		}
		// After RetryAfter the pack can be taken over.
		d, _, _ := r.handle(r.worker(), m)
		r.Advance(d.RetryAfter)
		r.mustHandle(r.worker(), m)
	}
}

// Mistake: a takeover is conditional on the token only. Here the holder renews its
// lease between the other worker's read and write.
func TestWorker_DoesNotTakeOverRenewedLease(t *testing.T) {
	r := newFixture(t)
	m := r.newMessage(nonIdempotent, 0, 1, 2)
	r.blockFunc = func(context.Context, *worker.Job) (map[string]int, error) {
		r.Advance(lease / 2)
		return nil, nil
	}
	holder := r.StartTask("holder", func() { _, _, _ = r.handle(r.worker(), m) })
	holder.RunPast("packs.claim")
	holder.RunUntil("packs.extend")
	r.Advance(pastLease - lease/2)
	other := r.StartTask("other", func() {
		if d, _, err := r.handle(r.worker(), m); err != nil || d.Done {
			t.Errorf("the other worker: %+v %v", d, err)
		}
	})
	other.RunUntil("packs.take_over")
	holder.Step()
	other.Finish()
	holder.Finish()
	r.wantPack(m.Key, workflow.PackFinished, 1, codeOK, codeOK)
}

// Mistake: a valid claim is adopted because it has the same worker name. Here the
// process was restarted under its name.
func TestWorker_DoesNotAdoptClaimByName(t *testing.T) {
	r := newFixture(t)
	m := r.newMessage(nonIdempotent, 0, 1, 1)
	r.Faults = faults.Next("packs.claim", faults.CrashAfter)
	_, _, _ = r.handle(r.worker(), m)
	d, _, err := r.handle(r.worker(), m)
	if err != nil || d.Done || len(r.started) > 0 {
		t.Errorf("adopted: %+v %v, %d jobs started", d, err, len(r.started))
	}
}

// A worker recognises its own claim if the reply was lost, and continues at once.
func TestWorker_RecognisesClaimWithLostReply(t *testing.T) {
	for _, kind := range []string{idempotent, nonIdempotent} {
		r := newFixture(t)
		m := r.newMessage(kind, 0, 1, 1)
		r.Faults = faults.Next("packs.claim", faults.Repeated)
		r.mustHandle(r.worker(), m)
		r.wantPack(m.Key, workflow.PackFinished, 1, codeOK)
	}
}

// Mistake: STARTED is not written before the job starts.
func TestWorker_WritesStartedBeforeJobStarts(t *testing.T) {
	r := newFixture(t)
	m := r.newMessage(nonIdempotent, 0, 1, 3)
	r.blockFunc = func(_ context.Context, job *worker.Job) (map[string]int, error) {
		i := len(r.started) - 1
		if got := r.pack(m.Key); got == nil || got.Jobs[i].Code != codeStarted {
			t.Errorf("job %s starts while the codes of its pack are %v", job.ID, jobCodes(got))
		}
		if i < 2 && r.pack(m.Key).Jobs[i+1].Code != codeNone {
			t.Errorf("job %d is recorded as STARTED too early", i+1)
		}
		return nil, nil
	}
	r.mustHandle(r.worker(), m)
	r.wantPack(m.Key, workflow.PackFinished, 1, codeOK, codeOK, codeOK)
}

// If it is unknown whether STARTED was written, neither this job nor a later one
// starts.
func TestWorker_StartsNothingWhenStartedWriteIsUncertain(t *testing.T) {
	for _, fault := range []faults.Fault{faults.LostReply, faults.Throttled} {
		r := newFixture(t)
		m := r.newMessage(nonIdempotent, 0, 1, 3)
		r.Faults = faults.Next("packs.extend", fault)
		d, _, err := r.handle(r.worker(), m)
		if err == nil || d.Done || len(r.started) != 1 {
			t.Errorf("%s: %+v %v, %d jobs started", fault, d, err, len(r.started))
		}
		r.Advance(pastLease)
		r.mustHandle(r.worker(), m)
		// The result of the first job was saved when the worker stopped.
		r.wantPack(m.Key, workflow.PackFinished, 2, codeOK, codeUnknown, codeOK)
	}
}

// Mistake: after a takeover, a STARTED job of a block that is not repeatable runs again.
// N44: a job that was lost with its worker runs again if its block is idempotent, and
// not otherwise.
func TestWorker_TakeoverRerunsOnlyIdempotentJobs(t *testing.T) {
	for kind, want := range map[string][]workflow.JobCode{
		idempotent:    {codeOK, codeOK, codeOK},
		nonIdempotent: {codeOK, codeUnknown, codeOK}, // the result of the first was written with STARTED of the second
	} {
		r := newFixture(t)
		m := r.newMessage(kind, 0, 1, 3)
		r.crashOnStart(2)
		_, _, _ = r.handle(r.worker(), m)
		r.blockFunc = nil
		r.Advance(pastLease)
		r.mustHandle(r.worker(), m)
		r.wantPack(m.Key, workflow.PackFinished, 2, want...)
		starts := r.startCount(workflow.JobID(stepRun.Execution, stepRun.Seq, 1, 1))
		if (kind == nonIdempotent && starts != 1) || (kind == idempotent && starts != 2) {
			t.Errorf("%s: the lost job started %d times", kind, starts)
		}
	}
}

// N44: takeovers are limited. After the last one the pack is left to the engine.
func TestWorker_TakeoversAreBounded(t *testing.T) {
	r := newFixture(t)
	m := r.newMessage(idempotent, 0, 1, 1)
	r.blockFunc = func(context.Context, *worker.Job) (map[string]int, error) { panic(faults.Crash{}) }
	for range 5 {
		if _, crashed, _ := r.handle(r.worker(), m); !crashed {
			t.Fatal("the worker did not crash")
		}
		r.Advance(pastLease)
	}
	r.mustHandle(r.worker(), m)
	r.wantPack(m.Key, workflow.PackClaimed, 5, codeStarted)
	if len(r.started) != 5 || len(r.wakeups()) != 0 || len(r.doneSet().Done) != 0 {
		t.Errorf("started %d times", len(r.started))
	}
}

// Mistake: a job of an idempotent block is released as NOT_EXECUTED although the pack
// was claimed before.
func TestWorker_CancelMarksNotExecutedOnlyWhenCertain(t *testing.T) {
	for _, c := range []struct {
		name  string
		kind  string
		taken bool // an earlier worker has crashed
		want  []workflow.JobCode
	}{
		{"first claim of a repeatable block", idempotent, false, []workflow.JobCode{codeOK, codeNotExecuted, codeNotExecuted}},
		{"second claim of a repeatable block", idempotent, true, []workflow.JobCode{codeOK, codeUnknown, codeUnknown}},
		{"first claim of another block", nonIdempotent, false, []workflow.JobCode{codeOK, codeNotExecuted, codeNotExecuted}},
		{"second claim of another block", nonIdempotent, true, []workflow.JobCode{codeUnknown, codeOK, codeNotExecuted}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newFixture(t)
			m := r.newMessage(c.kind, 0, 2, 3)
			m.Chain = []workflow.LaneJobs{{Lane: 1, Jobs: inputs(1, 3)}}
			token := 1
			if c.taken {
				token = 2
				r.Faults = faults.Next("packs.claim", faults.CrashAfter)
				_, _, _ = r.handle(r.worker(), m)
				r.Advance(pastLease)
			}
			r.blockFunc = func(context.Context, *worker.Job) (map[string]int, error) {
				r.cancel(m.Key)
				r.blockFunc = nil
				r.Advance(25 * time.Second) // a heartbeat is due
				return nil, nil
			}
			r.mustHandle(r.worker(), m)
			r.wantPack(m.Key, workflow.PackCancelled, token, c.want...)
			if set := r.doneSet(); !set.Done[0] || !set.Unsuccessful[0] {
				t.Errorf("want the lane done and unsuccessful: %+v", set)
			}
			if len(r.wakeups()) != 1 || len(r.sentPacks()) != 0 {
				t.Error("want one wake-up, and no next lane")
			}
			if n := len(r.started); n != 1 {
				t.Errorf("%d jobs started, want 1", n)
			}
		})
	}
}

// Mistake: a finish or a heartbeat does not compare the token. N25: a result of a worker
// that has lost its claim changes nothing.
func TestWorker_LateWritesChangeNothing(t *testing.T) {
	for _, call := range []string{"packs.extend", "packs.finish"} {
		for _, kind := range []string{idempotent, nonIdempotent} {
			r := newFixture(t)
			m := r.newMessage(kind, 0, 2, 2)
			r.blockFunc = func(_ context.Context, job *worker.Job) (map[string]int, error) {
				if kind == idempotent {
					r.Advance(25 * time.Second) // a heartbeat is due
				}
				return map[string]int{"fence": len(r.started)}, nil
			}
			late := r.StartTask("late", func() {
				if d, _, err := r.handle(r.worker(), m); err == nil || d.Done {
					t.Errorf("%s, late %s: %+v", kind, call, d)
				}
			})
			if !late.RunPast("packs.claim") || !late.RunUntil(call) {
				t.Fatalf("%s: no call of %s", kind, call)
			}
			r.Advance(2 * pastLease)
			r.mustHandle(r.worker(), m)
			stored := func() string {
				raw, err := json.Marshal(r.pack(m.Key))
				if err != nil {
					t.Fatal(err)
				}
				return string(raw)
			}
			before, wakeups := stored(), len(r.wakeups())
			startedBefore := len(r.started)
			late.Finish()
			if got := stored(); got != before {
				t.Errorf("%s, late %s: %s, was %s", kind, call, got, before)
			}
			if len(r.wakeups()) > 0 || wakeups > 1 || len(r.started) != startedBefore {
				t.Errorf("%s, late %s: the late worker continued", kind, call)
			}
		}
	}
}

// N25: the same message is delivered again after the pack is final.
func TestWorker_DuplicateMessageChangesNothing(t *testing.T) {
	for _, kind := range kinds {
		r := newFixture(t)
		m := r.newMessage(kind, 0, 2, 2)
		r.mustHandle(r.worker(), m)
		first := r.pack(m.Key)
		cost := r.doneSet().Cost.TotalWriteUnits()
		r.mustHandle(r.worker(), m)
		if again := r.pack(m.Key); fmt.Sprint(again) != fmt.Sprint(first) {
			t.Errorf("%s: %+v, was %+v", kind, again, first)
		}
		if n := len(r.started); n != 2 {
			t.Errorf("%s: %d jobs started", kind, n)
		}
		// The cost of the copy is counted, its addition to the done set too, and the cost of the
		// pack is not counted twice.
		want := 2.0
		if kind == pure {
			want = 1 // it only reads the pack
		}
		if more := r.doneSet().Cost.TotalWriteUnits() - cost; more != want {
			t.Errorf("%s: the copy adds %v writes to %v, want %v", kind, more, cost, want)
		}
	}
}

// A pure job does not begin once its step run is closed: neither with the first delivery of
// its message, nor later in a pack whose earlier jobs take long.
func TestWorker_PureJobsOfClosedStepRunDoNotBegin(t *testing.T) {
	closeStepRun := func(r *fixture, m *workflow.PackMessage) {
		p := &workflow.Pack{Key: m.Key, State: workflow.PackCancelled, FinishedAt: r.Now()}
		for _, j := range m.Jobs {
			p.Jobs = append(p.Jobs, workflow.JobRecord{Index: j.Index, Code: codeNotExecuted})
		}
		r.withoutFaults(func(v sim.View) {
			if ok, err := v.Packs.PutCancelled(t.Context(), p); !ok || err != nil {
				t.Fatal(ok, err)
			}
		})
	}
	r := newFixture(t)
	m := r.newMessage(pure, 0, 2, 3)
	closeStepRun(r, m)
	r.mustHandle(r.worker(), m)
	if n := len(r.started); n != 0 {
		t.Errorf("%d jobs began after the step run was closed", n)
	}
	m = r.newMessage(pure, 1, 2, 3)
	r.blockFunc = func(context.Context, *worker.Job) (map[string]int, error) {
		closeStepRun(r, m)
		r.Advance(time.Second)
		return nil, nil
	}
	r.mustHandle(r.worker(func(o *worker.Options) { o.Sequential = true }), m)
	if n := len(r.started); n != 1 {
		t.Errorf("%d jobs began, want the first only", n)
	}
	r.wantPack(m.Key, workflow.PackCancelled, 0, codeNotExecuted, codeNotExecuted, codeNotExecuted)
}

// N23: two workers receive copies of a message; their calls interleave in any order.
func TestWorker_TwoWorkersFinishPackOnce(t *testing.T) {
	for _, kind := range []string{idempotent, nonIdempotent} {
		for seed := range uint64(50) {
			r := newFixture(t)
			r.World = sim.New(seed)
			r.PoolQueue("default")
			m := r.newMessage(kind, 0, 2, 2)
			finished := 0
			work := func() {
				if d, _, err := r.handle(r.worker(), m); err == nil && d.Done {
					finished++
				}
			}
			r.Interleave(r.StartTask("one", work), r.StartTask("two", work))
			r.wantPack(m.Key, workflow.PackFinished, 1, codeOK, codeOK)
			if len(r.started) != 2 || finished < 1 {
				t.Fatalf("%s, seed %d: %d jobs started, %d workers finished", kind, seed, len(r.started), finished)
			}
		}
	}
}

// Mistake: the lane is added to the done set before its pack is finished.
func TestWorker_SendsNothingBeforeFinish(t *testing.T) {
	for kind, call := range map[string]string{pure: "packs.finish_unclaimed", idempotent: "packs.finish", nonIdempotent: "packs.finish"} {
		for _, lanes := range []int{1, 2} {
			r := newFixture(t)
			m := r.newMessage(kind, 0, lanes, 1)
			m.Chain = []workflow.LaneJobs{{Lane: 1, Jobs: inputs(1, 1)}}
			r.Faults = faults.Next(call, faults.Throttled)
			if d, _, err := r.handle(r.worker(), m); err == nil || d.Done {
				t.Errorf("%s: %+v", kind, d)
			}
			if len(r.wakeups()) > 0 || len(r.sentPacks()) > 0 || len(r.doneSet().Done) > 0 {
				t.Errorf("%s, %d lanes: follow-ups were sent", kind, lanes)
			}
		}
	}
}

// Mistake: an UNKNOWN job counts as not executed, or as successful.
func TestWorker_UnknownJobCountsAsBad(t *testing.T) {
	r := newFixture(t)
	m := r.newMessage(nonIdempotent, 0, 2, 1)
	m.Work.Retry = &workflow.Retry{MaxRetries: 3}
	r.crashOnStart(1)
	_, _, _ = r.handle(r.worker(), m)
	r.Advance(pastLease)
	r.mustHandle(r.worker(), m)
	r.wantPack(m.Key, workflow.PackFinished, 2, codeUnknown)
	if !codeUnknown.Executed() || !r.doneSet().Unsuccessful[0] || len(r.wakeups()) != 1 || len(r.sentPacks()) != 0 {
		t.Errorf("the UNKNOWN job does not make its lane unsuccessful: %+v", r.doneSet())
	}
}

// Mistakes: a lane that decides nothing wakes the engine; the last lane, or an UNKNOWN job, does
// not.
func TestWorker_FailuresThatDecideNothingWakeNobody(t *testing.T) {
	for _, decides := range []bool{true, false} {
		r := newFixture(t)
		r.blockFunc = func(context.Context, *worker.Job) (map[string]int, error) { return nil, errors.New("refused") }
		handle := func(kind string, lane int) int {
			m := r.newMessage(kind, lane, 4, 1)
			m.Work.FailuresDecideNothing = !decides
			r.mustHandle(r.worker(), m)
			return len(r.wakeups())
		}
		want := 0
		if decides {
			want = 1
		}
		for lane := range 2 {
			if got := handle(idempotent, lane); got != want {
				t.Errorf("failures decide %v: lane %d sent %d wake-ups, want %d", decides, lane, got, want)
			}
		}
		unknown := r.newMessage(nonIdempotent, 2, 4, 1)
		unknown.Work.FailuresDecideNothing = !decides
		r.crashOnStart(1)
		if _, crashed, _ := r.handle(r.worker(), unknown); !crashed {
			t.Fatal("the worker did not crash")
		}
		r.Advance(pastLease)
		r.mustHandle(r.worker(), unknown)
		r.wantPack(unknown.Key, workflow.PackFinished, 2, codeUnknown)
		if got := len(r.wakeups()); got != 1 {
			t.Errorf("failures decide %v: the UNKNOWN job sent %d wake-ups, want 1", decides, got)
		}
		r.blockFunc = func(context.Context, *worker.Job) (map[string]int, error) { return nil, errors.New("refused") }
		if got := handle(idempotent, 3); got != 1 {
			t.Errorf("failures decide %v: the last lane sent %d wake-ups, want 1", decides, got)
		}
	}
}

// Mistake: the fence is the pack token alone.
func TestJob_FenceIncreasesWithEveryStart(t *testing.T) {
	r := newFixture(t)
	var last string
	wantHigher := func(event string) {
		t.Helper()
		fence := r.started[len(r.started)-1].Fence
		if fence <= last {
			t.Errorf("after %s the fence is %s, want above %s", event, fence, last)
		}
		last = fence
	}
	m := r.newMessage(idempotent, 0, 1, 1)
	m.Work.Retry = &workflow.Retry{MaxRetries: 1}
	r.crashOnStart(1)
	_, _, _ = r.handle(r.worker(), m)
	wantHigher("the first claim")
	r.blockFunc = func(context.Context, *worker.Job) (map[string]int, error) { return nil, errors.New("no") }
	r.Advance(pastLease)
	r.mustHandle(r.worker(), m)
	wantHigher("a takeover")
	r.mustHandle(r.worker(), r.sentPacks()[0])
	wantHigher("a retry")
	rollback := r.newMessage(idempotent, 0, 1, 1)
	rollback.Key.StepRunSeq, rollback.Work.Kind = 3, workflow.JobRollback
	r.mustHandle(r.worker(), rollback)
	wantHigher("a rollback")
	next := r.newMessage(idempotent, 0, 1, 1)
	next.Key.Execution, next.Key.StepRunSeq, next.Jobs[0].Token = "y", 1, 101
	r.mustHandle(r.worker(), next)
	wantHigher("another execution's lock")
	for _, job := range r.started {
		if job.Token == 0 || !strings.HasPrefix(job.Fence, fmt.Sprintf("%010d-", job.Token)) {
			t.Errorf("%+v", job)
		}
	}
}

// Mistake: done lanes are counted instead of collected in a set.
func TestWorker_LaneIsCountedOnce(t *testing.T) {
	r := newFixture(t)
	m := r.newMessage(idempotent, 0, 2, 1)
	for range 3 {
		r.mustHandle(r.worker(), m)
	}
	if wakeups := r.wakeups(); len(wakeups) != 0 {
		t.Errorf("want no wake-up while a lane is missing: %v", wakeups)
	}
	r.mustHandle(r.worker(), r.newMessage(idempotent, 1, 2, 1))
	if wakeups := r.wakeups(); len(wakeups) != 1 || wakeups[0].Execution != stepRun.Execution || wakeups[0].Tenant != stepRun.Tenant {
		t.Errorf("want one wake-up when the set is complete: %v", wakeups)
	}
}

// Mistake: a pack that ends after its message may not begin any more wakes nobody. The engine may
// have closed the other lanes before, and wait for this one.
func TestWorker_PackThatEndsAfterItsDeadlineWakesTheEngine(t *testing.T) {
	for _, late := range []bool{false, true} {
		r := newFixture(t)
		m := r.newMessage(nonIdempotent, 0, 3, 1)
		m.NotAfter = r.Now().Add(time.Minute)
		r.blockFunc = func(context.Context, *worker.Job) (map[string]int, error) {
			if late {
				r.Advance(time.Minute + time.Second)
			}
			return nil, nil
		}
		r.mustHandle(r.worker(), m)
		r.wantPack(m.Key, workflow.PackFinished, 1, codeOK)
		if got := len(r.wakeups()); (got == 1) != late {
			t.Errorf("ended late: %v, and %d wake-ups were sent", late, got)
		}
	}
}

// Mistake: NotAfter is ignored. It must be checked again immediately before the claim.
func TestWorker_ChecksNotAfterBeforeClaim(t *testing.T) {
	for _, kind := range kinds {
		r := newFixture(t)
		m := r.newMessage(kind, 0, 1, 1)
		m.NotAfter = r.Now().Add(time.Minute)
		r.Advance(time.Minute + 1)
		r.mustHandle(r.worker(), m)
		r.Advance(-time.Minute - 1)
		calls := 0
		slow := r.worker(func(o *worker.Options) {
			o.Now = func() time.Time {
				if calls++; calls == 2 {
					r.Advance(2 * time.Minute) // between the first check and the claim
				}
				return r.Now()
			}
		})
		r.mustHandle(slow, m)
		if p := r.pack(m.Key); p != nil || len(r.started) > 0 || len(r.wakeups()) > 0 {
			t.Errorf("%s: %+v", kind, p)
		}
	}
	// The same holds for a takeover.
	r := newFixture(t)
	m := r.newMessage(idempotent, 0, 1, 1)
	m.NotAfter = r.Now().Add(lease)
	r.crashOnStart(1)
	_, _, _ = r.handle(r.worker(), m)
	m.NotAfter = r.Now().Add(pastLease)
	r.Advance(pastLease)
	calls := 0
	r.mustHandle(r.worker(func(o *worker.Options) {
		o.Now = func() time.Time {
			if calls++; calls == 3 {
				r.Advance(time.Second) // between the failed claim and the takeover
			}
			return r.Now()
		}
	}), m)
	r.wantPack(m.Key, workflow.PackClaimed, 1, codeStarted)
}

// A job starts only if its lease is still valid, no matter how long the writes before
// it took.
func TestWorker_StartsNoJobUnderExpiredLease(t *testing.T) {
	for _, kind := range []string{idempotent, nonIdempotent} {
		r := newFixture(t)
		m := r.newMessage(kind, 0, 1, 2)
		r.blockFunc = func(context.Context, *worker.Job) (map[string]int, error) {
			r.Advance(lease / 2) // a heartbeat is due
			return nil, nil
		}
		slow := r.StartTask("slow", func() {
			if d, _, err := r.handle(r.worker(), m); err == nil || d.Done {
				t.Errorf("%s: %+v", kind, d)
			}
		})
		for range 9 {
			if slow.RunUntil("packs.extend"); slow.Done() {
				break
			}
			r.Advance(lease)
			slow.Step()
		}
		if !slow.Done() || len(r.started) != 1 {
			t.Errorf("%s: %d jobs started", kind, len(r.started))
		}
		r.blockFunc = nil
		r.Advance(pastLease)
		r.mustHandle(r.worker(), m)
		want := map[string]workflow.JobCode{idempotent: codeOK, nonIdempotent: codeUnknown}[kind]
		r.wantPack(m.Key, workflow.PackFinished, 2, codeOK, want)
	}
}

// Mistake: pack keys do not contain the step run. Each step run has packs of its own.
func TestWorker_StepRunsHaveSeparatePacks(t *testing.T) {
	r := newFixture(t)
	m := r.newMessage(nonIdempotent, 0, 1, 1)
	r.mustHandle(r.worker(), m)
	again := *m
	again.Key.StepRunOrdinal = 2
	r.mustHandle(r.worker(), &again)
	if len(r.started) != 2 {
		t.Errorf("%d jobs started, want 2", len(r.started))
	}
}

// Each write has a lease of its own, even within one millisecond. A takeover based on an
// older read fails, so it cannot undo what was written since.
func TestWorker_WritesInSameMillisecondDiffer(t *testing.T) {
	r := newFixture(t)
	m := r.newMessage(nonIdempotent, 0, 1, 2)
	holder := r.StartTask("holder", func() { _, _, _ = r.handle(r.worker(), m) })
	if !holder.RunUntil("packs.extend") {
		t.Fatal("the holder does not record the second job as STARTED")
	}
	seen := r.pack(m.Key)
	r.Advance(pastLease)
	holder.Step()
	r.withoutFaults(func(v sim.View) {
		taken := *seen
		taken.State, taken.Token = workflow.PackCancelled, seen.Token+1
		if ok, err := v.Packs.ForceCancel(t.Context(), seen, &taken); ok || err != nil {
			t.Errorf("an old read still takes the pack away: %v %v", ok, err)
		}
	})
	holder.Finish()
	if got := r.pack(m.Key).Jobs[0].Code; got != codeOK {
		t.Errorf("the job that ended with OK is %s now", got)
	}
}

// A message that was sent before the tables were restored is dropped: the engine no
// longer knows its step run.
func TestWorker_DropsMessagesFromBeforeRestore(t *testing.T) {
	for _, kind := range kinds {
		r := newFixture(t)
		m := r.newMessage(kind, 0, 9, 1)
		m.Work.MinFencingToken = 1000
		restored := worker.New(worker.Options{Name: "restored", MinFencingToken: func() int64 { return 1001 }, Now: r.Now})
		if d, err := restored.Handle(context.Background(), m, r.ports()); err != nil || !d.Done {
			t.Errorf("%s: %+v %v", kind, d, err)
		}
		if remote, d, err := restored.LeaseRemote(context.Background(), m, r.ports()); err != nil || remote != nil || !d.Done {
			t.Errorf("%s is leased: %+v %+v %v", kind, remote, d, err)
		}
		if p := r.pack(m.Key); p != nil {
			t.Errorf("%s is claimed: %+v", kind, p)
		}
		r.mustHandle(r.worker(), m)
		if p := r.pack(m.Key); p == nil {
			t.Errorf("%s: without MinFencingToken the message must be handled", kind)
		}
	}
}
