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
	{Name: "a retry that goes back keeps what stands before its beginning", Test: "shared/engine:TestRetry_GoingBackExecutesForAll", Edits: []Edit{{retryBegin, "return last == 0 || cut > last", "return last >= 0 || cut > last"}}},
	{Name: "a retry begins at what was undone of released entities", Test: "shared/engine:TestRetry_RepeatsNothingOfReleasedEntities", Edits: []Edit{{"shared/engine/planner/kept_jobs.go", "scope.Only = x.Kept", "scope.Only = nil"}}},
	{Name: "a retry leaves out who failed behind its beginning", Test: "shared/engine:TestRetry_LeavesOutNobodyForWhatIsStillToCome", Edits: []Edit{{"shared/engine/planner/path.go", "return !before.seqs[o.Seq] && !slices", "return false && !before.seqs[o.Seq] && !slices"}}},
	{Name: "a try that goes back forgets what was set before its beginning", Test: "shared/engine:TestRetry_GoingBackReadsWhatStands", Edits: []Edit{{"shared/engine/planner/expr_scope.go", "\t\twentBack = 1 // of", "\t\t_ = 1 // of"}}},
	{Name: "a retry begins with the rollout again where a step leaves a doubt and goes on after failures", Test: "shared/engine:TestRollout_RetryGoesOnWithTheDoubt", Edits: []Edit{{retryBegin, "p.ContinuesOnError(r.StepIndex) && d.wentOnAfter(r)", "p.ContinuesOnError(r.StepIndex)"}, {retryBegin, "return came && d.node(r).OnEntities()", "return false && d.node(r).OnEntities()"}}},
	{Name: "a retry begins with the loop again where a doubt is left", Test: "shared/engine:TestLoop_RetryGoesOnWithTheDoubt", Edits: []Edit{{retryBegin, "return came && d.node(r).OnEntities()", "return false && d.node(r).OnEntities()"}}},
	{Name: "a repetition that nobody repeated does not stand", Test: "shared/engine:TestRetry_KeepsRepetitionsThatNobodyRepeated", Edits: []Edit{{lifecycleRetry, "o.Seq >= r.Seq && d.sameRepetition(o, r)", "o.Seq >= r.Seq && o.Iteration == r.Iteration && d.sameRepetition(o, r)"}}},
	{Name: "a retry whose try never got its locks begins anew", Test: "shared/engine:TestRetry_AfterATryWithoutLocks", Edits: []Edit{{retryBegin, "return x.PC, x.StepRunBySeq(x.ResumeSeq)", "return 0, nil"}}},
}
