package mutation

// further are mistakes in loops with a condition, waits for a moment and for a condition, steps
// that require others, blocks that choose the next step, the forms of input, and unanswered
// questions.
var further = []Mutation{
	{Name: "a loop is executed once whatever its condition says", Edits: []Edit{{lifecycleLoop, "more = a.More\n", "more = a.More || c.Times == 0\n"}}},
	{Name: "a loop with a condition ends well at its maximum", Edits: []Edit{{lifecycleLoop, "case n.Loop.OnMax == spec.OnMaxStop:", "case n.Loop.OnMax == spec.OnMaxStop || n.Loop.While != \"\":"}}},
	{Name: "a loop goes on after a block has answered BREAK", Edits: []Edit{{lifecycleLoop, "\t\tcase d.node(c).Loop != nil:\n\t\t\td.endLoop(c)\n", "\t\tcase d.node(c).Loop != nil:\n\t\t\td.endRound(c)\n"}}},
	{Name: "a condition is taken for true at its deadline", Edits: []Edit{{lifecycleWait, "\t\tif f.Ready {\n", "\t\tif f.Ready || !d.now.Before(r.Wait.Until) {\n"}}},
	{Name: "a step waits a minute less than until its moment", Edits: []Edit{{lifecycleWait, "earlier(plan.Until, r.Wait.Until)", "earlier(plan.Until.Add(-time.Minute), r.Wait.Until)"}}},
	{Name: "a step that was handled meets what requires it", Edits: []Edit{{"shared/definition/flow.go", `"steps.%s.status == \"COMPLETED\""`, `"steps.%s.status != \"FAILED\""`}}},
	{Name: "a block that names no step goes on behind its own", Edits: []Edit{{"shared/engine/planner/planner.go", "rep.Goto == nil {\n\t\t\trep.Cause", "rep.Goto == nil && rep.Next == \"\" {\n\t\t\trep.Cause"}}},
	{Name: "the step that a block names is forgotten", Edits: []Edit{{"shared/lifecycle/report.go", "\t\tcase f.Goto != nil:\n", "\t\tcase f.Goto != nil && f.Breaks:\n"}}},
	{Name: "static input is evaluated", Edits: []Edit{{"shared/definition/flow.go", "s.RawParameters = in.static", "s.Parameters = in.static"}}},
	{Name: "a question is asked of others too early", Edits: []Edit{{answerFile, "for w.Level < len(ask.Escalate) && !d.now.Before(", "for w.Level < len(ask.Escalate) && !d.now.Add(20*time.Second).Before("}}},
	{Name: "a question is asked again whenever its execution is looked at", Edits: []Edit{{answerFile, "	if w.Reminded > r.Wait.Reminded {\n", "	if w.Reminded > 0 {\n"}}},
	{Name: "an escalation starts an execution each time that it is tried", Edits: []Edit{{"shared/engine/fetch_escalated.go", "workflow.DerivedID(r.EnteredAt,", "workflow.DerivedID(w.e.now(),"}}},
	{Name: "a question is answered only by whom it was asked first", Edits: []Edit{{"shared/engine/answer.go", "!q.At(r.Wait.Level).Allows(", "!q.At(0).Allows("}}},
	{Name: "a step that a retry has opened, and that handles a failure then, is where it began", Test: "shared/engine:TestFlow_RetryKeepsVariablesOfStepsThatItOpened", Edits: []Edit{{retryBegin, "if !again || r.Status == sm.StepSkipped {", "if !again || r.Status == sm.StepSkipped || r.Failure != nil {"}}},
}

// stalls are mistakes in how executions end whose wake-ups fail for long.
var stalls = []Mutation{
	{Name: "an execution is broken after half of its time", Edits: []Edit{{"shared/engine/failures.go", "now.Sub(streak.Since) < limit ||", "now.Sub(streak.Since) < limit/2 ||"}}},
}

// refusals are mistakes about refused definitions.
var refusals = []Mutation{
	{Name: "embedded branches may change the same entities", Edits: []Edit{{lifecycleResolution, "return cmp.Or(r.Problem, sharedLockProblem(r), branchProblem(r), rolloutProblem(r))", "return cmp.Or(r.Problem, sharedLockProblem(r), rolloutProblem(r))"}}},
}
