package mutation

const (
	retryBegin        = "shared/lifecycle/retry_begin.go"
	lifecycleOutdated = "shared/lifecycle/outdated.go"
	fetchOutdated     = "shared/engine/fetch_outdated.go"
)

// retries are mistakes about where a retry begins, and what stands then.
var retries = []Mutation{
	{Name: "a retry begins with the first repetition, whichever has entered its step", Test: "shared/engine:TestRetry_GoesOnInTheRepetitionThatEnteredItsStep", Edits: []Edit{{lifecycleRunning, "iteration = d.repetitionToBegin(outer)\n", "iteration = min(1, d.repetitionToBegin(outer))\n"}}},
	{Name: "a try that begins with the next step forgets those beside it", Test: "shared/engine:TestRetry_GoesOnInTheRepetitionThatEnteredItsStep", Edits: []Edit{{retryBegin, "path[at+1].SupersededBy != try:\n\t\t\treturn len(path)\n", "path[at+1].SupersededBy != try:\n\t\t\treturn at\n"}}},
	{Name: "a retry repeats the step that ended before a deadline", Test: "shared/engine:TestRetry_GoesOnInTheRepetitionThatEnteredItsStep", Edits: []Edit{{retryBegin, "d.cameToItsEnd() && x.Error != nil &&", "x.Error != nil &&"}}},
	{Name: "a retry lets who failed in an earlier repetition take part again", Test: "shared/engine:TestRetry_LeavesOutWhoFailedInAnEarlierRepetition", Edits: []Edit{{exprScope, "o.Try < r.Try && p.placeOf(x, o) == p.placeOf(x, r)\n", "o.Try < r.Try && x.SameTime(o, r)\n"}}},
	{Name: "what an earlier try did in later repetitions stands where a retry begins", Test: "shared/engine:TestRetry_InNestedRepetitionsForgetsLaterOnes", Edits: []Edit{{lifecycleRetry, "r.Seq == resume.Seq {\n\t\t\tbreak\n", "r.Seq == resume.Seq {\n\t\t\tcontinue\n"}}},
	{Name: "a retry begins at a step of which a rollback has undone nothing", Test: "shared/engine:TestRetry_RepeatsNothingThatNoRollbackTouched", Edits: []Edit{{retryBegin, "jobs(u.Counts) == 0 ||", "jobs(u.Counts) < 0 ||"}}},
	{Name: "a retry under new locks passes over what was undone of others", Test: "shared/engine:TestRollout_RetryUnderNewLocksRepeatsWhatWasUndone", Edits: []Edit{{lifecycleRetry, "if to == sm.ExecutionRunning && d.execution.Kept != nil && d.facts.KeptJobs == nil {", "if d.execution.Kept != nil && d.facts.KeptJobs == nil {"}}},
	{Name: "what a try has done for some stands for all", Test: "shared/engine:TestRollout_RetryUnderNewLocksRepeatsWhatWasUndone", Edits: []Edit{{retryBegin, "to == sm.ExecutionRunning || x.Scope.Only == nil", "to == sm.ExecutionRunning || x.Try > 0"}}},
	{Name: "a rewind repeats what a retry has left, unasked", Test: "shared/engine:TestRewind_AfterARetryOfFailedRepeatsNothingUnasked", Edits: []Edit{{"shared/lifecycle/stepping.go", "r.SupersededBy == 0 && !isBefore(r) &&", "r.SupersededBy == 0 && r.Try == d.execution.Try && !isBefore(r) &&"}}},
	{Name: "which step runs are about kept entities is known after another commit", Test: "shared/engine:TestClearStaleFacts_LeavesWhatLasts", Edits: []Edit{{"shared/engine/advance.go", "f.Agains, f.KeptJobs, f.Outdated = nil, nil, nil", "f.Agains = nil"}}},
	{Name: "a retry that goes back keeps what stands before its beginning", Test: "shared/engine:TestRetry_GoingBackExecutesForAll", Edits: []Edit{{retryBegin, "return last == 0 || cut > last", "return last >= 0 || cut > last"}}},
	{Name: "a retry begins at what was undone of released entities", Test: "shared/engine:TestRetry_RepeatsNothingOfReleasedEntities", Edits: []Edit{{"shared/engine/planner/kept_jobs.go", "scope.Only = x.Kept", "scope.Only = nil"}}},
	{Name: "a retry leaves out who failed in a step that it passes", Test: "shared/engine:TestRetry_LeavesOutNobodyForWhatItPasses", Edits: []Edit{{"shared/engine/planner/path.go", "\tif !r.Forward() || r.StepIndex", "\tif x.WentBack == 0 || !r.Forward() || r.StepIndex"}}},
	{Name: "a retry leaves out who failed behind its beginning", Test: "shared/engine:TestRetry_LeavesOutNobodyForWhatIsStillToCome", Edits: []Edit{{"shared/engine/planner/path.go", "return !before.seqs[o.Seq] && before", "return false && before"}}},
	{Name: "a try that goes back forgets what was set before its beginning", Test: "shared/engine:TestRetry_GoingBackReadsWhatStands", Edits: []Edit{{"shared/workflow/step.go", "\treturn o.Forward() && o.Seq < r.Seq &&", "\treturn (o.Try == r.Try || o.StepIndex <= r.StepIndex) && o.Forward() && o.Seq < r.Seq &&"}}},
	{Name: "a retry begins with the rollout again where a step leaves a doubt and goes on after failures", Test: "shared/engine:TestRollout_RetryGoesOnWithTheDoubt", Edits: []Edit{{retryBegin, "p.ContinuesOnError(r.StepIndex) && d.wentOnAfter(r)", "p.ContinuesOnError(r.StepIndex)"}, {retryBegin, "return came && d.node(r).OnEntities()", "return false && d.node(r).OnEntities()"}}},
	{Name: "a retry begins with the loop again where a doubt is left", Test: "shared/engine:TestLoop_RetryGoesOnWithTheDoubt", Edits: []Edit{{retryBegin, "return came && d.node(r).OnEntities()", "return false && d.node(r).OnEntities()"}}},
	{Name: "a repetition that nobody repeated does not stand", Test: "shared/engine:TestRetry_KeepsRepetitionsThatNobodyRepeated", Edits: []Edit{{lifecycleRetry, "last[PlaceOf(x, p, r)] >= r.Seq }", "last[PlaceOf(x, p, r)] >= r.Seq && r.Iteration < 2 }"}}},
	{Name: "a retry whose try never got its locks begins anew", Test: "shared/engine:TestRetry_AfterATryWithoutLocks", Edits: []Edit{{retryBegin, "return x.PC, x.StepRunBySeq(x.ResumeSeq)", "return 0, nil"}}},
	{Name: "nobody looks whether results are outdated", Edits: []Edit{{fetchOutdated, "if keeps && (len(by) > 0", "if !keeps && (len(by) > 0"}}},
	{Name: "only the request looks whether results are outdated", Test: "shared/engine:TestRetry_SeesUnderItsLocksWhatIsOutdated", Edits: []Edit{{lifecycleLocks, "case len(a.Outdated) > 0 && !d.execution.Forced:", "case len(a.Outdated) > 1000:"}}},
	{Name: "a retry is forced unasked", Test: "shared/lifecycle:TestDecide_Scripts", Edits: []Edit{{lifecycleRetry, "if d.execution.Forced = c.Force; c.Force {", "if d.execution.Forced = true; c.Force {"}}},
	{Name: "the results of who is made again are outdated", Test: "shared/engine:TestRetry_GoesOnWhereNothingIsOutdated", Edits: []Edit{{lifecycleOutdated, "j.StepRun.SupersededBy == 0 && j.Code == workflow.JobCodeOK &&", "j.Code == workflow.JobCodeOK &&"}}},
	{Name: "what a rollback would undo is not outdated", Test: "shared/engine:TestRetry_WouldUndoWhatIsOutdated", Edits: []Edit{{lifecycleOutdated, "undo := j.changed() && j.canBeUndone()", "undo := false && j.canBeUndone()"}}},
	{Name: "who has only looked at an entity makes results outdated", Test: "shared/engine:TestRetry_GoesOnWhereNothingIsOutdated", Edits: []Edit{{fetchOutdated, "return r.HasUpdates || (r.HasJobs() || r.Child != nil) && !r.Pure", "return r.HasJobs()"}}},
	{Name: "who joins a lock says who took it when it was read", Test: "shared/engine/locking:TestLocker_SaysWhoTookTheLocksBefore", Edits: []Edit{{acquire, "if a.Request.Recent && a.Mode == workflow.LockShared {", "if a.Request.Recent && a.Mode == \"?\" {"}}},
	{Name: "the second handler of an epoch is not told who took the lock", Test: "shared/engine/locking:TestLocker_SaysWhoTookTheLocksBefore", Edits: []Edit{{acquire, "= held.Token, r.lock.Recent", "= held.Token, nil"}}},
	{Name: "who has held an entity before a restore is known", Test: "shared/engine:TestRetry_AfterARestoreResultsMayBeOutdated", Edits: []Edit{{fetchOutdated, "s.all = s.all && token >= restored", "s.all = s.all || token >= restored"}}},
	{Name: "a retry with outdated results is told as safe whatever is left", Test: "shared/lifecycle:TestDecide_Scripts", Edits: []Edit{{lifecycleOutdated, "if !HasChanges(d.execution) {", "if d.execution != nil {"}}},
	{Name: "who shares a lock makes results outdated", Test: "shared/workflow:TestRecentHolders_Since", Edits: []Edit{{workflowLock, "h.Execution != execution && !h.Shared && h.Token > token", "h.Execution != execution && h.Token > token"}}},
	{Name: "an own take hides who took the lock before", Test: "shared/workflow:TestRecentHolders_Since", Edits: []Edit{{workflowLock, "\tfor _, h := range r {\n\t\tif h.Execution != execution && !h.Shared", "\tfor _, h := range r {\n\t\tif h.Execution == execution {\n\t\t\tothers = nil\n\t\t}\n\t\tif h.Execution != execution && !h.Shared"}}},
	{Name: "who is forgotten has never taken the lock", Test: "shared/workflow:TestRecentHolders_Since", Edits: []Edit{{workflowLock, "return others, len(r) < MaxRecentHolders || r[0].Token <= token", "return others, true"}}},
}
