package mutation

// The files of the participants of step runs.
const (
	lifecycleRunning = "shared/lifecycle/running.go"
	plannerExprScope = "shared/engine/planner/expr_scope.go"
	plannerOutcome   = "shared/engine/planner/outcome.go"
	stepPlan         = "shared/lifecycle/plan/plan.go"
)

// partaking are mistakes in who takes part in a step, with what, and when. The oracle detects them.
var partaking = []Mutation{
	{Name: "an excluded entity takes part again", Edits: []Edit{{stepPlan, "		case r.Excluded[e.Key]:\n", "		case r.Excluded[e.Key] && r.Previous != nil:\n"}}},
	{Name: "a condition without a value is true", Edits: []Edit{{stepPlan, "} else if err != nil || !ok {", "} else if err == nil && !ok {"}}},
	{Name: "parameters are taken from the entity before updates", Edits: []Edit{{plannerExprScope, "		s.apply(got.requestedUpdates())\n", ""}}},
	{Name: "a lane of a pipeline does not see its own updates", Edits: []Edit{{plannerExprScope, "		s.apply(updates)\n", ""}}},
	{Name: "an older result replaces a newer one", Edits: []Edit{{plannerExprScope, "; !replaced {", "; !replaced || len(all) > 0 {"}}},
	{Name: "the results of released entities are missing", Edits: []Edit{{plannerExprScope, "		scope := x.ScopeOf(r)\n		scope.Only = nil\n", "		scope := x.ScopeOf(r)\n"}}},
	{Name: "an update is written of an undone job", Edits: []Edit{{plannerOutcome, "return undone[u.jobEntity] }", "return false }"}}},
	{Name: "a delay is skipped after a crash", Edits: []Edit{{lifecycleRunning, "	case d.now.Before(w.Until):\n", "	case d.now.Before(w.Until) && d.execution.FailureStreak == nil:\n"}}},
	{Name: "the first repetition of a step waits like the others", Edits: []Edit{{lifecycleRunning, "d.cursor().Iteration > 1 && n.Repeat != nil", "n.Repeat != nil"}}},
	{Name: "a job is tried again without its delay", Edits: []Edit{{followUp, "	at := p.FinishedAt.Add(s.withJitter(pause))\n", "	at := p.FinishedAt.Add(0 * pause)\n"}}},
	{Name: "after a handled failure the steps beside it go on", Edits: []Edit{{"shared/lifecycle/route.go", "	if route == nil {\n		d.proceedFrom(handler)\n", "	if route == nil {\n		d.goToStep(r.StepIndex + 1)\n"}}},
	{Name: "a retry keeps what it did itself in the repetition before", Edits: []Edit{{plannerExprScope, "o.Try < r.Try && p.placeOf(x, o) == p.placeOf(x, r)\n", "p.placeOf(x, o) == p.placeOf(x, r)\n"}, {plannerExprScope, "		case p.sameRepetition(x, r, o, 0):\n", "		case p.sameRepetition(x, r, o, 0), previousRepeat:\n"}}},
	{Name: "an assertion that fails all who are left in a repetition is passed over", Edits: []Edit{{lifecyclePlan, "plan.Jobs == 0 && plan.Unmet == 0 && plan.Problem == nil:", "plan.Jobs == 0 && plan.Problem == nil:"}}},
	{Name: "who keeps a repetition takes no part in the next", Edits: []Edit{{plannerExprScope, "			s.request.Previous[key] = true\n", "			_ = key\n"}}},
	{Name: "a retry keeps what came before a step that an earlier retry executed", Test: "shared/engine:TestRetry_ExecutesAgainWhatFollowsWhatARetryExecuted", Edits: []Edit{{plannerExprScope, "(o.Try == r.Try || o.Try > 1 && o.StepIndex < r.StepIndex)", "o.Try == r.Try"}}},
	{Name: "a retry within a step that repeats repeats it once more", Edits: []Edit{{lifecycleRunning, "iteration = d.repetitionToBegin(outer)\n", "iteration = d.repetitionToBegin(outer) - 1\n"}}},
	{Name: "a pipeline that cannot be planned waits for its timer", Test: "shared/engine:TestPipeline_FailsAtOnceWhereItCannotBePlanned", Edits: []Edit{{"shared/engine/advance.go", "err != nil || d.Idle && w.facts.Reports == nil {", "err != nil || d.Idle {"}}},
	{Name: "what cannot be planned is a failure of the first step of its pipeline", Test: "shared/engine:TestPipeline_FailsInTheStepThatCannotBePlanned", Edits: []Edit{{enginePlanner, "PlanError{StepRunSeq: step.Seq,", "PlanError{StepRunSeq: step.Pipeline,"}}},
	{Name: "that a lane cannot be planned is forgotten by who gives up", Test: "shared/engine:TestPipeline_FailsAlthoughWhoFoundItOutGivesUp", Edits: []Edit{{"shared/engine/advance.go", "workflow.CodeConflict) && w.unplanned != nil", "workflow.CodeConflict) && w.unplanned != nil && false"}}},
	{Name: "that a lane cannot be planned is forgotten when another commits first", Test: "shared/engine:TestPipeline_FailsAlthoughOthersCommitFirst", Edits: []Edit{{"shared/engine/advance.go", "	w.facts.Reports = maps.Clone(w.unplanned)\n", "	w.facts.Reports = nil\n"}}},
	{Name: "a lane does not go on whose step run has ended with a handled failure", Test: "shared/engine:TestPipeline_SendsLaneReportedAfterAdvance", Edits: []Edit{{pipeline, "r.Lanes() == 1 && r.Status != sm.StepCancelled", "r.Lanes() == 1 && r.Status == sm.StepCompleted"}}},
	{Name: "a failure in a later repetition leaves out of an earlier one", Test: "shared/engine:TestRetry_RepeatsWhatWasUndoneInEarlierRepetitions", Edits: []Edit{{"shared/engine/planner/path.go", "\tif at == p.placeOf(x, r) {\n", "\tif at == p.placeOf(x, r) || o.StepIndex <= r.StepIndex {\n"}}},
	{Name: "a retry begins whatever its start waits for", Test: "shared/engine:TestNotBefore_HoldsForARetry", Edits: []Edit{{lifecycleRetry, "&& d.execution.Epoch == 0 {", "&& d.execution.Epoch < 0 {"}}},
	{Name: "an assertion that fails a step has failed its entities too", Test: "shared/engine:TestRetry_NobodyHasFailedWhereAnAssertionFailedTheStep", Edits: []Edit{{lifecyclePlan, "			r.Unmet = 0\n", "			r.Unmet += 0\n"}}},
	{Name: "a check that is due at once waits for the sweep of timers", Test: "shared/engine:TestAdvance_ReadsAgainAtOnceWhatTheTimerHasSeized", Edits: []Edit{{"shared/engine/effects.go", "(timer || due.Sub(w.now) <= lifecycle.NextCheckDelay) {", "timer {"}}},
	{Name: "a retry writes updates under shared locks", Edits: []Edit{{lifecycleUpdates, "	if d.execution.LockMode == workflow.LockShared {\n", "	if d.execution.LockMode == workflow.LockShared && d.execution.Try == 1 {\n"}}},
	{Name: "a child gets the parameters of its parent", Edits: []Edit{{"shared/engine/fetch_child.go", "	input := planner.ChildInput{Parameters: planned.Jobs[0].Parameters}\n", "	input := planner.ChildInput{Parameters: planned.Jobs[0].Parameters}\n	if w.execution.Input.Parameters != nil {\n		input.Parameters = w.execution.Input.Parameters\n	}\n"}}},
}
