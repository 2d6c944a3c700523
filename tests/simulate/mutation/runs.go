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
	{"a cancel is accepted during a rollback", []Edit{
		{rows, "slices.Concat(executionBeforeRunning, []ExecutionState{ExecutionRunning, ExecutionWaiting})...),\n", "slices.Concat(executionBeforeRunning, []ExecutionState{ExecutionRunning, ExecutionWaiting, ExecutionRollback})...),\n"},
		{rows, "\t\t{On: []Event{EventCancelRequested}, From: names(ExecutionRollback), Verdict: Refuse, Why: \"a rollback is never interrupted: half undone is worse than done or undone\"},\n", ""}}},
	{"waves in the order of execution", []Edit{{undo, "\t\td.wave(left[0])\n", "\t\td.wave(left[len(left)-1])\n"}}},
	{"a wave that fails is passed over", []Edit{{undo, "\tcase failed != nil:\n", "\tcase false:\n"}, {undo, "\tif d.Config().RollbackContinue {\n", "\tif true {\n"}}},
	{"what cannot be undone is rolled back", []Edit{{shut, "\t\tcase !r.Reversible:\n", "\t\tcase false:\n"}}},
	{"what is not known is rolled back", []Edit{{shut, "case r.Tally.Unknown > 0 && !r.UndoHarmless:", "case false:"}}},
	{"tolerance is one less", []Edit{{spec, "\treturn failed <= t.Count\n", "\treturn failed < t.Count || failed == 0\n"}}},
	{"the alarm is not set again", []Edit{{draft, "\tcase d.X.DueAt.IsZero(), d.Wake.Before(d.X.DueAt), d.Rang:\n\t\td.X.DueAt, d.Changed = d.Wake, true\n", "\tcase d.X.DueAt.IsZero(), d.Wake.Before(d.X.DueAt):\n\t\td.X.DueAt, d.Changed = d.Wake, true\n\tcase d.Rang:\n\t\td.X.DueAt, d.Changed = time.Time{}, true\n"}}},
	{"half of the alarms ring", []Edit{{sweeper, "do(ctx, i/shards, i%shards)", "do(ctx, i/shards, i%shards/2)"}}},
	{"a reload keeps plans", []Edit{{work, "\tw.facts.Plans = nil\n", ""}, {work, "\tw.planner.Forget()\n", ""}}},
	{"all commits have one id", []Edit{{look, "next.Commit, next.Engine = w.e.Nonce(), w.e.version", "next.Commit, next.Engine = \"c\", w.e.version"}}},
	{"paged events are not stored", []Edit{{history, "\t\tif err := b.Store.SaveEvents(ctx, b.Tenant, b.Execution, next.Events[:eventsPage]); err != nil {\n\t\t\treturn err\n\t\t}\n", ""}}},
	{"a request that is bound starts another run", []Edit{
		{start, "\t\t\tw.id, w.Execution, existed = got.Execution, got.Execution, true\n", ""},
		{start, "\t\t\tw.id, w.Execution, existed = bound, bound, true\n", ""}}},
	{"a parent is not told of its child's end", []Edit{{look, "\tlooks := w.tellParent(from, next)\n", "\tlooks := w.tellParent(from, next)[:0]\n"}}},
	{"nobody is told that a stretch has ended at once", []Edit{{stretch, "\t\tended = true\n", ""}}},
	{"lanes of a stretch do not wait for the stage before", []Edit{{stretch, "\t\t\tif err != nil || !over {\n\t\t\t\treturn ended, err\n", "\t\t\tif err != nil || !over && r.RunSeq < 0 {\n\t\t\t\treturn ended, err\n"}}},
	{"a step begins while another is open", []Edit{{running, "\tcase f.Complete && !intolerable && f.Tally.NotExecuted == 0:\n", "\tcase !intolerable && f.Tally.NotExecuted == 0 && r.Jobs > 2:\n\t\tfallthrough\n\tcase f.Complete && !intolerable && f.Tally.NotExecuted == 0:\n"}}},
	{"a run fails without closing what is open", []Edit{{running, "\td.Move(sm.EventExecutionFailed, sm.ExecutionError, \"\", data)\n\td.StopAll()\n}\n\n// failVisit", "\td.Move(sm.EventExecutionFailed, sm.ExecutionError, \"\", data)\n\tfor _, o := range d.Open() {\n\t\td.Exit(o, sm.StepCancelled)\n\t}\n}\n\n// failVisit"}}},
	{"who waits for a change is not told", []Edit{{applying, "w.tell(ctx, \"watchers\", looks)", "w.tell(ctx, \"watchers\", looks[:0])"}}},
}
