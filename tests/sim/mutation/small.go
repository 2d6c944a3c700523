package mutation

// Small is not a mistake: it shrinks the bounds that are constants of the program, so that five
// entities reach them. The simulation must hold all invariants with it.
func Small() Mutation {
	const (
		limits = "shared/workflow/limits.go"
		sweep  = "shared/engine/scheduler/sweep.go"
	)
	return Mutation{Name: "small bounds", Edits: []Edit{
		{"shared/workflow/step.go", "const LanesPerShard = 256\n", "const LanesPerShard = 2\n"},
		{"shared/workflow/lock.go", "const MaxHolders = 64\n", "const MaxHolders = 2\n"},
		{"shared/workflow/lock.go", "const MaxRecentHolders = 10\n", "const MaxRecentHolders = 2\n"},
		{"shared/workflow/payload.go", "const PayloadChunkBytes = 300 << 10\n", "const PayloadChunkBytes = 50\n"},
		{"shared/workflow/execution.go", "const MaxInlineInputBytes = 256\n", "const MaxInlineInputBytes = 20\n"},
		{"shared/workflow/outcome.go", "const MaxInlineSetBytes = 1 << 10\n", "const MaxInlineSetBytes = 4\n"},
		{"shared/workflow/outcome.go", "const MaxNamedFailures = 10\n", "const MaxNamedFailures = 1\n"},
		{"shared/workflow/message.go", "const MaxMessageJobBytes = 512 << 10\n", "const MaxMessageJobBytes = 300\n"},
		{"shared/workflow/page.go", "	MaxPageSize     = 1000\n", "	MaxPageSize     = 4\n"},
		{limits, "	MaxNamed            = 20 ", "	MaxNamed            = 1 "},
		{limits, "	MaxInlineScopeBytes = 320 ", "	MaxInlineScopeBytes = 100 "},
		{limits, "	MaxInlineEvents     = 40 ", "	MaxInlineEvents     = 3 "},
		{"shared/engine/payload.go", "const eventsPerPage = 30\n", "const eventsPerPage = 2\n"},
		{"shared/lifecycle/decide.go", "const maxTransitions = 256\n", "const maxTransitions = 4\n"},
		{"shared/engine/advance.go", "const maxCommits = 64\n", "const maxCommits = 2\n"},
		{"shared/engine/fetch_discovery.go", "const entitiesPerRead = 500\n", "const entitiesPerRead = 2\n"},
		{"shared/engine/fetch_blocker.go", "const maxRegistrations = 4\n", "const maxRegistrations = 2\n"},
		{"shared/engine/fetch_readiness.go", "const maxWatchRounds = 4\n", "const maxWatchRounds = 2\n"},
		{"shared/engine/uncounted.go", "const maxUncounted = 1000\n", "const maxUncounted = 1\n"},
		{"shared/engine/planner/entity_outcomes.go", "const maxUndoBytes = 24 << 10\n", "const maxUndoBytes = 4\n"},
		{"shared/engine/locking/acquire.go", "const maxRounds = 8\n", "const maxRounds = 2\n"},
		{"shared/engine/dispatch/dispatcher.go", "const maxMessagesPerSend = 200\n", "const maxMessagesPerSend = 2\n"},
		{"shared/engine/dispatch/lanes.go", "const maxLaneGap = 8\n", "const maxLaneGap = 1\n"},
		{"shared/engine/dispatch/close.go", "const maxCloseRounds = 4\n", "const maxCloseRounds = 1\n"},
		{"shared/engine/workers/registry.go", "const maxTries = 8\n", "const maxTries = 2\n"},
		{sweep, "	maxPages         = 20\n", "	maxPages         = 2\n"},
		{"shared/worker/claim.go", "const maxClaimAttempts = 4\n", "const maxClaimAttempts = 2\n"},
		{"shared/worker/payload.go", "const maxPackItemBytes = 256 << 10\n", "const maxPackItemBytes = 300\n"},
	}}
}
