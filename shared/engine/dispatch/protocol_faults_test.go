package dispatch_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

const (
	none        = workflow.JobCodeNone
	started     = workflow.JobCodeStarted
	ok          = workflow.JobCodeOK
	failed      = workflow.JobCodeFail
	unknown     = workflow.JobCodeUnknown
	notExecuted = workflow.JobCodeNotExecuted
)

// The tests of this file are the mistakes of docs/protocols/packs.md that the
// engine's side could make: each fails if its mistake is made.

// Tombstones for the window only: every lane gets one, sent or not.
func TestDispatcher_CloseCancelsAllLanes(t *testing.T) {
	b := newFixture(t, 6, 1, func(r *workflow.StepRun, _ *workflow.Work) { r.Window = 2 })
	rep := b.close()
	for lane := range 6 {
		p := b.readPack(lane, 1)
		b.wantCodes(p, notExecuted)
		if p.State != workflow.PackCancelled || !b.doneLanes()[lane] {
			t.Errorf("lane %d: %+v, done %v", lane, p, b.doneLanes())
		}
	}
	if !rep.Complete || rep.Counts.NotExecuted != 6 || rep.Counts.Executed() != 0 {
		t.Errorf("reported %+v", rep)
	}
}

// Tombstones for the first attempt only: the attempt that would follow gets it.
func TestDispatcher_CloseCancelsNextAttempt(t *testing.T) {
	b := newFixture(t, 2, 2, withRetries(3))
	b.writePack(0, 1, workflow.PackFinished, 0, ok, failed)
	rep := b.close()
	b.wantCodes(b.readPack(0, 2), notExecuted)
	if b.readPack(0, 1).State != workflow.PackFinished || b.readPack(0, 3) != nil {
		t.Error("other attempts have changed")
	}
	if !rep.Complete || rep.Counts.OK != 1 || rep.Counts.Failed != 1 {
		t.Errorf("what was executed before must count: %+v", rep.Counts)
	}
}

// No tombstones: a claim comes too late, or the tombstone does.
func TestDispatcher_CloseRacesWithClaim(t *testing.T) {
	b := newFixture(t, 1, 1, nil)
	closing := b.StartTask("closing", func() { b.close() })
	closing.RunUntil("packs.put_cancelled")
	p := b.writePack(0, 1, workflow.PackClaimed, 0, started)
	closing.Finish()
	if got := b.readPack(0, 1); got.State != workflow.PackClaimed || !got.CancelRequested || got.Token != p.Token {
		t.Errorf("a live claim became %+v", got)
	}
}

// A live claim is asked to stop and waited for.
func TestDispatcher_CloseAsksLiveClaimsToCancel(t *testing.T) {
	b := newFixture(t, 2, 1, nil)
	b.writePack(0, 1, workflow.PackClaimed, 0, started)
	rep := b.close()
	if got := b.readPack(0, 1); !got.CancelRequested || got.State != workflow.PackClaimed || rep.Complete {
		t.Errorf("%+v, reported %+v", got, rep)
	}
	if want := b.Now().Add(lease + skewAndGrace); !rep.NextCheckAt.Equal(want) {
		t.Errorf("next look at %s, want %s", rep.NextCheckAt, want)
	}
	b.wantCodes(b.readPack(1, 1), notExecuted)
}

// A takeover that ignores the lease, or skew and grace beyond it.
func TestDispatcher_SeizesOnlyAfterSkewAndGrace(t *testing.T) {
	b := newFixture(t, 1, 1, nil)
	b.writePack(0, 1, workflow.PackClaimed, 0, started)
	b.Advance(lease + skewAndGrace)
	if b.close().Complete || b.readPack(0, 1).State != workflow.PackClaimed {
		t.Fatal("seized too early")
	}
	b.Advance(time.Millisecond)
	rep := b.close()
	b.wantCodes(b.readPack(0, 1), unknown)
	if !rep.Complete || rep.Counts.Unknown != 1 || rep.Counts.UnknownEntity != "device/a" {
		t.Errorf("reported %+v", rep)
	}
}

