/*
 * A pack that is lent to a worker which polls over HTTP. Each of its requests is
 * served by a process of its own, which reads the pack, adds what the request says,
 * and writes the whole of it back: a heartbeat, and the ends of two jobs, in any
 * order and at the same time. A write renews the lease. It stands on the lease that
 * was read, and no two leases of a claim are alike; whoever's write fails begins anew.
 *
 *   MISTAKE_1   a write stands on the token alone
 *   MISTAKE_2   a lease that was renewed may be the one that was read (ALIKE: two
 *               writes within one tick of the clock)
 */

#define STARTED 0
#define OK      1

bit  code[2];	/* in the item */
byte lease;
bit  told[2];	/* the worker has been told that this end is written down */
byte clock;

active [2] proctype Result() {
	bit job, c0, c1;
	byte seen, now;
	job = _pid % 2;
again:
	atomic { c0 = code[0]; c1 = code[1]; seen = lease }
	atomic {
		if
		:: job == 0 -> c0 = OK
		:: else -> c1 = OK
		fi;
#ifdef MISTAKE_2
		now = clock
#else
		now = (clock > seen -> clock : seen + 1)
#endif
	}
	atomic {
#ifdef MISTAKE_1
		if
		:: now >= lease ->
#else
		if
		:: lease == seen ->
#endif
			code[0] = c0; code[1] = c1; lease = now;
			told[job] = 1;
			assert((!told[0] || code[0] == OK) && (!told[1] || code[1] == OK))	/* a result that was acknowledged is lost */
		:: else -> goto again
		fi
	}
}

active proctype Heartbeat() {
	bit c0, c1;
	byte seen, now;
again:
	atomic { c0 = code[0]; c1 = code[1]; seen = lease }
	atomic {
#ifdef MISTAKE_2
		now = clock
#else
		now = (clock > seen -> clock : seen + 1)
#endif
	}
	atomic {
#ifdef MISTAKE_1
		if
		:: now >= lease ->
#else
		if
		:: lease == seen ->
#endif
			code[0] = c0; code[1] = c1; lease = now;
			assert((!told[0] || code[0] == OK) && (!told[1] || code[1] == OK))	/* a result that was acknowledged is lost */
		:: else -> goto again
		fi
	}
}

active proctype Time() {
	do
	:: clock < 3 -> clock++
	:: break
	od
}
