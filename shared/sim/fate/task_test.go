package fate_test

import (
	"slices"
	"testing"

	"github.com/lockstep-run/lockstep/shared/sim/fate"
)

// TestTasks holds a piece of work before each of its calls.
func TestTasks(t *testing.T) {
	var h fate.Hook
	var made []string
	work := func(name string, calls ...string) func() {
		return func() {
			for _, c := range calls {
				if _, fault := h.Reach(c); fault == fate.CrashBefore {
					panic(fate.Crash{})
				}
				made = append(made, name+" "+c)
			}
		}
	}
	one, two := h.Task("one", work("one", "a", "b", "c")), h.Task("two", work("two", "a", "b"))
	if len(made) != 0 || one.Before() != "a" {
		t.Fatalf("begun: %v, before %s", made, one.Before())
	}
	two.Step()
	if !one.Until("c") || one.Over() {
		t.Fatal("it never came to c")
	}
	two.Kill()
	if !two.Over() || !two.Crashed() || two.Until("b") {
		t.Error("it lives on")
	}
	one.Finish()
	if want := []string{"two a", "one a", "one b", "one c"}; !slices.Equal(made, want) || !one.Over() || one.Crashed() {
		t.Errorf("made %v", made)
	}
	if h.Calls() != 4 || h.Trace()[0].Task != "two" {
		t.Errorf("counted %d: %v", h.Calls(), h.Trace())
	}
	h.Faults = fate.At(2, fate.CrashBefore)
	three := h.Task("three", work("three", "a", "b", "c"))
	if three.Finish(); !three.Crashed() || made[len(made)-1] != "three a" {
		t.Errorf("made %v", made)
	}
}

// TestPlans: each plan strikes where it says.
func TestPlans(t *testing.T) {
	call := func(name string) fate.Call { return fate.Call{Name: name} }
	next := fate.Next("locks.", fate.Throttled)
	if next(call("store.load")) != fate.None || next(call("locks.take")) != fate.Throttled || next(call("locks.take")) != fate.None {
		t.Error("Next strikes elsewhere")
	}
	at := fate.At(3, fate.LostReply)
	if at(call("a")) != fate.None || at(call("b")) != fate.None || at(call("c")) != fate.LostReply || at(call("d")) != fate.None {
		t.Error("At strikes elsewhere")
	}
}

// Other panics are nobody's fault but the test's.
func TestSurviveLetsOtherPanicsGo(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("swallowed")
		}
	}()
	fate.Survive(func() { panic("a mistake") })
}
