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