// A takeover that keeps the token: the holder's end would still be taken.
func TestDispatcher_SeizingRaisesToken(t *testing.T) {
	b := newFixture(t, 3, 3, nil)
	p := b.writePack(0, 1, workflow.PackClaimed, 0, ok, started, none)
	b.Advance(lease + skewAndGrace + time.Millisecond)
	b.close()
	got := b.readPack(0, 1)
	b.wantCodes(got, ok, unknown, notExecuted)
	if got.Token != p.Token+1 || string(got.Jobs[0].Result) != `"done"` {
		t.Errorf("seized as %+v", got)
	}
	p.State, p.FinishedAt = workflow.PackFinished, b.Now()
	if taken, _, err := b.ports.Packs.Finish(t.Context(), p); taken || err != nil {
		t.Errorf("the late holder's end: %v, %v", taken, err)
	}
}

// A takeover conditional on the token only: the holder renews its lease in
// between, and keeps its claim.
func TestDispatcher_SeizeRacesWithRenewal(t *testing.T) {
	b := newFixture(t, 1, 1, nil)
	p := b.writePack(0, 1, workflow.PackClaimed, 0, started)
	b.Advance(lease + skewAndGrace + time.Second)
	closing := b.StartTask("closing", func() { b.close() })
	closing.RunUntil("packs.force_cancel")
	p.Lease = b.Now().Add(lease)
	if renewed, _, err := b.ports.Packs.Extend(t.Context(), p); !renewed || err != nil {
		t.Fatal(renewed, err)
	}
	closing.Finish()
	if got := b.readPack(0, 1); got.State != workflow.PackClaimed || !got.CancelRequested {
		t.Errorf("it became %+v", got)
	}
}

// UNKNOWN counted as not executed.
func TestDispatcher_UnknownJobsCountAsExecuted(t *testing.T) {
	b := newFixture(t, 2, 2, nil)
	b.writePack(0, 1, workflow.PackCancelled, 0, unknown, notExecuted)
	if rep := b.close(); rep.Counts.Executed() != 1 || rep.Counts.NotExecuted != 1 {
		t.Errorf("tallied %+v", rep.Counts)
	}
}

// No healing ADD on the alarm: a worker that finished and died.
func TestDispatcher_TimerRepairsDoneSets(t *testing.T) {
	b := newFixture(t, 3, 1, nil)
	for lane := range 3 {
		b.writePack(lane, 1, workflow.PackFinished, lane, ok)
	}
	if rep := b.report(false); rep.Complete {
		t.Fatal("nothing says so yet")
	}
	rep := b.report(true)
	if !rep.Complete || rep.Counts.OK != 3 || len(b.doneLanes()) != 3 {
		t.Errorf("reported %+v, done %v", rep, b.doneLanes())
	}
	if len(b.drainQueue()) != 0 {
		t.Error("sent what is over")
	}
}

// No healing ADD while closing.
func TestDispatcher_CloseRepairsDoneSets(t *testing.T) {
	b := newFixture(t, 2, 1, nil)
	b.writePack(0, 1, workflow.PackFinished, 0, ok)
	if rep := b.close(); !rep.Complete || len(b.doneLanes()) != 2 {
		t.Errorf("reported %+v, done %v", rep, b.doneLanes())
	}
}

// Sending again only what is absent: an expired claim is offered too, so that a
// worker takes it over. What is alive is left alone.
func TestDispatcher_TimerResendsLostPacks(t *testing.T) {
	b := newFixture(t, 3, 1, nil)
	b.writePack(0, 1, workflow.PackClaimed, 0, started)
	b.Advance(lease + 3*time.Second)
	b.writePack(1, 1, workflow.PackClaimed, 1, started)
	rep := b.report(true)
	if diff := cmp.Diff([]int{0, 2}, laneNumbers(b.drainQueue())); diff != "" {
		t.Error(diff)
	}
	if want := b.r.Step.EnteredAt.Add(2 * time.Minute); !rep.NextCheckAt.Equal(want) {
		t.Errorf("next look at %s, want %s", rep.NextCheckAt, want)
	}
	b.report(false)
	if s := b.drainQueue(); len(s) > 0 {
		t.Errorf("sent without an alarm: %v", laneNumbers(s))
	}
}

