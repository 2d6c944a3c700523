package delivery_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

const (
	none    = workflow.CodeNone
	started = workflow.CodeStarted
	ok      = workflow.CodeOK
	failed  = workflow.CodeFail
	unknown = workflow.CodeUnknown
	not     = workflow.CodeNotExecuted
)

// The tests of this file are the mistakes of docs/protocols/packs.md that the
// engine's side could make: each fails if its mistake is made.

// Tombstones for the window only: every lane gets one, sent or not.
func TestTombstonesForAllLanes(t *testing.T) {
	b := newBench(t, 6, 1, func(r *workflow.StepRun, _ *workflow.Work) { r.Window = 2 })
	rep := b.close()
	for lane := range 6 {
		p := b.read(lane, 1)
		b.codes(p, not)
		if p.State != workflow.PackCancelled || !b.done()[lane] {
			t.Errorf("lane %d: %+v, done %v", lane, p, b.done())
		}
	}
	if !rep.Complete || rep.Tally.NotExecuted != 6 || rep.Tally.Executed() != 0 {
		t.Errorf("reported %+v", rep)
	}
}

// Tombstones for the first attempt only: the attempt that would follow gets it.
func TestTombstonesForTheNextAttempt(t *testing.T) {
	b := newBench(t, 2, 2, retried(3))
	b.pack(0, 1, workflow.PackFinished, 0, ok, failed)
	rep := b.close()
	b.codes(b.read(0, 2), not)
	if b.read(0, 1).State != workflow.PackFinished || b.read(0, 3) != nil {
		t.Error("other attempts have changed")
	}
	if !rep.Complete || rep.Tally.OK != 1 || rep.Tally.Failed != 1 {
		t.Errorf("what was executed before must count: %+v", rep.Tally)
	}
}

// No tombstones: a claim comes too late, or the tombstone does.
func TestTombstoneOrClaim(t *testing.T) {
	b := newBench(t, 1, 1, nil)
	closing := b.Task("closing", func() { b.close() })
	closing.Until("packs.tombstone")
	p := b.pack(0, 1, workflow.PackClaimed, 0, started)
	closing.Finish()
	if got := b.read(0, 1); got.State != workflow.PackClaimed || !got.Cancel || got.Token != p.Token {
		t.Errorf("a live claim became %+v", got)
	}
}

// A live claim is asked to stop and waited for.
func TestLiveClaimsAreAsked(t *testing.T) {
	b := newBench(t, 2, 1, nil)
	b.pack(0, 1, workflow.PackClaimed, 0, started)
	rep := b.close()
	if got := b.read(0, 1); !got.Cancel || got.State != workflow.PackClaimed || rep.Complete {
		t.Errorf("%+v, reported %+v", got, rep)
	}
	if want := b.Now().Add(lease + slack); !rep.NextLook.Equal(want) {
		t.Errorf("next look at %s, want %s", rep.NextLook, want)
	}
	b.codes(b.read(1, 1), not)
}

// A takeover that ignores the lease, or skew and grace beyond it.
func TestSeizesOnlyBeyondSkewAndGrace(t *testing.T) {
	b := newBench(t, 1, 1, nil)
	b.pack(0, 1, workflow.PackClaimed, 0, started)
	b.Advance(lease + slack)
	if b.close().Complete || b.read(0, 1).State != workflow.PackClaimed {
		t.Fatal("seized too early")
	}
	b.Advance(time.Millisecond)
	rep := b.close()
	b.codes(b.read(0, 1), unknown)
	if !rep.Complete || rep.Tally.Unknown != 1 || rep.Tally.UnknownEntity != "device/a" {
		t.Errorf("reported %+v", rep)
	}
}

// A takeover that keeps the token: the holder's end would still be taken.
func TestSeizingRaisesTheToken(t *testing.T) {
	b := newBench(t, 3, 3, nil)
	p := b.pack(0, 1, workflow.PackClaimed, 0, ok, started, none)
	b.Advance(lease + slack + time.Millisecond)
	b.close()
	got := b.read(0, 1)
	b.codes(got, ok, unknown, not)
	if got.Token != p.Token+1 || string(got.Jobs[0].Result) != `"done"` {
		t.Errorf("seized as %+v", got)
	}
	p.State, p.FinishedAt = workflow.PackFinished, b.Now()
	if taken, _, err := b.view.Packs.Finish(t.Context(), p); taken || err != nil {
		t.Errorf("the late holder's end: %v, %v", taken, err)
	}
}

