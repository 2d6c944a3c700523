package dispatch_test

import (
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/engine/dispatch"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// finishLanes finishes the lanes from first to last now, with one job each.
func (f *fixture) finishLanes(first, last int) {
	f.Helper()
	for lane := first; lane <= last; lane++ {
		p := f.writePack(lane, 1, workflow.PackFinished, lane, ok)
		if _, err := f.ports.Packs.AddDone(f.Context(), p.Key, workflow.LaneResult{}); err != nil {
			f.Fatal(err)
		}
	}
}

// reads returns how many items of packs and done sets do reads.
func (f *fixture) reads(do func()) int {
	before := f.Consumed().ReadUnits["jobs"]
	do()
	return int(f.Consumed().ReadUnits["jobs"] - before)
}

// A timer reads the lanes that may be with a worker, those that they had to wait for, and
// the done sets, but not the lanes that are over or cannot have been sent.
func TestDispatcher_TimerReadsOpenLanesOnly(t *testing.T) {
	f := newFixture(t, 1000, 1, func(r *workflow.StepRun, _ *workflow.Work) { r.Window = 4 })
	f.finishLanes(0, 599)
	f.writePack(600, 1, workflow.PackClaimed, 600, started)
	for range 3 {
		f.r.DueAt = f.Now()
		if n := f.reads(func() { f.report(true) }); n > 4+20 {
			t.Errorf("%d items were read", n)
		}
		f.Advance(time.Minute)
	}
	resent := map[int]bool{}
	for _, lane := range laneNumbers(f.drainQueue()) {
		resent[lane] = true
	}
	if len(resent) != 4 || !resent[600] || !resent[603] {
		t.Errorf("sent the lanes %v again, want 600 to 603", resent)
	}
}

// A worker that has finished packs of a step run works on it, so that the others do not count as
// unclaimed, although a timer does not otherwise read finished packs.
func TestDispatcher_DoneLanesAreSignsOfWorkers(t *testing.T) {
	f := newFixture(t, 600, 1, nil)
	f.Advance(3 * time.Hour)
	f.finishLanes(0, 299)
	f.Advance(10 * time.Minute)
	f.r.Step.DispatchedAt = f.Now()
	for range 2 {
		f.r.DueAt = f.Now()
		if rep := f.report(true); rep.Unclaimed {
			t.Error("unclaimed, although a worker has finished packs ten minutes ago")
		}
		f.Advance(time.Minute)
	}
	f.Advance(30 * time.Minute)
	if !f.unclaimedAfterOffer() {
		t.Error("not unclaimed, although no worker has been seen for 40 minutes")
	}
}

// While a step run closes, what is over is not read again, neither its results nor the
// markers of what never started.
func TestDispatcher_ClosingReadsOpenLanesOnly(t *testing.T) {
	f := newFixture(t, 1000, 1, nil)
	f.finishLanes(0, 599)
	running := f.writePack(600, 1, workflow.PackClaimed, 600, started)
	if n := f.reads(func() { f.close() }); n > 500+3*4 {
		t.Errorf("%d items were read at first", n)
	}
	if n := f.reads(func() { f.close() }); n > 1+2*4 {
		t.Errorf("%d items were read while one lane is open", n)
	}
	running.State, running.FinishedAt, running.Jobs[0].Code = workflow.PackFinished, f.Now(), ok
	if written, _, err := f.ports.Packs.Finish(t.Context(), running); err != nil || !written {
		t.Fatal(written, err)
	}
	if rep := f.close(); !rep.Complete || rep.Counts.OK != 601 || rep.Counts.NotExecuted != 399 {
		t.Errorf("closed %+v", rep)
	}
}

// A report before the end counts failed jobs as one after the end does, of retries too,
// and names the first failure on demand.
func TestDispatcher_CountsFailuresBeforeTheEnd(t *testing.T) {
	f := newFixture(t, 9, 3, withRetries(1))
	f.writePack(0, 1, workflow.PackFinished, 0, ok, failed, unknown)
	f.writePack(0, 2, workflow.PackFinished, 1, failed)
	f.writePack(1, 1, workflow.PackFinished, 3, failed, failed, ok)
	f.writePack(1, 2, workflow.PackFinished, 3, ok, failed)
	if rep := f.report(true); !rep.Brief || rep.Counts.Failed != 2 || rep.Counts.Unknown != 1 {
		t.Errorf("the timer reports %+v", rep)
	}
	if rep := f.report(false); !rep.Brief || rep.Counts.Failed != 2 || rep.Counts.Unknown != 1 {
		t.Errorf("then %+v", rep)
	}
	rep, err := f.d.FirstFailure(t.Context(), f.r)
	if err != nil || rep.Counts.Failed != 2 || rep.Counts.Unknown != 1 || rep.Counts.Failure == nil || rep.Counts.Failure.Entity != "device/b" || rep.Counts.UnknownEntity != "device/c" {
		t.Errorf("the first failure is %+v, %v", rep, err)
	}
}

// A timer leaves a lane that has just ended to its worker, which is about to record the end and to
// send the next lane: whoever records it second sends nothing. After a while the worker may have
// crashed, and the timer does both.
func TestDispatcher_TimerLeavesJustEndedLaneToItsWorker(t *testing.T) {
	f := newFixture(t, 3, 1, func(r *workflow.StepRun, _ *workflow.Work) { r.Window = 1 })
	f.writePack(0, 1, workflow.PackFinished, 0, ok)
	check := func() (done bool, sent []int) {
		f.r.DueAt = f.Now()
		f.report(true)
		set, err := f.ports.Packs.DoneSet(f.Context(), f.key(0, 1).StepRunKey(), 0)
		if err != nil {
			t.Fatal(err)
		}
		return set.Done[0], laneNumbers(f.drainQueue())
	}
	if done, sent := check(); done || len(sent) > 0 {
		t.Errorf("recorded %v, sent %v while the worker was at it", done, sent)
	}
	var sent []int
	done := false
	for range 3 {
		f.Advance(time.Minute)
		recorded, lanes := check()
		done, sent = done || recorded, append(sent, lanes...)
	}
	if !done || len(sent) == 0 || sent[0] != 1 {
		t.Errorf("recorded %v, sent %v", done, sent)
	}
}

// What was read weakly ahead is believed only if it says that the lane is over. Otherwise the packs
// are read again: the wake-up may have come for what the weak read does not show.
func TestDispatcher_ReadsAgainWhatAWeakReadDoesNotShowAsOver(t *testing.T) {
	f := newFixture(t, 1, 1, withRetries(1))
	f.writePack(0, 1, workflow.PackFinished, 0, failed)
	f.writePack(0, 2, workflow.PackFinished, 0, ok)
	over, err := f.ports.Packs.ShardPacks(f.Context(), f.key(0, 1).StepRunKey(), 0)
	if err != nil || len(over) != 2 {
		t.Fatalf("%v, %v", over, err)
	}
	for _, c := range []struct {
		name  string
		ahead []*workflow.Pack
		reads int
	}{{"nothing", nil, 2}, {"the first attempt", over[:1], 2}, {"all", over, 0}} {
		f.d.Ahead = &dispatch.Ahead{StepRun: over[0].Key.StepRunKey(), Packs: c.ahead}
		n := f.reads(func() {
			if rep := f.report(false); !rep.Complete || rep.Counts.OK != 1 {
				t.Errorf("%s was read ahead: %+v", c.name, rep)
			}
		})
		if n != c.reads {
			t.Errorf("%s was read ahead: %d packs were read, want %d", c.name, n, c.reads)
		}
	}
}