// The alarm ignoring the window: a lane waits for the one before it in its slot.
func TestDispatcher_TimerRespectsWindow(t *testing.T) {
	b := newFixture(t, 6, 1, func(r *workflow.StepRun, _ *workflow.Work) { r.Window = 2 })
	b.Advance(time.Minute)
	b.report(true)
	first := b.drainQueue()
	if diff := cmp.Diff([]int{0, 1}, laneNumbers(first)); diff != "" {
		t.Error(diff)
	}
	if c := first[0].Chain; len(c) != 2 || c[0].Lane != 2 || c[1].Lane != 4 {
		t.Errorf("chain %+v", c)
	}
	b.writePack(0, 1, workflow.PackFinished, 0, ok)
	b.Advance(time.Minute)
	b.report(true)
	if diff := cmp.Diff([]int{1, 2}, laneNumbers(b.drainQueue())); diff != "" {
		t.Error(diff)
	}
}

// notBefore ignored: a retry that is not due yet is left for its time.
func TestDispatcher_TimerWaitsForRetryDelay(t *testing.T) {
	b := newFixture(t, 2, 2, withRetries(2))
	b.writePack(0, 1, workflow.PackFinished, 0, ok, failed)
	rep := b.report(true)
	if due := b.Now().Add(time.Minute); len(b.drainQueue()) != 0 || !rep.NextCheckAt.Equal(due) {
		t.Errorf("next look at %s, want %s", rep.NextCheckAt, due)
	}
	b.Advance(2 * time.Minute) // the worker has sent it, to come when it is due
	b.report(true)
	s := b.drainQueue()
	if len(s) != 1 || s[0].Key.Attempt != 2 || len(s[0].Jobs) != 1 || s[0].Jobs[0].Index != 1 {
		t.Errorf("sent %+v", s)
	}
}

// The last attempt that died is closed instead of being offered for ever.
func TestDispatcher_TakeoversAreBounded(t *testing.T) {
	b := newFixture(t, 1, 1, nil)
	p := b.writePack(0, 1, workflow.PackClaimed, 0, started)
	for range 2 {
		next := *p
		next.Token++
		if taken, _, err := b.ports.Packs.TakeOver(t.Context(), p, &next); !taken || err != nil {
			t.Fatal(taken, err)
		}
		p = &next
	}
	b.Advance(lease + skewAndGrace + time.Millisecond)
	b.report(true)
	b.wantCodes(b.readPack(0, 1), unknown)
	if rep := b.report(false); len(b.drainQueue()) != 0 || !rep.Complete || rep.Counts.Unknown != 1 {
		t.Errorf("reported %+v", rep)
	}
}

// Messages of a run say until when they may be worked on, by the run's epoch
// time and not by the sender's clock.
func TestDispatcher_NotAfterFollowsEpochTime(t *testing.T) {
	b := newFixture(t, 1, 1, nil)
	b.Advance(10 * time.Minute)
	b.report(true)
	if s := b.drainQueue(); !s[0].NotAfter.Equal(b.r.Step.DispatchedAt.Add(time.Hour)) {
		t.Errorf("not after %s", s[0].NotAfter)
	}
}

// Jobs that nobody claims are reported, but not before their time, and not while
// any is worked on.
func TestDispatcher_ReportsUnclaimedJobs(t *testing.T) {
	b := newFixture(t, 2, 1, nil)
	b.Advance(20 * time.Minute)
	if b.report(true).Unclaimed {
		t.Error("too early")
	}
	b.Advance(time.Second)
	if !b.report(true).Unclaimed {
		t.Error("nobody has said so")
	}
	b.writePack(0, 1, workflow.PackClaimed, 0, started)
	if b.report(true).Unclaimed {
		t.Error("somebody works")
	}
}

