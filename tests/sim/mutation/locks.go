package mutation

// The files of the lock protocol.
const (
	lockEvaluate     = "shared/engine/locking/evaluate.go"
	acquire          = "shared/engine/locking/acquire.go"
	lifecycleBlocker = "shared/lifecycle/blocker.go"
	lifecycleLocks   = "shared/lifecycle/locks.go"
	simLockState     = "shared/sim/locks.go"
	simStore         = "shared/sim/store.go"
	engineAdvance    = "shared/engine/advance.go"
	fetchBlocker     = "shared/engine/fetch_blocker.go"
	fetchLocks       = "shared/engine/fetch_locks.go"
	lifecycleRetry   = "shared/lifecycle/retry.go"
	lifecycleCommand = "shared/lifecycle/command.go"
	lifecycleUpdates = "shared/lifecycle/updates.go"
	status           = "statemachines/status.go"
)

var locks = []Mutation{
	{Name: "a lock with my ID at a later epoch counts as free", Edits: []Edit{{lockEvaluate, "\tif own > r.Epoch {", "\tif false {"}}},
	{Name: "the lock is taken whatever its revision", Edits: []Edit{{simLockState, `		if l.Revision != seen {
			return l, l.Token, l.Owner`, "\t\tif false {\n\t\t\treturn l, l.Token, l.Owner"}}},
	{Name: "the token does not increase", Edits: []Edit{{simLockState, "l.Revision, l.Token = seen+1, seen+1", "l.Revision = seen + 1"}}},
	{Name: "a held lock counts as free", Edits: []Edit{{lockEvaluate, `	case h.HoldsEntity(key, holder.Epoch, holder.Place):
`, "\tcase false:\n"}}},
	{Name: "the owner is read before the lock", Edits: []Edit{{acquire, `	evaluated := make([]evaluatedLock, len(keys))
`, `	var err error
	if items, err = a.Locks.Read(ctx, a.Tenant, keys, strong); err != nil {
		return nil, err
	}
	evaluated := make([]evaluatedLock, len(keys))
`}}},
	{Name: "owners that could not be read ahead hold nothing", Edits: []Edit{{acquire, "return r.heads != nil && ", "return "}, {"shared/engine/read_ahead.go", "w.tenant, x.ID, ahead) != nil {\n\t\t\t\tw.locksAhead = nil", "w.tenant, x.ID, ahead) != nil {\n\t\t\t\tw.locksAhead = ahead"}}},
	{Name: "waiters register with a full holder", Test: "shared/engine:TestCost_WaitersOfOneHolderAreBounded", Edits: []Edit{{fetchBlocker, "	if holder.IsWaiterSetFull() {\n", "	if false {\n"}}},
	{Name: "waiters reserve what an older one has reserved", Test: "shared/engine/locking:TestLocker_WritesNothingThatChangesNothing", Edits: []Edit{{acquire, " && !a.reservedByOlder(e) {", " {"}}},
	{Name: "who finds a full holder waits for it however it stands", Edits: []Edit{{fetchBlocker, "	if !holder.HoldsEntity(by.Entity, by.Epoch, by.Place) {\n		return &lifecycle.Blocker{}, nil\n	}\n	if holder.IsWaiterSetFull() {", "	if true {"}}},
	{Name: "every read of a lock is weak", Test: "shared/engine/locking:TestLocker_StaleFirstReadTakesNothing", Edits: []Edit{{acquire, "a.read(ctx, remaining, round > 0)", "a.read(ctx, remaining, round < 0)"}}},
	{Name: "an entity that a weak read does not find is missing", Test: "shared/engine:TestStart_FindsEntitiesThatAWeakReadDoesNotShow", Edits: []Edit{{"shared/engine/fetch_discovery.go", "range []bool{false, true} {", "range []bool{false} {"}}},
	{Name: "a failed commit ends the wakeup", Edits: []Edit{{engineAdvance, "\t\tif !ok {\n\t\t\tif err := w.reload", "\t\tif !ok {\n\t\t\treturn nil\n\t\t}\n\t\tif !ok {\n\t\t\tif err := w.reload"}}},
	{Name: "a waiter registers with an execution that has released", Edits: []Edit{{simStore, `		if head = e.ownerStatus(); !canWait(head) {
`, "\t\tif head = e.ownerStatus(); e == nil {\n"}}},
	{Name: "an execution waits without registering", Edits: []Edit{{acquire, `	if ok {
		return true, Result{Conflict: &e.blockedBy,`, `	if ok || !ok {
		return true, Result{Conflict: &e.blockedBy,`}}},
	{Name: "who met only holders that have released waits for the last of them", Test: "shared/engine/locking:TestLocker_RoundsRunOutWithEndedHolders", Edits: []Edit{
		{acquire, "	var contested workflow.EntityKey ", "	var last workflow.BlockedBy\n	var contested workflow.EntityKey "},
		{acquire, "			contested = blocked.blockedBy.Entity\n", "			contested, last = blocked.blockedBy.Entity, blocked.blockedBy\n"},
		{acquire, "	return Result{Conflict: &workflow.BlockedBy{Entity: contested,", "	if last.Execution != \"\" {\n		return Result{Conflict: &last}, nil\n	}\n	return Result{Conflict: &workflow.BlockedBy{Entity: contested,"},
	}},
	{Name: "the holders of a full lock are not read", Test: "shared/engine/locking:TestLocker_PrunesOnlyDeadHolders", Edits: []Edit{{"shared/engine/locking/take.go", "= min(8, workflow.MaxHolders)", "= workflow.MaxHolders + 1"}}},
	{Name: "locking proceeds while the blocker is live", Edits: []Edit{{lifecycleBlocker, `		if d.facts.Blocker.Registered && (!b.NeedsPerson || d.facts.Blocker.NeedsPerson) {
`, "\t\tif false {\n"}}},
	{Name: "waiter registrations raise the execution's version", Test: "shared/sim:TestWorld_PortConformance", Edits: []Edit{{simStore, "\t\t\te.waiters[waiter] = true\n", "\t\t\te.waiters[waiter] = true\n\t\t\te.x.Version++\n"}}},
	{Name: "no check of the own state after a failed lock write", Test: "shared/engine/locking:TestLocker_ChecksOwnEpochAfterFailedTake", Edits: []Edit{{acquire, `func (a *acquisition) stillLocking(ctx context.Context) (bool, error) {
`, `func (a *acquisition) stillLocking(ctx context.Context) (bool, error) {
	if a.conflicts >= 0 {
		return true, nil
	}
`}}},
	{Name: "locks are never reserved", Edits: []Edit{{acquire, "if a.conflicts >= a.ReserveAfter &&", "if false &&"}}},
	{Name: "a reservation depends on the owner", Edits: []Edit{{simLockState, `		if l.Reserver != "" && !workflow.Older`, `		if l.Owner != "" || l.Reserver != "" && !workflow.Older`}}},
	{Name: "the epoch is reset", Edits: []Edit{{lifecycleBlocker, `	d.execution.Epoch++
`, `	d.execution.Epoch = 1
`}}},
	{Name: "a child that closes a cycle is not refused", Edits: []Edit{{fetchBlocker, "\tif blocker.Registered && w.execution.Parent != nil {", "\tif false {"}}},
	{Name: "an execution that waits for a child holds no locks", Edits: []Edit{{status, "{state: ExecutionWaiting, status: StatusRunning},", "{state: ExecutionWaiting, status: StatusRunning, holdsNoLocks: true},"}}},
	{Name: "a failed execution holds no locks", Edits: []Edit{{status, "{state: ExecutionError, status: StatusRunning, stopping: true},", "{state: ExecutionError, status: StatusRunning, stopping: true, holdsNoLocks: true},"}}},
	{Name: "an execution that ended unsafely holds no locks", Edits: []Edit{{status, "{state: ExecutionFailedUnsafe, status: StatusFailed,", "{state: ExecutionFailedUnsafe, status: StatusFailed, holdsNoLocks: true,"}}},
	{Name: "waiters are not woken when an execution ends", Edits: []Edit{{engineAdvance, "\tfor _, id := range waiters {\n", "\tfor _, id := range waiters[:0] {\n"}}},
	{Name: "an execution that backs off wakes no waiters", Edits: []Edit{{lifecycleLocks, `		d.decision.WakeWaiters = true
		d.transition(sm.EventLockDeferred`, "\t\td.transition(sm.EventLockDeferred"}}},
	{Name: "an acknowledged execution wakes no waiters", Edits: []Edit{{lifecycleCommand, `	d.transition(sm.EventExecutionAcknowledged, to, c.Actor, data)
	d.decision.WakeWaiters = true
`, `	d.transition(sm.EventExecutionAcknowledged, to, c.Actor, data)
`}}},
	{Name: "a retry keeps locks that were released", Edits: []Edit{{lifecycleRetry, " && !d.holdsNothing() && d.execution.Scope.HeldEpoch == d.execution.Epoch", ""}}},
	{Name: "a shared lock is taken from its readers", Edits: []Edit{{lockEvaluate, `	case l.Mode == workflow.LockShared:
		r.evaluateSharers`, `	case l.Mode == workflow.LockShared && r.Mode == workflow.LockShared:
		r.evaluateSharers`}}},
	{Name: "joining a shared lock does not raise the revision", Edits: []Edit{{simLockState, `	l.Revision++
	l.Token, l.Since = l.Revision,`, "\tl.Token, l.Since = l.Revision+1,"}}},
	{Name: "the inventory is written under any token", Edits: []Edit{{fetchUpdates, "for try := 1; e.Token < token; try++ {", "for try := 1; ; try++ {"}}},
	{Name: "completion does not wait for updates", Edits: []Edit{{lifecycleUpdates, "if d.execution.State == sm.ExecutionCompleted && !d.updatesApplied() {", "if false {"}}},
}