// A takeover conditional on the token only: the holder renews its lease in
// between, and keeps its claim.
func TestSeizeOrRenew(t *testing.T) {
	b := newBench(t, 1, 1, nil)
	p := b.pack(0, 1, workflow.PackClaimed, 0, started)
	b.Advance(lease + slack + time.Second)
	closing := b.Task("closing", func() { b.close() })
	closing.Until("packs.seize")
	p.Lease = b.Now().Add(lease)
	if renewed, _, err := b.view.Packs.Extend(t.Context(), p); !renewed || err != nil {
		t.Fatal(renewed, err)
	}
	closing.Finish()
	if got := b.read(0, 1); got.State != workflow.PackClaimed || !got.Cancel {
		t.Errorf("it became %+v", got)
	}
}

// UNKNOWN counted as not executed.
func TestUnknownIsExecuted(t *testing.T) {
	b := newBench(t, 2, 2, nil)
	b.pack(0, 1, workflow.PackCancelled, 0, unknown, not)
	if rep := b.close(); rep.Tally.Executed() != 1 || rep.Tally.NotExecuted != 1 {
		t.Errorf("tallied %+v", rep.Tally)
	}
}

// No healing ADD on the alarm: a worker that finished and died.
func TestAlarmHeals(t *testing.T) {
	b := newBench(t, 3, 1, nil)
	for lane := range 3 {
		b.pack(lane, 1, workflow.PackFinished, lane, ok)
	}
	if rep := b.report(false); rep.Complete {
		t.Fatal("nothing says so yet")
	}
	rep := b.report(true)
	if !rep.Complete || rep.Tally.OK != 3 || len(b.done()) != 3 {
		t.Errorf("reported %+v, done %v", rep, b.done())
	}
	if len(b.sent()) != 0 {
		t.Error("sent what is over")
	}
}

// No healing ADD while closing.
func TestClosingHeals(t *testing.T) {
	b := newBench(t, 2, 1, nil)
	b.pack(0, 1, workflow.PackFinished, 0, ok)
	if rep := b.close(); !rep.Complete || len(b.done()) != 2 {
		t.Errorf("reported %+v, done %v", rep, b.done())
	}
}

// Sending again only what is absent: an expired claim is offered too, so that a
// worker takes it over. What is alive is left alone.
func TestAlarmSendsWhatIsLost(t *testing.T) {
	b := newBench(t, 3, 1, nil)
	b.pack(0, 1, workflow.PackClaimed, 0, started)
	b.Advance(lease + 3*time.Second)
	b.pack(1, 1, workflow.PackClaimed, 1, started)
	rep := b.report(true)
	if diff := cmp.Diff([]int{0, 2}, lanes(b.sent())); diff != "" {
		t.Error(diff)
	}
	if want := b.r.Step.EnteredAt.Add(2 * time.Minute); !rep.NextLook.Equal(want) {
		t.Errorf("next look at %s, want %s", rep.NextLook, want)
	}
	b.report(false)
	if s := b.sent(); len(s) > 0 {
		t.Errorf("sent without an alarm: %v", lanes(s))
	}
}

// The alarm ignoring the window: a lane waits for the one before it in its slot.
func TestAlarmRespectsTheWindow(t *testing.T) {
	b := newBench(t, 6, 1, func(r *workflow.StepRun, _ *workflow.Work) { r.Window = 2 })
	b.Advance(time.Minute)
	b.report(true)
	first := b.sent()
	if diff := cmp.Diff([]int{0, 1}, lanes(first)); diff != "" {
		t.Error(diff)
	}
	if c := first[0].Chain; len(c) != 2 || c[0].Lane != 2 || c[1].Lane != 4 {
		t.Errorf("chain %+v", c)
	}
	b.pack(0, 1, workflow.PackFinished, 0, ok)
	b.Advance(time.Minute)
	b.report(true)
	if diff := cmp.Diff([]int{1, 2}, lanes(b.sent())); diff != "" {
		t.Error(diff)
	}
}

// notBefore ignored: a retry that is not due yet is left for its time.
func TestAlarmWaitsForRetries(t *testing.T) {
	b := newBench(t, 2, 2, retried(2))
	b.pack(0, 1, workflow.PackFinished, 0, ok, failed)
	rep := b.report(true)
	if due := b.Now().Add(time.Minute); len(b.sent()) != 0 || !rep.NextLook.Equal(due) {
		t.Errorf("next look at %s, want %s", rep.NextLook, due)
	}
	b.Advance(2 * time.Minute) // the worker has sent it, to come when it is due
	b.report(true)
	s := b.sent()
	if len(s) != 1 || s[0].Key.Attempt != 2 || len(s[0].Jobs) != 1 || s[0].Jobs[0].Index != 1 {
		t.Errorf("sent %+v", s)
	}
}

