package main

// How far the checks go.
const (
	small = iota // a minute, for every change
	usual
	large
)

const nestedDefines = "NX=4 NESTED WANTS=105"

func checks() []check {
	return []check{
		{model: "locks", property: "no two holders, nobody sleeps for ever", defines: "H0=2 H1=2"},
		{model: "locks", property: "the same with crashes, losses, copies, devices, newer states", defines: "DEVICE STATES CRASHES=1 LOSSES=1 DUPS=1", minLevel: usual},
		{model: "locks", property: "everyone ends", liveness: true},
		{model: "locks", property: "everyone ends, with losses and copies", defines: "DUPS=1 LOSSES=1", liveness: true, minLevel: usual},
		{model: "locks", property: "the oldest is not starved", defines: "NE=1 WANTS=3 REBORN=8 EMAX=30"},
		{model: "locks", property: "runs that start others end", defines: nestedDefines},
		{model: "locks", property: "alarms that ring for nothing", defines: "RINGS"},
		{model: "locks", property: "crashes without limit", defines: "ENDLESS H0=2", minLevel: usual},
		{model: "locks", property: "cancels and retries", defines: "CANCELS=1 RETRIES=1", minLevel: usual},
		{model: "locks", property: "3 runs in a circle", defines: "NX=3 NE=3 WANTS=235", minLevel: usual},
		{model: "locks", property: "everyone ends, whatever operators do", defines: "CANCELS=1 RETRIES=1", liveness: true, minLevel: usual},
		{model: "locks", property: "2+2 handlers, crashes without limit", defines: "ENDLESS H0=2 H1=2 EMAX=12 RMAX=60", minLevel: large},
		{model: "locks", property: "3 runs, 2 entities", defines: "NX=3 WANTS=63 H1=2 EMAX=14 RMAX=60", minLevel: large},
		{model: "locks", property: "3 runs in a circle end", defines: "NX=3 NE=3 WANTS=235 H1=2 EMAX=14 RMAX=60", liveness: true, minLevel: large},
		{model: "locks", property: "nested runs, crashes and losses", defines: nestedDefines + " CRASHES=1 LOSSES=1", minLevel: large},

		{model: "locks", mutation: "1", property: "a larger epoch of one's own is free", defines: "H0=2 RETRIES=1", minLevel: usual},
		{model: "locks", mutation: "2", property: "transitions on a version that registrations raise", liveness: true},
		{model: "locks", mutation: "3", property: "a failed commit stops", defines: "H0=2"},
		{model: "locks", mutation: "4", property: "registering with whoever has ended"},
		{model: "locks", mutation: "5", property: "locking again while blocked", defines: "RINGS"},
		{model: "locks", mutation: "6", property: "no look at oneself after a failed write", defines: "CANCELS=1"},
		{model: "locks", mutation: "7", property: "a reservation that depends on the owner", defines: "NE=1 WANTS=3 REBORN=8 EMAX=30"},
		{model: "locks", mutation: "7B", property: "only who has slept reserves", defines: "NE=1 WANTS=3 REBORN=8 EMAX=30"},
		{model: "locks", mutation: "8", property: "nobody looks whether it waits for itself", defines: nestedDefines},
		{model: "locks", mutation: "9", property: "a retry counts epochs anew", defines: "RETRIES=1"},
		{model: "locks", mutation: "9B", property: "lock items are deleted", defines: "DEVICE"},
		{model: "locks", mutation: "10", property: "owners read before the items"},
		{model: "locks", mutation: "11", property: "holding is an open list", defines: "STATES"},
		{model: "locks", mutation: "12", property: "devices look at no token", defines: "DEVICE H0=2"},
		{model: "locks", mutation: "13", property: "a reservation judged by another rule than registered with", defines: "CANCELS=1 RETRIES=1", liveness: true, minLevel: usual},
		{model: "locks", mutation: "14", property: "who is always too late for a take never reserves", defines: "NE=1 WANTS=3 REBORN=8 EMAX=30"},

		{model: "packs", property: "a block that must not run twice", defines: "CRASHES=1 LOSSES=1 FAILS=1 CANCELS=1"},
		{model: "packs", property: "a block that may", defines: "REPEATABLE CRASHES=1 LOSSES=1 FAILS=1 CANCELS=1"},
		{model: "packs", property: "messages of old", defines: "AGED DUPS=1"},
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

		{model: "packs", mutation: "1", property: "a take-over looks at the token only", defines: "DUPS=1 BEATS=1"},
		{model: "packs", mutation: "2", property: "a take-over while the lease runs", defines: "DUPS=1"},
		{model: "packs", mutation: "3", property: "a live claim is adopted by name", defines: "DUPS=1"},
		{model: "packs", mutation: "4", property: "nothing is written before a job begins", defines: "CRASHES=1"},
		{model: "packs", mutation: "5", property: "a take-over runs again what has begun", defines: "CRASHES=1"},
		{model: "packs", mutation: "6", property: "a later holder releases what has begun as not executed", defines: "REPEATABLE CANCELS=1 BEATS=1"},
		{model: "packs", mutation: "7", property: "the engine takes away what has begun as not executed", defines: "REPEATABLE CANCELS=1"},
		{model: "packs", mutation: "8", property: "an end without the token", defines: "REPEATABLE DUPS=1"},
		{model: "packs", mutation: "9", property: "a heartbeat without the token", defines: "REPEATABLE DUPS=1 BEATS=1"},
		{model: "packs", mutation: "10", property: "done before it is written down", defines: "CRASHES=1"},
		{model: "packs", mutation: "11", property: "unknown counts as not executed", defines: "CANCELS=1"},
		{model: "packs", mutation: "12", property: "no tombstones", defines: "CANCELS=1"},
		{model: "packs", mutation: "13", property: "tombstones for the window only", defines: "NL=2 W=1 NW=1 CANCELS=1", minLevel: usual},
		{model: "packs", mutation: "14", property: "tombstones for the first attempt only", defines: "NA=2 FAILS=1 CANCELS=1", minLevel: usual},
		{model: "packs", mutation: "15", property: "rollback of the last attempt only", defines: "NA=2 FAILS=1 CANCELS=1", minLevel: usual},
		{model: "packs", mutation: "16", property: "the engine keeps the token, an end looks at nothing else", defines: "CANCELS=1"},
		{model: "packs", mutation: "17", property: "unconditional commits", defines: "STEPS=2 NH=2 EARLY=1", minLevel: usual},
		{model: "packs", mutation: "18", property: "a job goes on when its lease is over", defines: "CANCELS=1"},
		{model: "packs", mutation: "19", property: "the fence is the pack's token", defines: "FENCED CANCELS=1"},
		{model: "packs", mutation: "20", property: "closing does not heal the done set", defines: "CANCELS=1 CRASHES=1 LOSSES=1"},
		{model: "packs", mutation: "21", property: "the alarm does not heal the done set", defines: "CRASHES=1 LOSSES=1"},
		{model: "packs", mutation: "22", property: "the alarm sends again only what is absent", defines: "CRASHES=1 LOSSES=1"},
		{model: "packs", mutation: "23", property: "the alarm rings but once", defines: "CRASHES=1 LOSSES=1"},
		{model: "packs", mutation: "24", property: "a counter in place of the set", defines: "NL=2 DUPS=1"},
		{model: "packs", mutation: "25", property: "the alarm looks at no window", defines: "NL=2 W=1 EARLY=1", minLevel: usual},
		{model: "packs", mutation: "26", property: "messages never grow too old", defines: "AGED DUPS=1"},
		{model: "packs", mutation: "26B", property: "items are removed before messages are too old", defines: "AGED DUPS=1"},
		{model: "packs", mutation: "27", property: "keys that do not tell visits apart", defines: "STEPS=2"},
		{model: "packs", mutation: "28", property: "the done set is put anew", defines: "STEPS=2 NH=2 EARLY=1", minLevel: usual},
		{model: "packs", mutation: "29", property: "a cancel during the rollback", defines: "CANCELS=2"},
		{model: "packs", mutation: "30", property: "the end before every pack is final", defines: "CANCELS=1"},

		{model: "remote_lease", property: "a result that was acknowledged stays"},
		{model: "remote_lease", mutation: "1", property: "a write is conditional on the token only"},
		{model: "remote_lease", mutation: "2", property: "two leases may be equal", defines: "ALIKE"},
	}
}
