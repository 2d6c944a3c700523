/*
 * Limits of live executions: a shared lock with a capacity, the slot, which executions take
 * with their locks. The rest of the protocol is that of locks.pml and narrow.pml.
 *
 * Each label of the process Handler is one call to the store. What a handler does between
 * two calls is atomic. There is one handler for each execution.
 *
 * Switches (-D):
 *   NX, LIMIT       executions, and how many of them may be live
 *   AFTER           the number of conflicts from which on an execution reserves
 *   FAILS           executions that end FAILED_UNSAFE, tries included
 *   ACKS, RETRIES   acknowledgements and retries by an operator
 *   CRASHES, LOSSES, DUPS
 *                   handlers that die, messages that are lost, and that arrive twice
 *   EMAX, RMAX      the highest epoch of an execution and the highest revision of the
 *                   slot; the model goes on for ever if it passes one
 *   ROUNDS          how often a handler may read the slot at one epoch
 *   MUTATION_x      a mutation that has to break the model
 */

#ifndef NX
#define NX 3
#endif
#ifndef LIMIT
#define LIMIT 2
#endif
#ifndef AFTER
#define AFTER 2
#endif
#ifndef FAILS
#define FAILS 1
#endif
#ifndef ACKS
#define ACKS 1
#endif
#ifndef RETRIES
#define RETRIES 0
#endif
#ifndef CRASHES
#define CRASHES 0
#endif
#ifndef LOSSES
#define LOSSES 0
#endif
#ifndef DUPS
#define DUPS 0
#endif
#ifndef EMAX
#define EMAX 12
#endif
#ifndef RMAX
#define RMAX 40
#endif
#ifndef ROUNDS
#define ROUNDS 12
#endif

#define SCHEDULED 1
#define LOCKING   2
#define RUNNING   3
#define UNSAFE    4	/* it waits for a person and keeps its place */
#define ACKED     5
#define OVER      6

#define HAS(set, e) (((set) >> (e)) & 1)
#define OLDER(x, y) ((x) < (y))
#ifdef MUTATION_UNSAFE
#define HOLDS(s)   ((s) == LOCKING || (s) == RUNNING)
#else
#define HOLDS(s)   ((s) == LOCKING || (s) == RUNNING || (s) == UNSAFE)
#endif
#define LIVE(y, k) (epoch[y] == (k) && HOLDS(state[y]))
/* A reservation stands while its execution has still to lock, and waits for nobody who waits for a person. */
#define STANDS(y)  (state[y] == LOCKING || (state[y] == SCHEDULED && !blkPerson[y]))
#define PLACED(y)  (state[y] == RUNNING || state[y] == UNSAFE)

/* The state item of each execution. */
byte state[NX];
byte epoch[NX];
byte waiters[NX];	/* set of executions */
byte blk[NX];		/* set of the executions that block it, 0 for none */
byte blkE[NX * NX];	/* their epochs */
byte blkRes[NX];	/* blocked by a reservation: the reserver + 1 */
bit  blkPerson[NX];	/* all that block it wait for a person */
byte conflicts[NX];

/* The slot. */
byte ent[NX];		/* the epoch of each entry, 0 for none */
bit  isShared;
byte rev;
byte res;		/* the reserver + 1, 0 for none */

bit  msg[NX];
byte busy;
byte fails = FAILS, acks = ACKS, retries = RETRIES, crashes = CRASHES, losses = LOSSES, dups = DUPS;
bit  fault;		/* a fault happened that only the timer repairs */

#if NX == 2
#define NO_MESSAGE (!msg[0] && !msg[1])
#define SIZE ((ent[0] > 0) + (ent[1] > 0))
#define LIVES (PLACED(0) + PLACED(1))
#define KEEPS (LIVE(0, ent[0]) + LIVE(1, ent[1]))
#elif NX == 3
#define NO_MESSAGE (!msg[0] && !msg[1] && !msg[2])
#define SIZE ((ent[0] > 0) + (ent[1] > 0) + (ent[2] > 0))
#define LIVES (PLACED(0) + PLACED(1) + PLACED(2))
#define KEEPS (LIVE(0, ent[0]) + LIVE(1, ent[1]) + LIVE(2, ent[2]))
#else
#define NO_MESSAGE (!msg[0] && !msg[1] && !msg[2] && !msg[3])
#define SIZE ((ent[0] > 0) + (ent[1] > 0) + (ent[2] > 0) + (ent[3] > 0))
#define LIVES (PLACED(0) + PLACED(1) + PLACED(2) + PLACED(3))
#define KEEPS (LIVE(0, ent[0]) + LIVE(1, ent[1]) + LIVE(2, ent[2]) + LIVE(3, ent[3]))
#endif