// The last attempt that died is closed instead of being offered for ever.
func TestTakeoversAreBounded(t *testing.T) {
	b := newBench(t, 1, 1, nil)
	p := b.pack(0, 1, workflow.PackClaimed, 0, started)
	for range 2 {
		next := *p
		next.Token++
		if taken, _, err := b.view.Packs.TakeOver(t.Context(), p, &next); !taken || err != nil {
			t.Fatal(taken, err)
		}
		p = &next
	}
	b.Advance(lease + slack + time.Millisecond)
	b.report(true)
	b.codes(b.read(0, 1), unknown)
	if rep := b.report(false); len(b.sent()) != 0 || !rep.Complete || rep.Tally.Unknown != 1 {
		t.Errorf("reported %+v", rep)
	}
}

// Messages of a run say until when they may be worked on, by the run's epoch
// time and not by the sender's clock.
func TestNotAfterIsTheRunsOwn(t *testing.T) {
	b := newBench(t, 1, 1, nil)
	b.Advance(10 * time.Minute)
	b.report(true)
	if s := b.sent(); !s[0].NotAfter.Equal(b.r.Step.EpochTime.Add(time.Hour)) {
		t.Errorf("not after %s", s[0].NotAfter)
	}
}

// Jobs that nobody claims are reported, but not before their time, and not while
// any is worked on.
func TestUnclaimed(t *testing.T) {
	b := newBench(t, 2, 1, nil)
	b.Advance(20 * time.Minute)
	if b.report(true).Silent {
		t.Error("too early")
	}
	b.Advance(time.Second)
	if !b.report(true).Silent {
		t.Error("nobody has said so")
	}
	b.pack(0, 1, workflow.PackClaimed, 0, started)
	if b.report(true).Silent {
		t.Error("somebody works")
	}
}

// Nobody has come means nobody at all: a run whose other lanes were finished a
// moment ago is being worked on, however long the next lane has been waiting.
func TestBusyIsNotUnclaimed(t *testing.T) {
	b := newBench(t, 3, 1, func(r *workflow.StepRun, _ *workflow.Work) { r.Window = 1 })
	b.Advance(25 * time.Minute)
	p := b.pack(0, 1, workflow.PackFinished, 0, ok)
	if _, err := b.view.Packs.AddDone(t.Context(), p.Key, workflow.LaneEnd{}); err != nil {
		t.Fatal(err)
	}
	if b.report(true).Silent {
		t.Error("its worker has just finished a lane")
	}
	b.Advance(21 * time.Minute)
	if !b.report(true).Silent {
		t.Error("now nobody has come")
	}
}

// A claim whose worker died and that nobody takes over is waiting too: when the
// whole pool is gone, the run must not wait for ever.
func TestAbandonedClaims(t *testing.T) {
	for name, jobs := range map[string]int{"one lane": 1, "two lanes": 2} {
		b := newBench(t, jobs, 1, again)
		b.pack(0, 1, workflow.PackClaimed, 0, started)
		b.Advance(lease + 20*time.Minute)
		if b.report(true).Silent {
			t.Errorf("%s: too early", name)
		}
		b.Advance(time.Second)
		if !b.report(true).Silent {
			t.Errorf("%s: nobody has said so", name)
		}
	}
}

// again makes the jobs of a run repeatable.
func again(_ *workflow.StepRun, w *workflow.Work) { w.Idempotent = true }

// N52, N44: a claim that nobody has renewed or taken over for job.stuck fails its
// job, which must not run twice; one that is renewed is kept, and one whose jobs
// may run again is offered again.
func TestN52StuckClaims(t *testing.T) {
	for name, jobs := range map[string]int{"one lane": 1, "two lanes": 2} {
		b := newBench(t, jobs, 1, nil)
		kept := b.pack(0, 1, workflow.PackClaimed, 0, started)
		for range 30 { // half an hour of heartbeats
			b.Advance(lease)
			kept.Lease = b.Now().Add(lease)
			if ok, _, err := b.view.Packs.Extend(b.Context(), kept); !ok || err != nil {
				t.Fatal(ok, err)
			}
			b.report(true)
		}
		b.codes(b.read(0, 1), started)
		b.Advance(lease + 12*time.Minute + slack)
		b.report(true)
		if b.read(0, 1).Final() {
			t.Errorf("%s: too early", name)
		}
		b.Advance(time.Second)
		if rep := b.report(true); rep.Silent {
			t.Errorf("%s: it was claimed, and is reported as unclaimed", name)
		}
		if p := b.read(0, 1); p.State != workflow.PackCancelled || p.Token != 2 {
			t.Errorf("%s: the pack is %+v", name, p)
		}
		b.codes(b.read(0, 1), workflow.CodeUnknown)

		b = newBench(t, jobs, 1, again)
		b.pack(0, 1, workflow.PackClaimed, 0, started)
		b.Advance(lease + 12*time.Minute + slack + time.Second)
		b.report(true)
		b.codes(b.read(0, 1), started)
		if s := b.sent(); len(s) != jobs {
			t.Errorf("%s: %d packs are offered again, want %d", name, len(s), jobs)
		}
	}
}

