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

// Each test of this file guards against one fault that would break the pack protocol
// (docs/protocols/packs.md) on the engine's side.

// Fault: closing only the lanes of the window. Every lane gets a cancelled marker,
// whether it was sent or not.
func TestDispatcher_CloseCancelsAllLanes(t *testing.T) {
	f := newFixture(t, 6, 1, func(r *workflow.StepRun, _ *workflow.Work) { r.Window = 2 })
	rep := f.close()
	for lane := range 6 {
		p := f.readPack(lane, 1)
		f.wantCodes(p, notExecuted)
		if p.State != workflow.PackCancelled || !f.doneLanes()[lane] {
			t.Errorf("lane %d: %+v, done %v", lane, p, f.doneLanes())
		}
	}
	if !rep.Complete || rep.Counts.NotExecuted != 6 || rep.Counts.Executed() != 0 {
		t.Errorf("reported %+v", rep)
	}
}

// Fault: cancelled markers for the first attempt only. The attempt that would come
// next gets one.
func TestDispatcher_CloseCancelsNextAttempt(t *testing.T) {
	f := newFixture(t, 2, 2, withRetries(3))
	f.writePack(0, 1, workflow.PackFinished, 0, ok, failed)
	rep := f.close()
	f.wantCodes(f.readPack(0, 2), notExecuted)
	if f.readPack(0, 1).State != workflow.PackFinished || f.readPack(0, 3) != nil {
		t.Error("closing changed other attempts")
	}
	if !rep.Complete || rep.Counts.OK != 1 || rep.Counts.Failed != 1 {
		t.Errorf("earlier results must count: %+v", rep.Counts)
	}
}

// Fault: no cancelled markers. Whichever is written first wins, the claim or the
// marker.
func TestDispatcher_CloseRacesWithClaim(t *testing.T) {
	f := newFixture(t, 1, 1, nil)
	closing := f.StartTask("closing", func() { f.close() })
	closing.RunUntil("packs.put_cancelled")
	p := f.writePack(0, 1, workflow.PackClaimed, 0, started)
	closing.Finish()
	if got := f.readPack(0, 1); got.State != workflow.PackClaimed || !got.CancelRequested || got.Token != p.Token {
		t.Errorf("a live claim became %+v", got)
	}
}

// A live claim gets the cancel flag, and closing waits for it.
func TestDispatcher_CloseAsksLiveClaimsToCancel(t *testing.T) {
	f := newFixture(t, 2, 1, nil)
	f.writePack(0, 1, workflow.PackClaimed, 0, started)
	rep := f.close()
	if got := f.readPack(0, 1); !got.CancelRequested || got.State != workflow.PackClaimed || rep.Complete {
		t.Errorf("%+v, reported %+v", got, rep)
	}
	if want := f.Now().Add(lease + skewAndGrace); !rep.NextCheckAt.Equal(want) {
		t.Errorf("next check at %s, want %s", rep.NextCheckAt, want)
	}
	f.wantCodes(f.readPack(1, 1), notExecuted)
}

// Fault: seizing before the lease, skew and grace are over.
func TestDispatcher_SeizesOnlyAfterSkewAndGrace(t *testing.T) {
	f := newFixture(t, 1, 1, nil)
	f.writePack(0, 1, workflow.PackClaimed, 0, started)
	f.Advance(lease + skewAndGrace)
	if f.close().Complete || f.readPack(0, 1).State != workflow.PackClaimed {
		t.Fatal("seized too early")
	}
	f.Advance(time.Millisecond)
	rep := f.close()
	f.wantCodes(f.readPack(0, 1), unknown)
	if !rep.Complete || rep.Counts.Unknown != 1 || rep.Counts.UnknownEntity != "device/a" {
		t.Errorf("reported %+v", rep)
	}
}

