package mutation

// The files of the outcomes of entities.
const (
	lifecycleOutcome = "shared/lifecycle/outcome.go"
	plannerUpdates   = "shared/engine/planner/updates.go"
)

// telling are the mistakes in telling what became of each entity.
var telling = []Mutation{
	{Name: "an entity that failed is told as succeeded", Edits: []Edit{{lifecycleOutcome, "	case failure == nil && !rules.ExecutionFails && !rules.Unfinished:\n", "	case !rules.ExecutionFails && !rules.Unfinished:\n"}}},
	{Name: "a doubt is forgotten where the failure is handled", Edits: []Edit{{lifecycleOutcome, "(j.inDoubt() || !rules.Handled(j.StepRun))", "!rules.Handled(j.StepRun)"}}},
	{Name: "the undo of failed entities undoes all", Edits: []Edit{{enginePlanner, "		takesPart[e.Key] = only == nil || only.Contains(e.Place)\n", "		takesPart[e.Key] = true\n"}}},
	{Name: "an undo goes on for an entity whose undo has failed", Test: "shared/engine:TestOutcome_UndoStopsAtItsFailure", Edits: []Edit{{enginePlanner, "onlySome && u.Try == r.Try && u.Counts.OK < u.Jobs", "false && onlySome"}}},
	{Name: "an unsafe end releases what is unsafe", Edits: []Edit{{lifecycleOutcome, "		d.keepOnly(o.Unsafe)\n", "		d.keepOnly(workflow.Places{})\n"}}},
	{Name: "the tolerance counts each step alone", Edits: []Edit{{lifecycleReport, "if o.Seq == r.Seq || !d.countsAsFailed(o) {", "if o.Seq > 0 || !d.countsAsFailed(o) {"}}},
	{Name: "updates of failed entities are written", Edits: []Edit{{plannerUpdates, "			if !without[u.jobEntity] {\n", "			if true {\n"}}},
}
