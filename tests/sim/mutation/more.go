package mutation

// more are mistakes in what was drawn last: branches with a timeout, BREAK, onResume, and step mode.
var more = []Mutation{
	{Name: "branches time out when they have hardly begun", Edits: []Edit{{lifecycleThread, "d.node(f).Parallel != nil && d.stepTimedOut(f) && !d.isOver(f) {", "d.node(f).Parallel != nil && (d.stepTimedOut(f) || !f.Deadline.IsZero() && !f.Closing && d.now.After(f.EnteredAt)) && !d.isOver(f) {"}}},
	{Name: "branches that have not ended in time are left out of the merge without a word", Edits: []Edit{{lifecycleThread, "if t := &d.execution.Threads[k]; t.In == f.Seq && !t.Done {", "if t := &d.execution.Threads[k]; t.In == f.Seq && !t.Done && f.Try < 0 {"}}},
	{Name: "who has left a repetition takes part in what is in the next one", Edits: []Edit{{"shared/engine/planner/broke.go", "		s.excluded[afterBreaks][key] = true\n", "		s.excluded[afterBreaks][key] = false\n"}}},
	{Name: "repetitions end although somebody goes on who can leave only a part of them", Test: "shared/engine:TestBreak_OfEntities", Edits: []Edit{{"shared/engine/planner/broke.go", "p.isRepetitionAfter(x, r, o, r.StepIndex)", "p.isRepetitionAfter(x, r, o, p.Program.RepeatAround(o.StepIndex))"}}},
	{Name: "an execution goes on behind a step whose block has asked to wait, whatever onResume says", Edits: []Edit{{"shared/lifecycle/wait.go", "r.Wait.Asked && to != nil {\n		d.jump(r.StepIndex, to)\n", "r.Wait.Asked && to != nil {\n		d.continueAfter(r)\n"}}},
	{Name: "who may enter one step enters all", Edits: []Edit{{"shared/lifecycle/stepping.go", "x.NextSeq == x.StepRunSeq+1 {\n", "x.NextSeq > 0 {\n"}}},
	{Name: "a start stores its entities under an id that its key may change", Test: "shared/engine:TestStart_StoresNothingAheadOfItsKey", Edits: []Edit{{"shared/engine/payload.go", "	if w.ahead.reading {\n", "	if w.ahead.reading && w.e == nil {\n"}}},
	{Name: "a step starts any workflow that it evaluates", Test: "shared/engine:TestAmong_StartsOneOfItsList", Edits: []Edit{{"shared/engine/planner/values.go", "		case !slices.Contains(n.Reference.Among, name):", "		case len(n.Reference.Among) == 0:"}}},
	{Name: "who has left stays out where a retry executes the step again", Test: "shared/engine:TestBreak_IsForgottenWhereARetryExecutesItAgain", Edits: []Edit{{"shared/engine/planner/broke.go", "redoes := p.redoes(x, o, leftAt)\n", "redoes := p.redoes(x, o, leftAt) && r.Seq < 0\n"}}},
	{Name: "steps in which no entity takes part are not repeated where one has left a step around", Test: "shared/engine:TestBreak_OfEntities", Edits: []Edit{{"shared/engine/planner/broke.go", "	return all, nil\n}\n", "	return true, nil\n}\n"}}},
	{Name: "a retry for some goes on with repetitions for those who were released", Test: "shared/engine:TestBreak_EndsRepetitionsOfARetryForSome", Edits: []Edit{{"shared/engine/planner/broke.go", "	held, err := p.Entities(ctx, x.ScopeOf(r))\n", "	held, err := p.Entities(ctx, x.ScopeOf(&workflow.StepRun{Try: 1}))\n"}}},
	{Name: "BREAK of a step that does not repeat ends nothing", Edits: []Edit{{lifecycleLoop, "	if around < 0 || p.Nodes[around].Rollout", "	if r.Seq > 0 || around < 0 || p.Nodes[around].Rollout"}}},
}
