package mutation

// answers are mistakes in what the service and the command say about executions. A test detects
// each.
var answers = []Mutation{
	{Name: "a list fails at an execution of a newer version", Test: "shared/sim:TestWorld_PortConformance", Edits: []Edit{{simStore, "\t\t\t\t\tnewer = append(newer, id)\n", "\t\t\t\t\treturn empty{}, err\n"}}},
	{Name: "an execution of a newer version is left out of a list without a word", Test: "shared/engine/query:TestService_ListsSkipNewerVersions", Edits: []Edit{{"shared/engine/query/list.go", "\t\tlist.Skipped = append(list.Skipped, batch.skipped...)\n", ""}}},
	{Name: "a page names what only the next one leaves out", Test: "shared/engine/query:TestService_ListsSkipNewerVersions", Edits: []Edit{{"shared/engine/query/list.go", "return order.Before(last, id)", "return id == last"}}},
	{Name: "a lock of an execution of a newer version seems free", Test: "shared/engine/query:TestService_ListsSkipNewerVersions", Edits: []Edit{{"shared/engine/query/locks.go", "\tif len(newer) > 0 {\n", "\tif len(newer) > len(named) {\n"}}},
	{Name: "what a page of locks has listed last is listed again", Test: "shared/engine/query:TestService_LocksAreListedOnce", Edits: []Edit{{"shared/engine/query/locks.go", "executionID, math.MaxInt32)", "executionID, 0*math.MaxInt32)"}}},
	{Name: "a probe is started although its plan fails", Test: "cmd/lockstep:TestPlan_Probe", Edits: []Edit{{"cmd/lockstep/plan.go", "\tif err == nil && p.Fails {\n", "\tif false {\n"}}},
	{Name: "a plan with a probe starts the execution itself", Test: "cmd/lockstep:TestPlan_Probe", Edits: []Edit{{"cmd/lockstep/plan.go", "\t\t\t\treq.Mode = views.ModeProbe\n", "\t\t\t\treq.Mode = \"\"\n"}}},
	{Name: "a cancellation does not say that changes are left", Test: "cmd/lockstep/render:TestDescribeExecution_StatesOutcomeFirst", Edits: []Edit{{"cmd/lockstep/render/describe.go", "x.State == sm.ExecutionCancelled || x.Acknowledged != nil {", "x.State == sm.ExecutionCancelled && x.Acknowledged != nil {"}}},
	{Name: "progress goes back when the next step begins", Test: "cmd/lockstep/render:TestProgressBar_NeverGoesBack", Edits: []Edit{{"cmd/lockstep/render/progress.go", "\tif x.Try == b.try {\n", "\tif x.Try < b.try {\n"}}},
	{Name: "an old version of a block is shown as the newest", Test: "cmd/lockstep:TestBlocks_ShowsOne", Edits: []Edit{{"cmd/lockstep/blocks.go", "ref.Newest(slices.Collect(maps.Keys(versions)))", "slices.Min(append(slices.Collect(maps.Keys(versions)), \"~\"))"}}},
}