// Nobody has come means nobody at all: a run whose other lanes were finished a
// moment ago is being worked on, however long the next lane has been waiting.
func TestDispatcher_BusyPoolIsNotUnclaimed(t *testing.T) {
	b := newFixture(t, 3, 1, func(r *workflow.StepRun, _ *workflow.Work) { r.Window = 1 })
	b.Advance(25 * time.Minute)
	p := b.writePack(0, 1, workflow.PackFinished, 0, ok)
	if _, err := b.ports.Packs.AddDone(t.Context(), p.Key, workflow.LaneResult{}); err != nil {
		t.Fatal(err)
	}
	if b.report(true).Unclaimed {
		t.Error("its worker has just finished a lane")
	}
	b.Advance(21 * time.Minute)
	if !b.report(true).Unclaimed {
		t.Error("now nobody has come")
	}
}

// A claim whose worker died and that nobody takes over is waiting too: when the
// whole pool is gone, the run must not wait for ever.
func TestDispatcher_ReportsAbandonedClaims(t *testing.T) {
	for name, jobs := range map[string]int{"one lane": 1, "two lanes": 2} {
		b := newFixture(t, jobs, 1, idempotent)
		b.writePack(0, 1, workflow.PackClaimed, 0, started)
		b.Advance(lease + 20*time.Minute)
		if b.report(true).Unclaimed {
			t.Errorf("%s: too early", name)
		}
		b.Advance(time.Second)
		if !b.report(true).Unclaimed {
			t.Errorf("%s: nobody has said so", name)
		}
	}
}

// idempotent makes the jobs of a run repeatable.
func idempotent(_ *workflow.StepRun, w *workflow.Work) { w.Idempotent = true }

// N52, N44: a claim that nobody has renewed or taken over for job.stuck fails its
// job, which must not run twice; one that is renewed is kept, and one whose jobs
// may run again is offered again.
func TestDispatcher_FailsStuckClaims(t *testing.T) {
	for name, jobs := range map[string]int{"one lane": 1, "two lanes": 2} {
		b := newFixture(t, jobs, 1, nil)
		kept := b.writePack(0, 1, workflow.PackClaimed, 0, started)
		for range 30 { // half an hour of heartbeats
			b.Advance(lease)
			kept.Lease = b.Now().Add(lease)
			if ok, _, err := b.ports.Packs.Extend(b.Context(), kept); !ok || err != nil {
				t.Fatal(ok, err)
			}
			b.report(true)
		}
		b.wantCodes(b.readPack(0, 1), started)
		b.Advance(lease + 12*time.Minute + skewAndGrace)
		b.report(true)
		if b.readPack(0, 1).Final() {
			t.Errorf("%s: too early", name)
		}
		b.Advance(time.Second)
		if rep := b.report(true); rep.Unclaimed {
			t.Errorf("%s: it was claimed, and is reported as unclaimed", name)
		}
		if p := b.readPack(0, 1); p.State != workflow.PackCancelled || p.Token != 2 {
			t.Errorf("%s: the pack is %+v", name, p)
		}
		b.wantCodes(b.readPack(0, 1), workflow.JobCodeUnknown)

		b = newFixture(t, jobs, 1, idempotent)
		b.writePack(0, 1, workflow.PackClaimed, 0, started)
		b.Advance(lease + 12*time.Minute + skewAndGrace + time.Second)
		b.report(true)
		b.wantCodes(b.readPack(0, 1), started)
		if s := b.drainQueue(); len(s) != jobs {
			t.Errorf("%s: %d packs are offered again, want %d", name, len(s), jobs)
		}
	}
}

