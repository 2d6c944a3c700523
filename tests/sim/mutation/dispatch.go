package mutation

// dispatches are mistakes in when packs are sent, sent again and read.
var dispatches = []Mutation{
	{Name: "renewed messages are not sent", Test: "shared/engine:TestEngine_QueueOutlastsItsMessages", Edits: []Edit{{redispatch, "d.redispatchDue(r, l, later(since, r.Step.DispatchedAt), now)", "d.redispatchDue(r, l, since, now)"}}},
	{Name: "a pool that works on another step of the pipeline counts as idle", Test: "shared/engine:TestEngine_PipelineWaitsBehindItsFirstStep", Edits: []Edit{{redispatch, "\tif r.PoolLastSeen == nil {\n", "\tif true {\n"}}},
}
