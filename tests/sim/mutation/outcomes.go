package mutation

// The files of the outcomes of entities.
const (
	lifecycleOutcome = "shared/lifecycle/outcome.go"
	plannerUpdates   = "shared/engine/planner/updates.go"
)

// telling are the mistakes in reporting the outcome of each entity.
var telling = []Mutation{
	{Name: "a rollback does not end without the outcomes that are lost", Test: "shared/engine:TestOutcome_MissingSetsDoNotKeepARollbackFromEnding", Edits: []Edit{{"shared/engine/advance.go", "port.Permanent(err) {\n\t\tw.recorder.Warn(ctx, \"outcomes not read\"", "port.Permanent(err) && false {\n\t\tw.recorder.Warn(ctx, \"outcomes not read\""}}},
	{Name: "a retry reads outcomes that it does not need", Test: "shared/engine:TestOutcome_MissingSetsDoNotKeepAnEndFromBeingRetried", Edits: []Edit{{"shared/engine/advance.go", "retry && (kept == nil || kept.Len() == 0)", "false && retry && kept == nil"}}},
	{Name: "a connection that broke leaves no doubt", Edits: []Edit{{"shared/workflow/failure.go", "FailureHTTPTimeout, FailureHTTPUnreachable, FailureBadGateway,", "FailureHTTPTimeout, FailureBadGateway,"}}},
	{Name: "the answer of a gateway leaves no doubt", Test: "shared/engine:TestOutcome_DoubtIsUnsafe", Edits: []Edit{{"shared/workflow/failure.go", "FailureBadGateway, FailureGatewayTimeout, ", ""}}},
	{Name: "an entity that failed is told as succeeded", Edits: []Edit{{lifecycleOutcome, "\tcase failure == nil && !rules.ExecutionFails && !rules.Unfinished:\n", "\tcase !rules.ExecutionFails && !rules.Unfinished:\n"}}},
	{Name: "a later try that comes to its end is unsafe", Edits: []Edit{{lifecycleOutcome, "\td.endCompleted(sm.EventExecutionCompleted)\n", "\tif d.execution.Try > 1 {\n\t\td.end(sm.EventExecutionClassifiedUnsafe, sm.ExecutionFailedUnsafe, nil)\n\t\treturn\n\t}\n\td.endCompleted(sm.EventExecutionCompleted)\n"}}},
	{Name: "a later try that comes to its end tells safe failures as successes", Edits: []Edit{{"shared/engine/planner/entity_outcomes.go", "\t\tif v.Outcome == workflow.EntitySucceeded {\n", "\t\tif v.Outcome == workflow.EntitySucceeded || x.Try > 1 && !executionFails && v.Outcome != workflow.EntityFailedUnsafe {\n"}}},
	{Name: "an entity that was skipped by all steps is told as succeeded", Edits: []Edit{{lifecycleOutcome, " || d.anyEntitySkipped() {", " {"}}},
	{Name: "jobs that were never executed hide that entities were skipped", Test: "shared/engine:TestOutcome_EntityWithoutWorkIsSkipped", Edits: []Edit{{lifecycleOutcome, "executed := r.JobCount() - r.Counts.NotExecuted //", "executed := r.Jobs //"}}},
	{Name: "an entity whose jobs were never executed is told as succeeded", Test: "shared/lifecycle:TestJudgeEntity", Edits: []Edit{{lifecycleOutcome, "func(j EntityJob) bool { return j.Executed || j.failed() }", "func(EntityJob) bool { return true }"}}},
	{Name: "an entity that no step is for is told as skipped", Test: "shared/lifecycle:TestJudgeEntity", Edits: []Edit{{lifecycleOutcome, "case rules.OnlyLocked && !rules.Unfinished:", "case false:"}}},
	{Name: "a doubt is forgotten where the failure is handled", Edits: []Edit{{lifecycleOutcome, "(j.inDoubt() || !rules.Handled(j.StepRun))", "!rules.Handled(j.StepRun)"}}},
	{Name: "the undo of failed entities undoes all", Edits: []Edit{{enginePlanner, "\t\ttakesPart[e.Key] = only == nil || only.Contains(e.Place)\n", "\t\ttakesPart[e.Key] = true\n"}}},
	{Name: "an undo goes on for an entity whose undo has failed", Test: "shared/engine:TestOutcome_UndoStopsAtItsFailure", Edits: []Edit{{enginePlanner, "onlySome && u.Try == r.Try && u.Counts.OK < u.Jobs", "false && onlySome"}}},
	{Name: "an unsafe end releases what is unsafe", Edits: []Edit{{lifecycleOutcome, "!d.keepOnly(o.Unsafe) {", "!d.keepOnly(workflow.Places{}) {"}}},
	{Name: "the tolerance counts each step alone", Edits: []Edit{{lifecycleReport, "if o.Seq == r.Seq || !d.countsAsFailed(o) {", "if o.Seq > 0 || !d.countsAsFailed(o) {"}}},
	{Name: "updates of failed entities are written", Edits: []Edit{{plannerUpdates, "\t\t\tif !without[u.jobEntity] {\n", "\t\t\tif true {\n"}}},
	{Name: "the reason of an entity names only one step", Test: "shared/lifecycle:TestJudgement_Reason", Edits: []Edit{{"shared/lifecycle/outcome.go", "\tif len(others) > 0 {\n", "\tif false {\n"}}},
	{Name: "the reason of an entity is what failed in an earlier try", Test: "shared/lifecycle:TestJudgement_Reason", Edits: []Edit{{"shared/lifecycle/outcome.go", "\t	v.Decisive = failure // it failed there", "\t	_ = failure // it failed there"}}},
	{Name: "a change that a later try has made again is told with the failure of the earlier one", Test: "shared/lifecycle:TestJudgement_Reason", Edits: []Edit{{"shared/lifecycle/outcome.go", "(obstacle == nil || obstacle.settledBy(j) &&", "(obstacle == nil || false && obstacle.settledBy(j) &&"}}},
	{Name: "what was left out is no failure", Test: "shared/engine/query:TestService_FailuresNameWhatWasLeftOut", Edits: []Edit{{"shared/engine/query/failures.go", "done && x.DroppedCount == 0 ||", "done ||"}}},
	{Name: "what was left out has the outcome of the execution", Test: "shared/engine/query:TestService_FailuresNameWhatWasLeftOut", Edits: []Edit{{"shared/engine/query/failures.go", "!known || e.Place == 0 {", "!known {"}}},
	{Name: "what remains is forgotten when some entities are acknowledged", Test: "shared/engine/query:TestService_TellsWhatRemainsAfterSomeWereAcknowledged", Edits: []Edit{{"shared/engine/query/outcome.go", " || e.From == e.To {", " {"}}},
	{Name: "entities whose undo failed are not named", Test: "shared/engine/query:TestService_NamesWhatWasNotUndone", Edits: []Edit{{"shared/engine/query/rollback.go", "n.Step == r.Label {", "n.Step == \"\" {"}}},
	{Name: "an undo that failed in an earlier try hides the last failure", Test: "shared/lifecycle:TestJudgement_Reason", Edits: []Edit{{"shared/lifecycle/outcome.go", " || failure.StepRun.Try > obstacle.UndoTry) {", ") {"}}},
	{Name: "a rollback that was tried again still counts what failed before", Test: "cmd/lockstep:TestStatus_CountsTheRollbackOfTheLastTry", Edits: []Edit{{"cmd/lockstep/run.go", "\t\t\t\tfailed, try = 0, s.Try\n", "\t\t\t\ttry = s.Try\n"}}},
}
