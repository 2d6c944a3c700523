package worker_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/sim"
	"github.com/lockstep-run/lockstep/shared/sim/fate"
	"github.com/lockstep-run/lockstep/shared/worker"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Each test here drives one of the mistakes that are known to break the
// protocol, as far as the worker could make it.

// Mistake: a takeover that ignores the lease.
func TestLiveLeaseIsLeftAlone(t *testing.T) {
	for _, kind := range []string{id, nd} {
		r := newRig(t)
		m := r.message(kind, 0, 1, 1)
		r.die(1)
		if _, crashed, _ := r.handle(r.worker(), m); !crashed {
			t.Fatal("the worker lives on")
		}
		r.behave = nil
		// Skew: another clock may be ahead of the holder's.
		for _, at := range []time.Duration{0, lease, lease + time.Second} {
			r.Advance(at)
			d, _, err := r.handle(r.worker(), m)
			if err != nil || d.Done || d.After <= 0 || d.After > lease+3*time.Second-at {
				t.Errorf("%s, %s after the claim: %+v %v", kind, at, d, err)
			}
			r.Advance(-at)
		}
		r.want(m.Key, workflow.PackClaimed, 1, startedCode)
		if n := len(r.started); n != 1 {
			t.Errorf("%s: begun %d times", kind, n)
		}
		// Exactly when it said that it would come back, the pack can be taken.
		d, _, _ := r.handle(r.worker(), m)
		r.Advance(d.After)
		r.done(r.worker(), m)
	}
}

// Mistake: a takeover that is conditional on the token only. The holder renews
// its lease between the other's read and write.
func TestRenewedLeaseIsNotTakenOver(t *testing.T) {
	r := newRig(t)
	m := r.message(nd, 0, 1, 2)
	r.behave = func(context.Context, *worker.Job) (map[string]int, error) {
		r.Advance(lease / 2)
		return nil, nil
	}
	holder := r.Task("holder", func() { _, _, _ = r.handle(r.worker(), m) })
	holder.Past("packs.claim")
	holder.Until("packs.extend")
	r.Advance(pastLease - lease/2)
	other := r.Task("other", func() {
		if d, _, err := r.handle(r.worker(), m); err != nil || d.Done {
			t.Errorf("the other: %+v %v", d, err)
		}
	})
	other.Until("packs.take_over")
	holder.Step()
	other.Finish()
	holder.Finish()
	r.want(m.Key, workflow.PackFinished, 1, ok, ok)
}

// Mistake: adopting a live claim by the worker's name. The process was started
// again under the same name.
func TestLiveClaimIsNotAdoptedByName(t *testing.T) {
	r := newRig(t)
	m := r.message(nd, 0, 1, 1)
	r.Faults = fate.Next("packs.claim", fate.CrashAfter)
	_, _, _ = r.handle(r.worker(), m)
	d, _, err := r.handle(r.worker(), m)
	if err != nil || d.Done || len(r.started) > 0 {
		t.Errorf("adopted: %+v %v, begun %d times", d, err, len(r.started))
	}
}

// A claim whose reply is lost is this worker's, and goes on at once.
func TestClaimWithALostReplyIsRecognised(t *testing.T) {
	for _, kind := range []string{id, nd} {
		r := newRig(t)
		m := r.message(kind, 0, 1, 1)
		r.Faults = fate.Next("packs.claim", fate.Repeated)
		r.done(r.worker(), m)
		r.want(m.Key, workflow.PackFinished, 1, ok)
	}
}

// Mistake: no STARTED write.
func TestStartedIsWrittenBeforeTheStart(t *testing.T) {
	r := newRig(t)
	m := r.message(nd, 0, 1, 3)
	r.behave = func(_ context.Context, job *worker.Job) (map[string]int, error) {
		i := len(r.started) - 1
		if got := r.pack(m.Key); got == nil || got.Jobs[i].Code != startedCode {
			t.Errorf("job %s begins while its pack holds %v", job.ID, codes(got))
		}
		if i < 2 && r.pack(m.Key).Jobs[i+1].Code != none {
			t.Errorf("job %d is written down as started before its turn", i+1)
		}
		return nil, nil
	}
	r.done(r.worker(), m)
	r.want(m.Key, workflow.PackFinished, 1, ok, ok, ok)
}

// A STARTED that may or may not have been written begins nothing, and neither
// does what comes after it.
func TestNothingBeginsOnAStartedThatMayBeLost(t *testing.T) {
	for _, fault := range []fate.Fault{fate.LostReply, fate.Throttled} {
		r := newRig(t)
		m := r.message(nd, 0, 1, 3)
		r.Faults = fate.Next("packs.extend", fault)
		d, _, err := r.handle(r.worker(), m)
		if err == nil || d.Done || len(r.started) != 1 {
			t.Errorf("%s: %+v %v, begun %d jobs", fault, d, err, len(r.started))
		}
		r.Advance(pastLease)
		r.done(r.worker(), m)
		// What the first came to is written down when the worker stops.
		r.want(m.Key, workflow.PackFinished, 2, ok, unknown, ok)
	}
}

