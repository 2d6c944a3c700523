package main

import (
	"testing"

	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// An input is asked for although another branch waits for something that comes sooner.
func TestAsksInput_InAnyBranch(t *testing.T) {
	timer, input := views.StepWaiting{Kind: workflow.WaitTimer}, views.StepWaiting{Kind: workflow.WaitInput}
	for name, c := range map[string]struct {
		waiting *views.Waiting
		asks    bool
	}{
		"nothing":                      {nil, false},
		"a timer":                      {&views.Waiting{Kind: workflow.WaitTimer, All: []views.StepWaiting{timer}}, false},
		"an input":                     {&views.Waiting{Kind: workflow.WaitInput}, true},
		"an input, and sooner a timer": {&views.Waiting{Kind: workflow.WaitTimer, All: []views.StepWaiting{timer, input}}, true},
	} {
		if got := asksInput(views.ExecutionView{Waiting: c.waiting}); got != c.asks {
			t.Errorf("%s: %v", name, got)
		}
	}
}
