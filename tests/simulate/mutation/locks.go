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
	{"my id with a later epoch is free", []Edit{{judge, "\tif own > a.Epoch {", "\tif false {"}}},
	{"the lock is taken whatever its revision", []Edit{{lockItem, "\t\tif l.Rev != seen {\n\t\t\treturn l, l.Token, l.Owner", "\t\tif false {\n\t\t\treturn l, l.Token, l.Owner"}}},
	{"the token stays", []Edit{{lockItem, "l.Rev, l.Token = seen+1, seen+1", "l.Rev = seen + 1"}}},
	{"a held lock is free", []Edit{{judge, "\tcase h.Live(epoch):\n", "\tcase false:\n"}}},
	{"the owner is read before the lock", []Edit{{acquire, "\tfound := make([]reading, len(keys))\n", "\tif items, err = a.Locks.Read(ctx, a.Tenant, keys); err != nil {\n\t\treturn nil, err\n\t}\n\tfound := make([]reading, len(keys))\n"}}},
	{"a failed own commit stops", []Edit{{look, "\t\tif !ok {\n\t\t\tif err := w.reload", "\t\tif !ok {\n\t\t\treturn nil\n\t\t}\n\t\tif !ok {\n\t\t\tif err := w.reload"}}},
	{"registering with one who has let go", []Edit{{simStore, "\t\tif !stands(e.head()) {\n", "\t\tif e == nil {\n"}}},
	{"sleeping without having registered", []Edit{{acquire, "\tif ok {\n\t\treturn true, Answer{Conflict: &j.by}, nil\n", "\tif ok || !ok {\n\t\treturn true, Answer{Conflict: &j.by}, nil\n"}}},
	{"locking while the blocker is live", []Edit{{schedule, "\t\tif d.F.Blocker.Registered {\n", "\t\tif false {\n"}}},
	{"nobody reserves", []Edit{{acquire, "if a.conflicts >= a.ReserveAfter &&", "if false &&"}}},
	{"a reservation depends on the owner", []Edit{{lockItem, "\t\tif l.Res != \"\" && !workflow.Older", "\t\tif l.Owner != \"\" || l.Res != \"\" && !workflow.Older"}}},
	{"the epoch is reset", []Edit{{schedule, "\td.X.Epoch++\n", "\td.X.Epoch = 1\n"}}},
	{"a child that closes a circle is not refused", []Edit{{hold, "\tif ok && w.x.Parent != nil {", "\tif false {"}}},
	{"who waits for a child holds nothing", []Edit{{status, "{state: ExecutionWaiting, status: StatusRunning},", "{state: ExecutionWaiting, status: StatusRunning, free: true},"}}},
	{"who has failed holds nothing", []Edit{{status, "{state: ExecutionError, status: StatusRunning},", "{state: ExecutionError, status: StatusRunning, free: true},"}}},
	{"who has ended unsafely holds nothing", []Edit{{status, "{state: ExecutionFailedUnsafe, status: StatusFailed,", "{state: ExecutionFailedUnsafe, status: StatusFailed, free: true,"}}},
	{"the waiters of who ends are not woken", []Edit{{look, "\tfor _, id := range waiters {\n", "\tfor _, id := range waiters[:0] {\n"}}},
	{"who gives way wakes nobody", []Edit{{schedule, "\t\td.Out.Release = true\n\t\td.Move(sm.EventLockDeferred", "\t\td.Move(sm.EventLockDeferred"}}},
	{"who is acknowledged wakes nobody", []Edit{{cancel, "\t\td.Out.Release = true\n", ""}}},
	{"a retry keeps locks that are let go", []Edit{{verbs, " && !d.X.Unlocked && d.X.Scope.HeldEpoch == d.X.Epoch", ""}}},
	{"a shared lock is taken from its readers", []Edit{{judge, "\tif l.Mode == workflow.LockShared {\n\t\ta.among", "\tif l.Mode == workflow.LockShared && a.Mode == workflow.LockShared {\n\t\ta.among"}}},
	{"who joins leaves the revision", []Edit{{lockItem, "\tl.Rev++\n\tl.Token, l.Since = l.Rev,", "\tl.Token, l.Since = l.Rev+1,"}}},
	{"the inventory is written under any token", []Edit{{writer, "for try := 1; e.Token < token; try++ {", "for try := 1; ; try++ {"}}},
	{"updates are not waited for", []Edit{{ending, "if d.X.State == sm.ExecutionCompleted && !d.applied() {", "if false {"}}},
}
