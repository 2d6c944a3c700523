package mutation

const (
	lifecycleWait = "shared/lifecycle/wait.go"
	waitTest      = "shared/engine:TestWait_"
)

// waits are mistakes in steps that wait. A test detects each.
var waits = []Mutation{
	{Name: "a step that waits counts as a step with nested steps", Test: "shared/lifecycle:TestDecide_Scripts", Edits: []Edit{{"shared/lifecycle/decider.go", "r.Child == nil && r.Wait == nil && d.inThread(r) {", "r.Child == nil {"}}},
	{Name: "a deadline counts before the condition", Test: waitTest + "ConditionIsSeenLate", Edits: []Edit{{lifecycleWait, "\t\tif f.Ready {\n", "\t\tif f.Ready && d.now.Before(r.Wait.Until) {\n"}}},
	{Name: "a wait ends before its time", Test: "shared/lifecycle:TestDecide_Scripts", Edits: []Edit{{lifecycleWait, "\tif !d.now.Before(r.Wait.Until) {\n", "\tif !d.now.Add(time.Minute).Before(r.Wait.Until) {\n"}}},
	{Name: "a wait has no timer", Test: waitTest + "TimeComes", Edits: []Edit{{"shared/lifecycle/deadline.go", "\t\tif x.Wait != nil {\n\t\t\tadd(x.Wait.Until)\n\t\t}\n", ""}, {"shared/lifecycle/deadline.go", "\t\t\t\tadd(r.Wait.Until)\n", ""}, {lifecycleWait, "\tcheckAt = r.Wait.Until\n", "\tcheckAt = time.Time{}\n"}}},
	{Name: "the timer of the step before fires in vain during a wait", Test: "shared/engine:TestCost_OfAWait", Edits: []Edit{{"shared/lifecycle/decider.go", ", d.paused && d.execution.State == sm.ExecutionWaiting:", ":"}}},
	{Name: "an execution that waits can be driven by a release without waits", Test: waitTest + "ResumeEndsAWaitForATime", Edits: []Edit{{"shared/workflow/step.go", " || r.Wait != nil\n", "\n"}}},
	{Name: "an execution that ends leaves its waits open", Test: waitTest + "Cancel", Edits: []Edit{{"shared/lifecycle/close.go", "\tfor _, r := range d.waitingStepRuns() {\n\t\td.exitStepRun(r, status)\n\t}\n", ""}}},
	{Name: "the condition of a wait watches no entity", Test: waitTest + "ConditionBecomesTrue", Edits: []Edit{{"shared/engine/fetch_readiness.go", "if ready || watched[key] {", "if ready || watched[key] || w.execution.State == \"WAITING\" || w.execution.State == \"RUNNING\" {"}}},
}