// Fault: seizing without raising the token. The former holder could still finish the
// pack.
func TestDispatcher_SeizingRaisesToken(t *testing.T) {
	f := newFixture(t, 3, 3, nil)
	p := f.writePack(0, 1, workflow.PackClaimed, 0, ok, started, none)
	f.Advance(lease + skewAndGrace + time.Millisecond)
	f.close()
	got := f.readPack(0, 1)
	f.wantCodes(got, ok, unknown, notExecuted)
	if got.Token != p.Token+1 || string(got.Jobs[0].Result) != `"done"` {
		t.Errorf("the seized pack is %+v", got)
	}
	p.State, p.FinishedAt = workflow.PackFinished, f.Now()
	if finished, _, err := f.ports.Packs.Finish(t.Context(), p); finished || err != nil {
		t.Errorf("the former holder finished the pack: %v, %v", finished, err)
	}
}

// Fault: seizing on the condition of the token alone. A holder that renews its lease
// in between keeps its claim.
func TestDispatcher_SeizeRacesWithRenewal(t *testing.T) {
	f := newFixture(t, 1, 1, nil)
	p := f.writePack(0, 1, workflow.PackClaimed, 0, started)
	f.Advance(lease + skewAndGrace + time.Second)
	closing := f.StartTask("closing", func() { f.close() })
	closing.RunUntil("packs.force_cancel")
	p.Lease = f.Now().Add(lease)
	if renewed, _, err := f.ports.Packs.Extend(t.Context(), p); !renewed || err != nil {
		t.Fatal(renewed, err)
	}
	closing.Finish()
	if got := f.readPack(0, 1); got.State != workflow.PackClaimed || !got.CancelRequested {
		t.Errorf("the renewed claim became %+v", got)
	}
}

// Fault: counting UNKNOWN as not executed.
func TestDispatcher_UnknownJobsCountAsExecuted(t *testing.T) {
	f := newFixture(t, 2, 2, nil)
	f.writePack(0, 1, workflow.PackCancelled, 0, unknown, notExecuted)
	if rep := f.close(); rep.Counts.Executed() != 1 || rep.Counts.NotExecuted != 1 {
		t.Errorf("counted %+v", rep.Counts)
	}
}

// Fault: the timer does not repair done sets. Workers finished their packs and
// crashed before they added the lanes.
func TestDispatcher_TimerRepairsDoneSets(t *testing.T) {
	f := newFixture(t, 3, 1, nil)
	for lane := range 3 {
		f.writePack(lane, 1, workflow.PackFinished, lane, ok)
	}
	if rep := f.report(false); rep.Complete {
		t.Fatal("complete before the done sets say so")
	}
	rep := f.report(true)
	if !rep.Complete || rep.Counts.OK != 3 || len(f.doneLanes()) != 3 {
		t.Errorf("reported %+v, done %v", rep, f.doneLanes())
	}
	if len(f.drainQueue()) != 0 {
		t.Error("sent finished lanes again")
	}
}

// Fault: closing does not repair done sets.
func TestDispatcher_CloseRepairsDoneSets(t *testing.T) {
	f := newFixture(t, 2, 1, nil)
	f.writePack(0, 1, workflow.PackFinished, 0, ok)
	if rep := f.close(); !rep.Complete || len(f.doneLanes()) != 2 {
		t.Errorf("reported %+v, done %v", rep, f.doneLanes())
	}
}

// Fault: sending only unclaimed packs again. An expired claim is sent too, so that a
// worker takes it over; a live claim is not.
func TestDispatcher_TimerResendsLostPacks(t *testing.T) {
	f := newFixture(t, 3, 1, nil)
	f.writePack(0, 1, workflow.PackClaimed, 0, started)
	f.Advance(lease + 3*time.Second)
	f.writePack(1, 1, workflow.PackClaimed, 1, started)
	rep := f.report(true)
	if diff := cmp.Diff([]int{0, 2}, laneNumbers(f.drainQueue())); diff != "" {
		t.Error(diff)
	}
	if want := f.r.Step.EnteredAt.Add(2 * time.Minute); !rep.NextCheckAt.Equal(want) {
		t.Errorf("next check at %s, want %s", rep.NextCheckAt, want)
	}
	f.report(false)
	if s := f.drainQueue(); len(s) > 0 {
		t.Errorf("sent without a timer: %v", laneNumbers(s))
	}
}

