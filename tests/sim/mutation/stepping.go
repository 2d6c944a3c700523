package mutation

// stepping are mistakes in executions that are held, stepped through, or taken back.
var stepping = []Mutation{
	{Name: "a held execution begins", Edits: []Edit{{"shared/lifecycle/readiness.go", "	if d.hold() {\n", "	if d.execution.Stepping && d.hold() {\n"}}},
	{Name: "a released execution forgets when it may begin", Test: "shared/engine:TestHold_WaitsUntilResumed", Edits: []Edit{{"shared/lifecycle/readiness.go", "	case d.now.Before(f.NotBefore): // it was held", "	case d.now.Before(w.Since): // it was held"}}},
	{Name: "a repeated request enters one more step", Edits: []Edit{{"shared/lifecycle/stepping.go", "asked && c.Sequence < w.Event || ", "asked && c.Sequence < 0 || "}}},
	{Name: "a rewind enters the step that was let in before", Test: "shared/engine:TestStepMode_DelayAndBack", Edits: []Edit{{"shared/lifecycle/retry.go", "x.OnlyFailed, x.NextSeq, x.RollbackTries = from, 0, onlyFailed, 0, 0", "x.OnlyFailed, x.RollbackTries = from, 0, onlyFailed, 0"}}},
	{Name: "step mode enters a pipeline as one step", Test: "shared/engine:TestStepMode_EntersOneStepAtATime", Edits: []Edit{{"shared/lifecycle/probe.go", "	if d.execution.Stepping {\n", "	if d.execution.Stepping && d.execution.Probe {\n"}}},
	{Name: "a rewind executes again what changes entities", Test: "shared/engine:TestRewind_Refuses", Edits: []Edit{{"shared/lifecycle/stepping.go", "r != nil && !c.Force", "r != nil && r.Pure"}}},
	{Name: "answers to a wait that was left count", Test: "shared/engine:TestRewind_GoesBack", Edits: []Edit{{"shared/lifecycle/stepping.go", "	d.cancelOpenStepRuns()\n", ""}}},
	{Name: "a rewind leaves branches without a word", Test: "shared/engine:TestRewind_LeavesBranches", Edits: []Edit{{"shared/lifecycle/stepping.go", "if t.In == c.Seq && !t.Done {", "if t.In != c.Seq && !t.Done {"}}},
	{Name: "a rewind begins the deadline again", Test: "shared/engine:TestRewind_GoesBack", Edits: []Edit{{"shared/lifecycle/stepping.go", "	x.Deadline = deadline\n", "	_ = deadline\n"}}},
}