// A lane is bad if any of its jobs is, in whichever attempt it was tried last.
func TestBadLanesAreRead(t *testing.T) {
	b := newBench(t, 4, 2, retried(1))
	final := b.pack(0, 1, workflow.PackFinished, 0, failed, failed)
	b.pack(0, 2, workflow.PackFinished, 0, ok, failed)
	b.pack(1, 1, workflow.PackFinished, 2, ok, ok)
	rep := b.report(true)
	if want := (workflow.Tally{OK: 3, Failed: 1}); !rep.Complete || rep.Tally.OK != want.OK || rep.Tally.Failed != want.Failed || rep.Tally.Failure.Entity != "device/b" {
		t.Errorf("reported %+v", rep)
	}
	set, err := b.view.Packs.Done(t.Context(), final.Key.Run(), 0)
	if err != nil || !set.Bad[0] || set.Bad[1] {
		t.Errorf("set %+v, %v", set, err)
	}
	if again := b.report(false); !again.Complete || again.Tally.Failed != 1 {
		t.Errorf("without an alarm %+v", again)
	}
}

// A failed lane is seen at once, without an alarm, while others still run.
func TestFailuresAreSeenEarly(t *testing.T) {
	b := newBench(t, 3, 1, nil)
	p := b.pack(1, 1, workflow.PackFinished, 1, failed)
	if _, err := b.view.Packs.AddDone(t.Context(), p.Key, workflow.LaneEnd{Bad: true}); err != nil {
		t.Fatal(err)
	}
	if rep := b.report(false); rep.Complete || rep.Tally.Failed != 1 || rep.Tally.NotExecuted != 0 {
		t.Errorf("reported %+v", rep)
	}
}

// What waits is offered again ever more rarely: a long queue would be made longer
// by each offer.
func TestOffersBecomeRare(t *testing.T) {
	b := newBench(t, 3, 1, nil)
	var at []time.Duration
	for next := b.Now().Add(time.Minute); b.Now().Sub(b.r.Step.EnteredAt) < 19*time.Minute; {
		b.Advance(next.Sub(b.Now()) + 40*time.Second) // alarms ring late
		b.r.DueAt = next
		rep := b.report(true)
		if len(b.sent()) == 3 {
			at = append(at, b.Now().Sub(b.r.Step.EnteredAt).Truncate(time.Minute))
		}
		next = rep.NextLook
	}
	if diff := cmp.Diff([]time.Duration{time.Minute, 2 * time.Minute, 4 * time.Minute, 8 * time.Minute, 16 * time.Minute}, at); diff != "" {
		t.Error(diff)
	}
}

// A retry's pause is not time in which nobody has come.
func TestPausesAreNotSilence(t *testing.T) {
	b := newBench(t, 2, 1, func(s *workflow.StepRun, w *workflow.Work) {
		w.Retry = &workflow.Retry{MaxRetries: 1, Delay: workflow.Duration(2 * time.Hour)}
	})
	b.pack(0, 1, workflow.PackFinished, 0, failed)
	b.pack(1, 1, workflow.PackFinished, 1, failed)
	b.Advance(2*time.Hour + 20*time.Minute)
	if b.report(true).Silent {
		t.Error("it has been due for 20 minutes")
	}
	b.Advance(time.Second)
	if !b.report(true).Silent {
		t.Error("now nobody has come")
	}
}

// Nor is the time in which a lane waits for the same lane of the step before.
func TestStagesAreNotSilence(t *testing.T) {
	b := newBench(t, 2, 1, nil)
	began := b.Now().Add(3 * time.Hour)
	b.r.Allowed = func(int) bool { return true }
	b.r.Before = func(context.Context, int) (time.Time, error) { return began, nil }
	b.Advance(3*time.Hour + 20*time.Minute)
	if b.report(true).Silent {
		t.Error("it has been waiting for 20 minutes")
	}
	b.Advance(time.Second)
	if !b.report(true).Silent {
		t.Error("now nobody has come")
	}
}
