package worker_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/worker"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/tests/sim"
	"github.com/lockstep-run/lockstep/tests/sim/faults"
)

// Each test here drives one of the mistakes that are known to break the
// protocol, as far as the worker could make it.

// Mistake: a takeover that ignores the lease.
func TestWorker_DoesNotTakeOverLiveLease(t *testing.T) {
	for _, kind := range []string{idempotent, nonIdempotent} {
		r := newFixture(t)
		m := r.newMessage(kind, 0, 1, 1)
		r.crashOnStart(1)
		if _, crashed, _ := r.handle(r.worker(), m); !crashed {
			t.Fatal("the worker lives on")
		}
		r.blockFunc = nil
		// Skew: another clock may be ahead of the holder's.
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
			t.Errorf("%s: begun %d times", kind, n)
		}
		// Exactly when it said that it would come back, the pack can be taken.
		d, _, _ := r.handle(r.worker(), m)
		r.Advance(d.RetryAfter)
		r.mustHandle(r.worker(), m)
	}
}

// Mistake: a takeover that is conditional on the token only. The holder renews
// its lease between the other's read and write.
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
			t.Errorf("the other: %+v %v", d, err)
		}
	})
	other.RunUntil("packs.take_over")
	holder.Step()
	other.Finish()
	holder.Finish()
	r.wantPack(m.Key, workflow.PackFinished, 1, codeOK, codeOK)
}

// Mistake: adopting a live claim by the worker's name. The process was started
// again under the same name.
func TestWorker_DoesNotAdoptClaimByName(t *testing.T) {
	r := newFixture(t)
	m := r.newMessage(nonIdempotent, 0, 1, 1)
	r.Faults = faults.Next("packs.claim", faults.CrashAfter)
	_, _, _ = r.handle(r.worker(), m)
	d, _, err := r.handle(r.worker(), m)
	if err != nil || d.Done || len(r.started) > 0 {
		t.Errorf("adopted: %+v %v, begun %d times", d, err, len(r.started))
	}
}

// A claim whose reply is lost is this worker's, and goes on at once.
func TestWorker_RecognisesClaimWithLostReply(t *testing.T) {
	for _, kind := range []string{idempotent, nonIdempotent} {
		r := newFixture(t)
		m := r.newMessage(kind, 0, 1, 1)
		r.Faults = faults.Next("packs.claim", faults.Repeated)
		r.mustHandle(r.worker(), m)
		r.wantPack(m.Key, workflow.PackFinished, 1, codeOK)
	}
}

// Mistake: no STARTED write.
func TestWorker_WritesStartedBeforeJobStarts(t *testing.T) {
	r := newFixture(t)
	m := r.newMessage(nonIdempotent, 0, 1, 3)
	r.blockFunc = func(_ context.Context, job *worker.Job) (map[string]int, error) {
		i := len(r.started) - 1
		if got := r.pack(m.Key); got == nil || got.Jobs[i].Code != codeStarted {
			t.Errorf("job %s begins while its pack holds %v", job.ID, jobCodes(got))
		}
		if i < 2 && r.pack(m.Key).Jobs[i+1].Code != codeNone {
			t.Errorf("job %d is written down as started before its turn", i+1)
		}
		return nil, nil
	}
	r.mustHandle(r.worker(), m)
	r.wantPack(m.Key, workflow.PackFinished, 1, codeOK, codeOK, codeOK)
}

// A STARTED that may or may not have been written begins nothing, and neither
// does what comes after it.
func TestWorker_StartsNothingWhenStartedWriteIsUncertain(t *testing.T) {
	for _, fault := range []faults.Fault{faults.LostReply, faults.Throttled} {
		r := newFixture(t)
		m := r.newMessage(nonIdempotent, 0, 1, 3)
		r.Faults = faults.Next("packs.extend", fault)
		d, _, err := r.handle(r.worker(), m)
		if err == nil || d.Done || len(r.started) != 1 {
			t.Errorf("%s: %+v %v, begun %d jobs", fault, d, err, len(r.started))
		}
		r.Advance(pastLease)
		r.mustHandle(r.worker(), m)
		// What the first came to is written down when the worker stops.
		r.wantPack(m.Key, workflow.PackFinished, 2, codeOK, codeUnknown, codeOK)
	}
}

