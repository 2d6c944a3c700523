package main

// Bounds of the checks.
const (
	small = iota // a minute; for every change
	usual
	large
)

const nestedDefines = "NX=4 NESTED WANTS=105"

func checks() []check {
	return []check{
		{model: "locks", property: "no two holders, no execution waits for ever", defines: "H0=2 H1=2"},
		{model: "locks", property: "the same with crashes, losses, duplicates, devices, newer states", defines: "DEVICE STATES CRASHES=1 LOSSES=1 DUPS=1", minLevel: usual},
		{model: "locks", property: "all executions end", liveness: true},
		{model: "locks", property: "all executions end, with losses and duplicates", defines: "DUPS=1 LOSSES=1", liveness: true, minLevel: usual},
		{model: "locks", property: "the oldest does not starve", defines: "NE=1 WANTS=3 REBORN=8 EMAX=30"},
		{model: "locks", property: "executions that start others end", defines: nestedDefines},
		{model: "locks", property: "timers that fire early", defines: "RINGS"},
		{model: "locks", property: "unlimited crashes", defines: "ENDLESS H0=2", minLevel: usual},
		{model: "locks", property: "cancels and retries", defines: "CANCELS=1 RETRIES=1", minLevel: usual},
		{model: "locks", property: "3 executions in a cycle", defines: "NX=3 NE=3 WANTS=235", minLevel: usual},
		{model: "locks", property: "all executions end, with cancels and retries", defines: "CANCELS=1 RETRIES=1", liveness: true, minLevel: usual},
		{model: "locks", property: "2+2 handlers, unlimited crashes", defines: "ENDLESS H0=2 H1=2 EMAX=12 RMAX=60", minLevel: large},
		{model: "locks", property: "3 executions, 2 entities", defines: "NX=3 WANTS=63 H1=2 EMAX=14 RMAX=60", minLevel: large},
		{model: "locks", property: "3 executions in a cycle end", defines: "NX=3 NE=3 WANTS=235 H1=2 EMAX=14 RMAX=60", liveness: true, minLevel: large},
		{model: "locks", property: "nested executions, crashes and losses", defines: nestedDefines + " CRASHES=1 LOSSES=1", minLevel: large},

		{model: "locks", mutation: "1", property: "an execution takes a lock of its own later epoch", defines: "H0=2 RETRIES=1", minLevel: usual},
		{model: "locks", mutation: "2", property: "registering a waiter raises the version of transitions", liveness: true},
		{model: "locks", mutation: "3", property: "a failed commit stops", defines: "H0=2"},
		{model: "locks", mutation: "4", property: "registering with an ended execution"},
		{model: "locks", mutation: "5", property: "locking again while blocked", defines: "RINGS"},
		{model: "locks", mutation: "6", property: "no check of one's own state after a failed write", defines: "CANCELS=1"},
		{model: "locks", mutation: "7", property: "a reservation depends on the owner", defines: "NE=1 WANTS=3 REBORN=8 EMAX=30"},
		{model: "locks", mutation: "7B", property: "only an execution that has waited reserves", defines: "NE=1 WANTS=3 REBORN=8 EMAX=30"},
		{model: "locks", mutation: "8", property: "no check for a wait for oneself", defines: nestedDefines},
		{model: "locks", mutation: "9", property: "a retry starts again at the first epoch", defines: "RETRIES=1"},
		{model: "locks", mutation: "9B", property: "lock items are deleted", defines: "DEVICE"},
		{model: "locks", mutation: "10", property: "owners are read before the lock items"},
		{model: "locks", mutation: "11", property: "unknown states hold no locks", defines: "STATES"},
		{model: "locks", mutation: "12", property: "devices check no token", defines: "DEVICE H0=2"},
		{model: "locks", mutation: "13", property: "a reservation is checked by another rule than waiters are registered by", defines: "CANCELS=1 RETRIES=1", liveness: true, minLevel: usual},
		{model: "locks", mutation: "14", property: "an execution that always loses a take never reserves", defines: "NE=1 WANTS=3 REBORN=8 EMAX=30"},

		{model: "packs", property: "a block that must not run twice", defines: "CRASHES=1 LOSSES=1 FAILS=1 CANCELS=1"},
		{model: "packs", property: "a block that may run twice", defines: "REPEATABLE CRASHES=1 LOSSES=1 FAILS=1 CANCELS=1"},
		{model: "packs", property: "old messages", defines: "AGED DUPS=1"},
		{model: "packs", property: "devices with fences", defines: "FENCED CRASHES=1 FAILS=1 CANCELS=1"},
		{model: "packs", property: "it ends", defines: "CRASHES=1 LOSSES=1", liveness: true, minLevel: usual},
		{model: "packs", property: "a window", defines: "NL=2 W=1 CRASHES=1", minLevel: usual},
		{model: "packs", property: "retries", defines: "NA=2 FAILS=2 CANCELS=1", minLevel: usual},
		{model: "packs", property: "two steps, two handlers", defines: "STEPS=2 NH=2 CRASHES=1", minLevel: usual},
		{model: "packs", property: "2 jobs", defines: "J=2 CRASHES=1 FAILS=1 CANCELS=1", minLevel: usual},
		{model: "packs", property: "2 jobs that may run again, heartbeats", defines: "REPEATABLE J=2 CRASHES=1 FAILS=1 CANCELS=1 BEATS=1", minLevel: usual},
		{model: "packs", property: "a window, everything at once", defines: "NL=2 W=1 CRASHES=1 FAILS=1 CANCELS=1 EARLY=1", minLevel: large},
		{model: "packs", property: "retries, everything at once", defines: "NA=2 CRASHES=1 FAILS=2 CANCELS=1 DUPS=1", minLevel: large},
		{model: "packs", property: "two steps with rollback", defines: "STEPS=2 NH=2 CRASHES=1 FAILS=1 CANCELS=1 EARLY=1", minLevel: large},
		{model: "packs", property: "3 claims", defines: "TMAX=3 CRASHES=2 LOSSES=1 DUPS=2 CANCELS=1", minLevel: large},

		{model: "packs", mutation: "1", property: "a takeover checks only the token", defines: "DUPS=1 BEATS=1"},
		{model: "packs", mutation: "2", property: "a takeover before the lease ends", defines: "DUPS=1"},
		{model: "packs", mutation: "3", property: "a live claim is taken over by a worker of the same name", defines: "DUPS=1"},
		{model: "packs", mutation: "4", property: "STARTED is not written before a job begins", defines: "CRASHES=1"},
		{model: "packs", mutation: "5", property: "a takeover runs begun jobs again", defines: "CRASHES=1"},
		{model: "packs", mutation: "6", property: "a later holder releases begun jobs as not executed", defines: "REPEATABLE CANCELS=1 BEATS=1"},
		{model: "packs", mutation: "7", property: "the engine cancels begun jobs as not executed", defines: "REPEATABLE CANCELS=1"},
		{model: "packs", mutation: "8", property: "finishing without the token", defines: "REPEATABLE DUPS=1"},
		{model: "packs", mutation: "9", property: "a heartbeat without the token", defines: "REPEATABLE DUPS=1 BEATS=1"},
		{model: "packs", mutation: "10", property: "done before the result is written", defines: "CRASHES=1"},
		{model: "packs", mutation: "11", property: "unknown counts as not executed", defines: "CANCELS=1"},
		{model: "packs", mutation: "12", property: "no cancelled markers", defines: "CANCELS=1"},
		{model: "packs", mutation: "13", property: "cancelled markers for the window only", defines: "NL=2 W=1 NW=1 CANCELS=1", minLevel: usual},
		{model: "packs", mutation: "14", property: "cancelled markers for the first attempt only", defines: "NA=2 FAILS=1 CANCELS=1", minLevel: usual},
		{model: "packs", mutation: "15", property: "rollback of the last attempt only", defines: "NA=2 FAILS=1 CANCELS=1", minLevel: usual},
		{model: "packs", mutation: "16", property: "the engine keeps the token, and finishing checks nothing else", defines: "CANCELS=1"},
		{model: "packs", mutation: "17", property: "unconditional commits", defines: "STEPS=2 NH=2 EARLY=1", minLevel: usual},
		{model: "packs", mutation: "18", property: "a job continues after its lease", defines: "CANCELS=1"},
		{model: "packs", mutation: "19", property: "the fence is the pack's token", defines: "FENCED CANCELS=1"},
		{model: "packs", mutation: "20", property: "closing does not repair the done set", defines: "CANCELS=1 CRASHES=1 LOSSES=1"},
		{model: "packs", mutation: "21", property: "the timer does not repair the done set", defines: "CRASHES=1 LOSSES=1"},
		{model: "packs", mutation: "22", property: "the timer sends only packs without an item", defines: "CRASHES=1 LOSSES=1"},
		{model: "packs", mutation: "23", property: "the timer fires only once", defines: "CRASHES=1 LOSSES=1"},
		{model: "packs", mutation: "24", property: "a counter instead of the done set", defines: "NL=2 DUPS=1"},
		{model: "packs", mutation: "25", property: "the timer ignores the window", defines: "NL=2 W=1 EARLY=1", minLevel: usual},
		{model: "packs", mutation: "26", property: "messages never expire", defines: "AGED DUPS=1"},
		{model: "packs", mutation: "26B", property: "items are removed before messages expire", defines: "AGED DUPS=1"},
		{model: "packs", mutation: "27", property: "keys without the step run", defines: "STEPS=2"},
		{model: "packs", mutation: "28", property: "the done set is overwritten", defines: "STEPS=2 NH=2 EARLY=1", minLevel: usual},
		{model: "packs", mutation: "29", property: "a cancel during the rollback", defines: "CANCELS=2"},
		{model: "packs", mutation: "30", property: "the end before all packs are final", defines: "CANCELS=1"},

		{model: "remote_lease", property: "a result that was acknowledged stays"},
		{model: "remote_lease", mutation: "1", property: "a write is conditional on the token only"},
		{model: "remote_lease", mutation: "2", property: "two leases may be equal", defines: "ALIKE"},
	}
}
