package engine_test

import (
	"strings"
	"testing"

	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

// A handler takes all locks, plans the first step under them, and loses its
// commit to another handler of the same run, which releases them. What it then
// plans under the locks of the next epoch carries their tokens, not the old ones.
func TestPlan_NotReusedAcrossEpochs(t *testing.T) {
	s := newHarness(t, 1)
	s.Publish("w", stepsYAML("one once device", "two once device"))
	a := s.Start("w", "d000")
	var b string
	first := s.StartTask("first", func() { b = s.Start("w", "d000") })
	first.RunUntil("store.commit") // it has met a, and is about to release
	for s.Load(a).State != sm.ExecutionCompletedAck {
		s.Deliver()
	}
	for id, state := range s.States(harness.Caller.Tenant) {
		if state == sm.ExecutionLocking {
			b = id
		}
	}
	second := s.StartTask("second", func() { wakeup(s, b) })
	second.RunUntil("store.commit") // it holds all locks, and is about to say so
	first.Finish()
	if x := s.Load(b); x.State != sm.ExecutionScheduled || x.Epoch != 1 {
		t.Fatalf("the first handler has left it in %s at epoch %d", x.State, x.Epoch)
	}
	second.Finish()
	settle(s)
	if x := s.ExpectState(b, sm.ExecutionCompletedAck); x.Epoch != 2 {
		t.Fatalf("it ran at epoch %d", x.Epoch)
	}
	tokens := map[string]bool{}
	for _, c := range s.BlockCalls {
		if c.Execution == b {
			token, _, _ := strings.Cut(c.Fence, "-")
			tokens[token] = true
		}
	}
	if len(tokens) != 1 {
		t.Errorf("one hold of one lock has the tokens %v", tokens)
	}
}
