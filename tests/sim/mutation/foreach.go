package mutation

// plannerForeach is the file of steps over items.
const plannerForeach = "shared/engine/planner/foreach.go"

// foreach are mistakes about steps that have a job for each item of a list.
var foreach = []Mutation{
	{Name: "a retry keeps the items of another list", Test: "shared/engine:TestForeach_Retry", Edits: []Edit{{plannerForeach, "\tif !same {\n\t\tclear(kept)", "\tif !same && false {\n\t\tclear(kept)"}}},
	{Name: "a retry executes all items again", Test: "shared/engine:TestForeach_Retry", Edits: []Edit{{plannerForeach, "\t\tif standing.ok[key] {\n", "\t\tif standing.ok[key] && false {\n"}}},
	{Name: "a retry keeps items that were undone", Test: "shared/engine:TestForeach_Retry", Edits: []Edit{{plannerForeach, "\t\tif standing.ok[key] {\n", "\t\tif all.ok[key] || standing == nil {\n"}}},
	{Name: "the results of a foreach are those of the last try", Test: "shared/engine:TestForeach_Retry", Edits: []Edit{{plannerForeach, "\tif o.OnlyFailed {\n\t\truns", "\tif false {\n\t\truns"}}},
	{Name: "an item that failed is out of later steps", Test: "shared/engine:TestForeach_ToleratesFailures", Edits: []Edit{{exprScope, "\t\tif ofItems && !o.HasUpdates {\n\t\t\tcontinue\n\t\t}\n", ""}, {exprScope, "\t\tcase ofItems:\n", ""}}},
	{Name: "a doubt about an item is tolerated", Test: "shared/lifecycle:TestDecide_Scripts", Edits: []Edit{{lifecycleReport, "(doubt || !d.tolerates(", "(!d.tolerates("}}},
	{Name: "a block that may be repeated leaves doubts about items", Test: "shared/lifecycle:TestDecide_Scripts", Edits: []Edit{{lifecycleReport, "!inWave || !canBeInDoubt(r):", "!inWave:"}}},
	{Name: "an item that did not answer leaves no doubt", Test: "shared/engine:TestForeach_ToleratesFailures", Edits: []Edit{{"shared/engine/dispatch/report.go", "rep.Doubt = plan.FirstInDoubt(r.Step.Jobs, latest, name)", "rep.Doubt = nil"}}},
	{Name: "items are undone in their order", Test: "shared/engine:TestForeach_Rollback", Edits: []Edit{{"shared/lifecycle/plan/outcome.go", "slices.Reverse(jobs)", "_ = jobs"}}},
	{Name: "a handled failure takes the place of a list", Test: "shared/engine:TestForeach_HandledFailure", Edits: []Edit{{"shared/lifecycle/running.go", "status, c.Failure, c.Value = sm.StepCaseHandled, why, route.Error", "status, c.Failure, c.Value, c.List = sm.StepCaseHandled, why, route.Error, nil"}}},
	{Name: "one item names the next step", Test: "shared/engine:TestForeach_NextIsRefused", Edits: []Edit{{"shared/worker/result.go", "(work.CannotGoTo || onEntity)", "onEntity"}}},
	{Name: "one item ends the loop around it", Test: "shared/engine:TestForeach_BreakDoesNothing", Edits: []Edit{{"shared/engine/planner/planner.go", "rep.Next, rep.Breaks = \"\", false //", "_ = rep //"}}},
	{Name: "an empty list needs no guard", Test: "shared/engine:TestForeach_Lists", Edits: []Edit{{plannerForeach, "\tif !ok {\n\t\treturn entered, nil\n\t}\n\tvar list", "\t_, _ = ok, entered\n\tvar list"}}},
	{Name: "a foreach has any number of items", Test: "shared/engine:TestForeach_Lists", Edits: []Edit{{plannerLoop, "if n.Foreach != nil && len(items) > spec.MaxItems {", "if n.Foreach != nil && len(items) > 10*spec.MaxItems {"}}},
	{Name: "a foreach has as many jobs at a time as it likes", Test: "shared/engine:TestForeach_Rollback", Edits: []Edit{{"shared/workflow/spec/program.go", "n.Foreach != nil && n.Foreach.MaxInFlight > 0 &&", "n == nil &&"}}},
	{Name: "a foreach runs on anything", Test: "shared/definition:TestParse_ListsAllIssues", Edits: []Edit{{"shared/definition/loop.go", "if s.RunOn != \"\" && s.RunOn != workflow.RunOnItem {", "if s.RunOn != \"\" && s.RunOn == workflow.RunOnItem {"}}},
	{Name: "a handler reads the item of a foreach", Test: "shared/definition:TestParse_ListsAllIssues", Edits: []Edit{{"shared/definition/program/compile.go", "\tc.inLoop = -1\n\tif s.Repeat != nil {", "\tif s.Repeat != nil {"}}},
	{Name: "the list that a plan cannot tell has no items", Test: "shared/engine/query:TestPlan_TellsItems", Edits: []Edit{{"shared/engine/definitions/foresee.go", "len(refs.Items.Names) == 0 && told(refs.Items)", "true"}}},
	{Name: "the results of a foreach are mixed with those of another list", Test: "shared/engine/query:TestForeach_IsShown", Edits: []Edit{{"shared/engine/query/result.go", "r.List != nil && !(r.OnlyFailed && r.List.Same(lists[r.Label]))", "false"}}},
}
