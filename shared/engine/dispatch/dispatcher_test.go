package dispatch_test

import (
	"context"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-run/lockstep/shared/sim/faults"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// A step run with more than one shard is complete when all its done sets are full.
func TestDispatcher_ReportsAcrossShards(t *testing.T) {
	n := workflow.LanesPerShard + 3
	f := newFixture(t, n, 1, nil)
	for lane := range n {
		p := f.writePack(lane, 1, workflow.PackFinished, lane, ok)
		if lane < n-1 {
			if _, err := f.ports.Packs.AddDone(t.Context(), p.Key, workflow.LaneResult{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if f.report(false).Complete {
		t.Error("complete while one lane is missing in the done set")
	}
	if rep := f.report(true); !rep.Complete || rep.Counts.OK != n {
		t.Errorf("reported %+v", rep)
	}
	if rep := f.close(); !rep.Complete || rep.Counts.OK != n {
		t.Errorf("closed %+v", rep)
	}
}

// Two handlers close the same step run with their calls in any order, and one may
// crash. Every pack is closed exactly once.
func TestDispatcher_ConcurrentCloses(t *testing.T) {
	for range 20 {
		f := newFixture(t, 5, 1, nil)
		f.writePack(0, 1, workflow.PackFinished, 0, ok)
		f.writePack(1, 1, workflow.PackClaimed, 1, started)
		f.Advance(lease + skewAndGrace + time.Second)
		one, two := f.StartTask("one", func() { f.close() }), f.StartTask("two", func() { f.close() })
		for range f.IntN(8) {
			one.Step()
		}
		if f.IntN(2) == 0 && !one.Done() {
			one.Kill()
		}
		f.Interleave(one, two)
		rep := f.close()
		if !rep.Complete || rep.Counts.OK != 1 || rep.Counts.Unknown != 1 || rep.Counts.NotExecuted != 3 || f.readPack(1, 1).Token != 2 {
			t.Fatalf("reported %+v", rep)
		}
	}
}

// A lost reply is an error without a report, and closing again succeeds.
func TestDispatcher_LostReplies(t *testing.T) {
	for _, name := range []string{"packs.lane_packs", "packs.done_set", "packs.add_done", "packs.put_cancelled"} {
		f := newFixture(t, 2, 1, nil)
		f.writePack(0, 1, workflow.PackFinished, 0, ok)
		f.Faults = faults.Next(name, faults.LostReply)
		if rep, err := f.d.CloseStepRun(t.Context(), f.r, f.Now()); err == nil || rep != nil {
			t.Errorf("after a lost reply to %s: %+v, %v", name, rep, err)
		}
		if rep := f.close(); !rep.Complete {
			t.Errorf("not closed after a lost reply to %s: %+v", name, rep)
		}
	}
}

// Dispatch is deterministic: repeating it sends the same packs, with each job once.
func TestDispatcher_DispatchIsDeterministic(t *testing.T) {
	f := newFixture(t, 7, 2, func(r *workflow.StepRun, _ *workflow.Work) { r.Window = 3 })
	var all [][]*workflow.PackMessage
	for range 2 {
		if _, err := f.d.Dispatch(t.Context(), f.r, f.Now(), workflow.Cost{}); err != nil {
			t.Fatal(err)
		}
		all = append(all, f.drainQueue())
		f.Advance(time.Hour)
	}
	for _, m := range slices.Concat(all...) {
		m.SentAt = time.Time{}
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
		t.Errorf("not every job is in exactly one pack: %s", diff)
	}
}

// A chain that is cut for size names the next lane, which the engine then sends.
func TestDispatcher_CutsLongChains(t *testing.T) {
	f := newFixture(t, 9, 1, func(r *workflow.StepRun, _ *workflow.Work) { r.Window = 1 })
	f.d.ChainBytes = 200
	if _, err := f.d.Dispatch(t.Context(), f.r, f.Now(), workflow.Cost{}); err != nil {
		t.Fatal(err)
	}
	seen := map[int]bool{}
	for next := 0; ; {
		s := f.drainQueue()
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
		if err := f.d.SendLane(t.Context(), f.r, next, f.Now()); err != nil {
			t.Fatal(err)
		}
	}
	if len(seen) != 9 {
		t.Errorf("lanes %v", seen)
	}
	f.writePack(8, 1, workflow.PackClaimed, 8, started) // a worker reports the same cut again
	for _, lane := range []int{-1, 8, 9} {
		if err := f.d.SendLane(t.Context(), f.r, lane, f.Now()); err != nil || len(f.drainQueue()) != 0 {
			t.Errorf("lane %d was sent: %v", lane, err)
		}
	}
}

// Jobs that are too large for a message are stored separately, both on the first
// dispatch and when a timer sends the pack again. The receiver loads all of them.
func TestDispatcher_OffloadsLargeJobs(t *testing.T) {
	f := newFixture(t, 4, 2, func(r *workflow.StepRun, _ *workflow.Work) { r.Window = 1 })
	small := f.r.Jobs
	f.r.Jobs = func(ctx context.Context) ([]workflow.JobInput, error) {
		jobs, err := small(ctx)
		for i := range jobs[:2] {
			jobs[i].Attributes = json.RawMessage(`{"text":"` + strings.Repeat(string(rune('a'+i)), 900<<10) + `"}`)
		}
		return jobs, err
	}
	want, err := f.r.Jobs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for name, send := range map[string]func(){
		"dispatch": func() {
			if _, err := f.d.Dispatch(t.Context(), f.r, f.Now(), workflow.Cost{}); err != nil {
				t.Fatal(err)
			}
		},
		"redispatch": func() {
			f.Advance(time.Minute) // the pause before a pack is sent again
			f.report(true)
		},
	} {
		send()
		sent := f.drainQueue()
		if len(sent) != 1 || sent[0].JobsRef == nil || len(sent[0].Jobs) != 0 || len(sent[0].Chain) != 0 || sent[0].ChainCut != 1 {
			t.Fatalf("%s: sent %+v", name, sent)
		}
		loaded, err := sent[0].LoadPayload(func(key workflow.PackKey, s workflow.PayloadRef) ([]byte, error) {
			return f.ports.Packs.LoadPayload(t.Context(), key, s)
		})
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(want[:2], loaded.Jobs) || loaded.JobsRef != nil {
			t.Errorf("%s: the loaded jobs differ from those that were sent", name)
		}
		f.Advance(time.Minute)
	}
	// The next lane of the chain fits into a message.
	if err := f.d.SendLane(t.Context(), f.r, 1, f.Now()); err != nil {
		t.Fatal(err)
	}
	if sent := f.drainQueue(); len(sent) != 1 || sent[0].JobsRef != nil || len(sent[0].Jobs) != 2 {
		t.Errorf("sent %+v", sent)
	}
}

// writePackWithUpdates writes a finished pack whose first job asks for an update.
func (f *fixture) writePackWithUpdates(lane, attempt, first int, codes ...workflow.JobCode) *workflow.Pack {
	f.Helper()
	p := f.writePack(lane, attempt, workflow.PackClaimed, first, codes...)
	p.State, p.FinishedAt = workflow.PackFinished, f.Now()
	p.Jobs[0].Updates = json.RawMessage(`[{"entity":{"type":"device","id":"a"},"remove":["x"]}]`)
	if ok, _, err := f.ports.Packs.Finish(f.Context(), p); err != nil || !ok {
		f.Fatal(ok, err)
	}
	return p
}

// A complete step run reports whether jobs ask for updates: from its only pack, from
// its done sets, and from all packs when a timer or a close reads them. Updates of an
// earlier attempt are kept; updates of a failed job are not.
func TestDispatcher_ReportsUpdates(t *testing.T) {
	for name, timerFired := range map[string]bool{"wake-up": false, "timer": true} {
		f := newFixture(t, 1, 1, nil)
		f.writePackWithUpdates(0, 1, 0, ok)
		if rep := f.report(timerFired); !rep.Complete || !rep.HasUpdates {
			t.Errorf("one lane, %s: %+v", name, rep)
		}
		f = newFixture(t, 2, 1, nil)
		f.writePackWithUpdates(0, 1, 0, ok)
		if rep := f.report(true); rep.Complete || rep.HasUpdates {
			t.Errorf("one of two lanes is done: %+v", rep)
		}
		f.writePack(1, 1, workflow.PackFinished, 1, ok)
		if _, err := f.ports.Packs.AddDone(t.Context(), f.key(1, 1), workflow.LaneResult{}); err != nil {
			t.Fatal(err)
		}
		if rep := f.report(timerFired); !rep.Complete || !rep.HasUpdates {
			t.Errorf("two lanes, %s: %+v", name, rep)
		}
	}
	f := newFixture(t, 2, 2, withRetries(1))
	f.writePackWithUpdates(0, 1, 0, ok, failed)
	f.writePack(0, 2, workflow.PackFinished, 1, ok)
	if rep := f.close(); !rep.Complete || !rep.HasUpdates {
		t.Errorf("updates of the first attempt: %+v", rep)
	}
	f = newFixture(t, 1, 1, nil)
	f.writePackWithUpdates(0, 1, 0, failed)
	if rep := f.report(false); !rep.Complete || rep.HasUpdates {
		t.Errorf("updates of a failed job: %+v", rep)
	}
	f = newFixture(t, 2, 1, nil)
	for lane := range 2 {
		f.writePack(lane, 1, workflow.PackFinished, lane, ok)
		if _, err := f.ports.Packs.AddDone(t.Context(), f.key(lane, 1), workflow.LaneResult{}); err != nil {
			t.Fatal(err)
		}
	}
	if rep := f.report(false); !rep.Complete || rep.HasUpdates {
		t.Errorf("no updates: %+v", rep)
	}
}

// A retry that the engine sends carries the flag that an earlier attempt asks for
// updates, so that the worker that ends the lane records it.
func TestDispatcher_RetriesCarryUpdates(t *testing.T) {
	f := newFixture(t, 4, 2, withRetries(1))
	f.writePackWithUpdates(0, 1, 0, ok, failed)
	f.report(true)
	for _, m := range f.drainQueue() {
		if want := m.Key.Lane == 0; m.HasUpdates != want {
			t.Errorf("%s: updates %v", m.Key, m.HasUpdates)
		}
	}
}
