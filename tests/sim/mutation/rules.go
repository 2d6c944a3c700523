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

// measured are mistakes in how items are encoded, which the seeds that measure them see.
var measured = []Mutation{
	{Name: "a pack is stored without its last job", Edits: []Edit{{"shared/dynamo/codec/pack.go", "	for i := range p.Jobs {\n		j := &p.Jobs[i]\n		letter", "	for i := range max(1, len(p.Jobs)) - 1 {\n		j := &p.Jobs[i]\n		letter"}}},
}
