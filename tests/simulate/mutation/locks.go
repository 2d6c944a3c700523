package mutation

// The files of the lock protocol.
const (
	judge    = "shared/engine/locking/judge.go"
	acquire  = "shared/engine/locking/acquire.go"
	schedule = "shared/lifecycle/locking.go"
	lockItem = "shared/sim/lockitem/item.go"
	simStore = "shared/sim/store.go"
	look     = "shared/engine/look.go"
	hold     = "shared/engine/hold.go"
	verbs    = "shared/lifecycle/verbs.go"
	cancel   = "shared/lifecycle/cancel.go"
	ending   = "shared/lifecycle/ending.go"
	writer   = "shared/engine/inventory/write.go"
	status   = "statemachines/status.go"
)

var locks = []Mutation{
	{Name: "my id with a later epoch is free", Edits: []Edit{{judge, "\tif own > a.Epoch {", "\tif false {"}}},
	{Name: "the lock is taken whatever its revision", Edits: []Edit{{lockItem, "\t\tif l.Rev != seen {\n\t\t\treturn l, l.Token, l.Owner", "\t\tif false {\n\t\t\treturn l, l.Token, l.Owner"}}},
	{Name: "the token stays", Edits: []Edit{{lockItem, "l.Rev, l.Token = seen+1, seen+1", "l.Rev = seen + 1"}}},
	{Name: "a held lock is free", Edits: []Edit{{judge, "\tcase h.Live(epoch):\n", "\tcase false:\n"}}},
	{Name: "the owner is read before the lock", Edits: []Edit{{acquire, "\tfound := make([]reading, len(keys))\n", "\tif items, err = a.Locks.Read(ctx, a.Tenant, keys); err != nil {\n\t\treturn nil, err\n\t}\n\tfound := make([]reading, len(keys))\n"}}},
	{Name: "a failed own commit stops", Edits: []Edit{{look, "\t\tif !ok {\n\t\t\tif err := w.reload", "\t\tif !ok {\n\t\t\treturn nil\n\t\t}\n\t\tif !ok {\n\t\t\tif err := w.reload"}}},
	{Name: "registering with one who has let go", Edits: []Edit{{simStore, "\t\tif !stands(e.head()) {\n", "\t\tif e == nil {\n"}}},
	{Name: "sleeping without having registered", Edits: []Edit{{acquire, "\tif ok {\n\t\treturn true, Answer{Conflict: &j.by}, nil\n", "\tif ok || !ok {\n\t\treturn true, Answer{Conflict: &j.by}, nil\n"}}},
	{Name: "locking while the blocker is live", Edits: []Edit{{schedule, "\t\tif d.F.Blocker.Registered {\n", "\t\tif false {\n"}}},
	{Name: "registrations raise the version that transitions stand on", Judge: "shared/sim:TestPorts", Edits: []Edit{{simStore, "\t\t\te.waiters[waiter] = true\n", "\t\t\te.waiters[waiter] = true\n\t\t\te.x.Version++\n"}}},
	{Name: "no look at oneself after a failed write", Judge: "shared/engine/locking:TestMistake06SelfAfterAFailedTake", Edits: []Edit{{acquire, "func (a *attempt) self(ctx context.Context) (bool, error) {\n", "func (a *attempt) self(ctx context.Context) (bool, error) {\n\tif a.conflicts >= 0 {\n\t\treturn true, nil\n\t}\n"}}},
	{Name: "nobody reserves", Edits: []Edit{{acquire, "if a.conflicts >= a.ReserveAfter &&", "if false &&"}}},
	{Name: "a reservation depends on the owner", Edits: []Edit{{lockItem, "\t\tif l.Res != \"\" && !workflow.Older", "\t\tif l.Owner != \"\" || l.Res != \"\" && !workflow.Older"}}},
	{Name: "the epoch is reset", Edits: []Edit{{schedule, "\td.X.Epoch++\n", "\td.X.Epoch = 1\n"}}},
	{Name: "a child that closes a circle is not refused", Edits: []Edit{{hold, "\tif ok && w.x.Parent != nil {", "\tif false {"}}},
	{Name: "who waits for a child holds nothing", Edits: []Edit{{status, "{state: ExecutionWaiting, status: StatusRunning},", "{state: ExecutionWaiting, status: StatusRunning, free: true},"}}},
	{Name: "who has failed holds nothing", Edits: []Edit{{status, "{state: ExecutionError, status: StatusRunning},", "{state: ExecutionError, status: StatusRunning, free: true},"}}},
	{Name: "who has ended unsafely holds nothing", Edits: []Edit{{status, "{state: ExecutionFailedUnsafe, status: StatusFailed,", "{state: ExecutionFailedUnsafe, status: StatusFailed, free: true,"}}},
	{Name: "the waiters of who ends are not woken", Edits: []Edit{{look, "\tfor _, id := range waiters {\n", "\tfor _, id := range waiters[:0] {\n"}}},
	{Name: "who gives way wakes nobody", Edits: []Edit{{schedule, "\t\td.Out.Release = true\n\t\td.Move(sm.EventLockDeferred", "\t\td.Move(sm.EventLockDeferred"}}},
	{Name: "who is acknowledged wakes nobody", Edits: []Edit{{cancel, "\t\td.Out.Release = true\n", ""}}},
	{Name: "a retry keeps locks that are let go", Edits: []Edit{{verbs, " && !d.X.Unlocked && d.X.Scope.HeldEpoch == d.X.Epoch", ""}}},
	{Name: "a shared lock is taken from its readers", Edits: []Edit{{judge, "\tif l.Mode == workflow.LockShared {\n\t\ta.among", "\tif l.Mode == workflow.LockShared && a.Mode == workflow.LockShared {\n\t\ta.among"}}},
	{Name: "who joins leaves the revision", Edits: []Edit{{lockItem, "\tl.Rev++\n\tl.Token, l.Since = l.Rev,", "\tl.Token, l.Since = l.Rev+1,"}}},
	{Name: "the inventory is written under any token", Edits: []Edit{{writer, "for try := 1; e.Token < token; try++ {", "for try := 1; ; try++ {"}}},
	{Name: "updates are not waited for", Edits: []Edit{{ending, "if d.X.State == sm.ExecutionCompleted && !d.applied() {", "if false {"}}},
}