// Fault: the timer ignores the window. A lane waits for the previous one in its slot.
func TestDispatcher_TimerRespectsWindow(t *testing.T) {
	f := newFixture(t, 6, 1, func(r *workflow.StepRun, _ *workflow.Work) { r.Window = 2 })
	f.Advance(time.Minute)
	f.report(true)
	first := f.drainQueue()
	if diff := cmp.Diff([]int{0, 1}, laneNumbers(first)); diff != "" {
		t.Error(diff)
	}
	if c := first[0].Chain; len(c) != 2 || c[0].Lane != 2 || c[1].Lane != 4 {
		t.Errorf("chain %+v", c)
	}
	f.writePack(0, 1, workflow.PackFinished, 0, ok)
	f.Advance(time.Minute)
	f.report(true)
	if diff := cmp.Diff([]int{1, 2}, laneNumbers(f.drainQueue())); diff != "" {
		t.Error(diff)
	}
}

// Fault: ignoring notBefore. A retry is not sent before its delay is over.
func TestDispatcher_TimerWaitsForRetryDelay(t *testing.T) {
	f := newFixture(t, 2, 2, withRetries(2))
	f.writePack(0, 1, workflow.PackFinished, 0, ok, failed)
	rep := f.report(true)
	if due := f.Now().Add(time.Minute); len(f.drainQueue()) != 0 || !rep.NextCheckAt.Equal(due) {
		t.Errorf("next check at %s, want %s", rep.NextCheckAt, due)
	}
	f.Advance(2 * time.Minute) // the worker has sent it with its delay
	f.report(true)
	s := f.drainQueue()
	if len(s) != 1 || s[0].Key.Attempt != 2 || len(s[0].Jobs) != 1 || s[0].Jobs[0].Index != 1 {
		t.Errorf("sent %+v", s)
	}
}

// Fault: jobs that were withheld from a worker, because they did not fit the response to its poll,
// count as tried. They are sent again whatever the retry policy says, until each has been executed.
func TestDispatcher_SendsWithheldJobsAgain(t *testing.T) {
	f := newFixture(t, 2, 2, nil)
	withheld := workflow.Failure{Code: workflow.FailureWithheld, Retryable: true, Unsent: true}
	f.writeFailedPack(0, 1, workflow.PackFinished, 0, withheld, ok, failed)
	f.Advance(2 * time.Minute) // the worker that has sent them again has died before
	if rep := f.report(true); rep.Complete || len(f.doneLanes()) > 0 {
		t.Errorf("reported %+v, done %v", rep, f.doneLanes())
	}
	if s := f.drainQueue(); len(s) != 1 || s[0].Key.Attempt != 2 || len(s[0].Jobs) != 1 || s[0].Jobs[0].Index != 1 {
		t.Errorf("sent %+v", s)
	}
	f.writePack(0, 2, workflow.PackFinished, 1, failed)
	if rep := f.report(true); !rep.Complete || rep.Counts.OK != 1 || rep.Counts.Failed != 1 || rep.Counts.Failure.Code != "REFUSED" {
		t.Errorf("reported %+v", rep)
	}
	if packs, err := f.d.ReadLane(t.Context(), f.r, 0); err != nil || len(packs) != 2 {
		t.Errorf("%d packs are read of the lane, %v", len(packs), err)
	}
}

// A pack that too many workers took over is closed instead of being sent for ever.
func TestDispatcher_TakeoversAreBounded(t *testing.T) {
	f := newFixture(t, 1, 1, nil)
	p := f.writePack(0, 1, workflow.PackClaimed, 0, started)
	for range 2 {
		next := *p
		next.Token++
		if ok, _, err := f.ports.Packs.TakeOver(t.Context(), p, &next); !ok || err != nil {
			t.Fatal(ok, err)
		}
		p = &next
	}
	f.Advance(lease + skewAndGrace + time.Millisecond)
	f.report(true)
	f.wantCodes(f.readPack(0, 1), unknown)
	if rep := f.report(false); len(f.drainQueue()) != 0 || !rep.Complete || rep.Counts.Unknown != 1 {
		t.Errorf("reported %+v", rep)
	}
}

