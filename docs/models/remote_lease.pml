/*
 * A pack that is leased over HTTP to a polling worker. A separate process serves each
 * of the worker's requests: it reads the pack, adds what the request says, and writes
 * the whole pack back. Here these are a heartbeat and the results of two jobs, in any
 * order and at the same time. A write renews the lease. Its condition is the lease that
 * was read, and no two leases of a claim are equal. If the write fails, the process
 * reads again.
 *
 *   MUTATION_1   a write is conditional on the token only
 *   MUTATION_2   a renewed lease may equal the one that was read (ALIKE: two writes
 *               within one tick of the clock)
 */

#define STARTED 0
#define OK      1

bit  code[2];	/* in the item */
byte lease;
bit  acked[2];	/* the worker has got the answer that this result is stored */
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
#ifdef MUTATION_2
		now = clock
#else
		now = (clock > seen -> clock : seen + 1)
#endif
	}
	atomic {
#ifdef MUTATION_1
		if
		:: now >= lease ->
#else
		if
		:: lease == seen ->
#endif
			code[0] = c0; code[1] = c1; lease = now;
			acked[job] = 1;
			assert((!acked[0] || code[0] == OK) && (!acked[1] || code[1] == OK))	/* a result that was acknowledged is lost */
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
#ifdef MUTATION_2
		now = clock
#else
		now = (clock > seen -> clock : seen + 1)
#endif
	}
	atomic {
#ifdef MUTATION_1
		if
		:: now >= lease ->
#else
		if
		:: lease == seen ->
#endif
			code[0] = c0; code[1] = c1; lease = now;
			assert((!acked[0] || code[0] == OK) && (!acked[1] || code[1] == OK))	/* a result that was acknowledged is lost */
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
