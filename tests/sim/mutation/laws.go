package mutation

// laws are mistakes that break laws which no other mistake breaks, so that each law is known to see
// something.
var laws = []Mutation{
	{Name: "what an end starts is no deeper than what has started it", Edits: []Edit{{"shared/engine/follow_up.go", "Depth: x.Depth() + 1}", "Depth: x.Depth()}"}}},
	{Name: "an execution shows what its first try has started", Edits: []Edit{{"shared/engine/follow_up.go", "id := workflow.FollowUpID(x.ID, x.EndedAt, x.Try)", "id := workflow.FollowUpID(x.ID, x.EndedAt, 1)"}}},
	{Name: "a cancelled execution that was acknowledged holds its locks", Edits: []Edit{{"statemachines/status.go", "{state: ExecutionCancelledAck, status: StatusCancelled, holdsNoLocks: true,", "{state: ExecutionCancelledAck, status: StatusCancelled,"}}},
	{Name: "a worker that takes a pack over counts its token twice", Edits: []Edit{{"shared/worker/claim.go", "	p := *old\n	p.Token++\n	p.Confirmed", "	p := *old\n	p.Token += 2\n	p.Confirmed"}}},
	{Name: "step runs of a step are not counted", Edits: []Edit{{"shared/lifecycle/plan.go", "			r.Ordinal++\n", ""}}},
	{Name: "a request whose answer was lost is refused", Edits: []Edit{{"shared/engine/start.go", "	if err != nil || fresh {\n		return false, err\n	}\n	if got.Digest != digest {\n", "	if err != nil || fresh {\n		return false, err\n	}\n	if got.Execution != want.Execution {\n"}}},
	{Name: "an execution that a restore ends before it runs leaves its steps open", Edits: []Edit{{"shared/lifecycle/restore.go", "		d.cancelOpenStepRuns()\n", ""}}},
	{Name: "an end is recorded as what led to it", Edits: []Edit{{"shared/lifecycle/decider.go", "Type: string(recordedAs), From: string(from), To: string(to), Actor: actor}", "Type: string(on), From: string(from), To: string(to), Actor: actor}"}}},
	{Name: "a retry does not tell which branches it keeps", Edits: []Edit{{"shared/lifecycle/retry.go", "		data[\"kept\"] = d.branchLabels(from, kept.Index)\n", "		_ = d.branchLabels(from, kept.Index)\n"}}},
	{Name: "outcomes that are stored apart are read as none", Edits: []Edit{{"shared/workflow/outcome.go", "const MaxInlineSetBytes = 1 << 10\n", "const MaxInlineSetBytes = 1\n"}, {"shared/engine/payload.go", "	r.Sets = sets\n", "	r.Sets = workflow.OutcomeSets{}\n"}}},
	{Name: "only the first job of a pack is recorded as started", Edits: []Edit{{"shared/worker/claim.go", "case s.m.Work.Repeatable() || s.remote || i == 0:", "case s.remote || i == 0:"}}},
	{Name: "who selects by groups selects all", Edits: []Edit{{"shared/engine/fetch_discovery.go", "(query != nil && s.match(query, e))", "(query == nil || s.match(query, e))"}}},
	{Name: "a command that the state refuses is not valid", Edits: []Edit{{"shared/lifecycle/command.go", "	return &workflow.Error{Code: workflow.CodeIllegalTransition, Message: message}\n", "	return &workflow.Error{Code: workflow.CodeInvalid, Message: message}\n"}}},
}
