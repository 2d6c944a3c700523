package workflow_test

import (
	"reflect"
	"testing"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Every field of a wake-up is merged, except those in which merged wake-ups agree or that decide
// nothing.
func TestWakeup_MergeKeepsEveryField(t *testing.T) {
	same := map[string]string{
		"Tenant": "the same", "Execution": "the same", "Lane": "the same", "DeadLetter": "handled alone",
		"Reason": "for logs", "DueAt": "not in messages", "OfTimer": "only if both are",
	}
	all := workflow.Wakeup{StepRunSeq: 3, Children: []int{1}, FromParent: true, Cost: workflow.Cost{Invocations: 1}, Redelivered: true}
	var merged workflow.Wakeup
	merged.Merge(all)
	for i, v := 0, reflect.ValueOf(merged); i < v.NumField(); i++ {
		name := v.Type().Field(i).Name
		if same[name] != "" {
			continue
		}
		if v.Field(i).IsZero() {
			t.Errorf("Merge loses %s", name)
		}
		if reflect.ValueOf(all).Field(i).IsZero() {
			t.Errorf("the test sets no %s", name)
		}
	}
	timer := workflow.Wakeup{OfTimer: true}
	if timer.Merge(workflow.Wakeup{OfTimer: true}); !timer.OfTimer {
		t.Error("two wake-ups of timers become another")
	}
	if timer.Merge(workflow.Wakeup{}); timer.OfTimer {
		t.Error("another wake-up becomes one of a timer")
	}
	kept := all
	kept.Merge(workflow.Wakeup{})
	if kept.Cost = all.Cost; !reflect.DeepEqual(kept, all) {
		t.Errorf("merged with nothing: %+v, want %+v", kept, all)
	}
}