// Mistake: a takeover that leaves ND STARTED runnable (and N44: an idempotent
// block that is lost with its worker runs again, another does not).
func TestN44TakeOver(t *testing.T) {
	for kind, want := range map[string][]workflow.JobCode{
		id: {ok, ok, ok},
		nd: {ok, unknown, ok}, // the first's end was written with the second's STARTED
	} {
		r := newRig(t)
		m := r.message(kind, 0, 1, 3)
		r.die(2)
		_, _, _ = r.handle(r.worker(), m)
		r.behave = nil
		r.Advance(pastLease)
		r.done(r.worker(), m)
		r.want(m.Key, workflow.PackFinished, 2, want...)
		again := r.starts(workflow.JobID(run.Execution, run.RunSeq, 1, 1))
		if (kind == nd && again != 1) || (kind == id && again != 2) {
			t.Errorf("%s: the job that was lost was begun %d times", kind, again)
		}
	}
}

// N44: "within its limit". Whoever has been taken over too often is the engine's.
func TestN44TakeOversAreBounded(t *testing.T) {
	r := newRig(t)
	m := r.message(id, 0, 1, 1)
	r.behave = func(context.Context, *worker.Job) (map[string]int, error) { panic(fate.Crash{}) }
	for range 5 {
		if _, crashed, _ := r.handle(r.worker(), m); !crashed {
			t.Fatal("the worker lives on")
		}
		r.Advance(pastLease)
	}
	r.done(r.worker(), m)
	r.want(m.Key, workflow.PackClaimed, 5, startedCode)
	if len(r.started) != 5 || len(r.looks()) != 0 || len(r.set().Done) != 0 {
		t.Errorf("begun %d times", len(r.started))
	}
}

