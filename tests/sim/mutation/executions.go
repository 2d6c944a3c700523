package mutation

// The files of executions.
const (
	lifecyclePlan       = "shared/lifecycle/plan.go"
	lifecycleResolution = "shared/lifecycle/resolution.go"
	lifecycleBounds     = "shared/lifecycle/bounds.go"
	lifecycleReport     = "shared/lifecycle/report.go"
	classify            = "shared/lifecycle/classify.go"
	rollback            = "shared/lifecycle/rollback.go"
	decider             = "shared/lifecycle/decider.go"
	fetchChild          = "shared/engine/fetch_child.go"
	start               = "shared/engine/start.go"
	sweep               = "shared/engine/scheduler/sweep.go"
	cronScheduler       = "shared/engine/scheduler/cron_scheduler.go"
	liveness            = "shared/engine/workers/liveness.go"
	queryWaiting        = "shared/engine/query/waiting.go"
	payload             = "shared/engine/payload.go"
	pipeline            = "shared/engine/planner/pipeline.go"
	rows                = "statemachines/execution.go"
	spec                = "shared/workflow/spec/definition.go"
	fetchUpdates        = "shared/engine/fetch_updates.go"
	exprScope           = "shared/engine/planner/expr_scope.go"
	expressions         = "shared/engine/definitions/expressions.go"
	commands            = "shared/engine/command.go"
	outcomes            = "shared/engine/planner/outcome.go"
	entities            = "shared/workflow/entity.go"
	rerun               = "shared/engine/rerun.go"
	lifecycleRerun      = "shared/lifecycle/rerun.go"
)