// lockPolls are mistakes about how soon an execution asks for its locks again. No law says that.
var lockPolls = []Mutation{
	{Name: "an execution polls a full waiter set as late as a waiter", Test: "shared/engine:TestLocks_EntityIsNotIdleWhileManyWait", Edits: []Edit{{lifecycleLocks, "	if !waiterSetFull {\n", "	if true {\n"}}},
	{Name: "all executions poll a full waiter set at once", Test: "shared/engine:TestLocks_EntityIsNotIdleWhileManyWait", Edits: []Edit{{lifecycleLocks, "%1000)*(pause-pause/4)/1000)", "%1000)*0 + pause/2)"}}},
	{Name: "no message comes at the time of a poll", Test: "shared/engine:TestLocks_EntityIsNotIdleWhileManyWait", Edits: []Edit{{lifecycleLocks, "	d.decision.DelayedWakeup = true\n", ""}}},
	{Name: "each wake-up between two polls sends another one", Test: "shared/lifecycle:TestDecide_PollOfAFullWaiterSet", Edits: []Edit{{lifecycleLocks, "!due.IsZero() && !due.After(d.now.Add(pause)) {", "false {"}}},
	{Name: "a timer that is later than the next poll stays", Test: "shared/lifecycle:TestDecide_PollOfAFullWaiterSet", Edits: []Edit{{lifecycleLocks, "!due.IsZero() && !due.After(d.now.Add(pause)) {", "!due.IsZero() {"}}},
	{Name: "a waiter set of a holder that was filled meanwhile counts as one with room", Test: "shared/engine/locking:TestLocker_ReportsFullWaiterSet", Edits: []Edit{{acquire, "full = full && holder.RejectsWaiter(a.Execution)", "full = full && heads[one.Execution].RejectsWaiter(a.Execution)"}}},
	{Name: "a waiter set of a reserver that was filled meanwhile counts as one with room", Test: "shared/engine/locking:TestLocker_ReportsFullWaiterSet", Edits: []Edit{{acquire, "		status, ok, err = store.AddReserverWaiter(", "		_, ok, err = store.AddReserverWaiter("}}},
	{Name: "a waiter in a full set polls", Test: "shared/engine/locking:TestLocker_ReportsFullWaiterSet", Edits: []Edit{{"shared/workflow/lock.go", "return o.IsWaiterSetFull() && !slices.Contains(o.FullWaiterSet, waiter)", "return o.IsWaiterSetFull()"}}},
	{Name: "polls of a full waiter set are strong reads", Test: "shared/engine:TestCost_WaitersOfOneHolderAreBounded", Edits: []Edit{{fetchBlocker, "if w.ofTimer {", "if false {"}}},
	{Name: "an execution that was woken believes a weak read of a full waiter set", Test: "shared/engine:TestLocks_ReserverIsWoken", Edits: []Edit{{fetchBlocker, "if w.ofTimer {", "if true {"}}},
	{Name: "a message beside that of a timer says that nothing has changed", Test: "shared/workflow:TestWakeup_MergeKeepsEveryField", Edits: []Edit{{"shared/workflow/message.go", "w.OfTimer && other.OfTimer", "w.OfTimer || other.OfTimer"}}},
	{Name: "a reserver is not woken when its entity is free", Test: "shared/engine:TestLocks_ReserverIsWoken", Edits: []Edit{{fetchLocks, "if c := got.Conflict; c != nil && c.Reservation {", "if c := got.Conflict; false {"}}},
}
