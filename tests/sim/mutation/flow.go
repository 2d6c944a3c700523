package mutation

// flow are mistakes in the steps that set variables, choose a case, handle failures and jump.
var flow = []Mutation{
	{Name: "a step that handles a failure is for the entities too", Test: "shared/engine:TestOutcome_EntityWithoutWorkIsSkipped", Edits: []Edit{{"shared/workflow/spec/program.go", "\t\tfor at >= 0 && !handles[p.Nodes[at].Group] {\n", "\t\tfor at >= 0 {\n"}}},
	{Name: "who failed in a branch is left out where a step around it handles the failure", Test: "shared/engine:TestParallel_OuterStepHandlesTheFailureOfABranch", Edits: []Edit{{"shared/lifecycle/route.go", "if route != nil && d.node(r).Parallel != nil {", "if route != nil && n.Parallel != nil {"}}},
	{Name: "the next of a step is forgotten", Edits: []Edit{{"shared/lifecycle/running.go", "cmp.Or(n.Goto, n.AfterGoto); to != nil {", "cmp.Or(n.Goto, n.AfterGoto); to != nil && n.Goto == nil {"}}},
	{Name: "a variable keeps what was set first", Edits: []Edit{{"shared/engine/planner/values.go", "!replacedBy(replaced, path) {", "len(replaced) >= 0 {"}, {"shared/engine/planner/values.go", "range slices.Backward(writes) {", "range writes {"}}},
	{Name: "the first case of a switch is taken where any is", Edits: []Edit{{"shared/engine/planner/values.go", "		planned.Route, planned.CaseErrors = expressions.Route(at, false)\n", "		planned.Route, planned.CaseErrors = expressions.Route(at, false)\n		planned.Route = min(planned.Route, 1)\n"}}},
	{Name: "the first case of onFailure handles what any handles", Edits: []Edit{{"shared/engine/planner/values.go", "	number, caseErrors := expressions.Route(n.StepIndex, true)\n", "	number, caseErrors := expressions.Route(n.StepIndex, true)\n	number = min(number, 1)\n"}}},
	{Name: "a step that is entered again does not see what it has left before", Test: "shared/engine:TestFlow_ErrorIsWhatWasHandledLast", Edits: []Edit{{"shared/engine/planner/expr_scope.go", "p.wasEnteredIn(x, r, o) {\n\t\treturn false", "p.Program.Encloses(o.StepIndex, r.StepIndex) {\n\t\treturn false"}}},
	{Name: "the next of a case of onFailure is forgotten after its steps", Test: "shared/engine:TestFlow_GoesOnAfterAFailure", Edits: []Edit{{"shared/lifecycle/running.go", "cmp.Or(n.Goto, n.AfterGoto)", "cmp.Or(n.Goto, nil)"}}},
	{Name: "steps that handle a failure stand before those of the embedded definition", Test: "shared/engine:TestFlow_RetryKeepsWhatAnEmbeddedDefinitionDid", Edits: []Edit{
		{"shared/engine/definitions/program.go", "	if s.Reference != nil {\n		if problem", "	if false {\n		if problem"},
		{"shared/engine/definitions/program.go", "ways(s.OnFailure, \"onFailure\", first)\n", "ways(s.OnFailure, \"onFailure\", first)\n	if s.Reference != nil {\n		return b.addReference(s, node)\n	}\n"},
	}},
	{Name: "every execution says whether it is held", Test: "shared/dynamo/codec:TestOldDefinitions_StoreNothingNew", Edits: []Edit{{"shared/workflow/execution.go", "`json:\"hold,omitempty\"`", "`json:\"hold\"`"}}},
	{Name: "an older release is given definitions that it cannot read", Test: "shared/dynamo:TestOlderRelease_LeavesNewDefinitions", Edits: []Edit{{"shared/dynamo/registry.go", "d.Schema > 1 {", "d.Schema < 0 {"}}},
	{Name: "a plan that comes out differently is acted on", Test: "shared/engine:TestPlan_MadeAgainIsChecked", Edits: []Edit{{"shared/engine/planner/planner.go", "len(planned.Jobs) == committed.Jobs {", "committed.Jobs > 0 {"}}},
	{Name: "branches inside branches are not counted", Test: "shared/engine:TestParallel_RefusesTooManyBranches", Edits: []Edit{{"shared/workflow/spec/program.go", "			inside[i] += b\n", "			inside[i] = max(inside[i], b)\n"}}},
	{Name: "a retry that begins in a switch takes another case", Test: "shared/engine:TestFlow_RetryBeginsInAHandler", Edits: []Edit{{"shared/workflow/spec/reach.go", "			number = i + 1\n", "			number = min(i+1, 1)\n"}}},
	{Name: "a plan that is made again sees what was set since", Edits: []Edit{{"shared/workflow/step.go", "return o.Forward() && o.Seq < r.Seq &&", "return o.Forward() && o.Seq != r.Seq &&"}}},
	{Name: "a plan that is made again sees what later tries have left", Test: "shared/engine:TestPlans_AtRandomAreTheSameAgain", Edits: []Edit{{"shared/engine/planner/expr_scope.go", "got, err := p.effectiveOutcome(ctx, x, r.Try, o)\n\t\tif err != nil {\n\t\t\treturn nil, err\n\t\t}\n\t\tswitch {", "got, err := p.effectiveOutcome(ctx, x, x.Try, o)\n\t\tif err != nil {\n\t\t\treturn nil, err\n\t\t}\n\t\tswitch {"}}},
	{Name: "a plan that is made again does without what a later try repeats", Test: "shared/engine:TestPlans_AtRandomAreTheSameAgain", Edits: []Edit{{"shared/workflow/step.go", "(o.SupersededBy == 0 || r.Try < o.SupersededBy)", "o.SupersededBy == 0"}}},

	// People and senders of signals.
	{Name: "a signal that a step has taken stays in the mailbox", Edits: []Edit{{"shared/lifecycle/mailbox.go", "	d.decision.Consumed = append(d.decision.Consumed, s.ID)\n", ""}}},
	{Name: "a rejection leads to where a deadline does", Edits: []Edit{{answerFile, "to := d.node(r).OnReject; to != nil", "to := d.node(r).OnTimeout; to != nil"}}},
	{Name: "one of several people is enough", Edits: []Edit{{answerFile, "approvals < r.Wait.Need {", "approvals < 1 {"}}},
	{Name: "a question is answered by whatever fits another", Edits: []Edit{{"shared/engine/answer.go", "	if f.Problem = checkAnswer(q, w.answer.input); f.Problem != nil {\n", "	if f.Problem = nil; f.Problem != nil {\n"}}},
}

