package mutation

const retryBegin = "shared/lifecycle/retry_begin.go"

// retries are mistakes about where a retry begins, and what stands then.
var retries = []Mutation{
	{Name: "what an earlier try did in later repetitions stands where a retry begins", Test: "shared/engine:TestRetry_InNestedRepetitionsForgetsLaterOnes", Edits: []Edit{{lifecycleRetry, "\t\tpath = path[:at]\n", "\t\tpath = path[:max(at, len(path))]\n"}}},
	{Name: "a retry begins at a step of which a rollback has undone nothing", Test: "shared/engine:TestRetry_RepeatsNothingThatNoRollbackTouched", Edits: []Edit{{retryBegin, "jobs(u.Counts) == 0 ||", "jobs(u.Counts) < 0 ||"}}},
	{Name: "a retry under new locks passes over what was undone of others", Test: "shared/engine:TestRollout_RetryUnderNewLocksRepeatsWhatWasUndone", Edits: []Edit{{lifecycleRetry, "if to == sm.ExecutionRunning && d.execution.Kept != nil && d.facts.KeptJobs == nil {", "if d.execution.Kept != nil && d.facts.KeptJobs == nil {"}}},
	{Name: "what a try has done for some stands for all", Test: "shared/engine:TestRollout_RetryUnderNewLocksRepeatsWhatWasUndone", Edits: []Edit{{retryBegin, "to == sm.ExecutionRunning || x.Scope.Only == nil", "to == sm.ExecutionRunning || x.Try > 0"}}},
	{Name: "a rewind repeats what a retry has left, unasked", Test: "shared/engine:TestRewind_AfterARetryOfFailedRepeatsNothingUnasked", Edits: []Edit{{"shared/lifecycle/stepping.go", "r.SupersededBy == 0 && !isBefore(r) &&", "r.SupersededBy == 0 && r.Try == d.execution.Try && !isBefore(r) &&"}}},
	{Name: "which step runs are about kept entities is known after another commit", Test: "shared/engine:TestClearStaleFacts_LeavesWhatLasts", Edits: []Edit{{"shared/engine/advance.go", "f.Agains, f.KeptJobs = nil, nil", "f.Agains = nil"}}},
	{Name: "a retry that goes back keeps what stands before its beginning", Test: "shared/engine:TestRetry_GoingBackExecutesForAll", Edits: []Edit{{retryBegin, "return cut || !stands", "return cut || !stands || x.OnlyFailed"}}},
	{Name: "a retry begins at what was undone of released entities", Test: "shared/engine:TestRetry_RepeatsNothingOfReleasedEntities", Edits: []Edit{{"shared/engine/planner/kept_jobs.go", "scope.Only = x.Kept", "scope.Only = nil"}}},
	{Name: "a retry whose try never got its locks begins anew", Test: "shared/engine:TestRetry_AfterATryWithoutLocks", Edits: []Edit{{retryBegin, "return x.PC, x.StepRunBySeq(x.ResumeSeq)", "return 0, nil"}}},
}
