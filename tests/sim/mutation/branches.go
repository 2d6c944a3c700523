package mutation

const lifecycleThread = "shared/lifecycle/thread.go"

// branches are mistakes about concurrent branches.
var branches = []Mutation{
	{Name: "a step that has run out of time fails with what failed before", Test: "shared/engine:TestParallel_RunsOutOfTimeAfterAFailure", Edits: []Edit{{"shared/lifecycle/thread.go", "if f.Failure != nil {\n\t\t\tcause, why", "if f.Failure != nil && false {\n\t\t\tcause, why"}}},
	{Name: "updates of branches are written in the order of time", Test: "shared/engine:TestParallel_UpdatesInTheOrderOfTheDefinition", Edits: []Edit{{"shared/engine/planner/updates.go", "cmp.Or(p.compareBranches(x, a, b), a.Seq-b.Seq)", "a.Seq - b.Seq"}, {"shared/engine/planner/updates.go", "	\"cmp\"\n", ""}}},
	{Name: "a branch sees what another has done", Test: "shared/engine:TestParallel_Nested", Edits: []Edit{{"shared/engine/planner/expr_scope.go", "\tif p.compareBranches(x, r, o) != 0 {\n\t\treturn false // before", "\tif p.compareBranches(x, r, o) != 0 {\n\t\treturn true // before"}}},
	{Name: "a timer moves before all branches were looked at", Test: "shared/engine:TestParallel_JobsAreOfferedAgainAfterAnOutage", Edits: []Edit{{"shared/lifecycle/decider.go", "return d.timerFired && lookedAtAll ||", "return d.timerFired && (lookedAtAll || true) ||"}}},
	{Name: "branches that hang are not closed", Test: "shared/engine:TestParallel_HungBranchIsClosed", Edits: []Edit{{lifecycleThread, "d.node(f).Parallel != nil && d.stepTimedOut(f) && !d.isOver(f) {", "d.node(f).Parallel != nil && d.stepTimedOut(f) && f.Try < 0 && !d.isOver(f) {"}}},
	{Name: "a step goes on while a branch that was closed still works", Test: "shared/engine:TestParallel_BranchFails", Edits: []Edit{{lifecycleThread, "return !slices.ContainsFunc(d.execution.Threads, func(t workflow.Thread) bool { return t.In == f.Seq && !t.Done })", "return f.Closing || !slices.ContainsFunc(d.execution.Threads, func(t workflow.Thread) bool { return t.In == f.Seq && !t.Done })"}}},
	{Name: "a branch that fails does not close the others", Test: "shared/engine:TestParallel_BranchFails", Edits: []Edit{{lifecycleThread, "\tif why == nil || f.Closing || d.mayContinue(f) {\n\t\treturn\n\t}\n", "\treturn\n"}}},
	{Name: "branches that were closed with one around them are merged", Test: "shared/engine:TestParallelWait_ClosedBranchesAreNotMerged", Edits: []Edit{{lifecycleThread, "d.isClosedAround(around) {", "d.isClosedAround(around) && f.Try < 0 {"}}},
	{Name: "what branches have started is not closed with them", Test: "shared/engine:TestParallelChildren_StepTimeout", Edits: []Edit{{lifecycleThread, "if d.isIn(r, f) && !r.Closing {", "if d.isIn(r, f) && !r.Closing && r.Child == nil {"}}},
	{Name: "a child whose branch was closed fails its branch", Test: "shared/lifecycle:TestDecide_Scripts", Edits: []Edit{{lifecycleChild, "case why == nil && d.branchCloses():", "case why == nil && d.branchCloses() && r.LetGo:"}}},
	{Name: "the first child of branches to be read is the only one that a cancel reaches", Test: "shared/lifecycle:TestDecide_Scripts", Edits: []Edit{{"shared/lifecycle/close.go", "d.decision.Need != nil {\n\t\t\t\treturn false", "d.decision.Need != nil || !ended {\n\t\t\t\treturn false"}}},
	{Name: "a delay of a branch begins again whenever it is looked at", Test: "shared/engine:TestParallelDelay_HoldsUpItsBranch", Edits: []Edit{{lifecycleThread, "	if t.Delay == nil {\n", "	if t.Delay == nil || d.isDelayed(t) || !d.now.Before(t.Delay.Until) {\n"}}},
	{Name: "who failed in branches whose failure is handled has failed", Test: "shared/engine:TestParallel_HandledFailureInLateBranches", Edits: []Edit{{"shared/lifecycle/route.go", "\tif route != nil && d.node(r).Parallel != nil {", "\tif false {"}}},
	{Name: "a branch in doubt is tolerated", Test: "shared/engine:TestParallel_DoubtIsNotTolerated", Edits: []Edit{{lifecycleThread, " && !d.branchInDoubt(f)", ""}}},
	{Name: "one branch that ends well is enough", Edits: []Edit{{lifecycleThread, "len(p.Branches)-failed >= max(1, p.Minimum)", "len(p.Branches)-failed >= 1"}}},
	{Name: "branches see nothing of what was set before", Edits: []Edit{{"shared/engine/planner/expr_scope.go", "	if p.compareBranches(x, r, o) != 0 {\n", "	if p.compareBranches(x, r, o) != 0 || r.In > 0 && o.In == 0 {\n"}}},
	{Name: "a branch whose last step has ended in time times out", Test: "shared/engine:TestParallelWait_BranchWhoseLastStepEndedInTime", Edits: []Edit{{lifecycleThread, "\t\tif d.driveThread(late) {", "\t\tif false {"}}},
	{Name: "branches that are late enter their next step", Edits: []Edit{{lifecycleThread, " || late != nil && !f.Closing && !d.isAtEnd(f) {", " {"}}},
	{Name: "a retry executes branches again that ended well", Test: "shared/engine:TestKeptBranches_AreNotExecutedAgain", Edits: []Edit{{"shared/lifecycle/kept_branches.go", "slices.Contains(f.EndedWell, i) && !again[i]", "f.Try < 0 && slices.Contains(f.EndedWell, i) && !again[i]"}}},
	{Name: "a retry keeps a branch of which something was undone", Test: "shared/engine:TestKeptBranches_AndRollback", Edits: []Edit{{"shared/lifecycle/kept_branches.go", " || d.wasUndone(r, since, workflow.Counts.Executed)", ""}}},
	{Name: "a retry keeps all branches although all ended well", Test: "shared/engine:TestKeptBranches_AllAreExecutedAgain", Edits: []Edit{{"shared/lifecycle/kept_branches.go", "len(kept.Index) == 0 || len(kept.Index) == len(n.Parallel.Branches)", "len(kept.Index) == 0"}}},
	{Name: "a branch that is kept is not on the path", Test: "shared/engine:TestKeptBranches_AreNotExecutedAgain", Edits: []Edit{{retryBegin, "if x.KeptIn(o, r) {", "if x.KeptIn(o, r) && r.Try < 0 {"}}},
	{Name: "a branch that is kept gives nothing", Test: "shared/engine:TestKeptBranches_AreNotExecutedAgain", Edits: []Edit{{"shared/engine/planner/join.go", "in != f.Seq {", "in != f.Seq && f.Try < 0 {"}}},
	{Name: "branches that are executed again see those that are kept", Test: "shared/engine:TestKeptBranches_AreNotExecutedAgain", Edits: []Edit{{"shared/engine/planner/values.go", "return a.SupersededBy > 0 && a.SupersededBy <= b.Try &&", "return a.Try < 0 && a.SupersededBy > 0 && a.SupersededBy <= b.Try &&"}}},
}