var executions = []Mutation{
	{Name: "an execution ends at half of the step runs that it may have", Edits: []Edit{{"shared/lifecycle/bounds.go", "\treturn d.policy.MaxStepRuns\n", "\treturn d.policy.MaxStepRuns / 2\n"}}},
	{Name: "a cancel is accepted during a rollback", Edits: []Edit{
		{rows, "slices.Concat(executionBeforeRunning, []ExecutionState{ExecutionRunning, ExecutionWaiting})...),\n", "slices.Concat(executionBeforeRunning, []ExecutionState{ExecutionRunning, ExecutionWaiting, ExecutionRollback})...),\n"},
		{rows, `		{On: []Event{EventCancelRequested}, From: stateNames(ExecutionRollback), Verdict: Refuse, Reason: "a rollback is never interrupted: half undone is worse than done or undone"},
`, ""}}},
	{Name: "step runs keep the whole text of their failures", Test: "tests/httpapi:TestState_KeepsRoomForOperators", Edits: []Edit{{"shared/lifecycle/decide.go", "\t\tboundFailures(d.execution.StepRuns, d.execution.Threads)\n", ""}}},
	{Name: "steps are entered whatever the size of the state item", Test: "tests/httpapi:TestState_FailsBeforeItIsFull", Edits: []Edit{{lifecycleBounds, "d.execution.ItemBytes <= workflow.MaxRunningBytes && last", "last"}}},
	{Name: "a rollback leaves no room for operators", Test: "tests/httpapi:TestState_FailsBeforeItIsFull", Edits: []Edit{{lifecycleBounds, "d.execution.ItemBytes <= workflow.MaxRollbackBytes && r.Seq", "r.Seq"}}},
	{Name: "answers are taken whatever the size of the state item", Test: "shared/lifecycle:TestDecide_RefusesAnswersWithoutRoom", Edits: []Edit{{lifecycleBounds, "d.execution.ItemBytes+d.jsonBytes(v) <= workflow.MaxAnsweredBytes", "v != nil"}}},
	{Name: "branches keep the whole text of their failures", Test: "shared/lifecycle:TestBoundFailures_OfBranches", Edits: []Edit{{lifecycleBounds, "t.Failure = shortFailure(t.Failure, &room)", "t.Failure = t.Failure.Truncated()"}}},
	{Name: "no numbers are kept for a rollback", Test: "tests/httpapi:TestState_KeepsNumbersForRollback", Edits: []Edit{{lifecycleBounds, "last+len(d.execution.StepRuns)+n <= workflow.MaxStepRunSeq", "last <= workflow.MaxStepRunSeq"}}},
	{Name: "a fence has four digits for the step run", Test: "shared/workflow:TestFence_GrowsWithEveryStepRun", Edits: []Edit{{workflowJob, "%010d-%06d-%02d-%02d", "%010d-%04d-%02d-%02d"}}},
	{Name: "rollback waves in execution order", Edits: []Edit{{rollback, `		d.startWave(remaining[0])
`, `		d.startWave(remaining[len(remaining)-1])
`}}},
	{Name: "a failed rollback wave is ignored", Edits: []Edit{{rollback, "\tcase failed != nil:\n", "\tcase false:\n"}, {rollback, "\tif d.config().RollbackContinue || d.execution.Undo != nil {\n", "\tif true {\n"}}},
	{Name: "irreversible steps are rolled back", Edits: []Edit{{classify, "\tcase !r.Reversible:\n", "\tcase false:\n"}}},
	{Name: "unknown outcomes are rolled back", Edits: []Edit{{classify, "case r.Counts.Unknown > 0 && !r.UndoHarmless:", "case false:"}}},
	{Name: "the failure tolerance is one less", Edits: []Edit{{"shared/workflow/spec/share.go", "\treturn t.Count\n", "\treturn max(0, t.Count-1)\n"}}},
	{Name: "the timer is not set again", Edits: []Edit{{decider, `	case d.execution.DueAt.IsZero(), d.wakeAt.Before(d.execution.DueAt), d.canDelayTimer():
		d.execution.DueAt, d.changed = d.wakeAt, true
`, `	case d.execution.DueAt.IsZero(), d.wakeAt.Before(d.execution.DueAt), d.paused && d.execution.State == sm.ExecutionWaiting:
		d.execution.DueAt, d.changed = d.wakeAt, true
	case d.timerFired:
		d.execution.DueAt, d.changed = time.Time{}, true
`}}},
	{Name: "a scope is encoded as a whole to learn its size", Test: "tests/protocol:TestMemory_LargeScopeIsHeldOnce", Edits: []Edit{{payload, "\tsize := len(\"]\")\n", "\tsize := len(\"]\")\n\tif whole, err := workflow.EncodeJSON(entities); err != nil || len(whole) > workflow.MaxInlineScopeBytes {\n\t\treturn false, err\n\t}\n"}}},
	{Name: "a search reads all entities at a time", Test: "tests/protocol:TestMemory_LargeScopeIsHeldOnce", Edits: []Edit{{"shared/engine/fetch_discovery.go", "const entitiesPerRead = 500\n", "const entitiesPerRead = 1_000_000\n"}}},
	{Name: "executions start any number of others", Test: "shared/engine:TestChild_DescendantsOfOneExecutionAreLimited", Edits: []Edit{{fetchChild, "if err != nil || ok {\n\t\treturn nil, err", "if err != nil || ok || n > 0 {\n\t\treturn nil, err"}}},
	{Name: "each try to start an execution counts", Test: "shared/engine:TestChild_RepeatedStartCountsOnce", Edits: []Edit{{fetchChild, "w.countChildren(ctx, r, parent.Root, c.id, 1)", "w.countChildren(ctx, r, parent.Root, c.id+w.e.Nonce(), 1)"}}},
	{Name: "half of the timers fire", Edits: []Edit{{sweep, "do(ctx, i/shards, i%shards)", "do(ctx, i/shards, i%shards/2)"}}},
	{Name: "every sweep sends every due wake-up again", Test: "shared/engine/scheduler:TestSweeper_BoundsQueueDepth", Edits: []Edit{{sweep, "		s.sent.add(due, s.now())\n", ""}, {sweep, "> maxQueuedWakeups", "< 0"}}},
	{Name: "a sweep forgets workers in unknown states", Test: "shared/engine/workers:TestRegistry_SweepKeepsWorkerInUnknownState", Edits: []Edit{{liveness, "if !slices.Contains(sm.Worker.Machine().States, string(w.State)) {", "if !slices.Contains(sm.Worker.Machine().States, string(w.State)) && false {"}}},
	{Name: "a failing worker ends the sweep of its shard", Test: "shared/engine/workers:TestRegistry_SweepContinuesAfterFailingWorker", Edits: []Edit{{sweep, "\t\t\t\tfailed = errors.Join(failed, err)\n", "\t\t\t\treturn err\n"}}},
	{Name: "nobody is told of a holder that waits for an operator", Test: "shared/engine/query:TestService_WaitingNamesHolderToAcknowledge", Edits: []Edit{{queryWaiting, "if !b.Reservation && sm.Terminal(holder.State) &&", "if false &&"}}},
	{Name: "missed fire times are not counted", Test: "shared/engine/scheduler:TestSweep_CatchesUpLatestMissedFireTime", Edits: []Edit{{cronScheduler, "\t\tif f.missed > 0 {\n", "\t\tif false {\n"}}},
	{Name: "a reload keeps plans", Test: "shared/engine:TestPlan_NotReusedAcrossEpochs", Edits: []Edit{{engineAdvance, "\tw.facts.Plans, w.facts.Routes, w.facts.Joins, w.facts.Output = nil, nil, nil, nil\n", ""}, {engineAdvance, `	w.planner.ClearCache()
`, ""}}},
	{Name: "all commits have one id", Edits: []Edit{{engineAdvance, "w.e.Nonce(), w.e.version", "\"c\", w.e.version"}}},
	{Name: "paged events are not stored", Edits: []Edit{{payload, `		if err := w.ports.Store.SaveEvents(ctx, w.tenant, w.id, next.Events[:eventsPerPage]); err != nil {
			return err
		}
`, ""}}},
	{Name: "a repeated request starts another execution", Edits: []Edit{
		{start, `	w.id = got.Execution
`, ""},
		{start, `		w.id, begun = boundID, true
`, ""}}},
	{Name: "a parent is not notified of its child's end", Edits: []Edit{{engineAdvance, `	wakeups := w.parentWakeups(ctx, from, next)
`, `	wakeups := w.parentWakeups(ctx, from, next)[:0]
`}}},
	{Name: "a pipeline that ends at once is not reported", Test: "shared/engine:TestPipeline_WithoutEntitiesEndsAtOnce", Edits: []Edit{{pipeline, "\t\tway.ended = true\n", ""}}},
	{Name: "pipeline lanes do not wait for the previous step", Edits: []Edit{{pipeline, `			if err != nil || !at.Recorded && !(resume && at.Over) {
				return way, err
`, `			if err != nil || !at.Recorded && !at.Over && r.Seq < 0 {
				return way, err
`}}},
	{Name: "each lane of a pipeline builds its scope from all entities", Test: "shared/engine/planner:TestStartPipeline_GrowsLinearly", Edits: []Edit{{exprScope, "\tif err == nil && r.Pipeline > 0 {\n", "\tif false {\n"}}},
	{Name: "each lane of a pipeline reads the whole scope", Test: "shared/engine:TestCost_LanesThatTheEngineSendsGrowLinearly", Edits: []Edit{{pipeline, "p.inParts = p.LanesReadParts(x, r)", "p.inParts = false && p.LanesReadParts(x, r)"}}},
	{Name: "who judges entities reads what became of steps whose jobs all ended well", Test: "shared/engine:TestCost_OfSkippedEntities", Edits: []Edit{{"shared/engine/planner/entity_outcomes.go", "\tif r.Counts.OK == r.Jobs || r.Jobs == 0 {\n", "\tif r.Jobs == 0 {\n"}}},
	{Name: "the end of each lane of a pipeline looks at all others", Test: "shared/engine:TestCost_LanesThatTheEngineSendsGrowLinearly", Edits: []Edit{{"shared/engine/effects.go", "return decides || due ||", "return !decides || due ||"}}},
	{Name: "a lane of a pipeline forgets what was before the pipeline", Test: "shared/engine/planner:TestSendLane_PlansFromItsEntitiesWhatThePlanOfAllHas", Edits: []Edit{{pipeline, "n.HasJobForEach() && !asExpected", "n.HasJobForEach() && !asExpected && r.Seq < 0"}}},
	{Name: "the queries of a discovery may cost anything together", Test: "shared/engine:TestDiscovery_QueriesHaveOneBudget", Edits: []Edit{{"shared/engine/fetch_discovery.go", "s.maxCost == 0 || s.cost <= s.maxCost", "s.maxCost != 1"}}},
	{Name: "all packs of a step run are sent at once", Test: "shared/engine/planner:TestStartPipeline_SendsInSlices", Edits: []Edit{{dispatcher, "const maxMessagesPerSend = 200\n", "const maxMessagesPerSend = 1 << 20\n"}}},
	{Name: "the expressions of a plan may cost anything together", Test: "shared/engine/planner:TestPlan_CostOfAllEntitiesIsBounded", Edits: []Edit{{expressions, "\tif x.maxCost > 0 && x.cost > x.maxCost {\n", "\tif x.maxCost == 1 {\n"}}},
	{Name: "taking locks has no deadline", Test: "shared/lifecycle:TestDecide_Scripts", Edits: []Edit{{lifecycleLocks, "a.Epoch != d.execution.Epoch) && !d.now.Before(deadline) {\n", "a.Epoch != d.execution.Epoch) && deadline.IsZero() {\n"}}},
	{Name: "a request closes the packs of a large execution", Test: "shared/engine:TestCancel_LargeExecutionIsClosedByWakeup", Edits: []Edit{{commands, "\tw.inline = true //", "\t//"}}},
	{Name: "the attributes of an entity are encoded for each of its updates", Test: "shared/workflow:TestApplyUpdates_InOrderAndLinear", Edits: []Edit{{entities, "\t\tmaps.Copy(all, updates[i].Set)\n", "\t\tif raw, err := json.Marshal(all); err == nil {\n\t\t\t_ = json.Unmarshal(raw, &all)\n\t\t}\n\t\tmaps.Copy(all, updates[i].Set)\n"}}},
	{Name: "each repetition is planned from all before it", Test: "shared/engine:TestRepeat_ReadsGrowLinearly", Edits: []Edit{{outcomes, "\tif r.Kind == workflow.JobExecute && r.Pipeline == 0 {\n", "\tif r.Kind == workflow.JobExecute && r.Pipeline < 0 {\n"}}},
	{Name: "a step starts while another is open", Edits: []Edit{{lifecycleReport, `	case f.Complete && !intolerable && f.Counts.NotExecuted == 0:
`, `	case !intolerable && f.Counts.NotExecuted == 0 && r.Jobs > 2:
		fallthrough
	case f.Complete && !intolerable && f.Counts.NotExecuted == 0:
`}}},
	{Name: "an execution fails without closing open step runs", Edits: []Edit{{lifecycleReport, `	d.transition(sm.EventExecutionFailed, sm.ExecutionError, "", data)
	d.thread = nil
	d.stopAll()
}

// failStepRun`, `	d.transition(sm.EventExecutionFailed, sm.ExecutionError, "", data)
	for _, o := range d.openStepRuns() {
		d.exitStepRun(o, sm.StepCancelled)
	}
}

// failStepRun`}}},
	{Name: "watchers of an entity are not notified", Test: "shared/engine:TestStartWhen_WakesOnUpdateByAnotherExecution", Edits: []Edit{{fetchUpdates, "w.sendWakeups(ctx, \"watchers\", changeWakeups(w.tenant, written.watchers))", "w.sendWakeups(ctx, \"watchers\", changeWakeups(w.tenant, written.watchers[:0]))"}}},
	{Name: "a retry does not validate what a start validates", Edits: []Edit{
		{lifecycleRetry, "if p := d.facts.Resolution.Invalid(); p != nil {", "if p := d.facts.Resolution.Problem; p != nil {"}}},
	{Name: "changes are made under shared locks", Edits: []Edit{
		{lifecycleResolution, "return cmp.Or(r.Problem, sharedLockProblem(r), branchProblem(r), rolloutProblem(r))", "return cmp.Or(r.Problem, branchProblem(r), rolloutProblem(r))"},
		{lifecycleBlocker, "if problem := sharedLockProblem(d.facts.Resolution); problem != nil {", "if problem := d.facts.Resolution.Problem; problem != nil {"},
		{lifecyclePlan, `if n.FunctionBlock != "" && d.execution.LockMode == workflow.LockShared && !d`, `if false && !d`}}},
	{Name: "a later step of a pipeline may change entities under shared locks", Test: "shared/engine:TestSharedLock_EntersNoStepThatChangesEntities", Edits: []Edit{{lifecyclePlan, "!d.arePure(at, d.pipelineEnd(at))", "!d.arePure(at, at+1)"}}},
	{Name: "a retry begins behind a failed step of a pipeline", Test: "shared/engine:TestRetry_RefusesStepBehindFailureInPipeline", Edits: []Edit{
		{retryBegin, "case r.Try >= since && d.endedInFailure(r):", "case r.Try < 0:"}}},
}

