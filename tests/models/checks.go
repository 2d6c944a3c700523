package main

// How far the checks go.
const (
	small = iota // a minute, for every change
	usual
	large
)

const nested = "NX=4 NESTED WANTS=105"

func checks() []check {
	return []check{
		{model: "locks", what: "no two holders, nobody sleeps for ever", bounds: "H0=2 H1=2"},
		{model: "locks", what: "the same with crashes, losses, copies, devices, newer states", bounds: "DEVICE STATES CRASHES=1 LOSSES=1 DUPS=1", from: usual},
		{model: "locks", what: "everyone ends", ends: true},
		{model: "locks", what: "everyone ends, with losses and copies", bounds: "DUPS=1 LOSSES=1", ends: true, from: usual},
		{model: "locks", what: "the oldest is not starved", bounds: "NE=1 WANTS=3 REBORN=8 EMAX=30"},
		{model: "locks", what: "runs that start others end", bounds: nested},
		{model: "locks", what: "alarms that ring for nothing", bounds: "RINGS"},
		{model: "locks", what: "crashes without limit", bounds: "ENDLESS H0=2", from: usual},
		{model: "locks", what: "cancels and retries", bounds: "CANCELS=1 RETRIES=1", from: usual},
		{model: "locks", what: "3 runs in a circle", bounds: "NX=3 NE=3 WANTS=235", from: usual},
		{model: "locks", what: "everyone ends, whatever operators do", bounds: "CANCELS=1 RETRIES=1", ends: true, from: usual},
		{model: "locks", what: "2+2 handlers, crashes without limit", bounds: "ENDLESS H0=2 H1=2 EMAX=12 RMAX=60", from: large},
		{model: "locks", what: "3 runs, 2 entities", bounds: "NX=3 WANTS=63 H1=2 EMAX=14 RMAX=60", from: large},
		{model: "locks", what: "3 runs in a circle end", bounds: "NX=3 NE=3 WANTS=235 H1=2 EMAX=14 RMAX=60", ends: true, from: large},
		{model: "locks", what: "nested runs, crashes and losses", bounds: nested + " CRASHES=1 LOSSES=1", from: large},

		{model: "locks", mistake: "1", what: "a larger epoch of one's own is free", bounds: "H0=2 RETRIES=1", from: usual},
		{model: "locks", mistake: "2", what: "transitions on a version that registrations raise", ends: true},
		{model: "locks", mistake: "3", what: "a failed commit stops", bounds: "H0=2"},
		{model: "locks", mistake: "4", what: "registering with whoever has ended"},
		{model: "locks", mistake: "5", what: "locking again while blocked", bounds: "RINGS"},
		{model: "locks", mistake: "6", what: "no look at oneself after a failed write", bounds: "CANCELS=1"},
		{model: "locks", mistake: "7", what: "a reservation that depends on the owner", bounds: "NE=1 WANTS=3 REBORN=8 EMAX=30"},
		{model: "locks", mistake: "7B", what: "only who has slept reserves", bounds: "NE=1 WANTS=3 REBORN=8 EMAX=30"},
		{model: "locks", mistake: "8", what: "nobody looks whether it waits for itself", bounds: nested},
		{model: "locks", mistake: "9", what: "a retry counts epochs anew", bounds: "RETRIES=1"},
		{model: "locks", mistake: "9B", what: "lock items are deleted", bounds: "DEVICE"},
		{model: "locks", mistake: "10", what: "owners read before the items"},
		{model: "locks", mistake: "11", what: "holding is an open list", bounds: "STATES"},
		{model: "locks", mistake: "12", what: "devices look at no token", bounds: "DEVICE H0=2"},
		{model: "locks", mistake: "13", what: "a reservation judged by another rule than registered with", bounds: "CANCELS=1 RETRIES=1", ends: true, from: usual},
		{model: "locks", mistake: "14", what: "who is always too late for a take never reserves", bounds: "NE=1 WANTS=3 REBORN=8 EMAX=30"},

		{model: "packs", what: "a block that must not run twice", bounds: "CRASHES=1 LOSSES=1 FAILS=1 CANCELS=1"},
		{model: "packs", what: "a block that may", bounds: "REPEATABLE CRASHES=1 LOSSES=1 FAILS=1 CANCELS=1"},
		{model: "packs", what: "messages of old", bounds: "AGED DUPS=1"},
		{model: "packs", what: "devices with fences", bounds: "FENCED CRASHES=1 FAILS=1 CANCELS=1"},
		{model: "packs", what: "it ends", bounds: "CRASHES=1 LOSSES=1", ends: true, from: usual},
		{model: "packs", what: "a window", bounds: "NL=2 W=1 CRASHES=1", from: usual},
		{model: "packs", what: "retries", bounds: "NA=2 FAILS=2 CANCELS=1", from: usual},
		{model: "packs", what: "two steps, two handlers", bounds: "STEPS=2 NH=2 CRASHES=1", from: usual},
		{model: "packs", what: "2 jobs", bounds: "J=2 CRASHES=1 FAILS=1 CANCELS=1", from: usual},
		{model: "packs", what: "2 jobs that may run again, heartbeats", bounds: "REPEATABLE J=2 CRASHES=1 FAILS=1 CANCELS=1 BEATS=1", from: usual},
		{model: "packs", what: "a window, everything at once", bounds: "NL=2 W=1 CRASHES=1 FAILS=1 CANCELS=1 EARLY=1", from: large},
		{model: "packs", what: "retries, everything at once", bounds: "NA=2 CRASHES=1 FAILS=2 CANCELS=1 DUPS=1", from: large},
		{model: "packs", what: "two steps with rollback", bounds: "STEPS=2 NH=2 CRASHES=1 FAILS=1 CANCELS=1 EARLY=1", from: large},
		{model: "packs", what: "3 claims", bounds: "TMAX=3 CRASHES=2 LOSSES=1 DUPS=2 CANCELS=1", from: large},

		{model: "packs", mistake: "1", what: "a take-over looks at the token only", bounds: "DUPS=1 BEATS=1"},
		{model: "packs", mistake: "2", what: "a take-over while the lease runs", bounds: "DUPS=1"},
		{model: "packs", mistake: "3", what: "a live claim is adopted by name", bounds: "DUPS=1"},
		{model: "packs", mistake: "4", what: "nothing is written before a job begins", bounds: "CRASHES=1"},
		{model: "packs", mistake: "5", what: "a take-over runs again what has begun", bounds: "CRASHES=1"},
		{model: "packs", mistake: "6", what: "a later holder releases what has begun as not executed", bounds: "REPEATABLE CANCELS=1 BEATS=1"},
		{model: "packs", mistake: "7", what: "the engine takes away what has begun as not executed", bounds: "REPEATABLE CANCELS=1"},
		{model: "packs", mistake: "8", what: "an end without the token", bounds: "REPEATABLE DUPS=1"},
		{model: "packs", mistake: "9", what: "a heartbeat without the token", bounds: "REPEATABLE DUPS=1 BEATS=1"},
		{model: "packs", mistake: "10", what: "done before it is written down", bounds: "CRASHES=1"},
		{model: "packs", mistake: "11", what: "unknown counts as not executed", bounds: "CANCELS=1"},
		{model: "packs", mistake: "12", what: "no tombstones", bounds: "CANCELS=1"},
		{model: "packs", mistake: "13", what: "tombstones for the window only", bounds: "NL=2 W=1 NW=1 CANCELS=1", from: usual},
		{model: "packs", mistake: "14", what: "tombstones for the first attempt only", bounds: "NA=2 FAILS=1 CANCELS=1", from: usual},
		{model: "packs", mistake: "15", what: "rollback of the last attempt only", bounds: "NA=2 FAILS=1 CANCELS=1", from: usual},
		{model: "packs", mistake: "16", what: "the engine keeps the token, an end looks at nothing else", bounds: "CANCELS=1"},
		{model: "packs", mistake: "17", what: "unconditional commits", bounds: "STEPS=2 NH=2 EARLY=1", from: usual},
		{model: "packs", mistake: "18", what: "a job goes on when its lease is over", bounds: "CANCELS=1"},
		{model: "packs", mistake: "19", what: "the fence is the pack's token", bounds: "FENCED CANCELS=1"},
		{model: "packs", mistake: "20", what: "closing does not heal the done set", bounds: "CANCELS=1 CRASHES=1 LOSSES=1"},
		{model: "packs", mistake: "21", what: "the alarm does not heal the done set", bounds: "CRASHES=1 LOSSES=1"},
		{model: "packs", mistake: "22", what: "the alarm sends again only what is absent", bounds: "CRASHES=1 LOSSES=1"},
		{model: "packs", mistake: "23", what: "the alarm rings but once", bounds: "CRASHES=1 LOSSES=1"},
		{model: "packs", mistake: "24", what: "a counter in place of the set", bounds: "NL=2 DUPS=1"},
		{model: "packs", mistake: "25", what: "the alarm looks at no window", bounds: "NL=2 W=1 EARLY=1", from: usual},
		{model: "packs", mistake: "26", what: "messages never grow too old", bounds: "AGED DUPS=1"},
		{model: "packs", mistake: "26B", what: "items are removed before messages are too old", bounds: "AGED DUPS=1"},
		{model: "packs", mistake: "27", what: "keys that do not tell visits apart", bounds: "STEPS=2"},
		{model: "packs", mistake: "28", what: "the done set is put anew", bounds: "STEPS=2 NH=2 EARLY=1", from: usual},
		{model: "packs", mistake: "29", what: "a cancel during the rollback", bounds: "CANCELS=2"},
		{model: "packs", mistake: "30", what: "the end before every pack is final", bounds: "CANCELS=1"},

		{model: "lent", what: "what is acknowledged stays"},
		{model: "lent", mistake: "1", what: "servers write from one copy on the token alone"},
		{model: "lent", mistake: "2", what: "two leases may be alike", bounds: "ALIKE"},
	}
}