// The NotAfter of a message counts from when the step run was dispatched, not from
// when the message was sent.
func TestDispatcher_NotAfterFollowsEpochTime(t *testing.T) {
	f := newFixture(t, 1, 1, nil)
	f.Advance(10 * time.Minute)
	f.report(true)
	if s := f.drainQueue(); !s[0].NotAfter.Equal(f.r.Step.DispatchedAt.Add(time.Hour)) {
		t.Errorf("not after %s", s[0].NotAfter)
	}
}

// Unclaimed jobs are reported after Limits.Unclaimed, but not while a worker holds any
// pack.
func TestDispatcher_ReportsUnclaimedJobs(t *testing.T) {
	f := newFixture(t, 2, 1, nil)
	f.Advance(20 * time.Minute)
	if f.report(true).Unclaimed {
		t.Error("too early")
	}
	f.Advance(time.Second)
	if !f.unclaimedAfterOffer() {
		t.Error("not reported")
	}
	f.writePack(0, 1, workflow.PackClaimed, 0, started)
	if f.report(true).Unclaimed {
		t.Error("reported while a worker holds a pack")
	}
}

// Jobs in a queue behind others are not unclaimed while a worker of the pool is at work on a message that
// was sent before theirs. They are if it has passed them over for as long as a pack may take, or is gone.
func TestDispatcher_QueueOfOthersIsNotUnclaimed(t *testing.T) {
	f := newFixture(t, 2, 1, nil)
	f.Advance(20*time.Minute + time.Second)
	if !f.unclaimedAfterOffer() {
		t.Error("not reported, although no worker has left a mark")
	}
	mark := func(sentAt time.Time) {
		if err := f.ports.Packs.MarkPool(t.Context(), f.r.Work.Pool, workflow.PoolMark{At: f.Now(), SentAt: sentAt}); err != nil {
			t.Fatal(err)
		}
	}
	mark(f.r.Step.EnteredAt)
	if f.report(true).Unclaimed {
		t.Error("reported while a worker has an older message")
	}
	mark(f.r.Step.OfferedAt.Add(time.Second))
	if f.report(true).Unclaimed {
		t.Error("reported as soon as a worker has a later message: another one may execute the jobs without a claim")
	}
	for range 4 { // the pool goes on with later messages
		f.Advance(5 * time.Minute)
		mark(f.Now().Add(-time.Second))
		if f.report(true).Unclaimed {
			t.Error("reported before a pack may have taken too long")
		}
	}
	f.Advance(time.Second)
	if !f.report(true).Unclaimed {
		t.Error("not reported, although workers have had later messages for long")
	}
	mark(f.r.Step.OfferedAt)
	f.Advance(20*time.Minute + time.Second)
	if !f.report(true).Unclaimed {
		t.Error("not reported, although no worker has left a mark lately")
	}
	own := workflow.PoolMark{At: f.Now().Add(time.Second), SentAt: f.r.Step.OfferedAt, Execution: "x", StepRun: 3}
	if err := f.ports.Packs.MarkPool(t.Context(), f.r.Work.Pool, own); err != nil {
		t.Fatal(err)
	}
	if f.report(true).Unclaimed {
		t.Error("reported although a worker has finished a pack of the step run since its packs were read")
	}
	f.Advance(time.Minute)
	if !f.report(true).Unclaimed {
		t.Error("not reported, although the worker that was at work on the step run is gone")
	}
	f.r.PoolLastSeen = func(context.Context) (time.Time, error) { return f.Now(), nil }
	if f.report(true).Unclaimed {
		t.Error("reported while a worker is at work on another step of the pipeline")
	}
}

