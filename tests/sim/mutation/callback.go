package mutation

// callbacks are mistakes in steps that wait for the answer to what their block has sent. A test
// detects each.
var callbacks = []Mutation{
	{Name: "a callback does not wait for its job", Test: "shared/engine:TestCallback_AnswerBeforeTheJobEnds", Edits: []Edit{{lifecycleWait, "if d.changed = true; !r.HasJobs() {", "if d.changed = true; r.HasJobs() || !r.HasJobs() {"}}},
	{Name: "a callback ends with its job", Test: "shared/engine:TestCallback_WaitsForTheAnswer", Edits: []Edit{{"shared/lifecycle/report.go", "f.Counts.NotExecuted == 0 && r.Waiting():", "f.Counts.NotExecuted == 0 && r.Waiting() && r.Jobs > 1:"}}},
	{Name: "a callback whose job has ended is at work for ever", Test: "shared/engine:TestCallback_WaitsForTheAnswer", Edits: []Edit{{"shared/workflow/step.go", " && !(r.JobsOver && r.Waiting())", ""}}},
	{Name: "a callback does not lapse while its job is at work", Test: "shared/engine:TestCallback_Lapses", Edits: []Edit{{"shared/lifecycle/report.go", "if waiting := d.waitingStepRuns(); len(waiting) > 0 {", "if waiting := d.waitingStepRuns(); len(waiting) > 1 {"}}},
	{Name: "a callback lapses without stopping its job", Test: "shared/engine:TestCallback_Lapses", Edits: []Edit{{lifecycleWait, "\tif r.AtWork() {\n\t\td.lapseAtWork(r, why)\n\t\treturn\n\t}\n", ""}}},
	{Name: "a callback whose job is stopped fails whatever onTimeout says", Test: "shared/engine:TestCallback_Lapses", Edits: []Edit{{"shared/lifecycle/report.go", "r.Wait.Lapsed && failed == 0 {", "r.Wait.Lapsed && failed < 0 {"}}},
	{Name: "a closed branch forgets the job of a callback", Test: "shared/engine:TestCallback_InBranches", Edits: []Edit{{"shared/lifecycle/thread.go", "if d.isIn(r, f) && !r.AtWork() {", "if d.isIn(r, f) {"}}},
	{Name: "a callback that was stopped before its answer has ended well", Test: "shared/lifecycle:TestDecide_Scripts", Edits: []Edit{{"shared/lifecycle/close.go", " && (r.Wait == nil || r.Value != nil)", ""}}},
	{Name: "the token of a callback is that of a run to come", Test: "shared/engine:TestCallback_WaitsForTheAnswer", Edits: []Edit{{engineToken, "StepRunSeq: stepRunSeq, Subject: workflow.CallbackBearer}", "StepRunSeq: stepRunSeq + 1, Subject: workflow.CallbackBearer}"}}},
	{Name: "the token of a callback stands wherever its text does", Test: "shared/engine:TestCallback_WaitsForTheAnswer", Edits: []Edit{{"shared/definition/program/callback.go", "\traw, err := workflow.EncodeJSON(token)\n", "\traw, err := workflow.EncodeJSON(token)\n\tparameters = bytes.ReplaceAll(parameters, []byte(`\"`+spec.CallbackToken+`\"`), raw)\n\tif err == nil {\n\t\treturn parameters, nil\n\t}\n"}}},
	{Name: "a job is sent again without the token of its callback", Test: "shared/engine:TestCallback_MessageIsLost", Edits: []Edit{{"shared/engine/dispatch/dispatcher.go", "\t\tif r.Fill != nil {", "\t\tif r.Fill != nil && r.DueAt.After(now) {"}}},
	{Name: "a callback without keys is sent again and again", Test: "shared/engine:TestCallback_NeedsKeys", Edits: []Edit{{"shared/engine/planner/callback.go", "if !workflow.Is(err, workflow.CodeNotImplemented) {", "if err != nil {"}}},
	{Name: "large parameters are stored with the token of a callback", Test: "shared/engine:TestCallback_LargeParametersAreRefused", Edits: []Edit{{"shared/engine/planner/callback.go", "size > workflow.MaxCallbackParameterBytes {", "size > 1<<30 {"}}},
	{Name: "the result of a callback is that of its job", Test: "shared/engine:TestCallback_WaitsForTheAnswer", Edits: []Edit{{"shared/engine/planner/expr_scope.go", "if !o.HasJobs() || o.Wait != nil {", "if !o.HasJobs() {"}}},
	{Name: "what a poll keeps of a callback is not sealed", Test: "tests/httpapi:TestPoll_CallbackTokenIsSealed", Edits: []Edit{{"shared/workerapi/attempt.go", "if err == nil && m.HoldsToken {", "if err == nil && m.HoldsToken && m.Key.Attempt > 1 {"}}},
	{Name: "a definition is warned of what only a rejection leads to", Test: "shared/catalog:TestCatalog_PublishWarnings", Edits: []Edit{{"shared/catalog/warnings_flow.go", "if w.Approval != nil && w.Approval.OnReject != nil {", "if w.Approval != nil && w.Approval.OnReject != nil && s.Label == \"\" {"}}},
}