/* Send a wake-up to every execution in the set; it may be lost. */
inline wake(set) {
	n = 0;
	do
	:: n < NX ->
		if
		:: HAS(set, n) ->
			if
			:: msg[n] = 1
			:: losses > 0 -> losses--; fault = 1
			fi
		:: else
		fi;
		n++
	:: else -> break
	od;
	n = 0
}

#define RELEASE_WAITERS(y) wake(waiters[y]); waiters[y] = 0
#ifdef MUTATION_ENDWAKE
#define END_WAKES(y) skip
#else
#define END_WAKES(y) RELEASE_WAITERS(y)
#endif

/* What a handler forgets between two executions of its loop. */
inline forget() {
	d_step {
		n = 0;
		do
		:: n < NX -> le[n] = 0; n++
		:: else -> break
		od;
		n = 0; lrev = 0; lres = 0; live = 0; lives = 0; size = 0; y = 0; failed = 0; persons = 0; left = 0; gone = 0; shared = 0
	}
}

/* A handler may die before any of its calls. What it left is done by the timer. */
#define MAY_DIE :: crashes > 0 -> crashes--; forget(); goto again

proctype Handler(byte x) {
	byte n, y, lrev, lres, size, lives, e, rounds;
	byte le[NX];	/* the entries as read */
	byte live;	/* set of those that hold a place, as read */
	byte left;	/* those that it has still to register with */
	bit failed, persons, gone, shared;

idle:
	atomic {
		forget(); e = 0; rounds = 0;
		busy--
	};
end_idle:
	atomic {
		if
		:: msg[x] ->
			if
			:: msg[x] = 0
			:: dups > 0 -> dups--
			fi
		:: fault && busy == 0 && NO_MESSAGE && (state[x] == SCHEDULED || state[x] == LOCKING || state[x] == RUNNING) -> skip	/* its timer */
		fi;
		busy++
	};

again:	/* START: it reads its own item */
	atomic {
		rounds = 0; e = epoch[x];
		if
		:: state[x] == SCHEDULED && blkRes[x] > 0 -> goto reserver
		:: state[x] == SCHEDULED && blk[x] > 0 -> left = blk[x]; persons = 1; goto look
		:: state[x] == SCHEDULED && blkRes[x] == 0 && blk[x] == 0 -> goto enter
		:: state[x] == LOCKING -> goto read
		:: state[x] == RUNNING -> goto work
		:: state[x] >= UNSAFE -> goto idle
		fi
	};

reserver: /* registers with who has reserved the slot */
	atomic {
		if
		:: STANDS(blkRes[x] - 1) -> waiters[blkRes[x] - 1] = waiters[blkRes[x] - 1] | (1 << x); goto idle
		:: else -> goto enter
		MAY_DIE
		fi
	};

look:	/* registers again with each that blocks it */
	atomic {
		if
		:: left == 0 ->
			if
			:: failed -> failed = 0; persons = 0; goto enter
			:: !failed && persons && !blkPerson[x] -> goto person
			:: !failed && !persons && blkPerson[x] -> goto enter	/* an operator has retried one */
			:: else -> goto idle
			fi
		:: left > 0 ->
			y = 0;
			do
			:: !HAS(left, y) -> y++
			:: else -> break
			od;
			left = left & ~(1 << y);
			if
			:: LIVE(y, blkE[x * NX + y]) ->
				waiters[y] = waiters[y] | (1 << x);
				persons = persons && state[y] == UNSAFE;
#ifdef MUTATION_STARTONE
				failed = 0; left = 0
#endif
			:: else -> failed = 1
			fi;
			y = 0;
			goto look
		MAY_DIE
		fi
	};

person:	/* its reservations are void from now on */
	atomic {
		if
		:: state[x] == SCHEDULED -> blkPerson[x] = 1; RELEASE_WAITERS(x); persons = 0; goto again
		MAY_DIE
		fi
	};

enter:
	atomic {
		if
		:: state[x] == SCHEDULED ->
			state[x] = LOCKING; epoch[x]++; e = epoch[x]; blk[x] = 0; blkRes[x] = 0; blkPerson[x] = 0;
			assert(epoch[x] < EMAX)	/* executions lock again and again */
		MAY_DIE
		fi
	};

read:	/* ACQUIRE: the slot first */
	atomic {
		if
		:: true ->
			rounds++;
			assert(rounds < ROUNDS);	/* a handler reads the slot for ever */
			n = 0; size = 0;
			do
			:: n < NX -> le[n] = ent[n]; size = size + (ent[n] > 0); n++
			:: else -> break
			od;
			n = 0; y = 0; lrev = rev; lres = res; live = 0; lives = 0; shared = isShared;
			if
			:: ent[x] == e && isShared -> goto commit
			:: else
			fi
		MAY_DIE
		fi
	};

heads:	/* then the states of its holders, one by one, where there may be no place left */
	atomic {
		if
		:: y < NX ->
			if
			:: y != x && le[y] > 0 && size + 1 >= LIMIT ->
#ifdef MUTATION_UNREAD
				live = live | (1 << y); lives++
#else
				if
				:: LIVE(y, le[y]) -> live = live | (1 << y); lives++
				:: else
				fi
#endif
			:: else
			fi;
			y++;
			goto heads
		:: y == NX ->
			y = 0;
			gone = 0;
			if
			:: lres > 0 && lres != x + 1 -> gone = !STANDS(lres - 1)
			:: else
			fi
		fi
	};

judge:
	atomic {
		if
		:: lives >= LIMIT -> goto conflict
		:: lives < LIMIT && lres > 0 && lres != x + 1 && !gone && OLDER(lres - 1, x) -> goto barred
		:: else -> goto take
		fi
	};

take:
	atomic {
		if
		:: shared && size < LIMIT ->	/* JOIN */
			if
#ifdef MUTATION_NOSIZE
			:: isShared && ent[x] < e && (res == 0 || res == x + 1 || !OLDER(res - 1, x) || (gone && res == lres)) ->
#else
			:: isShared && SIZE < LIMIT && ent[x] < e && (res == 0 || res == x + 1 || !OLDER(res - 1, x) || (gone && res == lres)) ->
#endif
				ent[x] = e; rev++; goto commit
			:: else -> goto lost
			fi
		:: !(shared && size < LIMIT) ->	/* SHARE */
#ifdef MUTATION_NOREV
			if
			:: true ->
#else
			if
			:: rev == lrev ->
#endif
				n = 0;
				do
				:: n < NX ->
					if
					:: n != x && size + 1 >= LIMIT && !HAS(live, n) -> ent[n] = 0
					:: n != x && HAS(live, n) -> ent[n] = le[n]
					:: else
					fi;
					n++
				:: else -> break
				od;
				n = 0; isShared = 1; ent[x] = e; rev++; goto commit
			:: else -> goto lost
			fi
		MAY_DIE
		fi
	};

lost:	/* somebody else was first */
	atomic {
		assert(rev < RMAX);	/* the slot is written again and again */
		if
		:: conflicts[x] < AFTER -> conflicts[x]++
		:: else
		fi;
		if
		:: conflicts[x] >= AFTER && (res == 0 || OLDER(x, res - 1) || (gone && res == lres)) -> res = x + 1; rev++
		:: else
		fi;
		goto read
	};

commit:
	atomic {
		if
		:: state[x] == LOCKING && epoch[x] == e ->
			state[x] = RUNNING; conflicts[x] = 0;
			assert(LIVES <= LIMIT);		/* more are live than may be */
			assert(ent[x] == e);		/* it is live without being in the slot */
			goto work
		MAY_DIE
		fi
	};

conflict: /* from the second one on it reserves */
	atomic {
		if
		:: conflicts[x] < AFTER -> conflicts[x]++
		:: else
		fi;
		if
		:: conflicts[x] >= AFTER && (res == 0 || OLDER(x, res - 1) || (gone && res == lres)) -> res = x + 1; rev++
		:: else
		fi;
		left = live; persons = 1; failed = 0;
#ifdef MUTATION_OLDEST
		y = 0;
		do
		:: !HAS(left, y) -> y++
		:: else -> break
		od;
		left = 1 << y; live = left; y = 0;
#endif
	};

register: /* with all that are live */
	atomic {
		if
		:: left > 0 ->
			y = 0;
			do
			:: !HAS(left, y) -> y++
			:: else -> break
			od;
			left = left & ~(1 << y);
			if
			:: LIVE(y, le[y]) -> waiters[y] = waiters[y] | (1 << x); persons = persons && state[y] == UNSAFE
			:: else -> failed = 1
			fi;
			y = 0;
			goto register
#ifdef MUTATION_PARTREG
		:: left == 0 -> failed = 0; goto release
#else
		:: left == 0 && failed -> failed = 0; persons = 0; goto read
		:: left == 0 && !failed -> goto release
#endif
		MAY_DIE
		fi
	};

barred:	/* an older execution is the next */
	atomic {
		if
		:: conflicts[x] < AFTER -> conflicts[x]++
		:: else
		fi;
		if
		:: STANDS(lres - 1) -> waiters[lres - 1] = waiters[lres - 1] | (1 << x)
		:: else -> goto read
		fi
	};
	atomic {
		if
		:: state[x] == LOCKING && epoch[x] == e ->
			state[x] = SCHEDULED; blk[x] = 0; blkRes[x] = lres; blkPerson[x] = 0; msg[lres - 1] = 1;
			RELEASE_WAITERS(x);
			goto idle
		MAY_DIE
		fi
	};

release:
	atomic {
		if
		:: state[x] == LOCKING && epoch[x] == e ->
			state[x] = SCHEDULED; blk[x] = live; blkRes[x] = 0; blkPerson[x] = persons;
			n = 0;
			do
			:: n < NX -> blkE[x * NX + n] = (HAS(live, n) -> le[n] : 0); n++
			:: else -> break
			od;
			n = 0;
			RELEASE_WAITERS(x);
			goto idle
		MAY_DIE
		fi
	};

work:	/* END: one write */
	atomic {
		if
		:: state[x] == RUNNING -> state[x] = OVER; END_WAKES(x)
		:: state[x] == RUNNING && fails > 0 -> fails--; state[x] = UNSAFE; END_WAKES(x)
		MAY_DIE
		fi;
		goto idle
	}
}

