package faults_test

import (
	"slices"
	"testing"

	"github.com/lockstep-run/lockstep/shared/sim/faults"
)

// TestTask_StopsBeforeEachCall pauses tasks before each of their calls.
func TestTask_StopsBeforeEachCall(t *testing.T) {
	var h faults.Injector
	var made []string
	work := func(name string, calls ...string) func() {
		return func() {
			for _, c := range calls {
				if _, fault := h.Intercept(c); fault == faults.CrashBefore {
					panic(faults.Crash{})
				}
				made = append(made, name+" "+c)
			}
		}
	}
	one, two := h.StartTask("one", work("one", "a", "b", "c")), h.StartTask("two", work("two", "a", "b"))
	if len(made) != 0 || one.NextCall() != "a" {
		t.Fatalf("calls made before the first step: %v; paused before %s", made, one.NextCall())
	}
	two.Step()
	if !one.RunUntil("c") || one.Done() {
		t.Fatal("task one did not pause before c")
	}
	two.Kill()
	if !two.Done() || !two.Crashed() || two.RunUntil("b") {
		t.Error("the killed task is still running")
	}
	one.Finish()
	if want := []string{"two a", "one a", "one b", "one c"}; !slices.Equal(made, want) || !one.Done() || one.Crashed() {
		t.Errorf("made %v", made)
	}
	if h.CallCount() != 4 || h.Trace()[0].Task != "two" {
		t.Errorf("counted %d: %v", h.CallCount(), h.Trace())
	}
	h.Faults = faults.At(2, faults.CrashBefore)
	three := h.StartTask("three", work("three", "a", "b", "c"))
	if three.Finish(); !three.Crashed() || made[len(made)-1] != "three a" {
		t.Errorf("made %v", made)
	}
}

// TestPlan_InjectsFaultAtChosenCall: each plan injects its fault at the chosen call.
func TestPlan_InjectsFaultAtChosenCall(t *testing.T) {
	call := func(name string) faults.Call { return faults.Call{Name: name} }
	next := faults.Next("locks.", faults.Throttled)
	if next(call("store.load")) != faults.None || next(call("locks.take")) != faults.Throttled || next(call("locks.take")) != faults.None {
		t.Error("Next injected its fault at another call")
	}
	at := faults.At(3, faults.LostReply)
	if at(call("a")) != faults.None || at(call("b")) != faults.None || at(call("c")) != faults.LostReply || at(call("d")) != faults.None {
		t.Error("At injected its fault at another call")
	}
}

// TestCatchCrash_RepanicsOnOtherPanics: only planned crashes are recovered.
func TestCatchCrash_RepanicsOnOtherPanics(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("the panic was recovered")
		}
	}()
	faults.CatchCrash(func() { panic("a mistake") })
}
