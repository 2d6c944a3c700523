package mutation

// regions are mistakes about the regions of executions, about what is shown of executions that wait
// for a worker, and about rows that are retried.
var regions = []Mutation{
	{Name: "jobs leave the region of their execution", Test: "shared/engine:TestRegion_GetsAllJobs", Edits: []Edit{{"shared/lifecycle/plan.go", "return topology.PoolInRegion(b.Pool, d.execution.Region)", "return topology.PoolInRegion(b.Pool, \"\")"}}},
	{Name: "a compensation leaves the region of its execution", Test: "shared/engine:TestRegion_GetsAllJobs", Edits: []Edit{{"shared/lifecycle/plan.go", "Pool: d.poolOf(c), Idempotent", "Pool: c.Pool, Idempotent"}}},
	{Name: "entities are looked for outside the region", Test: "shared/engine:TestRegion_GetsAllJobs", Edits: []Edit{{"shared/lifecycle/discovery.go", "Pool: d.poolOf(b), Pure", "Pool: b.Pool, Pure"}}},
	{Name: "the region of the definition comes before that of the start", Test: "shared/engine:TestRegion_GetsAllJobs", Edits: []Edit{{"shared/engine/fetch_resolution.go", "cmp.Or(w.execution.Region, program.Config.Region)", "cmp.Or(program.Config.Region, w.execution.Region)"}}},
	{Name: "the region of the definition is forgotten", Test: "shared/engine:TestRegion_GetsAllJobs", Edits: []Edit{{"shared/lifecycle/resolution.go", "maps.Clone(r.Workflows), d.config().Region", "maps.Clone(r.Workflows), d.execution.Region"}}},
	{Name: "a rerun leaves the region", Test: "shared/engine:TestRegion_GetsAllJobs", Edits: []Edit{{"shared/engine/rerun.go", ", Region: old.execution.Region", ""}}},
	{Name: "a child does not inherit the region", Test: "shared/engine:TestRegion_IsInheritedByChildren", Edits: []Edit{{"shared/engine/fetch_child.go", "cmp.Or(w.program.Nodes[r.StepIndex].Reference.Region, w.execution.Region)", "cmp.Or(w.program.Nodes[r.StepIndex].Reference.Region, \"\")"}}},
	{Name: "a step cannot say the region of its child", Test: "shared/engine:TestRegion_IsInheritedByChildren", Edits: []Edit{{"shared/engine/fetch_child.go", "cmp.Or(w.program.Nodes[r.StepIndex].Reference.Region, w.execution.Region)", "cmp.Or(w.execution.Region, \"\")"}}},
	{Name: "what an overdue question starts leaves the region", Test: "shared/engine:TestRegion_IsInheritedByChildren", Edits: []Edit{{"shared/engine/fetch_escalated.go", ", Region: w.execution.Region", ""}}},
	{Name: "any text is a region", Test: "shared/engine:TestRegion_HasAName", Edits: []Edit{{"shared/engine/validate_start.go", "req.Region != \"\" && !topology.ValidRegion(req.Region)", "len(req.Region) > 1000"}}},
	{Name: "a region names the dead letters of a pool", Test: "shared/engine:TestRegion_HasAName", Edits: []Edit{{"shared/topology/topology.go", "regionRE.MatchString(name) && !NamesDeadLetters(name)", "regionRE.MatchString(name)"}}},
	{Name: "a pool has the queue of a region", Test: "shared/definition:TestValidateBlock_PoolIsOneThatCanBeDeployed", Edits: []Edit{{"shared/topology/topology.go", " && !strings.Contains(name, regionInQueueName)", ""}}},
	{Name: "a worker gets the packs of no region", Test: "tests/httpapi:TestPoll_GetsPacksOfItsRegion", Edits: []Edit{{"shared/workerapi/poll.go", "pool = topology.PoolInRegion(pool, region)", "pool = topology.PoolInRegion(pool, \"\")"}}},
	{Name: "a worker process receives from the queue of no region", Test: "shared/boot/workerhost:TestQueueURL_IsThatOfTheRegion", Edits: []Edit{{"shared/boot/workerhost/workerhost.go", "topology.PoolInRegion(poolName, p.Config.Worker.Region)", "topology.PoolInRegion(poolName, \"\")"}}},
	{Name: "dead letters of regions are not redriven", Test: "shared/deadletter:TestService_RedrivesRegions", Edits: []Edit{{"shared/deadletter/service.go", "for _, region := range s.Regions {", "for _, region := range s.Regions[:0] {"}}},
	{Name: "the API does not know the regions of its pools", Test: "infra:TestWorkerPool_OfRegion", Edits: []Edit{{"infra/pools.go", "region != \"\" && !slices.Contains(e.regions, region)", "region != \"\" && slices.Contains(e.regions, region)"}}},
	{Name: "jobs that wait for a region are not counted", Test: "shared/engine:TestRegion_ListsShowUnclaimedJobs", Edits: []Edit{{"shared/engine/query/worker_waits.go", "waits[i] = v.listedWorkerWaiting(ctx, executions[i])", "_ = v.listedWorkerWaiting(ctx, executions[i])"}}},
	{Name: "an execution ends unclaimed before it says that it may", Test: "shared/engine:TestRegion_ListsShowUnclaimedJobs", Edits: []Edit{{"shared/engine/dispatch/redispatch.go", "return later(overdue, r.OfferedAt).Add(l.RedispatchInterval)", "return later(overdue, r.OfferedAt).Add(30 * l.RedispatchInterval)"}}},
	{Name: "rows that are tried again in parts are not remembered", Test: "shared/engine:TestPipe_RetryNow", Edits: []Edit{{"shared/engine/pipes.go", ", Again: d.Rows.Again}", "}"}}},
	{Name: "rows that are stored are tried again", Test: "shared/engine:TestPipe_RetryNow", Edits: []Edit{{"shared/engine/retry_rows.go", "ok && !a.Delivered &&", "ok &&"}}},
}
