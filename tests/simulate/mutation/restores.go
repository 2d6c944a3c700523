package mutation

// The files of what is done after the tables were restored.
const (
	restored = "shared/lifecycle/restored.go"
	raising  = "shared/engine/locking/raise.go"
)

var restores = []Mutation{
	{Name: "tokens are given out again after a restore", Edits: []Edit{{acquire, "item.Rev < a.Floor {", "false {"}}},
	{Name: "a run from before a restore goes on", Edits: []Edit{{restored, "\tif sm.Terminal(x.State) {\n\t\treturn false, nil // it", "\tif true {\n\t\treturn false, nil // it"}}},
	{Name: "a retry after a restore keeps tokens from before", Edits: []Edit{{restored, "x.RunSeq+beyond, 0\n", "x.RunSeq+beyond, x.Scope.HeldEpoch\n"}}},
	{Name: "a retry after a restore names jobs as before", Edits: []Edit{{restored, "x.RunSeq+beyond, 0\n", "x.RunSeq, 0\n"}}},
	{Name: "messages from before a restore are worked on", Edits: []Edit{{rules, "m.Work.Floor < r.Floor()", "m.Work.Floor < 0"}}},
	{Name: "a lock from before a restore counts as the run's own", Judge: "shared/engine/locking:TestNothingFromBeforeARestoreIsOnesOwn", Edits: []Edit{{raising, "\tif r.verdict == conflict {", "\tif r.verdict == conflict || r.verdict == mine {"}}},
}