// Jobs are unclaimed only if no worker works on the step run at all. If a lane has
// just been finished the pool is busy, however long the next lane has been waiting.
func TestDispatcher_BusyPoolIsNotUnclaimed(t *testing.T) {
	f := newFixture(t, 3, 1, func(r *workflow.StepRun, _ *workflow.Work) { r.Window = 1 })
	f.Advance(25 * time.Minute)
	p := f.writePack(0, 1, workflow.PackFinished, 0, ok)
	if _, err := f.ports.Packs.AddDone(t.Context(), p.Key, workflow.LaneResult{}); err != nil {
		t.Fatal(err)
	}
	if f.report(true).Unclaimed {
		t.Error("reported just after a worker finished a lane")
	}
	f.Advance(21 * time.Minute)
	if !f.unclaimedAfterOffer() {
		t.Error("not reported")
	}
}

// A claim whose worker crashed and that no worker takes over counts as unclaimed. If
// the whole pool is gone, the execution must not wait for ever.
func TestDispatcher_ReportsAbandonedClaims(t *testing.T) {
	for name, jobs := range map[string]int{"one lane": 1, "two lanes": 2} {
		f := newFixture(t, jobs, 1, idempotent)
		f.writePack(0, 1, workflow.PackClaimed, 0, started)
		f.Advance(lease + 20*time.Minute)
		if f.report(true).Unclaimed {
			t.Errorf("%s: too early", name)
		}
		f.Advance(time.Second)
		if !f.unclaimedAfterOffer() {
			t.Errorf("%s: not reported", name)
		}
	}
}

// idempotent makes the jobs of a step run repeatable.
func idempotent(_ *workflow.StepRun, w *workflow.Work) { w.Idempotent = true }

// N52, N44: if no worker renews or takes over a claim for job.stuck, its job becomes UNKNOWN, since
// it must not run twice. A renewed claim is kept. A pack whose jobs may run again is sent again.
func TestDispatcher_FailsStuckClaims(t *testing.T) {
	for name, jobs := range map[string]int{"one lane": 1, "two lanes": 2} {
		f := newFixture(t, jobs, 1, nil)
		kept := f.writePack(0, 1, workflow.PackClaimed, 0, started)
		for range 30 { // half an hour of heartbeats
			f.Advance(lease)
			kept.Lease = f.Now().Add(lease)
			if ok, _, err := f.ports.Packs.Extend(f.Context(), kept); !ok || err != nil {
				t.Fatal(ok, err)
			}
			f.report(true)
		}
		f.wantCodes(f.readPack(0, 1), started)
		f.Advance(lease + 12*time.Minute + skewAndGrace)
		f.report(true)
		if f.readPack(0, 1).Final() {
			t.Errorf("%s: too early", name)
		}
		f.Advance(time.Second)
		if rep := f.report(true); rep.Unclaimed {
			t.Errorf("%s: a claimed pack is reported as unclaimed", name)
		}
		if p := f.readPack(0, 1); p.State != workflow.PackCancelled || p.Token != 2 {
			t.Errorf("%s: the pack is %+v", name, p)
		}
		f.wantCodes(f.readPack(0, 1), workflow.JobCodeUnknown)

		f = newFixture(t, jobs, 1, idempotent)
		f.writePack(0, 1, workflow.PackClaimed, 0, started)
		f.Advance(lease + 12*time.Minute + skewAndGrace + time.Second)
		f.report(true)
		f.wantCodes(f.readPack(0, 1), started)
		if s := f.drainQueue(); len(s) != jobs {
			t.Errorf("%s: %d packs are sent again, want %d", name, len(s), jobs)
		}
	}
}

