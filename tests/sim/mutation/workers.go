package mutation

// workers are mistakes in what workers save, report and hand back.
var workers = []Mutation{
	{Name: "a takeover forgets what was saved", Test: "shared/worker:TestCheckpoint_IsThereAfterATakeover", Edits: []Edit{{"shared/worker/run_job.go", "\tsaved := s.beginSaving(i)\n", "\ts.pack.Jobs[i].Checkpoints = nil\n\tsaved := s.beginSaving(i)\n"}}},
	{Name: "a pure job goes on unclaimed after it has saved something", Test: "shared/worker:TestCheckpoint_IsThereAfterATakeover", Edits: []Edit{{"shared/worker/checkpoint.go", "\tif unclaimed {\n\t\treturn s.claimForSaving(ctx)\n\t}\n", "\tif unclaimed {\n\t\treturn nil\n\t}\n"}}},
	{Name: "what a lost pure job had saved is not looked for", Test: "shared/worker:TestCheckpoint_IsThereAfterATakeover", Edits: []Edit{{"shared/worker/claim.go", "if !old.HasCheckpoints() {", "if old == nil || old.State == workflow.PackClaimed {"}}},
	{Name: "a worker that has lost its pack saves", Test: "shared/worker:TestCheckpoint_IsThereAfterATakeover", Edits: []Edit{{"shared/worker/checkpoint.go", "\treturn s.renewLease(ctx, noJob)\n}\n\n// noteProgress", "\t_ = s.renewLease(ctx, noJob)\n\treturn nil\n}\n\n// noteProgress"}, {"shared/worker/checkpoint.go", "\tif !s.isRunning(i) {\n\t\ts.mu.Unlock()\n\t\treturn errClaimLost\n\t}\n", ""}}},
	{Name: "a next attempt gets nothing of what was saved", Test: "shared/worker:TestCheckpoint_IsThereInTheNextAttempt", Edits: []Edit{{"shared/worker/follow_up.go", "\tnext.ContinueFrom(p)\n", ""}}},
	{Name: "a next attempt that the engine sends gets nothing of what was saved", Test: "shared/engine:TestCheckpoint_ReachesAttemptsThatTheEngineSends", Edits: []Edit{{"shared/engine/dispatch/advance_lane.go", "\t\t\tm.ContinueFrom(l.packs[n-1])\n", "\t\t\t_ = n\n"}}},
	{Name: "a fresh attempt gets what was saved", Test: "shared/worker:TestCheckpoint_IsThereInTheNextAttempt", Edits: []Edit{{"shared/workflow/checkpoint.go", "return r != nil && r.Fresh", "return r != nil && r.Fresh && false"}}},
	{Name: "a job saves as much as it likes", Test: "shared/worker:TestCheckpoint_IsBounded", Edits: []Edit{{"shared/workflow/checkpoint.go", "n > MaxCheckpointBytes {", "n > 1<<30 {"}}},
	{Name: "the jobs of a pack save as much as they like", Test: "shared/worker:TestCheckpoint_IsBounded", Edits: []Edit{{"shared/workflow/checkpoint.go", "if total > MaxPackCheckpointBytes {", "if total > 1<<30 {"}}},
	{Name: "checkpoints hold secrets", Test: "shared/worker:TestCheckpoint_HoldsNoSecret", Edits: []Edit{{"shared/worker/checkpoint.go", "\t\tmore = s.clean.checkpoints(more)\n", "\t\t_ = more\n"}}},
	{Name: "progress holds secrets", Test: "shared/worker:TestCheckpoint_HoldsNoSecret", Edits: []Edit{{"shared/worker/checkpoint.go", "\t\tmessage = s.clean.text(message)\n", "\t\t_ = message\n"}}},
	{Name: "progress of pure jobs is never stored", Test: "shared/worker:TestProgress_ComesWithTheHeartbeat", Edits: []Edit{{"shared/worker/lease.go", "if s.hasUnsavedProgress() {", "if false && s.hasUnsavedProgress() {"}}},
	{Name: "a job that has succeeded keeps what it had saved", Test: "shared/worker:TestCheckpoint_IsThereAfterATakeover", Edits: []Edit{{"shared/worker/run_job.go", "\tr.Checkpoints, r.Progress = nil, nil\n", ""}}},
	{Name: "what a heartbeat saves is lost", Test: "shared/worker:TestRemoteLease_KeepsCheckpointsOfAHeartbeat", Edits: []Edit{{"shared/worker/checkpoint.go", "\trec.Checkpoints = all\n\tif r.Progress != nil {", "\t_ = all\n\tif r.Progress != nil {"}}},
	{Name: "what a failed block saved with its answer is lost", Test: "shared/worker:TestRemoteLease_KeepsCheckpointsOfAHeartbeat", Edits: []Edit{{"shared/worker/checkpoint.go", "\tp.Jobs[i].Checkpoints = all\n\treturn a\n", "\treturn a\n"}}},
	{Name: "the offer of a poll has nothing of what was saved", Test: "shared/worker:TestRemoteLease_KeepsCheckpointsOfAHeartbeat", Edits: []Edit{{"shared/worker/remote_lease.go", "\t\t\tjob.saved = s.beginSaving(i)\n", ""}}},
	{Name: "a worker that drains is given packs", Test: "tests/httpapi:TestPoll_DrainedWorkerGetsNoPack", Edits: []Edit{{"shared/workerapi/poll.go", "\tif draining {\n", "\tif false && draining {\n"}}},
	{Name: "a worker that drains goes on receiving", Test: "shared/worker:TestPoll_DrainsWhenItIsTold", Edits: []Edit{{"shared/worker/poll.go", "if heartbeat.isDraining() || !heartbeat.mayReceive(ctx) {", "if !heartbeat.mayReceive(ctx) {"}, {"shared/worker/poll.go", "if ctx.Err() != nil || heartbeat.isDraining() {", "if ctx.Err() != nil {"}}},
	{Name: "a heartbeat ends the draining", Test: "shared/engine/workers:TestRegistry_ConcurrentHeartbeatDoesNotEndDraining", Edits: []Edit{{"shared/engine/workers/liveness.go", "if w.State != sm.WorkerDraining {", "if w.State != \"\" {"}}},
	{Name: "a worker that drains no longer reports its packs", Test: "shared/engine/workers:TestRegistry_DrainsUntilItRegistersAgain", Edits: []Edit{{"shared/engine/workers/registry.go", "sm.WorkerDraining, r.now(), held)", "sm.WorkerDraining, r.now(), nil)"}}},
}
