package lifecycle_test

import (
	"testing"

	"github.com/lockstep-run/lockstep/shared/lifecycle"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// The jobs of a pipeline are closed in its last step run first: a lane that was closed in one of them cannot go on in
// the next.
func TestDecide_ClosesPipelinesFromTheirEnd(t *testing.T) {
	program := &spec.Program{Nodes: []spec.Node{{Step: &spec.Step{Label: "a"}}, {Step: &spec.Step{Label: "b"}}, {Step: &spec.Step{Label: "c"}}}}
	x := &workflow.Execution{
		ID: "x", State: sm.ExecutionCancelling, Version: 3, Epoch: 1, Try: 1, Scope: workflow.Scope{HeldEpoch: 1, Counts: map[string]int{"device": 2}},
		Cancellation: &workflow.Cancellation{Reason: "enough"},
	}
	for i := range program.Nodes {
		x.StepRuns = append(x.StepRuns, workflow.StepRun{
			Seq: i + 1, StepIndex: i, Try: 1, Kind: workflow.JobExecute, Label: program.Nodes[i].Label, Jobs: 2, Pipeline: 1, Status: sm.StepRunning, Closing: true,
		})
	}
	facts := lifecycle.Facts{Resolution: &lifecycle.Resolution{Program: program}, Reports: map[lifecycle.Need]*lifecycle.Report{}}
	for seq := len(x.StepRuns); seq > 0; seq-- {
		d, err := lifecycle.Decide(x, facts, policy, startTime)
		want := lifecycle.Need{Kind: lifecycle.NeedClose, StepRunSeq: seq}
		if err != nil || d.Need == nil || *d.Need != want {
			t.Fatalf("needs %+v, %v, want %+v", d.Need, err, want)
		}
		facts.Reports[want] = &lifecycle.Report{StepRunSeq: seq}
	}
}
