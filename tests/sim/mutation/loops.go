package mutation

// The files of loops.
const (
	lifecycleLoop = "shared/lifecycle/loop.go"
	plannerLoop   = "shared/engine/planner/loop.go"
)

// loops are mistakes about steps that are executed several times.
var loops = []Mutation{
	{Name: "a loop executes one item less", Edits: []Edit{{lifecycleLoop, "more := c.Times < c.Items", "more := c.Times+1 < c.Items"}}},
	{Name: "the steps of an inner loop read the item of the outer one", Test: "shared/engine:TestLoop_ExecutesItsStepsForEachItem", Edits: []Edit{{plannerLoop, "values[name] == nil && r.StepIndex", "r.StepIndex"}, {plannerLoop, "(innermost || name != spec.ItemName)", "true"}}},
	{Name: "a loop never reaches its maximum", Test: "shared/engine:TestLoop_Limits", Edits: []Edit{{lifecycleLoop, "n.Loop.Max == 0 || c.Times < n.Loop.Max", "true"}}},
	{Name: "BREAK ends nothing", Test: "shared/engine:TestLoop_BreakEndsIt", Edits: []Edit{{lifecycleLoop, "	if d.node(r).OnEntities() {", "	if r.In >= 0 {"}}},
	{Name: "who answers BREAK repeats the step", Test: "shared/engine:TestBreak_OfEntities", Edits: []Edit{{"shared/engine/planner/expr_scope.go", "maps.DeleteFunc(s.request.Previous, func(key workflow.EntityKey, _ bool) bool { return got.broke[key] })", ""}}},
	{Name: "BREAK in one of several lanes takes nobody out of a step around", Test: "shared/engine:TestBreak_OfEntities", Edits: []Edit{{"shared/engine/planner/broke.go", "if rep.Breaks = anyBreaks(packs); !rep.Breaks {", "if rep.Breaks = anyBreaks(packs) && r.Seq < 0; !rep.Breaks {"}}},
	{Name: "a step repeats although all have left it", Test: "shared/engine:TestBreak_OfEntities", Edits: []Edit{{"shared/engine/planner/expr_scope.go", "case all && s.request.Previous != nil:", "case all && s.request.Previous != nil && r.Seq < 0:"}}},
	{Name: "BREAK of a step that repeats ends the loop around it", Test: "shared/engine:TestBreak_EndsRepetitions", Edits: []Edit{{lifecycleLoop, "if d.node(r).Repeat != nil {", "if d.node(r).Repeat != nil && r.Seq < 0 {"}}},
	{Name: "a retry asks who has left a repetition", Test: "shared/engine:TestBreak_HoldsInARetry", Edits: []Edit{{"shared/engine/planner/expr_scope.go", "maps.DeleteFunc(keptBefore, func(key workflow.EntityKey, _ int) bool { return got.broke[key] })", ""}}},
	{Name: "BREAK ends the step around a step only", Test: "shared/lifecycle:TestDecide_Scripts", Edits: []Edit{{lifecycleLoop, "case c.StepIndex != around:", "case c.StepIndex < around:"}}},
	{Name: "a retry begins a loop anew", Test: "shared/engine:TestLoop_RetryTwice", Edits: []Edit{{retryBegin, "\t\treturn first.StepIndex, first\n", "\t\treturn d.outermostLoop(p, first.StepIndex), nil\n"}}},
	{Name: "who was done in one time of a loop is done in all", Test: "shared/engine:TestLoop_RetryKeepsWhoWasDone", Edits: []Edit{{retryBegin, "\tat.loop, at.time = x.RoundOf(r)\n", "\t_, _ = x.RoundOf(r)\n"}}},
	{Name: "a loop that is continued evaluates its list again", Test: "shared/engine:TestLoop_RetryGoesOnWithTheTimeThatFailed", Edits: []Edit{{lifecycleLoop, "r.Continues, r.Times = d.resumedTime(at)", "_, r.Times = d.resumedTime(at)"}}},
	{Name: "items may be read outside their loop", Test: "shared/definition:TestParse_ListsAllIssues", Edits: []Edit{{"shared/definition/program/loop.go", "case slices.Contains(c.items, name) && !known:", "case false:"}}},
}
