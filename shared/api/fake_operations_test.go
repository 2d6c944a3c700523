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
	if !f.minimal {
		one.Messages, one.Complete = 1, true
		one.DeadLetters = []views.DeadLetter{{MessageID: "m", Execution: executionID, Step: ptr("upgrade"), Jobs: []string{"j"}, Reason: ptr("unavailable: no"), ReceiveCount: 21, SentAt: at}}
	} else {
		one.DeadLetters = []views.DeadLetter{{MessageID: "m", Execution: executionID, SentAt: at}}
	}
	return []views.DeadLetterQueue{one, {Queue: "lifecycle"}}, f.record(fmt.Sprintf("DeadLetters %q %d", queue, limit), c)
}

func (f *fake) Redrive(_ context.Context, c workflow.Caller, r views.RedriveRequest) (views.RedriveView, error) {
	v := views.RedriveView{}
	if !f.minimal {
		v = views.RedriveView{Moved: 1, Remaining: 2, Complete: true, Queues: []views.RedrivenQueue{{Queue: r.Queue, Moved: 1, Remaining: 2, Complete: true}}}
	}
	return v, f.record(fmt.Sprintf("Redrive %q %d", r.Queue, r.Limit), c)
}

func (f *fake) NextSweep(_ context.Context, c workflow.Caller) (views.SweepView, error) {
	v := views.SweepView{AsOf: at}
	if !f.minimal {
		v.Complete = true
		v.Executions = []views.DueExecution{{Execution: executionID, State: statemachines.ExecutionRunning, Since: at}}
		v.Workers = []views.DueWorker{{Worker: "w", State: statemachines.WorkerOnline, NextState: statemachines.WorkerUnreachable, Since: at}}
		v.Schedules = []views.DueSchedule{{Schedule: "fleet/night", FireTime: at, ExecutionID: ptr(executionID)}, {Schedule: "fleet/day", FireTime: at, Skipped: true}}
	}
	return v, f.record("NextSweep", c)
}
