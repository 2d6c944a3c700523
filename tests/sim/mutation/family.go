package mutation

// The files of families.
const (
	lifecycleParent = "shared/lifecycle/parent.go"
	lifecycleChild  = "shared/lifecycle/child.go"
	fetchesChild    = "shared/engine/fetch_child.go"

	lifecycleChildren = "shared/lifecycle/children.go"
	fetchesChildren   = "shared/engine/fetch_children.go"
)

// family are mistakes about executions that start others and wait for them, most of them from
// docs/models/family.pml.
var family = []Mutation{
	{Name: "a child does not ask its parent before it begins", Test: "shared/engine:TestFamily_ChildOfALateHandlerDoesNotBegin", Edits: []Edit{{lifecycleCheckIn, "if asksParent(d.execution) {", "if asksParent(d.execution) && d.execution.Try > 1 {"}}},
	{Name: "a child asks its parent only before it begins", Test: "shared/engine:TestFamily_CancelReachesTheChildFirst", Edits: []Edit{{lifecycleParent, "if !x.Awaited() || MustCheckIn(x) ||", "if x.Try > 0 || MustCheckIn(x) ||"}}},
	{Name: "the timer of a child does not look at its parent", Test: "shared/lifecycle:TestDecide_Scripts", Edits: []Edit{{lifecycleParent, "!d.timerFired && !d.facts.FromParent", "!d.facts.FromParent"}}},
	{Name: "a child is read before its step is closed", Test: "shared/engine:TestFamily_RetryBeforeTheStepIsClosed", Edits: []Edit{{lifecycleChild, "case c.Over:\n\t\td.closeStepRun(r)", "case c.Over:\n\t\tr.Closing = true\n\t\td.endWithChild(r)"}}},
	{Name: "a step that is closed counts as waiting", Test: "shared/engine:TestFamily_RetryBeforeTheStepIsClosed", Edits: []Edit{{lifecycleParent, "parent.WorksOn(r) && r.Open() && !r.Closing", "parent.WorksOn(r) && r.Open()"}}},
	{Name: "a child is retried although its parent does not wait any more", Test: "shared/engine:TestFamily_NoRetryAfterTheStep", Edits: []Edit{{lifecycleParent, "case p.Status == ParentClosed:", "case p.Status == \"-\":"}}},
	{Name: "a retry of a child begins under its locks", Test: "shared/lifecycle:TestDecide_Scripts", Edits: []Edit{{lifecycleParent, "p.Status == ParentOpen && to == sm.ExecutionRunning", "p.Status == ParentOpen && to == \"-\""}}},
	{Name: "a child whose end has still to settle counts as over", Test: "shared/engine:TestFamily_WaitsUntilTheChildHasSettled", Edits: []Edit{{lifecycleParent, "return sm.Acknowledged(x.State) ||", "return sm.Terminal(x.State) ||"}}},
	{Name: "a child that was let go before it began begins", Test: "shared/lifecycle:TestDecide_Scripts", Edits: []Edit{{lifecycleParent, "p.Status == ParentLetGo && x.State != sm.ExecutionNew:", "p.Status == ParentLetGo:"}}},
	{Name: "a child is not told that its parent does not wait any more", Test: "shared/engine:TestFamily_CancelReachesTheChildFirst", Edits: []Edit{{fetchesChild, "if closed && !over {", "if closed && over {"}}},
	{Name: "a parent that ends does not wait for its child", Test: "shared/engine:TestFamily_CancelReachesTheChildFirst", Edits: []Edit{{lifecycleChild, "if c == nil || !c.Absent && !c.Over {", "if c == nil {"}}},
	{Name: "a child that the definition abandons is cancelled", Test: "shared/engine:TestFamily_LetGo", Edits: []Edit{{lifecycleChild, "return r.Child.Abandon ||", "return r.Child.Abandon && r.LetGo ||"}}},
	{Name: "a child that nobody waits for begins only while its parent is at the step", Test: "shared/engine:TestFamily_FireAndForgetBeginsAfterItsParentsEnd", Edits: []Edit{{lifecycleParent, "!by.Waits && (r.Child.Started || r.Status == sm.StepCompleted):", "!by.Waits && r.Child.Started:"}}},
	{Name: "a child that nobody waits for does not ask before it begins", Test: "shared/engine:TestForgotten_OfALateHandlerDoesNotBegin", Edits: []Edit{{lifecycleCheckIn, "x.Awaited() && undecided(x) || x.Parent != nil && x.State == sm.ExecutionNew", "x.Awaited() && undecided(x)"}}},
	{Name: "a child that nobody waits for asks again when it is tried again", Test: "shared/engine:TestForgotten_IsTriedAgainByItself", Edits: []Edit{{lifecycleCheckIn, "x.Awaited() && undecided(x) || x.Parent != nil && x.State == sm.ExecutionNew", "x.Parent != nil && undecided(x)"}}},
	{Name: "a step ends before the child that it has started has asked", Test: "shared/engine:TestForgotten_TheStarterIsTold", Edits: []Edit{{fetchesChild, "over, absent = c.execution.State != sm.ExecutionNew,", "over, absent = true,"}}},
	{Name: "a step ends before the children that it has started have asked", Test: "shared/engine:TestForgotten_CountsThoseThatBegin", Edits: []Edit{{fetchesChildren, "over, changes = r.Child.Started || x.State != sm.ExecutionNew, false", "over, changes = true, false"}}},
	{Name: "a child that never begins counts as started", Test: "shared/engine:TestForgotten_CountsThoseThatBegin", Edits: []Edit{{fetchesChildren, "x == nil || forgotten && lifecycle.NeverBegins(x)", "x == nil"}}},
	{Name: "the failure of a child that nobody waits for is that of its step", Test: "shared/engine:TestForgotten_FailureOfAStartedOneIsNotItsStarters", Edits: []Edit{{fetchesChildren, "case forgotten:", "case forgotten && x.Error == nil:"}}},
	{Name: "nobody says that a child does not begin", Test: "shared/engine:TestForgotten_TheStarterIsTold", Edits: []Edit{{"shared/engine/effects.go", "!to.Awaited() && !(ended && lifecycle.NeverBegins(to)) ||", "!to.Awaited() ||"}}},
	{Name: "children of a set that has all of them do not begin any more", Test: "shared/engine:TestForgotten_SomeWereRefused", Edits: []Edit{{lifecycleChildren, "child.Started = true", "child.Started = false"}}},
	{Name: "a retry starts once more what was started and nobody waits for", Test: "shared/lifecycle:TestDecide_Scripts", Edits: []Edit{{lifecycleRetry, "r.Kind != workflow.JobExecute && r.Child == nil:", "r.Kind != workflow.JobExecute:"}}},
	{Name: "a child does not tell that it waits for a person", Test: "shared/engine:TestChildInput_ReachesEveryAncestorAndGoesBack", Edits: []Edit{{"shared/engine/effects.go", "!ended && pendingQuestion(from) == pendingQuestion(to)", "!ended"}}},
	{Name: "only a parent says that somebody waits for a person", Test: "shared/engine:TestChildInput_ReachesEveryAncestorAndGoesBack", Edits: []Edit{{lifecycleChild, "workflow.WaitStep, workflow.WaitChildInput}", "workflow.WaitStep}"}}},
	{Name: "a parent does not look again after it has said what its child waits for", Test: "shared/engine:TestChildInput_ALateHandlerLooksAgain", Edits: []Edit{{lifecycleChild, "\t\td.refreshWait()\n\t}\n\td.commitFirst()", "\t\td.refreshWait()\n\t}\n\td.waitUntil(d.now.Add(d.policy.PollInterval))"}}},
	{Name: "children are not listed as they are now", Test: "shared/engine/query:TestChildren_AreListedAsTheyAre", Edits: []Edit{{"shared/engine/query/children.go", "now[child.ID] = child", "now[tenant] = child"}}},
	{Name: "children of all steps are listed for one", Test: "shared/engine/query:TestChildren_AreListedAsTheyAre", Edits: []Edit{{"shared/engine/query/children.go", "step != \"\" && r.Label != step", "step == \"-\""}}},
	{Name: "the tree ends with the children", Test: "cmd/lockstep:TestTree_ShowsEveryGeneration", Edits: []Edit{{"cmd/lockstep/tree.go", "if depth > workflow.MaxDepth {", "if depth > 0 {"}}},
	{Name: "onFailure is passed over when a child takes too long", Test: "shared/engine:TestFamily_StepTimeoutIsHandledAfterTheChild", Edits: []Edit{{lifecycleChild, "case d.stepTimedOut(r) && handled:", "case d.stepTimedOut(r) && handled && r.Seq < 0:"}}},
}