// A lane is bad if any of its jobs is, in whichever attempt it was tried last.
func TestDispatcher_ReportsFailedLanes(t *testing.T) {
	b := newFixture(t, 4, 2, withRetries(1))
	final := b.writePack(0, 1, workflow.PackFinished, 0, failed, failed)
	b.writePack(0, 2, workflow.PackFinished, 0, ok, failed)
	b.writePack(1, 1, workflow.PackFinished, 2, ok, ok)
	rep := b.report(true)
	if want := (workflow.Counts{OK: 3, Failed: 1}); !rep.Complete || rep.Counts.OK != want.OK || rep.Counts.Failed != want.Failed || rep.Counts.Failure.Entity != "device/b" {
		t.Errorf("reported %+v", rep)
	}
	set, err := b.ports.Packs.DoneSet(t.Context(), final.Key.StepRunKey(), 0)
	if err != nil || !set.Unsuccessful[0] || set.Unsuccessful[1] {
		t.Errorf("set %+v, %v", set, err)
	}
	if again := b.report(false); !again.Complete || again.Counts.Failed != 1 {
		t.Errorf("without an alarm %+v", again)
	}
}

// A failed lane is seen at once, without an alarm, while others still run.
func TestDispatcher_ReportsFailuresEarly(t *testing.T) {
	b := newFixture(t, 3, 1, nil)
	p := b.writePack(1, 1, workflow.PackFinished, 1, failed)
	if _, err := b.ports.Packs.AddDone(t.Context(), p.Key, workflow.LaneResult{Unsuccessful: true}); err != nil {
		t.Fatal(err)
	}
	if rep := b.report(false); rep.Complete || rep.Counts.Failed != 1 || rep.Counts.NotExecuted != 0 {
		t.Errorf("reported %+v", rep)
	}
}

// What waits is offered again ever more rarely: a long queue would be made longer
// by each offer.
func TestDispatcher_RedispatchBacksOff(t *testing.T) {
	b := newFixture(t, 3, 1, nil)
	var at []time.Duration
	for next := b.Now().Add(time.Minute); b.Now().Sub(b.r.Step.EnteredAt) < 19*time.Minute; {
		b.Advance(next.Sub(b.Now()) + 40*time.Second) // alarms ring late
		b.r.DueAt = next
		rep := b.report(true)
		if len(b.drainQueue()) == 3 {
			at = append(at, b.Now().Sub(b.r.Step.EnteredAt).Truncate(time.Minute))
		}
		next = rep.NextCheckAt
	}
	if diff := cmp.Diff([]time.Duration{time.Minute, 2 * time.Minute, 4 * time.Minute, 8 * time.Minute, 16 * time.Minute}, at); diff != "" {
		t.Error(diff)
	}
}

// A retry's pause is not time in which nobody has come.
func TestDispatcher_RetryDelayIsNotUnclaimed(t *testing.T) {
	b := newFixture(t, 2, 1, func(s *workflow.StepRun, w *workflow.Work) {
		w.Retry = &workflow.Retry{MaxRetries: 1, Delay: workflow.Duration(2 * time.Hour)}
	})
	b.writePack(0, 1, workflow.PackFinished, 0, failed)
	b.writePack(1, 1, workflow.PackFinished, 1, failed)
	b.Advance(2*time.Hour + 20*time.Minute)
	if b.report(true).Unclaimed {
		t.Error("it has been due for 20 minutes")
	}
	b.Advance(time.Second)
	if !b.report(true).Unclaimed {
		t.Error("now nobody has come")
	}
}

// Nor is the time in which a lane waits for the same lane of the step before.
func TestDispatcher_PipelineWaitIsNotUnclaimed(t *testing.T) {
	b := newFixture(t, 2, 1, nil)
	began := b.Now().Add(3 * time.Hour)
	b.r.LaneAllowed = func(int) bool { return true }
	b.r.PredecessorEndedAt = func(context.Context, int) (time.Time, error) { return began, nil }
	b.Advance(3*time.Hour + 20*time.Minute)
	if b.report(true).Unclaimed {
		t.Error("it has been waiting for 20 minutes")
	}
	b.Advance(time.Second)
	if !b.report(true).Unclaimed {
		t.Error("now nobody has come")
	}
}