// The files of restores. reruns are the mistakes in repeating executions that have ended.
var reruns = []Mutation{
	{Name: "a repeated rerun is not recorded in the ended execution", Test: "shared/engine:TestRerun_IsStartedOnceForItsKey", Edits: []Edit{{rerun, "return existing, true, old.recordRerun(ctx, c, existing.ID)", "return existing, true, nil"}}},
	{Name: "a rerun is recorded twice", Test: "shared/engine:TestRerun_IsStartedOnceForItsKey", Edits: []Edit{{lifecycleRerun, "	by = slices.Compact(by)\n", ""}}},
	{Name: "an execution that runs is repeated", Test: "shared/engine:TestRerun_RepeatsFailedEntities", Edits: []Edit{{lifecycleRerun, "	if sm.Terminal(x.State) {\n", "	if sm.Terminal(x.State) || x.Try > 0 {\n"}}},
	{Name: "a rerun of what failed repeats what succeeded", Test: "shared/engine:TestRerun_RepeatsFailedEntities", Edits: []Edit{{rerun, "return outcome.Failed()", "return true"}}},
}

const (
	lifecycleRestore = "shared/lifecycle/restore.go"
	lockTake         = "shared/engine/locking/take.go"
)

var restores = []Mutation{
	{Name: "tokens are issued again after a restore", Edits: []Edit{{acquire, "item.Revision < a.MinFencingToken {", "false {"}}},
	{Name: "an execution from before a restore continues", Edits: []Edit{{lifecycleRestore, "\tif sm.Terminal(x.State) {\n\t\treturn false, nil // it", "\tif true {\n\t\treturn false, nil // it"}}},
	{Name: "a retry after a restore keeps tokens from before", Edits: []Edit{{lifecycleRestore, "x.Scope.HeldEpoch = x.Scope.LockEpoch(), 0", "x.Scope.HeldEpoch = 0, x.Scope.HeldEpoch"}}},
	{Name: "an execution that a restore has ended says that it holds no locks", Test: "shared/engine:TestRestore_FailsUnfinishedExecutionsUnsafe", Edits: []Edit{{lifecycleRestore, "x.Scope.EpochBeforeRestore, x.Scope.HeldEpoch = x.Scope.LockEpoch(), 0", "x.Scope.HeldEpoch = 0"}}},
	{Name: "a rollback is tried again with tokens from before a restore", Test: "shared/engine:TestRestore_UnsafeEndKeepsItsLocks", Edits: []Edit{{lifecycleRetryRollback, "case x.Scope.EpochBeforeRestore > 0:", "case false:"}}},
	{Name: "a retry after a restore reuses job IDs", Edits: []Edit{{lifecycleRestore, "d.policy.MinFencingToken, x.StepRunSeq+restoreGap", "d.policy.MinFencingToken, x.StepRunSeq"}}},
	{Name: "what a restore has lost is a fault of the service to who retries", Test: "shared/engine:TestRestore_RetryIsRefusedWhereWhatWasDoneIsLost", Edits: []Edit{{"shared/engine/fetch_outdated.go", "errors.As(err, &lost) {", "errors.As(err, &lost) && false {"}}},
	{Name: "who retries by force is not told what a restore has lost", Test: "shared/engine:TestRestore_RetryIsRefusedWhereWhatWasDoneIsLost", Edits: []Edit{{"shared/lifecycle/retry.go", "(!c.Force || restored) {", "(!c.Force || restored && false) {"}}},
	{Name: "a job whose records are lost was never executed", Test: "shared/engine:TestRestore_JobsWithoutRecordsAreUnknown", Edits: []Edit{{"shared/engine/query/jobs.go", "if r.Counts.NotExecuted+r.Skipped > 0 {", "if r.Counts.NotExecuted+r.Skipped >= 0 {"}}},
	{Name: "messages from before a restore are processed", Edits: []Edit{{workerHandle, "m.Work.MinFencingToken < w.opts.MinFencingToken()", "m.Work.MinFencingToken < 0"}}},
	{Name: "a lock from before a restore counts as the execution's own", Test: "shared/engine/locking:TestLocker_LocksFromBeforeRestoreAreNotOwn", Edits: []Edit{{lockTake, "\tif r.status == lockConflict {", "\tif r.status == lockConflict || r.status == lockHeld {"}}},
	{Name: "an execution that a restore has lost begins at its first epoch again", Test: "shared/engine:TestRestore_ALostExecutionThatStartsAgainHoldsNothing", Edits: []Edit{{"shared/lifecycle/blocker.go", "d.execution.Epoch = d.policy.MinFencingToken", "d.execution.Epoch = 0"}}},
}
