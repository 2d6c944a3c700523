package mutation

// The files of plans.
const (
	enginePreview = "shared/engine/preview.go"
	queryPlan     = "shared/engine/query/plan.go"

	lifecycleProbe = "shared/lifecycle/probe.go"
)

// plans are mistakes in the preview of what an execution would do, and in probes. No scenario of
// the simulation requests one; a test detects each.
var plans = []Mutation{
	{Name: "a plan takes what is locked for free", Test: "shared/engine/query:TestPlan_NamesWhoHoldsWhat", Edits: []Edit{{enginePreview, "\t\tif !blocked {\n", "\t\tif !blocked || len(keys) > 0 {\n"}}},
	{Name: "a plan waits for what blocks acquire", Test: "shared/engine/query:TestPlan_DoesNotCallAcquire", Edits: []Edit{{"shared/engine/fetch_discovery.go", "if !ok && s.foresee {", "if !ok && s.foresee && s.maxEntities == 0 {"}}},
	{Name: "a plan evaluates conditions on results that do not exist", Test: "shared/engine/query:TestPlan_TellsWhatAnExecutionDoes", Edits: []Edit{{"shared/engine/definitions/foresee.go", "\t\tif len(r.Labels) > 0 || len(r.Steps) > 0 || r.AllSteps || named", "\t\tif named"}}},
	{Name: "a plan forgets what earlier steps change", Test: "shared/engine/query:TestPlan_TellsWhatAFailureMeans", Edits: []Edit{{queryPlan, "\t\tb.changes[i] = &change{}\n", ""}}},
	{Name: "the expressions of a plan cost without end", Test: "shared/engine/query:TestPlan_IsBounded", Edits: []Edit{{enginePreview, "\tw.left -= min(w.left, f.Cost())\n", ""}}},
	{Name: "a plan stores something", Test: "shared/engine/query:TestPlan_TellsWhatAnExecutionDoes", Edits: []Edit{{enginePreview, "\tlocks, err := w.ports.Locks.Read(ctx, w.tenant, keys, true)\n", "\t_ = w.ports.Store.SaveInput(ctx, w.tenant, w.id, workflow.Input{})\n\tlocks, err := w.ports.Locks.Read(ctx, w.tenant, keys, true)\n"}}},
	{Name: "a probe enters steps that are not pure", Test: "shared/lifecycle:TestDecide_Scripts", Edits: []Edit{{lifecyclePlan, "if d.execution.Probe && !d.mayProbe(n) {", "if d.execution.Probe && n.StartsChild() {"}}},
	{Name: "a probe locks exclusively", Test: "shared/engine/query:TestNext_TellsWhatAProbeWouldDo", Edits: []Edit{{lifecycleBlocker, "== workflow.LockShared || d.execution.Probe {", "== workflow.LockShared {"}}},
	{Name: "a probe fails where its blocks ask for updates", Test: "shared/engine/query:TestNext_TellsWhatAProbeWouldDo", Edits: []Edit{{"shared/engine/planner/updates.go", "x.LockMode == workflow.LockShared && !x.Probe {", "x.LockMode == workflow.LockShared {"}}},
	{Name: "a probe applies updates", Test: "shared/engine/query:TestNext_TellsWhatAProbeWouldDo", Edits: []Edit{{lifecycleUpdates, "\tif d.execution.Probe {\n\t\treturn false\n\t}\n", ""}}},
	{Name: "the pipeline of a probe goes on to steps that are not pure", Test: "shared/lifecycle:TestDecide_Scripts", Edits: []Edit{{lifecycleProbe, "d.execution.Probe && i < end; i++ {", "d.execution.Probe && i < at; i++ {"}}},
	{Name: "a probe completes with steps around it open", Test: "shared/lifecycle:TestDecide_Scripts", Edits: []Edit{{lifecycleProbe, "\td.leaveContainers()\n", ""}}},
}
