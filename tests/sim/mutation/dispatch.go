package mutation

// dispatches are mistakes in when packs are sent, sent again and read.
var dispatches = []Mutation{
	{Name: "renewed messages are not sent", Test: "shared/engine:TestEngine_QueueOutlastsItsMessages", Edits: []Edit{{redispatch, "d.redispatchDue(r, l, later(since, r.Step.DispatchedAt), now)", "d.redispatchDue(r, l, since, now)"}}},
	{Name: "a pool that works on another step of the pipeline counts as idle", Test: "shared/engine:TestEngine_PipelineWaitsBehindItsFirstStep", Edits: []Edit{{redispatch, "\tif r.PoolLastSeen == nil {\n", "\tif true {\n"}}},
	{Name: "deadlines wait for the sweep", Test: "shared/engine:TestDeadline_StartsNothingLater", Edits: []Edit{{engineAdvance, "\tw.sendDeadlineWakeup(ctx, from, next)\n", ""}}},
	{Name: "messages outlive the deadline", Test: "shared/engine:TestDeadline_HoldsWithoutEngine", Edits: []Edit{{dispatcher, "\tif !r.Deadline.IsZero() && r.Deadline.Before(at) {\n", "\tif false {\n"}}},
	{Name: "a pack that ends after the deadline wakes nobody", Edits: []Edit{{followUp, "len(set.Done) >= size || expired {", "len(set.Done) >= size {"}}},
}
