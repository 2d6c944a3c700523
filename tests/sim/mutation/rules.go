package mutation

// judged are mistakes in the rules by which the engine judges states, ages and jobs. The invariants
// have their own form of each, in tests/sim/oracle.
var judged = []Mutation{
	{Name: "the younger of two executions counts as the older one", Edits: []Edit{{workflowLock, "func Older(a, b string) bool { return a < b }", "func Older(a, b string) bool { return a > b }"}}},
	{Name: "who waits for its locks reserves nothing", Edits: []Edit{{workflowLock, "	return o.State != \"\" && !statemachines.Acknowledged(o.State)\n", "	return false\n"}}},
	{Name: "who has its locks still reserves them", Edits: []Edit{{workflowLock, "		return !slices.Contains(statemachines.ExecutionStates(), o.State)\n", "		return slices.Contains(statemachines.ExecutionStates(), o.State)\n"}}},
	{Name: "an execution that goes back holds no locks", Edits: []Edit{{status, "{state: ExecutionRollback, status: StatusRunning, stopping: true},", "{state: ExecutionRollback, status: StatusRunning, stopping: true, holdsNoLocks: true},"}}},
	{Name: "an execution that is locking holds no locks", Edits: []Edit{{status, "{state: ExecutionLocking, status: StatusPending, passing: true},", "{state: ExecutionLocking, status: StatusPending, passing: true, holdsNoLocks: true},"}}},
	{Name: "an execution that waits to settle counts as acknowledged", Edits: []Edit{{status, "{state: ExecutionCompleted, status: StatusCompleted, terminal: EventExecutionCompleted},", "{state: ExecutionCompleted, status: StatusCompleted, terminal: EventExecutionCompleted, acknowledged: true},"}}},
	{Name: "an execution that ended unsafely has another end", Test: "tests/sim/oracle:TestStates_AreJudgedAsByTheProduct", Edits: []Edit{{status, "{state: ExecutionFailedUnsafe, status: StatusFailed, terminal: EventExecutionFailedUnsafe},", "{state: ExecutionFailedUnsafe, status: StatusFailed, terminal: EventExecutionFailedSafe},"}}},
	{Name: "a cancelled execution has not ended", Test: "tests/sim/oracle:TestStates_AreJudgedAsByTheProduct", Edits: []Edit{{status, "{state: ExecutionCancelled, status: StatusCancelled, terminal: EventExecutionCancelled},", "{state: ExecutionCancelled, status: StatusCancelled},"}}},
	{Name: "a job whose end nobody knows was not executed", Edits: []Edit{{workflowJob, "c == JobCodeOK || c == JobCodeFail || c == JobCodeUnknown }", "c == JobCodeOK || c == JobCodeFail }"}}},
	{Name: "a job that has failed was not executed", Edits: []Edit{{workflowJob, "c == JobCodeOK || c == JobCodeFail || c == JobCodeUnknown }", "c == JobCodeOK || c == JobCodeUnknown }"}}},
	{Name: "a pack that was cancelled is not final", Edits: []Edit{{"shared/workflow/pack.go", "(p.State == PackFinished || p.State == PackCancelled)", "p.State == PackFinished"}}},
}

// measured are mistakes in encoding items. The seeds that measure items detect them.
var measured = []Mutation{
	{Name: "a pack is stored without its last job", Edits: []Edit{{"shared/dynamo/codec/pack.go", "	for i := range p.Jobs {\n		j := &p.Jobs[i]\n		letter", "	for i := range max(1, len(p.Jobs)) - 1 {\n		j := &p.Jobs[i]\n		letter"}}},
}

const lifecycleRetention = "shared/lifecycle/retention.go"

// retained are mistakes in the deletion of executions after their retention.
var retained = []Mutation{
	{Name: "an execution is removed before its retention is over", Edits: []Edit{
		{lifecycleRetention, "d.idleUntil = d.now.Add(d.policy.Retention)\n", "d.idleUntil = d.now.Add(d.policy.Retention - time.Hour)\n"},
		{lifecycleRetention, "	case d.now.Before(retainUntil):\n", "	case d.now.Before(retainUntil.Add(-time.Hour)):\n"},
	}},
	{Name: "a child is removed while its parent may ask for it", Test: "shared/engine:TestRetention_WaitsForAcknowledgeAndParent", Edits: []Edit{{lifecycleRetention, "case x.Parent != nil && !*d.facts.Unreferenced:", "case x.Parent != nil && !*d.facts.Unreferenced && d.policy.Retention == 0:"}}},
	{Name: "a command reaches an execution that was removed", Edits: []Edit{{lifecycleCommand, "	if !d.execution.DiscardedAt.IsZero() {\n", "	if false {\n"}}},
	{Name: "what belongs to an execution is removed before the execution", Edits: []Edit{{lifecycleRetention, "	default:\n		x.DiscardedAt, d.changed", "	case !d.facts.Discarded:\n		d.need(Need{Kind: NeedDiscarded})\n	default:\n		x.DiscardedAt, d.changed"}}},
	{Name: "the packs of a removed execution stay", Edits: []Edit{{"shared/engine/fetch_retention.go", "		if !s.HasJobs() && !s.IsSet() {\n", "		if s.Undoes > 0 || !s.HasJobs() && !s.IsSet() {\n"}}},
	{Name: "what an execution has stored beside its packs stays", Edits: []Edit{{"shared/engine/fetch_retention.go", "	if err := w.ports.Store.Discard(ctx, w.tenant, w.id, w.now); err != nil {\n", "	if err := error(nil); err != nil {\n"}}},
}
