package mutation

// The files of what is done after the tables were restored.
const (
	lifecycleRestore = "shared/lifecycle/restore.go"
	lockTake         = "shared/engine/locking/take.go"
)

var restores = []Mutation{
	{Name: "tokens are issued again after a restore", Edits: []Edit{{acquire, "item.Revision < a.MinFencingToken {", "false {"}}},
	{Name: "an execution from before a restore continues", Edits: []Edit{{lifecycleRestore, "\tif sm.Terminal(x.State) {\n\t\treturn false, nil // it", "\tif true {\n\t\treturn false, nil // it"}}},
	{Name: "a retry after a restore keeps tokens from before", Edits: []Edit{{lifecycleRestore, `x.StepRunSeq+restoreGap, 0
`, `x.StepRunSeq+restoreGap, x.Scope.HeldEpoch
`}}},
	{Name: "a retry after a restore reuses job IDs", Edits: []Edit{{lifecycleRestore, `x.StepRunSeq+restoreGap, 0
`, `x.StepRunSeq, 0
`}}},
	{Name: "messages from before a restore are processed", Edits: []Edit{{workerHandle, "m.Work.MinFencingToken < w.opts.MinFencingToken()", "m.Work.MinFencingToken < 0"}}},
	{Name: "a lock from before a restore counts as the execution's own", Test: "shared/engine/locking:TestLocker_LocksFromBeforeRestoreAreNotOwn", Edits: []Edit{{lockTake, "\tif r.status == lockConflict {", "\tif r.status == lockConflict || r.status == lockHeld {"}}},
}
