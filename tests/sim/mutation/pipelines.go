package mutation

// pipelines are mistakes about the lanes of a pipeline after one of its step runs was closed. Few
// scenarios have such a pipeline and need every lane of it. A test detects each.
var pipelines = []Mutation{
	{Name: "a lane that another handler has closed goes on", Test: "shared/engine/dispatch:TestAdvanceLane_LeavesClosedLanes", Edits: []Edit{{"shared/engine/dispatch/advance_lane.go", "case l.closed():", "case l.closed() && false:"}}},
	{Name: "a lane that is closed while it is skipped goes on", Test: "shared/engine/dispatch:TestAdvanceLane_LeavesClosedLanes", Edits: []Edit{{"shared/engine/dispatch/advance_lane.go", "err != nil || l.closed() {", "err != nil || l.closed() && false {"}}},
	{Name: "a pipeline is closed from its beginning", Test: "shared/lifecycle:TestDecide_ClosesPipelinesFromTheirEnd", Edits: []Edit{{"shared/lifecycle/close.go", "range slices.Backward(open)", "range slices.All(open)"}}},
	{Name: "a pipeline waits for its timer beside a step run that was closed", Test: "shared/engine:TestPipeline_GoesOnWithoutAStepThatCannotBePlanned", Edits: []Edit{{"shared/lifecycle/route.go", "		d.decision.DispatchSeq = r.Seq // nobody reports", "		d.decision.DispatchSeq = 0 // nobody reports"}}},
	{Name: "a lane ends at a step run that was closed", Test: "shared/engine:TestPipeline_GoesOnWithoutAStepThatCannotBePlanned", Edits: []Edit{{pipeline, "r.Seq < from.Seq || wasClosed(r)", "r.Seq < from.Seq"}}},
	{Name: "who resumes a pipeline sends what the window does not allow", Test: "shared/engine:TestPipeline_GoesOnWithoutAStepThatCannotBePlanned", Edits: []Edit{{pipeline, "		if allowed(lane) && !done[lane] {", "		if allowed(lane) || !done[lane] {"}}},
	{Name: "lanes that were closed make room in the window of a pipeline", Test: "shared/engine:TestPipeline_TimerKeepsToTheWindowBesideAClosedStep", Edits: []Edit{{pipeline, "		if !s.Open() {\n			continue\n		}\n		if all =", "		if all ="}, {pipeline, "		if !r.Closing {\n			return over, true, nil", "		if r.Seq > 0 {\n			return over, true, nil"}}},
	{Name: "lanes that are being closed make room in the window of a pipeline", Test: "shared/engine:TestPipeline_TimerKeepsToTheWindowBesideAClosingStep", Edits: []Edit{{pipeline, "		if !r.Closing {\n			return over, true, nil", "		if r.Seq > 0 {\n			return over, true, nil"}}},
	{Name: "a lane whose end another has recorded stays where it is", Test: "shared/engine:TestPipeline_ResumesALaneThatWasLeft", Edits: []Edit{{pipeline, "!at.Recorded && !(resume && at.Over)", "!at.Recorded && (!resume || at.Over || !at.Over)"}}},
}