// Mistake: a takeover that leaves ND STARTED runnable (and N44: an idempotent
// block that is lost with its worker runs again, another does not).
func TestWorker_TakeoverRerunsOnlyIdempotentJobs(t *testing.T) {
	for kind, want := range map[string][]workflow.JobCode{
		idempotent:    {codeOK, codeOK, codeOK},
		nonIdempotent: {codeOK, codeUnknown, codeOK}, // the first's end was written with the second's STARTED
	} {
		r := newFixture(t)
		m := r.newMessage(kind, 0, 1, 3)
		r.crashOnStart(2)
		_, _, _ = r.handle(r.worker(), m)
		r.blockFunc = nil
		r.Advance(pastLease)
		r.mustHandle(r.worker(), m)
		r.wantPack(m.Key, workflow.PackFinished, 2, want...)
		again := r.startCount(workflow.JobID(stepRun.Execution, stepRun.Seq, 1, 1))
		if (kind == nonIdempotent && again != 1) || (kind == idempotent && again != 2) {
			t.Errorf("%s: the job that was lost was begun %d times", kind, again)
		}
	}
}

// N44: "within its limit". Whoever has been taken over too often is the engine's.
func TestWorker_TakeoversAreBounded(t *testing.T) {
	r := newFixture(t)
	m := r.newMessage(idempotent, 0, 1, 1)
	r.blockFunc = func(context.Context, *worker.Job) (map[string]int, error) { panic(faults.Crash{}) }
	for range 5 {
		if _, crashed, _ := r.handle(r.worker(), m); !crashed {
			t.Fatal("the worker lives on")
		}
		r.Advance(pastLease)
	}
	r.mustHandle(r.worker(), m)
	r.wantPack(m.Key, workflow.PackClaimed, 5, codeStarted)
	if len(r.started) != 5 || len(r.wakeups()) != 0 || len(r.doneSet().Done) != 0 {
		t.Errorf("begun %d times", len(r.started))
	}
}

// Mistake: ID released or taken over as NOT_EXECUTED after token 1.
func TestWorker_CancelMarksNotExecutedOnlyWhenCertain(t *testing.T) {
	for _, c := range []struct {
		name  string
		kind  string
		taken bool // a worker before has died
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
				t.Errorf("the lane is not over, or not bad: %+v", set)
			}
			if len(r.wakeups()) != 1 || len(r.sentPacks()) != 0 {
				t.Error("the engine was not told, or the window moved on")
			}
			if n := len(r.started); n != 1 {
				t.Errorf("%d jobs were begun", n)
			}
		})
	}
}

// Mistake: FINISH or heartbeat without the token. N25: a result of a worker that
// has lost its claim changes nothing.
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
				t.Fatalf("%s never comes to %s", kind, call)
			}
			r.Advance(2 * pastLease)
			r.mustHandle(r.worker(), m)
			before, wakeups := fmt.Sprintf("%+v", r.pack(m.Key)), len(r.wakeups())
			begun := len(r.started)
			late.Finish()
			if got := fmt.Sprintf("%+v", r.pack(m.Key)); got != before {
				t.Errorf("%s, late %s: %s, was %s", kind, call, got, before)
			}
			if len(r.wakeups()) > 0 || wakeups > 1 || len(r.started) != begun {
				t.Errorf("%s, late %s: the late worker went on", kind, call)
			}
		}
	}
}

// N25: the same message again, after the pack has ended.
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
		// A pure job may run twice, but its first end stands.
		if begun := len(r.started); begun != 2 && kind != pure {
			t.Errorf("%s: %d jobs were begun", kind, begun)
		}
		// What the copy took is counted; what the pack took is not counted twice.
		if more := r.doneSet().Cost.TotalWriteUnits() - cost; more != 1 {
			t.Errorf("%s: a copy costs %v more than %v, and takes one write", kind, more, cost)
		}
	}
}

// N23: two workers with copies of a message, in every order of their calls.
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
				t.Fatalf("%s, seed %d: %d jobs begun, %d workers finished", kind, seed, len(r.started), finished)
			}
		}
	}
}

// Mistake: ADD before FINISH. Without the end, nothing follows.
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
				t.Errorf("%s, %d lanes: something followed", kind, lanes)
			}
		}
	}
}

// Mistake: UNKNOWN counted as not executed, or as harmless.
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
		t.Errorf("it does not count: %+v", r.doneSet())
	}
}