// childSets are mistakes about executions that are started for each item of a list.
var childSets = []Mutation{
	{Name: "failed children are not read before their step is closed", Test: "shared/engine:TestChildren_AFailedOneIsTriedAgain", Edits: []Edit{{lifecycleChildren, "s.Failed > 0 && !s.Checked:", "s.Failed > 0 && s.Refused:"}}},
	{Name: "children are read before their step is closed", Test: "shared/lifecycle:TestDecide_Scripts", Edits: []Edit{{lifecycleChildren, "case full:\n\t\td.closeStepRun(r)", "case full:\n\t\tr.Closing = true\n\t\td.endWithChildren(r)"}}},
	{Name: "a parent that ends does not wait for its children", Test: "shared/engine:TestChildren_Cancel", Edits: []Edit{{lifecycleChildren, "if s == nil || s.Open > 0 && !r.LetGo {", "if s == nil {"}}},
	{Name: "a failure among children that is handled stops the others", Test: "shared/engine:TestChildren_Tolerance", Edits: []Edit{{lifecycleChildren, "!handled && !d.tolerates(r, n, s.Failed, r.Jobs)", "!d.tolerates(r, n, s.Failed, r.Jobs)"}}},
	{Name: "tolerated failures of children leave no trace", Test: "shared/lifecycle:TestDecide_Scripts", Edits: []Edit{{lifecycleChildren, "r.Counts.Failed += s.Open", "r.Counts.OK += s.Open"}}},
	{Name: "the window of children is not kept", Test: "shared/engine:TestChildren_OneForEachItem", Edits: []Edit{{fetchesChildren, "allLanes(r)[:min(r.Jobs, r.Window)]", "allLanes(r)"}}},
	{Name: "the end of a child starts no other", Test: "shared/engine:TestChildren_OneForEachItem", Edits: []Edit{{fetchesChildren, "m.Window > 0 && next < m.Lanes", "m.Window < 0 && next < m.Lanes"}}},
	{Name: "the timer does not note children that are over", Test: "shared/engine:TestChildren_SurviveFaultAtEveryCall", Edits: []Edit{{fetchesChildren, "case lifecycle.IsOver(x):\n\t\t\tfailed := x.State", "case x.Version < 0:\n\t\t\tfailed := x.State"}}},
	{Name: "a parent that is closed does not note the children that never began", Test: "shared/engine:TestChildren_Cancel", Edits: []Edit{{fetchesChildren, "return s, w.addLanes(ctx, r, append(absent, begun...), openLanes)", "return s, nil"}}},
	{Name: "a child of a late handler is started after its step is closed, and begins", Test: "shared/engine:TestChildren_OfALateHandlerDoNotBegin", Edits: []Edit{{lifecycleCheckIn, "if asksParent(d.execution) {", "if asksParent(d.execution) && d.execution.Parent.Member == nil {"}}},
	{Name: "a retry starts a child for each item again", Test: "shared/engine:TestChildren_Retry", Edits: []Edit{{"shared/lifecycle/retry.go", "(r.HasJobs() || r.IsSet()) && n.HasJobForEach()", "r.HasJobs() && n.HasJobForEach()"}}},
	{Name: "a retry keeps the children of another list", Test: "shared/engine:TestChildren_Retry", Edits: []Edit{{"shared/engine/planner/foreach.go", "if !same {\n\t\tclear(kept)", "if !same && !o.IsSet() {\n\t\tclear(kept)"}}},
	{Name: "a child that ends does not say that it asks no more", Test: "shared/engine:TestChildren_AskPeople", Edits: []Edit{{fetchesChildren, "full || asked || failed", "full || failed"}}},
	{Name: "a child that cannot be started is waited for", Test: "shared/engine:TestChildren_Refused", Edits: []Edit{{fetchesChildren, "if refused != nil {\n\t\t\t\treturn nil\n\t\t\t}", "if refused != nil {\n\t\t\t\treturn workflow.Errorf(workflow.CodeUnavailable, \"refused\")\n\t\t\t}"}}},
	{Name: "children of a list are not counted", Test: "shared/engine:TestChildren_Refused", Edits: []Edit{{fetchesChildren, "if slices.Contains(lanes, 0) {", "if slices.Contains(lanes, -1) {"}}},
	{Name: "a page of children begins with its step again", Test: "shared/engine/query:TestChildren_OfASet", Edits: []Edit{{"shared/engine/query/children.go", "t.lane, err = strconv.Atoi(lane)", "_, err = strconv.Atoi(lane)"}}},
	{Name: "a retry starts again what nobody waits for", Test: "shared/engine:TestChildren_RetryStartsForgottenOnesOnce", Edits: []Edit{{"shared/engine/planner/children.go", "|| o.Child.Mode == workflow.ModeFireAndForget {", "|| o.Child.Mode == \"-\" {"}}},
	{Name: "what became of children is lost with outputs that are too large", Test: "shared/engine:TestChildren_TooLargeOutputs", Edits: []Edit{{fetchesChildren, "result.Output = nil //", "result.State = \"-\" //"}}},
	{Name: "the done sets of children stay when the parent is removed", Test: "shared/engine:TestChildren_AreRemovedWithTheirParent", Edits: []Edit{{"shared/engine/fetch_retention.go", "!s.HasJobs() && !s.IsSet()", "!s.HasJobs()"}}},
}

