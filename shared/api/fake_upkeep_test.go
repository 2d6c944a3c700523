package api_test

import (
	"context"
	"fmt"

	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/statemachines"
)

func (f *fake) DeadLetters(_ context.Context, c workflow.Caller, queue string, limit int) ([]views.DeadLetterQueue, error) {
	one := views.DeadLetterQueue{Queue: "jobs-edge"}
	if !f.bare {
		one.Messages, one.Complete = 1, true
		one.Letters = []views.DeadLetter{{Message: "m", Execution: runID, Step: ptr("upgrade"), Jobs: []string{"j"}, Reason: ptr("unavailable: no"), Receives: 21, Since: at}}
	} else {
		one.Letters = []views.DeadLetter{{Message: "m", Execution: runID, Since: at}}
	}
	return []views.DeadLetterQueue{one, {Queue: "lifecycle"}}, f.called(fmt.Sprintf("DeadLetters %q %d", queue, limit), c)
}

func (f *fake) Redrive(_ context.Context, c workflow.Caller, r views.RedriveRequest) (views.RedriveView, error) {
	v := views.RedriveView{}
	if !f.bare {
		v = views.RedriveView{Moved: 1, Left: 2, Complete: true, Queues: []views.RedrivenQueue{{Queue: r.Queue, Moved: 1, Left: 2, Complete: true}}}
	}
	return v, f.called(fmt.Sprintf("Redrive %q %d", r.Queue, r.Limit), c)
}

func (f *fake) NextSweep(_ context.Context, c workflow.Caller) (views.SweepView, error) {
	v := views.SweepView{AsOf: at}
	if !f.bare {
		v.Complete = true
		v.Executions = []views.DueExecution{{Execution: runID, State: statemachines.ExecutionRunning, Since: at}}
		v.Workers = []views.DueWorker{{Worker: "w", State: statemachines.WorkerOnline, Becomes: statemachines.WorkerUnreachable, Since: at}}
		v.Schedules = []views.DueSchedule{{Schedule: "fleet/night", Moment: at, Run: ptr(runID)}, {Schedule: "fleet/day", Moment: at, Skipped: true}}
	}
	return v, f.called("NextSweep", c)
}