// Mistake: the fence is the pack's token alone.
func TestJob_FenceIncreasesWithEveryStart(t *testing.T) {
	r := newFixture(t)
	var last string
	higher := func(event string) {
		t.Helper()
		fence := r.started[len(r.started)-1].Fence
		if fence <= last {
			t.Errorf("after %s the fence is %s, not above %s", event, fence, last)
		}
		last = fence
	}
	m := r.newMessage(idempotent, 0, 1, 1)
	m.Work.Retry = &workflow.Retry{MaxRetries: 1}
	r.crashOnStart(1)
	_, _, _ = r.handle(r.worker(), m)
	higher("the first claim")
	r.blockFunc = func(context.Context, *worker.Job) (map[string]int, error) { return nil, errors.New("no") }
	r.Advance(pastLease)
	r.mustHandle(r.worker(), m)
	higher("a takeover")
	r.mustHandle(r.worker(), r.sentPacks()[0])
	higher("a retry")
	undo := r.newMessage(idempotent, 0, 1, 1)
	undo.Key.StepRunSeq, undo.Work.Kind = 3, workflow.JobRollback
	r.mustHandle(r.worker(), undo)
	higher("a rollback")
	next := r.newMessage(idempotent, 0, 1, 1)
	next.Key.Execution, next.Key.StepRunSeq, next.Jobs[0].Token = "y", 1, 101
	r.mustHandle(r.worker(), next)
	higher("another run's lock")
	for _, job := range r.started {
		if job.Token == 0 || !strings.HasPrefix(job.Fence, fmt.Sprintf("%010d-", job.Token)) {
			t.Errorf("%+v", job)
		}
	}
}

// Mistake: a counter instead of the set.
func TestWorker_LaneIsCountedOnce(t *testing.T) {
	r := newFixture(t)
	m := r.newMessage(idempotent, 0, 2, 1)
	for range 3 {
		r.mustHandle(r.worker(), m)
	}
	if wakeups := r.wakeups(); len(wakeups) != 0 {
		t.Errorf("half of the set is taken for all of it: %v", wakeups)
	}
	r.mustHandle(r.worker(), r.newMessage(idempotent, 1, 2, 1))
	if wakeups := r.wakeups(); len(wakeups) != 1 || wakeups[0].Execution != stepRun.Execution || wakeups[0].Tenant != stepRun.Tenant {
		t.Errorf("whoever completes the set tells: %v", wakeups)
	}
}

// Mistake: notAfter ignored. It is looked at again immediately before the claim.
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
					r.Advance(2 * time.Minute) // between the first look and the claim
				}
				return r.Now()
			}
		})
		r.mustHandle(slow, m)
		if p := r.pack(m.Key); p != nil || len(r.started) > 0 || len(r.wakeups()) > 0 {
			t.Errorf("%s: %+v", kind, p)
		}
	}
	// A takeover is a claim, too.
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

// A job begins only under a lease that still runs when it begins, however long
// the writes before it have taken.
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
			t.Errorf("%s: %d jobs begun", kind, len(r.started))
		}
		r.blockFunc = nil
		r.Advance(pastLease)
		r.mustHandle(r.worker(), m)
		want := map[string]workflow.JobCode{idempotent: codeOK, nonIdempotent: codeUnknown}[kind]
		r.wantPack(m.Key, workflow.PackFinished, 2, codeOK, want)
	}
}

// Keys without the visit: another visit of the step has packs of its own.
func TestWorker_StepRunsHaveSeparatePacks(t *testing.T) {
	r := newFixture(t)
	m := r.newMessage(nonIdempotent, 0, 1, 1)
	r.mustHandle(r.worker(), m)
	again := *m
	again.Key.StepRunOrdinal = 2
	r.mustHandle(r.worker(), &again)
	if len(r.started) != 2 {
		t.Errorf("%d jobs begun", len(r.started))
	}
}

// A lease tells one write of a holder from the next, however quickly they follow:
// whoever has read the pack before a write does not take it away after it, and with
// it what was written.
func TestWorker_WritesInSameMillisecondDiffer(t *testing.T) {
	r := newFixture(t)
	m := r.newMessage(nonIdempotent, 0, 1, 2)
	holder := r.StartTask("holder", func() { _, _, _ = r.handle(r.worker(), m) })
	if !holder.RunUntil("packs.extend") {
		t.Fatal("it writes the second job down as started without a word")
	}
	seen := r.pack(m.Key)
	r.Advance(pastLease)
	holder.Step()
	r.withoutFaults(func(v sim.View) {
		taken := *seen
		taken.State, taken.Token = workflow.PackCancelled, seen.Token+1
		if ok, err := v.Packs.ForceCancel(t.Context(), seen, &taken); ok || err != nil {
			t.Errorf("it is taken away as it was before: %v %v", ok, err)
		}
	})
	holder.Finish()
	if got := r.pack(m.Key).Jobs[0].Code; got != codeOK {
		t.Errorf("what has ended is %s now", got)
	}
}
