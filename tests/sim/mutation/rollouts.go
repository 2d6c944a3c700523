package mutation

// The files of rollouts.
const (
	lifecycleRollout = "shared/lifecycle/rollout.go"
	plannerRollout   = "shared/engine/planner/rollout.go"
	entityOutcomes   = "shared/engine/planner/entity_outcomes.go"
)

// rollouts are mistakes about steps that are executed wave by wave.
var rollouts = []Mutation{
	{Name: "a wave has all entities", Test: "shared/engine:TestRollout_Waves", Edits: []Edit{{plannerRollout, "at == wave || at < 0 {", "at == wave || true {"}}},
	{Name: "a share is rounded down", Test: "shared/engine:TestRollout_Waves", Edits: []Edit{{"shared/workflow/spec/share.go", "\t\tif !exact {\n", "\t\tif false && !exact {\n"}}},
	{Name: "a percentage is that of the nearest binary fraction", Test: "shared/workflow/spec:TestPercent_IsOfTheDecimalsThatWereWritten", Edits: []Edit{{"shared/workflow/spec/share.go", "\tshare.Mul(", "\tshare.SetFloat64(percent)\n\tshare.Mul("}}},
	{Name: "what the shares leave is in no wave", Test: "shared/engine/planner:TestDivide_ByShare", Edits: []Edit{{plannerRollout, "numbers[e.Place-1] = number[waveOf[i]]", "if waveOf[i]+1 < len(names) {\n\t\t\tnumbers[e.Place-1] = number[waveOf[i]]\n\t\t}"}}},
	{Name: "the order of waves is by name only", Test: "shared/engine:TestRollout_Waves", Edits: []Edit{{plannerRollout, "cmp.Or(place(a)-place(b), cmp.Compare(a, b))", "cmp.Or(0*(place(a)-place(b)), cmp.Compare(a, b))"}}},
	{Name: "a rollout pauses in front of a wave without entities", Test: "shared/engine:TestRollout_RetryGoesOnWithTheWaveThatFailed", Edits: []Edit{{plannerRollout, "at >= n.Index {\n\t\t\tnext = min(next, at)", "at >= 0 {\n\t\t\tnext = n.Index"}}},
	{Name: "the waves are found by the places of another try", Test: "shared/engine:TestRollout_RetryKeepsTheWaves", Edits: []Edit{{plannerRollout, "scope := x.ScopeOf(c)\n\tscope.Only", "scope := x.Scope\n\tscope.Only"}}},
	{Name: "who was in no wave is executed with none", Test: "shared/engine:TestRollout_RetryKeepsTheWaves", Edits: []Edit{{plannerRollout, "return len(w.List) - 1", "return len(w.List)"}}},
	{Name: "failures of other waves count", Test: "shared/engine:TestRollout_ToleratesFailuresInEachWave", Edits: []Edit{{lifecycleReport, "ofWave != nil && d.sameWave(o, r)", "ofWave != nil"}}},
	{Name: "a percentage of a wave is one of the execution", Test: "shared/engine:TestRollout_ToleratesFailuresInEachWave", Edits: []Edit{{lifecycleReport, "tolerance, total = *ofWave, inWave", "tolerance = *ofWave; _ = inWave"}}},
	{Name: "a doubt is tolerated in a wave", Test: "shared/engine:TestRollout_ToleratesNoDoubt", Edits: []Edit{{lifecycleReport, "inWave := d.inWave(r)", "inWave := false"}}},
	{Name: "a job of a wave that did not answer in time leaves no doubt", Test: "shared/engine:TestRollout_DoubtByTimeout", Edits: []Edit{{lifecycleReport, "case d.node(r).OnEntities() && !inWave ||", "case d.node(r).OnEntities() ||"}}},
	{Name: "a doubt behind other failures is not looked for in a wave", Test: "shared/engine:TestRollout_DoubtByTimeout", Edits: []Edit{{report, "rep.Doubt = plan.FirstInDoubt(r.Step.Jobs, latest, name)", "rep.Doubt = plan.FirstInDoubt(min(1, r.Step.Jobs), latest, name)"}}},
	{Name: "a doubt in a wave is handled", Test: "shared/engine:TestRollout_DoubtByTimeout", Edits: []Edit{{lifecycleRollout, "return d.inWave(r) && slices", "return r == nil && slices"}}},
	{Name: "a lost worker in a wave whose job may be repeated is tolerated", Test: "shared/engine:TestRollout_DoubtByLostWorker", Edits: []Edit{{lifecycleReport, "case inWave && f.Counts.Unknown > 0 && !r.Pure:", "case inWave && f.Counts.Unknown > 1<<20:"}}},
	{Name: "a doubt in a pipeline in a wave is handled with the failure of another step", Test: "shared/engine:TestRollout_DoubtByLostWorker", Edits: []Edit{{lifecycleRollout, " || r.Pipeline > 0 && o.Pipeline == r.Pipeline", ""}}},
	{Name: "a wave that has failed is executed to its end", Test: "shared/lifecycle:TestDecide_Scripts", Edits: []Edit{{lifecycleReport, "!r.Closing && d.endsWave(r, doubt)):", "!r.Closing && d.endsWave(r, doubt) && f.Complete):"}}},
	{Name: "what is between two waves is a part of the one before", Test: "shared/engine:TestRollout_IsApproved", Edits: []Edit{{lifecycleRollout, "\t\tc.StoppedAt++ //", "\t\t_ = c //"}}},
	{Name: "a rollout pauses once only", Test: "shared/engine:TestRollout_Pauses", Edits: []Edit{{lifecycleRollout, "r.In == c.LoopSeq() && r.Index == c.Times-1 &&", "r.In == c.LoopSeq() &&"}}},
	{Name: "a rollout stops although what was done cannot be undone", Test: "shared/engine:TestRollout_CannotStopAfterWhatCannotBeUndone", Edits: []Edit{{lifecycleRollout, "return r.Child != nil || !r.Reversible ||", "return r.Child != nil ||"}}},
	{Name: "who succeeded in a wave that failed is left as it is", Test: "shared/engine:TestRollout_StopsAtAWaveThatFails", Edits: []Edit{{entityOutcomes, "rules.Unfinished, rules.OnlyLocked = stopped.leaves(e.Key)", "rules.Unfinished, rules.OnlyLocked = false && stopped.leaves(e.Key)"}}},
	{Name: "jobs without entity in a wave that failed are not undone", Test: "shared/engine:TestRollout_StopsAtAWaveThatFails", Edits: []Edit{{entityOutcomes, "for _, seq := range p.toUndo(x, stopped) {", "for _, seq := range p.toUndo(x, stopped)[:0] {"}}},
	{Name: "a wave that failed is left as failed entities are", Test: "shared/engine:TestRollout_StopsAtAWaveThatFails", Edits: []Edit{{"shared/lifecycle/outcome.go", "case rules.Leave && doubt == nil && !rules.Unfinished:", "case rules.Leave && doubt == nil:"}}},
	{Name: "a retry begins at what was undone for others", Test: "shared/engine:TestRetry_RepeatsNothingOfReleasedEntities", Edits: []Edit{{retryBegin, "return d.facts.KeptJobs == nil ||", "return d.facts.KeptJobs != nil ||"}}},
	{Name: "every wave reads the results of those before", Test: "shared/engine:TestRollout_CostGrowsLinearly", Edits: []Edit{{plannerRollout, "return other == rollout && of != wave", "return other == rollout && of != wave && len(x.ID) == 0"}}},
	{Name: "a step of a wave may lead out of the rollout", Test: "shared/definition:TestParse_ListsAllIssues", Edits: []Edit{{"shared/definition/program/flow.go", "(c.flat[around].Parallel != nil || c.flat[around].Rollout != nil)", "c.flat[around].Parallel != nil"}}},
	{Name: "an embedded rollout may be in a loop", Test: "shared/engine:TestRollout_InAnEmbeddedDefinition", Edits: []Edit{{"shared/lifecycle/resolution.go", ", rolloutProblem(r))", ")"}}},
}
