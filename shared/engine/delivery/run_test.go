package delivery_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-run/lockstep/shared/sim/fate"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// A run over more than one shard: all sets count.
func TestSeveralShards(t *testing.T) {
	n := workflow.LanesPerShard + 3
	b := newBench(t, n, 1, nil)
	for lane := range n {
		p := b.pack(lane, 1, workflow.PackFinished, lane, ok)
		if lane < n-1 {
			if _, err := b.view.Packs.AddDone(t.Context(), p.Key, workflow.LaneEnd{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if b.report(false).Complete {
		t.Error("one lane is missing")
	}
	if rep := b.report(true); !rep.Complete || rep.Tally.OK != n {
		t.Errorf("reported %+v", rep)
	}
	if rep := b.close(); !rep.Complete || rep.Tally.OK != n {
		t.Errorf("closed %+v", rep)
	}
}

// Two handlers close the same run, call by call in any order, and one may die:
// what they leave is closed once.
func TestClosingTogether(t *testing.T) {
	for range 20 {
		b := newBench(t, 5, 1, nil)
		b.pack(0, 1, workflow.PackFinished, 0, ok)
		b.pack(1, 1, workflow.PackClaimed, 1, started)
		b.Advance(lease + slack + time.Second)
		one, two := b.Task("one", func() { b.close() }), b.Task("two", func() { b.close() })
		for range b.Draw(8) {
			one.Step()
		}
		if b.Draw(2) == 0 && !one.Over() {
			one.Kill()
		}
		b.Interleave(one, two)
		rep := b.close()
		if !rep.Complete || rep.Tally.OK != 1 || rep.Tally.Unknown != 1 || rep.Tally.NotExecuted != 3 || b.read(1, 1).Token != 2 {
			t.Fatalf("reported %+v", rep)
		}
	}
}

// A lost reply is no news: the report is not made, and nothing is counted.
func TestLostReplies(t *testing.T) {
	for _, name := range []string{"packs.shard", "packs.done", "packs.add_done", "packs.tombstone"} {
		b := newBench(t, 2, 1, nil)
		b.pack(0, 1, workflow.PackFinished, 0, ok)
		b.Faults = fate.Next(name, fate.LostReply)
		if rep, err := b.d.Close(t.Context(), b.r, b.Now()); err == nil || rep != nil {
			t.Errorf("after a lost reply to %s: %+v, %v", name, rep, err)
		}
		if rep := b.close(); !rep.Complete {
			t.Errorf("after a lost reply to %s it does not close: %+v", name, rep)
		}
	}
}

// Dispatch is deterministic, so that repeating it sends the same packs.
func TestDispatchRepeats(t *testing.T) {
	b := newBench(t, 7, 2, func(r *workflow.StepRun, _ *workflow.Work) { r.Window = 3 })
	var all [][]*workflow.PackMessage
	for range 2 {
		if err := b.d.Dispatch(t.Context(), b.r, b.Now(), workflow.Cost{}); err != nil {
			t.Fatal(err)
		}
		all = append(all, b.sent())
		b.Advance(time.Hour)
	}
	if diff := cmp.Diff(all[0], all[1]); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]int{0, 1, 2}, lanes(all[0])); diff != "" {
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
func TestChainsAreCut(t *testing.T) {
	b := newBench(t, 9, 1, func(r *workflow.StepRun, _ *workflow.Work) { r.Window = 1 })
	b.d.ChainBytes = 200
	if err := b.d.Dispatch(t.Context(), b.r, b.Now(), workflow.Cost{}); err != nil {
		t.Fatal(err)
	}
	seen := map[int]bool{}
	for next := 0; ; {
		s := b.sent()
		if len(s) != 1 || s[0].Key.Lane != next {
			t.Fatalf("sent %v, want lane %d", lanes(s), next)
		}
		seen[next] = true
		for _, l := range s[0].Chain {
			seen[l.Lane] = true
		}
		if next = s[0].ChainCut; next == 0 {
			break
		}
		if err := b.d.Send(t.Context(), b.r, next, b.Now()); err != nil {
			t.Fatal(err)
		}
	}
	if len(seen) != 9 {
		t.Errorf("lanes %v", seen)
	}
	b.pack(8, 1, workflow.PackClaimed, 8, started) // told of a second time
	for _, lane := range []int{-1, 8, 9} {
		if err := b.d.Send(t.Context(), b.r, lane, b.Now()); err != nil || len(b.sent()) != 0 {
			t.Errorf("lane %d was sent: %v", lane, err)
		}
	}
}
