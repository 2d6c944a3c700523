package mutation

// retries are mistakes about where a retry begins, and what stands then.
var retries = []Mutation{
	{Name: "what an earlier try did in later repetitions stands where a retry begins", Test: "shared/engine:TestRetry_InNestedRepetitionsForgetsLaterOnes", Edits: []Edit{{lifecycleRetry, "p.Encloses(node, r.StepIndex) && d.execution.RepetitionAround(node, r) > 1", "p.Encloses(node, r.StepIndex) && d.execution.RepetitionAround(node, r) > 9"}}},
}