// waysShown are mistakes in showing where an execution went and may go.
var waysShown = []Mutation{
	{Name: "a plan takes variables that are not set yet for missing", Test: "shared/engine/query:TestPlan_VariablesCannotBeTold", Edits: []Edit{{"shared/engine/definitions/foresee.go", "		return len(variables) == 0 ||", "		return len(variables) >= 0 ||"}}},
	{Name: "a plan takes a choice for certain", Test: "shared/engine/query:TestPlan_TellsWhatAChoiceDecides", Edits: []Edit{{"shared/workflow/spec/reach.go", "		case walk(p.withoutBetween(edges, i), 0, i, false)[end]:\n", "		case i < 0:\n"}}},
	{Name: "a step that was left from within shows its own next", Test: "shared/engine/query:TestSteps_ShowWhereTheExecutionWent", Edits: []Edit{{"shared/engine/query/ways.go", "if isRepeated(x, r) || leftFromWithin(x, r, p) {", "if isRepeated(x, r) {"}}},
	{Name: "large values fill one page of steps", Test: "shared/engine/query:TestSteps_ShowLargeValues", Edits: []Edit{{"shared/engine/query/steps.go", "len(list.Items) > 0 && bytes > maxPageBytes {", "len(list.Items) > 0 && bytes < 0 {"}}},
	{Name: "publishing takes what a case leads to for unreachable", Test: "shared/catalog:TestCatalog_PublishWarnings", Edits: []Edit{{"shared/catalog/warnings_flow.go", "goesOn = goesOn || f.targets[s.Label]; goesOn {", "goesOn {"}}},
}
