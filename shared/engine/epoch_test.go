package engine_test

import (
	"strings"
	"testing"

	"github.com/lockstep-run/lockstep/shared/sim/stage"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// A handler takes all locks, plans the first step under them, and loses its
// commit to another handler of the same run, which releases them. What it then
// plans under the locks of the next epoch carries their tokens, not the old ones.
func TestPlanIsNotKeptAcrossEpochs(t *testing.T) {
	s := open(t, 1)
	s.Publish("w", steps("one once device", "two once device"))
	a := s.Start("w", "d000")
	var b string
	first := s.Task("first", func() { b = s.Start("w", "d000") })
	first.Until("store.commit") // it has met a, and is about to release
	for s.Load(a).State != sm.ExecutionCompletedAck {
		s.Deliver()
	}
	for id, state := range s.States(stage.Caller.Tenant) {
		if state == sm.ExecutionLocking {
			b = id
		}
	}
	second := s.Task("second", func() { look(s, b) })
	second.Until("store.commit") // it holds all locks, and is about to say so
	first.Finish()
	if x := s.Load(b); x.State != sm.ExecutionScheduled || x.Epoch != 1 {
		t.Fatalf("the first handler has left it in %s at epoch %d", x.State, x.Epoch)
	}
	second.Finish()
	settle(s)
	if x := s.Ends(b, sm.ExecutionCompletedAck); x.Epoch != 2 {
		t.Fatalf("it ran at epoch %d", x.Epoch)
	}
	tokens := map[string]bool{}
	for _, c := range s.Called {
		if c.Execution == b {
			token, _, _ := strings.Cut(c.Fence, "-")
			tokens[token] = true
		}
	}
	if len(tokens) != 1 {
		t.Errorf("one hold of one lock has the tokens %v", tokens)
	}
}
