package mutation

// more are mistakes in what only the definitions of defgen.DrawMore have.
var more = []Mutation{
	{Name: "branches time out when they have hardly begun", Edits: []Edit{{lifecycleThread, "d.node(f).Parallel != nil && d.stepTimedOut(f) {", "d.node(f).Parallel != nil && (d.stepTimedOut(f) || !f.Deadline.IsZero() && !f.Closing && d.now.After(f.EnteredAt)) {"}}},
	{Name: "branches that have not ended in time are left out of the merge without a word", Edits: []Edit{{lifecycleThread, "if t := &d.execution.Threads[k]; t.In == f.Seq && !t.Done {", "if t := &d.execution.Threads[k]; t.In == f.Seq && !t.Done && f.Try < 0 {"}}},
}
