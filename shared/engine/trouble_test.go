package engine_test

import (
	"strings"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/sim/fate"
	"github.com/lockstep-run/lockstep/shared/sim/stage"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// refused lets every call fail whose name begins with one of some.
func refused(names ...string) fate.Faults {
	return func(c fate.Call) fate.Fault {
		for _, name := range names {
			if strings.HasPrefix(c.Name, name) {
				return fate.Throttled
			}
		}
		return fate.None
	}
}

// waits is what the run waits for, as people are shown it.
func waits(s *stage.Stage, id string) (w *views.Waiting) {
	s.Helper()
	s.Without(func() {
		x, err := s.View.Execution(s.Context(), stage.Caller, id)
		if err != nil {
			s.Fatal(err)
		}
		w = x.Waiting
	})
	return w
}

// A run that nothing can move says why, and is ended when that lasts: safely
// before it has done anything, and left to somebody once it has.
func TestRunsThatCannotBeLookedAt(t *testing.T) {
	for name, c := range map[string]struct {
		refuse []string
		want   sm.ExecutionState
	}{
		"no locks":          {[]string{"locks.", "store.heads"}, sm.ExecutionFailedSafeAck},
		"nothing is closed": {[]string{"packs.tombstone", "packs.shard", "packs.pack", "packs.done"}, sm.ExecutionFailedUnsafe},
	} {
		s := open(t, 1)
		s.Publish("w", "steps: [{label: one, functionBlock: p/once:1, runOn: device}]\n")
		s.Script = func(stage.Call) *stage.Outcome { return &stage.Outcome{Fail: "REFUSED"} }
		s.Faults = refused(c.refuse...)
		id := s.Start("w", "d000")
		s.Tick(10 * time.Minute)
		w := waits(s, id)
		if w == nil || w.Kind != views.WaitEngine || w.Reason == nil || *w.Reason == "" || w.Until == nil {
			t.Errorf("%s: it waits for %+v", name, w)
		}
		s.Tick(3 * time.Hour)
		x := s.Ends(id, c.want)
		if x.Cause != workflow.CauseInternal || !strings.Contains(x.Reason, "looks at it have failed since") || x.Trouble != nil {
			t.Errorf("%s: %s, %q, %+v", name, x.Cause, x.Reason, x.Trouble)
		}
	}
}

// Trouble that passes leaves no trace: the run goes on, however long it lasted.
func TestTroublePasses(t *testing.T) {
	s := open(t, 1)
	s.Publish("w", "steps: [{label: one, functionBlock: p/once:1, runOn: device}]\n")
	s.Faults = refused("locks.")
	id := s.Start("w", "d000")
	s.Tick(50 * time.Minute)
	s.Faults = nil
	settle(s)
	if x := s.Ends(id, sm.ExecutionCompletedAck); x.Trouble != nil || waits(s, id) != nil {
		t.Errorf("trouble %+v", x.Trouble)
	}
}

// What a run could not close before it was given up is closed before somebody lets go
// of its locks: a pack that nobody had claimed must not begin under the next run's.
func TestLooseEndsAreTiedBeforeLocksGo(t *testing.T) {
	for name, release := range map[string]func(s *stage.Stage, id string) error{
		"acknowledge": func(s *stage.Stage, id string) error {
			_, err := s.Engine.Acknowledge(s.Context(), stage.Caller, id, "seen")
			return err
		},
		"unlock": func(s *stage.Stage, id string) error {
			_, err := s.Engine.Unlock(s.Context(), stage.Caller, id, "seen")
			return err
		},
		"retry": func(s *stage.Stage, id string) error {
			_, err := s.Engine.Retry(s.Context(), stage.Caller, id, views.RetryRequest{Reason: "again"})
			return err
		},
	} {
		s := open(t, 1)
		s.Publish("w", "steps: [{label: one, functionBlock: p/once:1, runOn: device}]\n")
		// Nobody claims the pack, and when that ends the run, nothing can be closed.
		s.Faults = refused("packs.")
		id := s.Start("w", "d000")
		s.Tick(6 * time.Hour)
		s.Ends(id, sm.ExecutionFailedUnsafe)

		if err := release(s, id); workflow.CodeOf(err) != workflow.CodeUnavailable {
			t.Errorf("%s while nothing can be closed: %v", name, err)
		}
		s.Faults = nil
		if err := release(s, id); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		calls := len(s.CallsOf(id))
		first := s.Load(id).Runs[0]
		if first.Tally.NotExecuted != 1 || calls != 0 {
			t.Errorf("%s: %d calls, tally %+v", name, calls, first.Tally)
		}
		s.Tick(time.Hour)
		for _, c := range s.CallsOf(id) {
			if name != "retry" {
				t.Errorf("%s: called after its locks had gone: %s", name, c)
			}
		}
	}
}

// However late somebody asks, what can be closed is closed and counted first.
func TestLooseEndsAreTiedHoweverLate(t *testing.T) {
	s := open(t, 1)
	s.Publish("w", "steps: [{label: one, functionBlock: p/once:1, runOn: device}]\n")
	s.Faults = refused("packs.")
	id := s.Start("w", "d000")
	s.Tick(60 * time.Hour)
	s.Ends(id, sm.ExecutionFailedUnsafe)
	s.Faults = nil
	if _, err := s.Engine.Acknowledge(s.Context(), stage.Caller, id, "seen"); err != nil {
		t.Fatal(err)
	}
	history := s.History(id)
	last := history[len(history)-1]
	if tally := s.Load(id).Runs[0].Tally; tally.NotExecuted != 1 || last.Type != "execution.acknowledged" || !strings.Contains(string(last.Data), `"notExecuted":1`) {
		t.Errorf("tally %+v; the history ends with %s %s", tally, last.Type, last.Data)
	}
}

// A run that has done everything and cannot write down what it has found lets go of
// its locks in the end, and says what is missing.
func TestUpdatesThatCannotBeApplied(t *testing.T) {
	s := updating(t, 1)
	s.Faults = refused("registry.replace_entity")
	id := s.Start("w", "d000")
	s.Tick(30 * time.Minute)
	if w := waits(s, id); w == nil || w.Kind != views.WaitEngine {
		t.Errorf("it waits for %+v", w)
	}
	s.Tick(3 * time.Hour)
	x := s.Ends(id, sm.ExecutionCompletedAck)
	if x.Error == nil || x.Error.Code != "UPDATES_NOT_APPLIED" || !strings.Contains(x.Error.Message, "have failed") || x.Cause != "" || x.Trouble != nil {
		t.Errorf("cause %q, error %+v", x.Cause, x.Error)
	}
	s.Faults = nil
	other := s.Start("w", "d000")
	s.Tick(time.Hour)
	if x := s.Ends(other, sm.ExecutionCompletedAck); x.Error != nil {
		t.Errorf("the next run: %+v", x.Error)
	}
	s.Judge()
}
