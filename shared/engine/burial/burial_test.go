package burial_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/lifecycle"
	"github.com/lockstep-run/lockstep/shared/sim/fate"
	"github.com/lockstep-run/lockstep/shared/sim/stage"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

func dead(id string, n int) workflow.Look {
	key := workflow.RunKey{Tenant: stage.Caller.Tenant, Execution: id, Visit: 1, RunSeq: 1}.Pack(0, 1)
	return workflow.Look{Tenant: stage.Caller.Tenant, Execution: id, Dead: &workflow.Dead{
		Message: fmt.Sprint("m", n), Queue: "jobs-default", Pack: &key, Step: "go", Reason: "unavailable: no", Receives: 20,
	}}
}

// notices are what the history says of dead messages, by the message's place.
func notices(s *stage.Stage, id string) (all []workflow.Event) {
	for _, e := range s.History(id) {
		if e.Type == lifecycle.NoticeMessageDead {
			all = append(all, e)
		}
	}
	return all
}

func open(t *testing.T, seed uint64) (*stage.Stage, string) {
	s := stage.New(t, seed, stage.Options())
	s.Blocks()
	s.Publish("w", "steps:\n  - {label: go, functionBlock: p/pure:1, runOn: global}\n")
	return s, s.Start("w")
}

func look(t *testing.T, s *stage.Stage, l workflow.Look) {
	t.Helper()
	s.Without(func() {
		if err := s.Engine.Look(t.Context(), l); err != nil {
			t.Fatal(err)
		}
	})
}

// A message that has died is told once, with the reason, and nothing else about
// the run changes, whether it goes on or has ended.
func TestToldOnceAndNothingElse(t *testing.T) {
	s, id := open(t, 1)
	for _, ended := range []bool{false, true} {
		if ended {
			s.Settle(time.Hour)
		}
		before, told := s.Load(id), len(notices(s, id))
		for range 3 {
			look(t, s, dead(id, told+1))
		}
		after := s.Load(id)
		if got := notices(s, id); len(got) != told+1 || got[told].Step != "go" || got[told].Layer != "step" || got[told].From != "" || got[told].To != "" ||
			string(got[told].Data) != fmt.Sprintf(`{"message":"m%d","pack":"%s/1.1/0.0.1","queue":"jobs-default","reason":"unavailable: no","receives":20}`, told+1, id) {
			t.Fatalf("ended %v: %+v", ended, got)
		}
		if after.State != before.State || !after.DueAt.Equal(before.DueAt) || after.Version != before.Version+1 || after.Sequence != before.Sequence+1 || after.RunSeq != before.RunSeq {
			t.Errorf("ended %v: %+v became %+v", ended, before, after)
		}
	}
	if !s.Settle(time.Hour) {
		t.Fatal("it never ends")
	}
	s.Ends(id, sm.ExecutionCompletedAck)
	s.Judge()
	look(t, s, dead("00000000-0000-7000-8000-000000000000", 1)) // of no run: nothing to write, nothing to repeat
}

// What was only feared is not told of a pack that somebody has had.
func TestFearedForNothing(t *testing.T) {
	s, id := open(t, 1)
	l := dead(id, 1)
	run := s.Load(id).Runs[0]
	l.Dead.Pack.Visit, l.Dead.Pack.RunSeq = run.Visit, run.RunSeq
	l.Dead.Feared = true
	look(t, s, l)
	if got := notices(s, id); len(got) != 1 {
		t.Fatalf("nobody has had the pack: %+v", got)
	}
	s.Settle(time.Hour)
	l.Dead.Message = "m2"
	look(t, s, l)
	if got := notices(s, id); len(got) != 1 {
		t.Errorf("the pack is over: %+v", got)
	}
}

// However many die, the history holds a bounded number of notices, pages and all,
// and one that was paged out is not told again.
func TestManyDie(t *testing.T) {
	s, id := open(t, 1)
	for n := range 80 {
		look(t, s, dead(id, n))
	}
	look(t, s, dead(id, 0))
	calls := len(s.Trace())
	look(t, s, dead(id, 49)) // the newest that was told
	for _, c := range s.Trace()[calls:] {
		if c.Name == "store.load_events" {
			t.Error("the whole history is read for what stands at its end")
		}
	}
	seen := map[string]bool{}
	for _, e := range notices(s, id) {
		if seen[string(e.Data)] {
			t.Errorf("told twice: %s", e.Data)
		}
		seen[string(e.Data)] = true
	}
	if x := s.Load(id); len(seen) != 50 || x.Paged == 0 {
		t.Errorf("%d notices, %d events paged out", len(seen), x.Paged)
	}
	s.Settle(time.Hour)
	s.Judge()
}

// Told many times at once, beside a run that goes on, under faults at every call:
// once in the history, and the run is not disturbed.
func TestToldAtOnce(t *testing.T) {
	for seed := range uint64(100) {
		s, id := open(t, seed)
		s.Faults = fate.Randomly(rand.New(rand.NewPCG(seed, 3)), 15,
			fate.CrashBefore, fate.CrashAfter, fate.LostReply, fate.Throttled, fate.Repeated)
		var tasks []*fate.Task
		for i := range 3 {
			tasks = append(tasks, s.Task(fmt.Sprint("look ", i), func() { _ = s.Engine.Look(t.Context(), dead(id, i/2)) }))
		}
		tasks = append(tasks, s.Task("drive", func() { _ = s.Engine.Look(t.Context(), workflow.Look{Tenant: stage.Caller.Tenant, Execution: id}) }))
		s.Interleave(tasks...)
		s.Faults = nil
		for n := range 2 {
			look(t, s, dead(id, n))
		}
		if got := notices(s, id); len(got) != 2 {
			t.Fatalf("seed %d: %+v", seed, got)
		}
		if !s.Settle(48 * time.Hour) {
			t.Fatalf("seed %d: it never ends", seed)
		}
		s.Ends(id, sm.ExecutionCompletedAck)
		s.Judge()
	}
}

// A notice is an event of no layer, so that nobody takes it for one that opens or
// closes something.
func TestANoticeMovesNothing(t *testing.T) {
	for _, m := range sm.Machines() {
		if slices.Contains(m.Events, lifecycle.NoticeMessageDead) {
			t.Errorf("the layer %s has it", m.Layer)
		}
	}
}

// Since when looks at a run fail is remembered when a message of it dies, which may
// be of that very trouble, even if whoever writes the notice dies then.
func TestTroubleOutlivesANotice(t *testing.T) {
	for _, fault := range []fate.Fault{fate.None, fate.CrashBefore, fate.CrashAfter, fate.Throttled} {
		s, id := open(t, 1)
		x := s.Load(id)
		since := workflow.Trouble{Since: s.Now().Add(-time.Hour), Looks: 7, Reason: "no"}
		s.Without(func() {
			if err := s.Open().Store.Trouble(t.Context(), x.Tenant, id, x.Version, since); err != nil {
				t.Fatal(err)
			}
		})
		committed := false
		s.Faults = func(c fate.Call) fate.Fault {
			if after := committed; after {
				return fault // at whatever follows the commit
			}
			committed = c.Name == "store.commit"
			return fate.None
		}
		fate.Survive(func() { _ = s.Engine.Look(t.Context(), dead(id, 1)) })
		s.Faults = nil
		if got := s.Load(id).Trouble; len(notices(s, id)) != 1 || got == nil || !got.Since.Equal(since.Since) || got.Looks != 7 {
			t.Errorf("%v: %d notices, trouble %+v", fault, len(notices(s, id)), got)
		}
	}
}