/* An operator acknowledges what has ended unsafely, or retries it: in place, or anew once it is acknowledged. */
proctype Operator() {
	byte n, y;
end_operator:
	do
	:: atomic {
		acks + retries > 0 ->
		if
		:: y = 0
		:: y = 1
#if NX > 2
		:: y = 2
#endif
		fi;
		if
		:: acks > 0 && state[y] == UNSAFE -> acks--; state[y] = ACKED; RELEASE_WAITERS(y)
		:: retries > 0 && state[y] == UNSAFE -> retries--; state[y] = RUNNING; msg[y] = 1
		:: retries > 0 && state[y] == ACKED -> retries--; state[y] = SCHEDULED; msg[y] = 1
		:: else
		fi;
		y = 0
	}
	od
}

/* When nothing moves any more, everybody has had a turn or has a reason to wait. */
#define RESTS(x) (state[x] >= UNSAFE || (state[x] == SCHEDULED && KEEPS >= LIMIT))

init {
	byte n;
	atomic {
		do
		:: n < NX -> state[n] = SCHEDULED; msg[n] = 1; busy++; run Handler(n); n++
		:: else -> break
		od;
		run Operator()
	};
end_init:
	do
	:: atomic {
		busy == 0 && NO_MESSAGE && !fault ->
		n = 0;
		do
		:: n < NX ->
			assert(RESTS(n));	/* an execution waits although there is a place */
			n++
		:: else -> break
		od;
		n = 0
	}
	od
}
