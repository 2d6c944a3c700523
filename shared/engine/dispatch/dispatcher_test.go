package dispatch_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/tests/sim/faults"
)

// A run over more than one shard: all sets count.
func TestDispatcher_ReportsAcrossShards(t *testing.T) {
	n := workflow.LanesPerShard + 3
	b := newFixture(t, n, 1, nil)
	for lane := range n {
		p := b.writePack(lane, 1, workflow.PackFinished, lane, ok)
		if lane < n-1 {
			if _, err := b.ports.Packs.AddDone(t.Context(), p.Key, workflow.LaneResult{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if b.report(false).Complete {
		t.Error("one lane is missing")
	}
	if rep := b.report(true); !rep.Complete || rep.Counts.OK != n {
		t.Errorf("reported %+v", rep)
	}
	if rep := b.close(); !rep.Complete || rep.Counts.OK != n {
		t.Errorf("closed %+v", rep)
	}
}

// Two handlers close the same run, call by call in any order, and one may die:
// what they leave is closed once.
func TestDispatcher_ConcurrentCloses(t *testing.T) {
	for range 20 {
		b := newFixture(t, 5, 1, nil)
		b.writePack(0, 1, workflow.PackFinished, 0, ok)
		b.writePack(1, 1, workflow.PackClaimed, 1, started)
		b.Advance(lease + skewAndGrace + time.Second)
		one, two := b.StartTask("one", func() { b.close() }), b.StartTask("two", func() { b.close() })
		for range b.IntN(8) {
			one.Step()
		}
		if b.IntN(2) == 0 && !one.Done() {
			one.Kill()
		}
		b.Interleave(one, two)
		rep := b.close()
		if !rep.Complete || rep.Counts.OK != 1 || rep.Counts.Unknown != 1 || rep.Counts.NotExecuted != 3 || b.readPack(1, 1).Token != 2 {
			t.Fatalf("reported %+v", rep)
		}
	}
}

// A lost reply is no news: the report is not made, and nothing is counted.
func TestDispatcher_LostReplies(t *testing.T) {
	for _, name := range []string{"packs.shard_packs", "packs.done_set", "packs.add_done", "packs.put_cancelled"} {
		b := newFixture(t, 2, 1, nil)
		b.writePack(0, 1, workflow.PackFinished, 0, ok)
		b.Faults = faults.Next(name, faults.LostReply)
		if rep, err := b.d.CloseStepRun(t.Context(), b.r, b.Now()); err == nil || rep != nil {
			t.Errorf("after a lost reply to %s: %+v, %v", name, rep, err)
		}
		if rep := b.close(); !rep.Complete {
			t.Errorf("after a lost reply to %s it does not close: %+v", name, rep)
		}
	}
}

// Dispatch is deterministic, so that repeating it sends the same packs.
func TestDispatcher_DispatchIsDeterministic(t *testing.T) {
	b := newFixture(t, 7, 2, func(r *workflow.StepRun, _ *workflow.Work) { r.Window = 3 })
	var all [][]*workflow.PackMessage
	for range 2 {
		if err := b.d.Dispatch(t.Context(), b.r, b.Now(), workflow.Cost{}); err != nil {
			t.Fatal(err)
		}
		all = append(all, b.drainQueue())
		b.Advance(time.Hour)
	}
	if diff := cmp.Diff(all[0], all[1]); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]int{0, 1, 2}, laneNumbers(all[0])); diff != "" {
		t.Error(diff)
	}
	var jobs []int
	for _, m := range all[0] {
		for _, j := range m.Jobs {
			jobs = append(jobs, j.Index)
		}
		for _, l := range m.Chain {
			for _, j := range l.Jobs {
				jobs = append(jobs, j.Index)
			}
		}
	}
	slices.Sort(jobs)
	if diff := cmp.Diff([]int{0, 1, 2, 3, 4, 5, 6}, jobs); diff != "" {
		t.Errorf("each job stands in one pack: %s", diff)
	}
}

// A chain that is cut for size names its next lane, which the engine sends.
func TestDispatcher_CutsLongChains(t *testing.T) {
	b := newFixture(t, 9, 1, func(r *workflow.StepRun, _ *workflow.Work) { r.Window = 1 })
	b.d.ChainBytes = 200
	if err := b.d.Dispatch(t.Context(), b.r, b.Now(), workflow.Cost{}); err != nil {
		t.Fatal(err)
	}
	seen := map[int]bool{}
	for next := 0; ; {
		s := b.drainQueue()
		if len(s) != 1 || s[0].Key.Lane != next {
			t.Fatalf("sent %v, want lane %d", laneNumbers(s), next)
		}
		seen[next] = true
		for _, l := range s[0].Chain {
			seen[l.Lane] = true
		}
		if next = s[0].ChainCut; next == 0 {
			break
		}
		if err := b.d.SendLane(t.Context(), b.r, next, b.Now()); err != nil {
			t.Fatal(err)
		}
	}
	if len(seen) != 9 {
		t.Errorf("lanes %v", seen)
	}
	b.writePack(8, 1, workflow.PackClaimed, 8, started) // told of a second time
	for _, lane := range []int{-1, 8, 9} {
		if err := b.d.SendLane(t.Context(), b.r, lane, b.Now()); err != nil || len(b.drainQueue()) != 0 {
			t.Errorf("lane %d was sent: %v", lane, err)
		}
	}
}
