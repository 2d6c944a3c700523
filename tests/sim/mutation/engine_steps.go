package mutation

const engineStepFile, scheduleStepFile = "shared/engine/engine_step.go", "shared/engine/schedule_step.go"

// engineSteps are mistakes in what the engine does itself for a step, and in step mode.
var engineSteps = []Mutation{
	{Name: "a row that is tried again is another row", Edits: []Edit{{engineStepFile, "RowID(w.id, r.Seq, 0, 0)", "RowID(w.id, r.Seq, 0, int(w.e.now().UnixMilli()%100))"}}},
	{Name: "a step whose row could not be stored has ended well", Edits: []Edit{{engineStepFile, "		rep.Complete = false\n", "		rep.Counts.OK = 1\n"}}},
	{Name: "the time of a row is when it was stored", Edits: []Edit{{engineStepFile, "At: r.EnteredAt, Execution", "At: w.e.now(), Execution"}}},
	{Name: "everybody may change the schedule that another execution has made", Edits: []Edit{{scheduleStepFile, "s.MadeBy.Execution != w.id && !step.Replace", "s.MadeBy.Execution == \"\" && !step.Replace"}}},
	{Name: "a step that is tried again changes its schedule again", Edits: []Edit{{scheduleStepFile, "case s.Made(by), step.Remove && !on:", "case step.Remove && !on:"}}},
	{Name: "a schedule that a step has removed is still due", Edits: []Edit{{scheduleStepFile, "if s.NextAt = (time.Time{}); step.Remove {", "if _ = (time.Time{}); step.Remove {"}}},
	{Name: "a path leaves nothing of an object that was set as a whole", Test: "shared/engine:TestFlow_PathOfAnObjectSetAsAWhole", Edits: []Edit{{"shared/engine/planner/values.go", "				inner[field] = raw\n", "				_ = inner[field]\n				_ = raw\n"}}},
	{Name: "a step that has started nothing has ended well", Edits: []Edit{{"shared/lifecycle/child.go", "	if r.Child.Mode == workflow.ModeFireAndForget && r.Counts.OK > 0 { //", "	if r.Child.Mode == workflow.ModeFireAndForget { //"}}},
	{Name: "an answer lets all steps in that follow", Edits: []Edit{{"shared/lifecycle/stepping.go", "		x.NextSeq = x.StepRunSeq + 1\n		return true\n", "		return true\n"}}},
}