// A lane has failed if any of its jobs has, in the last attempt of that job.
func TestDispatcher_ReportsFailedLanes(t *testing.T) {
	f := newFixture(t, 4, 2, withRetries(1))
	final := f.writePack(0, 1, workflow.PackFinished, 0, failed, failed)
	f.writePack(0, 2, workflow.PackFinished, 0, ok, failed)
	f.writePack(1, 1, workflow.PackFinished, 2, ok, ok)
	rep := f.report(true)
	if want := (workflow.Counts{OK: 3, Failed: 1}); !rep.Complete || rep.Counts.OK != want.OK || rep.Counts.Failed != want.Failed || rep.Counts.Failure.Entity != "device/b" {
		t.Errorf("reported %+v", rep)
	}
	set, err := f.ports.Packs.DoneSet(t.Context(), final.Key.StepRunKey(), 0)
	if err != nil || !set.Unsuccessful[0] || set.Unsuccessful[1] {
		t.Errorf("set %+v, %v", set, err)
	}
	if again := f.report(false); !again.Complete || again.Counts.Failed != 1 {
		t.Errorf("without a timer %+v", again)
	}
}

// A failed lane is reported at once, without a timer, while other lanes are open.
func TestDispatcher_ReportsFailuresEarly(t *testing.T) {
	f := newFixture(t, 3, 1, nil)
	p := f.writePack(1, 1, workflow.PackFinished, 1, failed)
	if _, err := f.ports.Packs.AddDone(t.Context(), p.Key, workflow.LaneResult{Unsuccessful: true}); err != nil {
		t.Fatal(err)
	}
	if rep := f.report(false); rep.Complete || rep.Counts.Failed != 1 || rep.Counts.NotExecuted != 0 {
		t.Errorf("reported %+v", rep)
	}
}

// The pauses between two sends double: in a long queue each message makes the wait
// longer. Before the jobs count as unclaimed they are sent once more.
func TestDispatcher_RedispatchBacksOff(t *testing.T) {
	f := newFixture(t, 3, 1, nil)
	var at []time.Duration
	for next := f.Now().Add(time.Minute); f.Now().Sub(f.r.Step.EnteredAt) < 19*time.Minute; {
		f.Advance(next.Sub(f.Now()) + 40*time.Second) // timers fire late
		f.r.DueAt = next
		rep := f.report(true)
		if len(f.drainQueue()) == 3 {
			at = append(at, f.Now().Sub(f.r.Step.EnteredAt).Truncate(time.Minute))
		}
		next = rep.NextCheckAt
	}
	if diff := cmp.Diff([]time.Duration{time.Minute, 2 * time.Minute, 4 * time.Minute, 8 * time.Minute, 16 * time.Minute, 20 * time.Minute}, at); diff != "" {
		t.Error(diff)
	}
}

// The delay of a retry does not count as waiting for a worker.
func TestDispatcher_RetryDelayIsNotUnclaimed(t *testing.T) {
	f := newFixture(t, 2, 1, func(s *workflow.StepRun, w *workflow.Work) {
		w.Retry = &workflow.Retry{MaxRetries: 1, Delay: workflow.Duration(2 * time.Hour)}
	})
	f.writePack(0, 1, workflow.PackFinished, 0, failed)
	f.writePack(1, 1, workflow.PackFinished, 1, failed)
	f.Advance(2*time.Hour + 20*time.Minute)
	if f.report(true).Unclaimed {
		t.Error("reported after the retry has been due for only 20 minutes")
	}
	f.Advance(time.Second)
	if !f.unclaimedAfterOffer() {
		t.Error("not reported")
	}
}

// Nor does the time in which a lane waits for the same lane of the previous step.
func TestDispatcher_PipelineWaitIsNotUnclaimed(t *testing.T) {
	f := newFixture(t, 2, 1, nil)
	began := f.Now().Add(3 * time.Hour)
	f.r.LaneAllowed = func(int) bool { return true }
	f.r.PredecessorEndedAt = func(context.Context, int) (time.Time, error) { return began, nil }
	f.Advance(3*time.Hour + 20*time.Minute)
	if f.report(true).Unclaimed {
		t.Error("reported after the lane has been waiting for only 20 minutes")
	}
	f.Advance(time.Second)
	if !f.unclaimedAfterOffer() {
		t.Error("not reported")
	}
}
