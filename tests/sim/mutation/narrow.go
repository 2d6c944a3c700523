package mutation

// The files of locks that narrow.
const (
	lifecycleNarrow = "shared/lifecycle/narrow.go"
	workflowLock    = "shared/workflow/lock.go"
	enginePlanner   = "shared/engine/planner/planner.go"
)

// narrowing are the mistakes in releasing the locks of some entities.
var narrowing = []Mutation{
	{Name: "a woken waiter asks whether the holder lives, not whether it keeps the entity", Edits: []Edit{{fetchBlocker, "case !holder.HoldsEntity(by.Entity, by.Epoch, by.Place):", "case !holder.Holds(by.Epoch, 0):"}}},
	{Name: "a waiter registers whatever was released since it read", Test: "shared/sim:TestWorld_PortConformance", Edits: []Edit{{simStore, "return h.HoldsEntity(by.Entity, by.Epoch, 0) && h.Narrowed == by.Narrowed", "return h.HoldsEntity(by.Entity, by.Epoch, 0)"}}},
	{Name: "reservations stand while their execution waits for an operator", Test: "shared/engine:TestLocks_ReservationsAreVoidWhileAnOperatorIsAwaited", Edits: []Edit{{workflowLock, "	case o.AwaitsPerson:\n", "	case false:\n"}}},
	{Name: "who begins to wait for an operator wakes no waiters", Edits: []Edit{{lifecycleBlocker, "	d.decision.WakeWaiters, d.changed = true, true\n", "	d.changed = true\n"}}},
	{Name: "that the holder waits for an operator is taken from an earlier read", Test: "shared/engine/locking:TestLocker_RegistrationTellsThatHolderNeedsPerson", Edits: []Edit{{acquire, "		e.blockedBy.NeedsPerson, full, ok, err = a.registerWithAll(ctx, e.blockedBy, e.heads)\n", "		_, full, ok, err = a.registerWithAll(ctx, e.blockedBy, e.heads)\n"}}},
	{Name: "a retry in place works on all entities", Edits: []Edit{{lifecycleNarrow, "	x.Scope.Only, x.Scope.Counts = &kept, map[string]int{}\n", "	x.Scope.Counts = map[string]int{}\n"}}},
	{Name: "a retry gives up locks that nobody has acknowledged", Edits: []Edit{{lifecycleRetry, "sm.ExecutionFailedUnsafe && !d.holdsNothing() &&", "sm.ExecutionFailedUnsafe && d.execution.Kept == nil && !d.holdsNothing() &&"}}},
	{Name: "an execution that keeps nothing keeps everything", Edits: []Edit{{workflowLock, "(o.Kept == nil || place == 0 &&", "(o.Kept == nil || o.Kept.Len() == 0 || place == 0 &&"}}},
	{Name: "what was kept stays when locks are acquired anew", Edits: []Edit{{lifecycleRetry, "		x.Kept, x.Narrowed, x.Scope.Only, x.Result = nil, 0, nil, nil\n", ""}}},
	{Name: "what was kept at an earlier epoch decides", Test: "shared/engine/locking:TestRequest_Evaluate", Edits: []Edit{{lockEvaluate, "	case h.State != \"\" && h.Epoch < holder.Epoch:\n", "	case h.Kept != nil && !h.Kept.Contains(holder.Place):\n	case h.State != \"\" && h.Epoch < holder.Epoch:\n"}}},
	{Name: "an unsafe end wakes no waiters", Edits: []Edit{{decider, "	if d.execution.OwnerStatus().NeedsPerson() {\n", "	if false {\n"}}},
	{Name: "releasing some entities wakes no waiters", Edits: []Edit{
		{lifecycleNarrow, "	d.decision.WakeWaiters, d.changed = true, true\n", "	d.changed = true\n"},
		{lifecycleCommand, "	d.transition(sm.EventExecutionAcknowledged, to, c.Actor, data)\n	d.decision.WakeWaiters = true\n", "	d.transition(sm.EventExecutionAcknowledged, to, c.Actor, data)\n	d.decision.WakeWaiters = len(c.Only) == 0\n"},
		{lifecycleCommand, "	d.transition(sm.EventLockReleased, d.execution.State, c.Actor, data)\n	d.decision.WakeWaiters = true\n", "	d.transition(sm.EventLockReleased, d.execution.State, c.Actor, data)\n	d.decision.WakeWaiters = len(c.Only) == 0\n"},
	}},
	{Name: "what was released before is kept again", Edits: []Edit{{lifecycleNarrow, "		kept = *d.execution.Kept\n", "		_ = kept\n"}, {lifecycleNarrow, "		places = d.execution.Kept.Both(places)\n", "		_ = places\n"}}},
	{Name: "all who share a lock have one place", Test: "shared/sim:TestWorld_PortConformance", Edits: []Edit{{simLockState, "	l.Holders[s.Execution] = workflow.Holder{", "	for id, h := range l.Holders {\n		h.Place = s.Place\n		l.Holders[id] = h\n	}\n	l.Holders[s.Execution] = workflow.Holder{"}}},
	{Name: "dynamo: a place counts with any token", Test: "shared/dynamo:TestOlderRelease_LeavesNothingThatCounts", Edits: []Edit{{dynamoLocks, "it.Has(attrOwner) && p.Int(attrPlaceToken) == it.Int(attrToken)", "it.Has(attrOwner)"}}},
	{Name: "entities are named whatever the size of the state item", Test: "shared/lifecycle:TestDecide_NamesEntitiesOnlyWhereThereIsRoom", Edits: []Edit{{lifecycleNarrow, "n > before && !d.hasRoomFor(n-before)", "n > before && n < 0"}}},
	{Name: "a place is the position among the entities that were not skipped", Test: "shared/engine:TestAcknowledge_OfScopeWithGaps", Edits: []Edit{{fetchLocks, "Key: e.Key, Place: e.Place, Token:", "Key: e.Key, Place: len(held) + 1, Token:"}}},
	{Name: "a retry of some entities writes updates of the others", Test: "shared/engine:TestRetry_UpdatesKeptEntitiesOnly", Edits: []Edit{
		{fetchUpdates, "if kept := w.execution.Kept; kept == nil || kept.Contains(e.Place) {", "if e.Token > 0 {"},
		{fetchUpdates, "	held, err := w.loadEntities(ctx, w.execution.Scope)\n", "	held, err := w.loadAllEntities(ctx, w.execution.Scope)\n"},
	}},
	{Name: "the rollback of a retry undoes what was released", Test: "shared/engine:TestRetry_RollsBackKeptEntitiesOnly", Edits: []Edit{{enginePlanner, "tried != nil && !tried.Contains(e.Place) {", "tried != nil && e.Place < 0 {"}}},
	{Name: "a cancelled execution seems to hold what it released", Test: "shared/lifecycle:TestDecide_Scripts", Edits: []Edit{{decider, "	if d.execution.Epoch > 0 && on != sm.EventLockRequested &&", "	if false &&"}}},
	{Name: "a lock item forgets who took the lock before", Test: "shared/engine/query:TestService_EntityExecutions", Edits: []Edit{{lockTake, "l.Recent.With(", "workflow.RecentHolders(nil).With("}}},
	{Name: "what became of an entity is looked up at another place", Test: "shared/engine/query:TestService_EntityExecutions", Edits: []Edit{{"shared/engine/query/entity.go", "x.EntityOutcome(h.Place); ok", "x.EntityOutcome(h.Place + 1); ok"}}},
	{Name: "an earlier success counts as a later one", Test: "shared/engine/query:TestService_Failures", Edits: []Edit{{"shared/engine/query/failures.go", "!o.EndedAt.After(x.EndedAt)", "o.EndedAt.IsZero()"}}},
	{Name: "a page of failures begins again with the execution in which the last one ended", Test: "shared/engine/query:TestService_Failures", Edits: []Edit{{"shared/engine/query/failures.go", "			if x.ID != id {\n", "			if x.ID != \"\" {\n"}}},
	{Name: "who waits does not learn that the holder was retried", Test: "shared/engine:TestLocks_ReservationsCountAgainAfterRetryOfHolder", Edits: []Edit{{lifecycleBlocker, "d.facts.Blocker.Registered && (!b.NeedsPerson || d.facts.Blocker.NeedsPerson)", "d.facts.Blocker.Registered"}}},
	{Name: "who waits for a kept entity is not told of the operator", Test: "shared/engine/query:TestService_WaitingNamesHolderToAcknowledge", Edits: []Edit{{queryWaiting, "holder.HoldsEntity(b.Entity, b.Epoch, b.Place) {", "!holder.HoldsEntity(b.Entity, b.Epoch, b.Place) {"}}},
}
