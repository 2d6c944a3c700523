package mutation

const plannerCompensation = "shared/engine/planner/compensation.go"

// compensations are mistakes in what undoes a step in place of the rollback of its block.
var compensations = []Mutation{
	{Name: "a compensation has the result of an earlier time", Test: "shared/engine:TestCompensation_SeesItsOwnResult", Edits: []Edit{{"shared/engine/planner/expr_scope.go", "if r.Undoes > 0 && o.StepIndex == r.StepIndex && o.Seq != r.Undoes {", "if false && o.Seq != r.Undoes {"}}},
	{Name: "a compensation sees nothing of its own step", Test: "shared/engine:TestCompensation_UndoesNewestFirst", Edits: []Edit{{plannerCompensation, "Seq: undo.Seq + 1, Try", "Seq: undo.Seq, Try"}}},
	{Name: "the rollback of the block is called beside a compensation", Test: "shared/engine:TestCompensation_UndoesNewestFirst", Edits: []Edit{{"shared/lifecycle/rollback.go", "r.Block, r.Pool, r.Idempotent, r.Compensation = c.Block, c.Pool, c.Idempotent, c", "r.Compensation = nil"}}},
	{Name: "a step with a compensation cannot be undone", Test: "shared/engine:TestCompensation_UndoesNewestFirst", Edits: []Edit{{"shared/lifecycle/plan.go", "r.Reversible, r.UndoHarmless = true, n.Compensate.UndoHarmless", "r.UndoHarmless = n.Compensate.UndoHarmless"}}},
	{Name: "every compensation counts as harmless where nothing was done", Test: "shared/engine:TestCompensation_OfWhatNobodyKnows", Edits: []Edit{{"shared/lifecycle/plan.go", "r.Reversible, r.UndoHarmless = true, n.Compensate.UndoHarmless", "r.Reversible, r.UndoHarmless = true, true"}}},
	{Name: "a compensation says where the execution goes on", Test: "shared/worker:TestJobResult_OfACompensationGoesNowhere", Edits: []Edit{{"shared/worker/result.go", "if work.Kind != workflow.JobExecute || work.Compensates {", "if work.Kind != workflow.JobExecute {"}}},
	{Name: "what a start says of the rollback is forgotten", Test: "shared/engine:TestStart_SaysWhetherToRollBack", Edits: []Edit{{"shared/engine/start.go", "Rollback: req.Rollback, Timeout: req.Timeout", "Timeout: req.Timeout"}}},
	{Name: "a start lengthens the timeout of the definition", Test: "shared/engine:TestStart_ShortensTheTimeout", Edits: []Edit{{"shared/engine/validate_start.go", "cmp.Or(d.Config.Timeout.Std(), definition.MaxTimeout)", "cmp.Or(definition.MaxTimeout, d.Config.Timeout.Std())"}}},
	{Name: "the codes that a retry lists are ignored", Test: "shared/engine:TestRetry_RepeatsTheCodesItLists", Edits: []Edit{{"shared/workflow/retry.go", "if r == nil || len(r.On) == 0 {", "if r == nil || len(r.On) >= 0 {"}}},
	{Name: "the codes that a retry lists are ignored where workers poll", Test: "shared/worker:TestRemoteLease_RepeatsTheCodesOfItsRetry", Edits: []Edit{{"shared/worker/remote_lease.go", "completedRecord(*rec, result.retriedAs(&s.m.Work), rec.StartedAt, now)", "completedRecord(*rec, result, rec.StartedAt, now)"}}},
	{Name: "a retry that is due soon goes through its queue", Test: "shared/worker:TestHandle_WaitsForARetryThatIsDueSoon", Edits: []Edit{{"shared/worker/follow_up.go", "if ownWrite && s.keepsRetry(ctx, next) {", "if !ownWrite && s.keepsRetry(ctx, next) {"}}},
	{Name: "a worker that stops before a retry that it keeps deletes its message", Test: "shared/worker:TestHandle_StopsWhileItWaitsForARetry", Edits: []Edit{{"shared/worker/handle.go", "return Disposition{}, errWorkerStopped // the next delivery", "return d, err // the next delivery"}}},
	{Name: "nobody says which worker was lost", Test: "shared/engine:TestLocks_FenceExpiredOwner", Edits: []Edit{{"shared/engine/dispatch/lane_state.go", "workflow.JobCodeUnknown, now, seen.WorkerLost()", "workflow.JobCodeUnknown, now, nil"}}},
	{Name: "who takes over a pack is named as the worker that was lost", Test: "shared/worker:TestHandle_NamesTheWorkerThatWasLost", Edits: []Edit{{"shared/worker/claim.go", "workflow.JobCodeUnknown, now, old.WorkerLost()", "workflow.JobCodeUnknown, now, p.WorkerLost()"}}},
	{Name: "a worker keeps the retries of a pack for ever", Test: "shared/worker:TestHandle_KeepsRetriesOnlySoLong", Edits: []Edit{{"shared/worker/follow_up.go", "!next.NotBefore.After(s.keepsRetriesUntil) && ", ""}}},
	{Name: "a worker keeps a retry past the end of its process", Test: "shared/worker:TestHandle_KeepsRetriesOnlySoLong", Edits: []Edit{{"shared/worker/follow_up.go", "s.hasTimeIn(ctx, pause)", "s.hasTimeIn(ctx, -pause)"}}},
	{Name: "a call that may still be going on is made again", Test: "shared/worker:TestHandle_RetriesNoCallThatMayStillRun", Edits: []Edit{{"shared/worker/run_job.go", " && a.Failure.AllowsAnotherCall(work.Repeatable())", ""}}},
	{Name: "parameters of a compensation are not checked", Test: "shared/engine:TestCompensation_NeedsItsParameters", Edits: []Edit{{"shared/engine/definitions/expressions.go", "err = validateBlockParameters(x.blocks[x.program.Nodes[node].Compensate.FunctionBlock], parameters)", "_ = validateBlockParameters(x.blocks[x.program.Nodes[node].Compensate.FunctionBlock], parameters)"}}},
}
