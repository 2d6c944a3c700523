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

// beforePipelines are mistakes about what a lane reads of the step runs before its pipeline. Scenarios have few lanes that
// read a part of something. A test detects each.
var beforePipelines = []Mutation{
	{Name: "a lane reads what a try of other entities has done as its own", Test: "shared/engine/planner:TestSendLane_SeesOfEarlierStepsWhatIsReadOfAll", Edits: []Edit{{pipeline, "return r.Try == 1 && runOn", "return runOn"}}},
	{Name: "a lane reads what was done with entities of another type as its own", Test: "shared/engine/planner:TestSendLane_SeesOfEarlierStepsWhatIsReadOfAll", Edits: []Edit{{pipeline, "runOn == p.Program.Node(r.StepIndex).RunOn && (o.Part", "(o.Part"}}},
	{Name: "a lane takes the jobs of some entities for those of all", Test: "shared/engine/planner:TestSendLane_SeesOfEarlierStepsWhatIsReadOfAll", Edits: []Edit{{pipeline, "o.Part != nil || o.Jobs == x.ScopeOf(r).Counts[runOn]", "o.Part != nil || o.Jobs > 0"}}},
	{Name: "a lane does not see who has failed an assertion before its pipeline", Test: "shared/engine/planner:TestSendLane_SeesOfEarlierStepsWhatIsReadOfAll", Edits: []Edit{{pipeline, "Counts[runOn]) && o.Unmet == 0", "Counts[runOn])"}}},
	{Name: "a lane that is to see what others have asked for is planned without them", Test: "shared/engine/planner:TestSendLane_PlansFromItsEntitiesWhatThePlanOfAllHas", Edits: []Edit{{pipeline, "o.Unmet == 0 && !o.HasUpdates\n}", "o.Unmet == 0\n}"}}},
	{Name: "a lane sees only its own of all results", Test: "shared/engine/planner:TestSendLane_SeesOfEarlierStepsWhatIsReadOfAll", Edits: []Edit{{pipeline, "append(all, p.Program.Nodes[own.StepIndex].CrossEntityReads...)", "append(all, p.Program.Nodes[own.StepIndex].CrossEntityReads[:0]...)"}}},
	{Name: "a lane believes that nothing is read where nobody has measured it", Test: "shared/engine/planner:TestSendLane_SeesOfEarlierStepsWhatIsReadOfAll", Edits: []Edit{{pipeline, "own.BytesBefore == 0 || own.BytesBefore > p.MaxResultBytes", "own.BytesBefore > p.MaxResultBytes"}}},
	{Name: "a lane reads too many results as long as its own are few", Test: "shared/engine/planner:TestSendLane_SeesOfEarlierStepsWhatIsReadOfAll", Edits: []Edit{{pipeline, "own.BytesBefore == 0 || own.BytesBefore > p.MaxResultBytes", "own.BytesBefore == 0"}}},
	{Name: "only its own results count towards what a lane may read", Test: "shared/engine/planner:TestSendLane_SeesOfEarlierStepsWhatIsReadOfAll", Edits: []Edit{{exprScope, "if s.ofLane && r.BytesBefore > 0 {", "if s.ofLane && r.BytesBefore < 0 {"}}},
	{Name: "a lane has what another one has read", Test: "shared/engine/planner:TestSendLane_SeesOfEarlierStepsWhatIsReadOfAll", Edits: []Edit{{outcomes, "part := stepRunPart{o.Seq, from}", "part := stepRunPart{o.Seq, 0}"}}},
	{Name: "a lane reads only the first of the packs with its entities", Test: "shared/engine/planner:TestSendLane_SeesOfEarlierStepsWhatIsReadOfAll", Edits: []Edit{{outcomes, "!slices.Contains(lanes, lane) {", "len(lanes) == 0 {"}}},
	{Name: "who took no part in a pipeline has failed in it", Test: "shared/engine/planner:TestSendLane_SeesOfEarlierStepsWhatIsReadOfAll", Edits: []Edit{{outcomes, "if o.Pipeline > 0 { // who", "if o.Pipeline < 0 { // who"}}},
	{Name: "whose pack is lost has not failed", Test: "shared/engine/planner:TestSendLane_SeesOfEarlierStepsWhatIsReadOfAll", Edits: []Edit{{outcomes, "if o.Pipeline > 0 { // who", "if o.Pipeline >= 0 { // who"}}},
	{Name: "a lane reads all results from before its pipeline", Test: "shared/engine:TestCost_LanesThatReadWhatWasBefore", Edits: []Edit{{exprScope, "\t\tgot, err := p.loadPart(ctx, x, r, o, s)\n\t\tif got == nil && err == nil {\n\t\t\tgot, err = p.effectiveOutcome(", "\t\tgot, err := (*outcome)(nil), error(nil)\n\t\tif got == nil && err == nil {\n\t\t\tgot, err = p.effectiveOutcome("}}},
	{Name: "a lane looks for all who failed before its pipeline", Test: "shared/engine:TestCost_LanesThatReadWhatWasBefore", Edits: []Edit{{exprScope, "\t\t\tgot, err := p.loadPart(ctx, x, r, o, s)\n\t\t\tif", "\t\t\tgot, err := (*outcome)(nil), error(nil)\n\t\t\tif"}}},
	{Name: "nobody measures what a pipeline reads", Test: "shared/engine:TestCost_LanesThatReadWhatWasBefore", Edits: []Edit{{lifecyclePlan, "number < len(plan.BytesBefore)", "number < 0"}}},
	{Name: "a lane takes the numbers of its entities for those of the jobs of some", Test: "shared/engine/planner:TestSendLane_SeesOfEarlierStepsWhatIsReadOfAll", Edits: []Edit{{outcomes, "if o.Part != nil {\n\t\t\tif number", "if o.Part != nil && o.Seq < 0 {\n\t\t\tif number"}}},
	{Name: "who had no job in a step has the result of the next one", Test: "shared/engine/planner:TestSendLane_SeesOfEarlierStepsWhatIsReadOfAll", Edits: []Edit{{outcomes, "!o.Part.Contains(e.Place) {", "!o.Part.Contains(e.Place) && o.Seq < 0 {"}}},
	{Name: "nobody notes who has a job in a step before pipelines", Test: "shared/engine:TestCost_LanesThatReadWhatWasBefore", Edits: []Edit{{"shared/engine/planner/broke.go", " < 0 && !p.Program.Config.Parallel ||", " < 0 ||"}}},
}