// Mistake: ID released or taken over as NOT_EXECUTED after token 1.
func TestReleaseTellsOnlyWhatIsCertain(t *testing.T) {
	for _, c := range []struct {
		name  string
		kind  string
		taken bool // a worker before has died
		want  []workflow.JobCode
	}{
		{"first claim of a repeatable block", id, false, []workflow.JobCode{ok, notExecuted, notExecuted}},
		{"second claim of a repeatable block", id, true, []workflow.JobCode{ok, unknown, unknown}},
		{"first claim of another block", nd, false, []workflow.JobCode{ok, notExecuted, notExecuted}},
		{"second claim of another block", nd, true, []workflow.JobCode{unknown, ok, notExecuted}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			m := r.message(c.kind, 0, 2, 3)
			m.Chain = []workflow.LaneJobs{{Lane: 1, Jobs: inputs(1, 3)}}
			token := 1
			if c.taken {
				token = 2
				r.Faults = fate.Next("packs.claim", fate.CrashAfter)
				_, _, _ = r.handle(r.worker(), m)
				r.Advance(pastLease)
			}
			r.behave = func(context.Context, *worker.Job) (map[string]int, error) {
				r.cancel(m.Key)
				r.behave = nil
				r.Advance(25 * time.Second) // a heartbeat is due
				return nil, nil
			}
			r.done(r.worker(), m)
			r.want(m.Key, workflow.PackCancelled, token, c.want...)
			if set := r.set(); !set.Done[0] || !set.Bad[0] {
				t.Errorf("the lane is not over, or not bad: %+v", set)
			}
			if len(r.looks()) != 1 || len(r.offered()) != 0 {
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
func TestN25LateWritesChangeNothing(t *testing.T) {
	for _, call := range []string{"packs.extend", "packs.finish"} {
		for _, kind := range []string{id, nd} {
			r := newRig(t)
			m := r.message(kind, 0, 2, 2)
			r.behave = func(_ context.Context, job *worker.Job) (map[string]int, error) {
				if kind == id {
					r.Advance(25 * time.Second) // a heartbeat is due
				}
				return map[string]int{"fence": len(r.started)}, nil
			}
			late := r.Task("late", func() {
				if d, _, err := r.handle(r.worker(), m); err == nil || d.Done {
					t.Errorf("%s, late %s: %+v", kind, call, d)
				}
			})
			if !late.Past("packs.claim") || !late.Until(call) {
				t.Fatalf("%s never comes to %s", kind, call)
			}
			r.Advance(2 * pastLease)
			r.done(r.worker(), m)
			stands, looks := fmt.Sprintf("%+v", r.pack(m.Key)), len(r.looks())
			begun := len(r.started)
			late.Finish()
			if got := fmt.Sprintf("%+v", r.pack(m.Key)); got != stands {
				t.Errorf("%s, late %s: %s, was %s", kind, call, got, stands)
			}
			if len(r.looks()) > 0 || looks > 1 || len(r.started) != begun {
				t.Errorf("%s, late %s: the late worker went on", kind, call)
			}
		}
	}
}

// N25: the same message again, after the pack has ended.
func TestN25AgainChangesNothing(t *testing.T) {
	for _, kind := range kinds {
		r := newRig(t)
		m := r.message(kind, 0, 2, 2)
		r.done(r.worker(), m)
		first := r.pack(m.Key)
		cost := r.set().Cost.Writes()
		r.done(r.worker(), m)
		if again := r.pack(m.Key); fmt.Sprint(again) != fmt.Sprint(first) {
			t.Errorf("%s: %+v, was %+v", kind, again, first)
		}
		// A pure job may run twice, but its first end stands.
		if begun := len(r.started); begun != 2 && kind != pure {
			t.Errorf("%s: %d jobs were begun", kind, begun)
		}
		// What the copy took is counted; what the pack took is not counted twice.
		if more := r.set().Cost.Writes() - cost; more != 1 {
			t.Errorf("%s: a copy costs %v more than %v, and takes one write", kind, more, cost)
		}
	}
}

// N23: two workers with copies of a message, in every order of their calls.
func TestN23TwoWorkers(t *testing.T) {
	for _, kind := range []string{id, nd} {
		for seed := range uint64(50) {
			r := newRig(t)
			r.World = sim.New(seed)
			r.MakePool("default")
			m := r.message(kind, 0, 2, 2)
			finished := 0
			work := func() {
				if d, _, err := r.handle(r.worker(), m); err == nil && d.Done {
					finished++
				}
			}
			r.Interleave(r.Task("one", work), r.Task("two", work))
			r.want(m.Key, workflow.PackFinished, 1, ok, ok)
			if len(r.started) != 2 || finished < 1 {
				t.Fatalf("%s, seed %d: %d jobs begun, %d workers finished", kind, seed, len(r.started), finished)
			}
		}
	}
}

// Mistake: ADD before FINISH. Without the end, nothing follows.
func TestNothingFollowsWithoutTheEnd(t *testing.T) {
	for kind, call := range map[string]string{pure: "packs.finish_unclaimed", id: "packs.finish", nd: "packs.finish"} {
		for _, lanes := range []int{1, 2} {
			r := newRig(t)
			m := r.message(kind, 0, lanes, 1)
			m.Chain = []workflow.LaneJobs{{Lane: 1, Jobs: inputs(1, 1)}}
			r.Faults = fate.Next(call, fate.Throttled)
			if d, _, err := r.handle(r.worker(), m); err == nil || d.Done {
				t.Errorf("%s: %+v", kind, d)
			}
			if len(r.looks()) > 0 || len(r.offered()) > 0 || len(r.set().Done) > 0 {
				t.Errorf("%s, %d lanes: something followed", kind, lanes)
			}
		}
	}
}

// Mistake: UNKNOWN counted as not executed, or as harmless.
func TestUnknownIsBad(t *testing.T) {
	r := newRig(t)
	m := r.message(nd, 0, 2, 1)
	m.Work.Retry = &workflow.Retry{MaxRetries: 3}
	r.die(1)
	_, _, _ = r.handle(r.worker(), m)
	r.Advance(pastLease)
	r.done(r.worker(), m)
	r.want(m.Key, workflow.PackFinished, 2, unknown)
	if !unknown.Executed() || !r.set().Bad[0] || len(r.looks()) != 1 || len(r.offered()) != 0 {
		t.Errorf("it does not count: %+v", r.set())
	}
}

// Mistake: the fence is the pack's token alone.
func TestFence(t *testing.T) {
	r := newRig(t)
	var last string
	higher := func(why string) {
		t.Helper()
		fence := r.started[len(r.started)-1].Fence
		if fence <= last {
			t.Errorf("after %s the fence is %s, not above %s", why, fence, last)
		}
		last = fence
	}
	m := r.message(id, 0, 1, 1)
	m.Work.Retry = &workflow.Retry{MaxRetries: 1}
	r.die(1)
	_, _, _ = r.handle(r.worker(), m)
	higher("the first claim")
	r.behave = func(context.Context, *worker.Job) (map[string]int, error) { return nil, errors.New("no") }
	r.Advance(pastLease)
	r.done(r.worker(), m)
	higher("a takeover")
	r.done(r.worker(), r.offered()[0])
	higher("a retry")
	undo := r.message(id, 0, 1, 1)
	undo.Key.RunSeq, undo.Work.Kind = 3, workflow.JobRollback
	r.done(r.worker(), undo)
	higher("a rollback")
	next := r.message(id, 0, 1, 1)
	next.Key.Execution, next.Key.RunSeq, next.Jobs[0].Token = "y", 1, 101
	r.done(r.worker(), next)
	higher("another run's lock")
	for _, job := range r.started {
		if job.Token == 0 || !strings.HasPrefix(job.Fence, fmt.Sprintf("%010d-", job.Token)) {
			t.Errorf("%+v", job)
		}
	}
}

// Mistake: a counter instead of the set.
func TestLaneCountsOnce(t *testing.T) {
	r := newRig(t)
	m := r.message(id, 0, 2, 1)
	for range 3 {
		r.done(r.worker(), m)
	}
	if looks := r.looks(); len(looks) != 0 {
		t.Errorf("half of the set is taken for all of it: %v", looks)
	}
	r.done(r.worker(), r.message(id, 1, 2, 1))
	if looks := r.looks(); len(looks) != 1 || looks[0].Execution != run.Execution || looks[0].Tenant != run.Tenant {
		t.Errorf("whoever completes the set tells: %v", looks)
	}
}

// Mistake: notAfter ignored. It is looked at again immediately before the claim.
func TestNotAfter(t *testing.T) {
	for _, kind := range kinds {
		r := newRig(t)
		m := r.message(kind, 0, 1, 1)
		m.NotAfter = r.Now().Add(time.Minute)
		r.Advance(time.Minute + 1)
		r.done(r.worker(), m)
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
		r.done(slow, m)
		if p := r.pack(m.Key); p != nil || len(r.started) > 0 || len(r.looks()) > 0 {
			t.Errorf("%s: %+v", kind, p)
		}
	}
	// A takeover is a claim, too.
	r := newRig(t)
	m := r.message(id, 0, 1, 1)
	m.NotAfter = r.Now().Add(lease)
	r.die(1)
	_, _, _ = r.handle(r.worker(), m)
	m.NotAfter = r.Now().Add(pastLease)
	r.Advance(pastLease)
	calls := 0
	r.done(r.worker(func(o *worker.Options) {
		o.Now = func() time.Time {
			if calls++; calls == 3 {
				r.Advance(time.Second) // between the failed claim and the takeover
			}
			return r.Now()
		}
	}), m)
	r.want(m.Key, workflow.PackClaimed, 1, startedCode)
}

// A job begins only under a lease that still runs when it begins, however long
// the writes before it have taken.
func TestNothingBeginsUnderALeaseThatIsOver(t *testing.T) {
	for _, kind := range []string{id, nd} {
		r := newRig(t)
		m := r.message(kind, 0, 1, 2)
		r.behave = func(context.Context, *worker.Job) (map[string]int, error) {
			r.Advance(lease / 2) // a heartbeat is due
			return nil, nil
		}
		slow := r.Task("slow", func() {
			if d, _, err := r.handle(r.worker(), m); err == nil || d.Done {
				t.Errorf("%s: %+v", kind, d)
			}
		})
		for range 9 {
			if slow.Until("packs.extend"); slow.Over() {
				break
			}
			r.Advance(lease)
			slow.Step()
		}
		if !slow.Over() || len(r.started) != 1 {
			t.Errorf("%s: %d jobs begun", kind, len(r.started))
		}
		r.behave = nil
		r.Advance(pastLease)
		r.done(r.worker(), m)
		want := map[string]workflow.JobCode{id: ok, nd: unknown}[kind]
		r.want(m.Key, workflow.PackFinished, 2, ok, want)
	}
}

// Keys without the visit: another visit of the step has packs of its own.
func TestVisitsAreApart(t *testing.T) {
	r := newRig(t)
	m := r.message(nd, 0, 1, 1)
	r.done(r.worker(), m)
	again := *m
	again.Key.Visit = 2
	r.done(r.worker(), &again)
	if len(r.started) != 2 {
		t.Errorf("%d jobs begun", len(r.started))
	}
}

// A lease tells one write of a holder from the next, however quickly they follow:
// whoever has read the pack before a write does not take it away after it, and with
// it what was written.
func TestWritesOfOneMomentAreToldApart(t *testing.T) {
	r := newRig(t)
	m := r.message(nd, 0, 1, 2)
	holder := r.Task("holder", func() { _, _, _ = r.handle(r.worker(), m) })
	if !holder.Until("packs.extend") {
		t.Fatal("it writes the second job down as started without a word")
	}
	seen := r.pack(m.Key)
	r.Advance(pastLease)
	holder.Step()
	r.without(func(v sim.View) {
		taken := *seen
		taken.State, taken.Token = workflow.PackCancelled, seen.Token+1
		if ok, err := v.Packs.Seize(t.Context(), seen, &taken); ok || err != nil {
			t.Errorf("it is taken away as it was before: %v %v", ok, err)
		}
	})
	holder.Finish()
	if got := r.pack(m.Key).Jobs[0].Code; got != ok {
		t.Errorf("what has ended is %s now", got)
	}
}
