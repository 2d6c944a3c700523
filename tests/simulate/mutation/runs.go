package mutation

// The files of what a run does besides.
const (
	running  = "shared/lifecycle/visits/running.go"
	shut     = "shared/lifecycle/visits/closing.go"
	undo     = "shared/lifecycle/visits/rollback.go"
	draft    = "shared/lifecycle/draft/draft.go"
	work     = "shared/engine/work.go"
	child    = "shared/engine/child.go"
	start    = "shared/engine/start.go"
	sweeper  = "shared/engine/sweep/sweep.go"
	history  = "shared/engine/beside/history.go"
	stretch  = "shared/engine/planner/stretch.go"
	rows     = "statemachines/execution.go"
	spec     = "shared/workflow/spec/definition.go"
	applying = "shared/engine/apply.go"
)

var runs = []Mutation{
	{Name: "a cancel is accepted during a rollback", Edits: []Edit{
		{rows, "slices.Concat(executionBeforeRunning, []ExecutionState{ExecutionRunning, ExecutionWaiting})...),\n", "slices.Concat(executionBeforeRunning, []ExecutionState{ExecutionRunning, ExecutionWaiting, ExecutionRollback})...),\n"},
		{rows, "\t\t{On: []Event{EventCancelRequested}, From: names(ExecutionRollback), Verdict: Refuse, Why: \"a rollback is never interrupted: half undone is worse than done or undone\"},\n", ""}}},
	{Name: "waves in the order of execution", Edits: []Edit{{undo, "\t\td.wave(left[0])\n", "\t\td.wave(left[len(left)-1])\n"}}},
	{Name: "a wave that fails is passed over", Edits: []Edit{{undo, "\tcase failed != nil:\n", "\tcase false:\n"}, {undo, "\tif d.Config().RollbackContinue {\n", "\tif true {\n"}}},
	{Name: "what cannot be undone is rolled back", Edits: []Edit{{shut, "\t\tcase !r.Reversible:\n", "\t\tcase false:\n"}}},
	{Name: "what is not known is rolled back", Edits: []Edit{{shut, "case r.Tally.Unknown > 0 && !r.UndoHarmless:", "case false:"}}},
	{Name: "tolerance is one less", Edits: []Edit{{spec, "\treturn failed <= t.Count\n", "\treturn failed < t.Count || failed == 0\n"}}},
	{Name: "the alarm is not set again", Edits: []Edit{{draft, "\tcase d.X.DueAt.IsZero(), d.Wake.Before(d.X.DueAt), d.Rang:\n\t\td.X.DueAt, d.Changed = d.Wake, true\n", "\tcase d.X.DueAt.IsZero(), d.Wake.Before(d.X.DueAt):\n\t\td.X.DueAt, d.Changed = d.Wake, true\n\tcase d.Rang:\n\t\td.X.DueAt, d.Changed = time.Time{}, true\n"}}},
	{Name: "half of the alarms ring", Edits: []Edit{{sweeper, "do(ctx, i/shards, i%shards)", "do(ctx, i/shards, i%shards/2)"}}},
	{Name: "a reload keeps plans", Judge: "shared/engine:TestPlanIsNotKeptAcrossEpochs", Edits: []Edit{{work, "\tw.facts.Plans = nil\n", ""}, {work, "\tw.planner.Forget()\n", ""}}},
	{Name: "all commits have one id", Edits: []Edit{{look, "workflow.SchemaVersion, w.e.Nonce(), w.e.version", "workflow.SchemaVersion, \"c\", w.e.version"}}},
	{Name: "paged events are not stored", Edits: []Edit{{history, "\t\tif err := b.Store.SaveEvents(ctx, b.Tenant, b.Execution, next.Events[:eventsPage]); err != nil {\n\t\t\treturn err\n\t\t}\n", ""}}},
	{Name: "a request that is bound starts another run", Edits: []Edit{
		{start, "\t\t\tw.id, w.Execution, existed = got.Execution, got.Execution, true\n", ""},
		{start, "\t\t\tw.id, w.Execution, existed = bound, bound, true\n", ""}}},
	{Name: "a parent is not told of its child's end", Edits: []Edit{{look, "\tlooks := w.tellParent(from, next)\n", "\tlooks := w.tellParent(from, next)[:0]\n"}}},
	{Name: "nobody is told that a stretch has ended at once", Judge: "shared/engine:TestN22NobodyTakesPart", Edits: []Edit{{stretch, "\t\tended = true\n", ""}}},
	{Name: "lanes of a stretch do not wait for the stage before", Edits: []Edit{{stretch, "\t\t\tif err != nil || !over {\n\t\t\t\treturn ended, err\n", "\t\t\tif err != nil || !over && r.RunSeq < 0 {\n\t\t\t\treturn ended, err\n"}}},
	{Name: "a step begins while another is open", Edits: []Edit{{running, "\tcase f.Complete && !intolerable && f.Tally.NotExecuted == 0:\n", "\tcase !intolerable && f.Tally.NotExecuted == 0 && r.Jobs > 2:\n\t\tfallthrough\n\tcase f.Complete && !intolerable && f.Tally.NotExecuted == 0:\n"}}},
	{Name: "a run fails without closing what is open", Edits: []Edit{{running, "\td.Move(sm.EventExecutionFailed, sm.ExecutionError, \"\", data)\n\td.StopAll()\n}\n\n// failVisit", "\td.Move(sm.EventExecutionFailed, sm.ExecutionError, \"\", data)\n\tfor _, o := range d.Open() {\n\t\td.Exit(o, sm.StepCancelled)\n\t}\n}\n\n// failVisit"}}},
	{Name: "who waits for a change is not told", Judge: "shared/engine:TestN07AnotherRunOpensIt", Edits: []Edit{{applying, "w.tell(ctx, \"watchers\", looks)", "w.tell(ctx, \"watchers\", looks[:0])"}}},
}