const searchesDeadlock = "shared/engine/locking/deadlock.go"

// deadlocks are mistakes about cycles of executions that wait for locks and for their children.
var deadlocks = []Mutation{
	{Name: "whoever finds a circle of waits ends", Test: "shared/engine/locking:TestDeadlocked_OfSets", Edits: []Edit{{searchesDeadlock, "return slices.DeleteFunc(circle, func(id string) bool { return w.read[id].State != sm.ExecutionScheduled }), nil", "return []string{x.ID}, nil"}}},
	{Name: "an ancestor waits only if it is in WAITING", Test: "shared/engine/locking:TestDeadlocked_PlainWaiting", Edits: []Edit{{"shared/engine/locking/deadlock.go", "parent.WorksOn(r)", "parent.State != sm.ExecutionRunning && parent.WorksOn(r)"}}},
	{Name: "an ancestor whose step is closed counts as waiting", Test: "shared/engine/locking:TestDeadlocked_PlainWaiting", Edits: []Edit{{searchesDeadlock, "r.Open() && !r.Closing && !r.LetGo", "r.Open()"}}},
	{Name: "only the parent of a waiter is searched", Test: "shared/engine/locking:TestDeadlocked_GrandchildWaitsForRoot", Edits: []Edit{{searchesDeadlock, "\t\tx = parent\n\t}", "\t\tbreak\n\t}"}}},
	{Name: "who waits for a lock of its ancestor waits for its siblings to end", Test: "shared/engine:TestChildren_DeadlockWithTheirParent", Edits: []Edit{{searchesDeadlock, "\t\tw.holders = nil\n", ""}}},
	{Name: "a lock that was released closes a circle", Test: "shared/engine/locking:TestDeadlocked_PlainWaiting", Edits: []Edit{{searchesDeadlock, "return by.OwnerStatus().HoldsEntity(lock.Entity, lock.Epoch, lock.Place)", "return true"}}},
	{Name: "the youngest of a circle is not told", Test: "shared/engine:TestChildren_DeadlockOfFamilies", Edits: []Edit{{"shared/engine/fetch_blocker.go", "} else if last >= 0 {", "} else if false {"}}},
	{Name: "who breaks one circle tells nobody who may be in another", Test: "shared/engine:TestChildren_DeadlocksWithACommonPart", Edits: []Edit{{"shared/engine/fetch_blocker.go", "w.deadlocked = true, blocked[max(0, last-maxAlsoDeadlocked):last]", "w.deadlocked = true, nil"}}},
	{Name: "a child that ends beside the closing of its step wakes nobody", Test: "shared/engine:TestChildren_EndsBesideTheClosingOfItsStep", Edits: []Edit{{fetchesChildren, "full && set.Added && len(here) > 0 {", "full && set.Added && len(here) > len(open) {"}}},
}
