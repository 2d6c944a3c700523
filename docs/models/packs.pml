/*
 * How jobs are delivered: the protocol of docs/protocols/packs.md.
 *
 * One execution with its steps, of NL lanes each. Each atomic block is one call to the
 * store, to the queue or to a device. Workers and handlers may pause for any time, and
 * may die before any call. Messages arrive in any order, twice, or never.
 *
 * Time matters only for leases: a lease is live, or has ended within the skew (0), has
 * ended longer ago than the skew (1), or longer ago than the grace too (2). By its own clock, a worker
 * knows that its lease has ended before anybody else may take the pack, and then aborts
 * its job. With FENCED it may pause for any time between this check of the clock and
 * its call to the device; then only the device's memory of the highest fence helps.
 *
 * Switches (-D):
 *   NL, J, NA, STEPS   lanes, jobs of a pack, attempts, steps
 *   W                  lanes that may be under way at a time, 0 for all
 *   NW, NH             workers, and handlers of the engine
 *   TMAX               claims of one pack
 *   REPEATABLE         the block may run again; otherwise a second start is a fault
 *   CRASHES, LOSSES, DUPS, FAILS, CANCELS, BEATS, EARLY
 *                      processes that die, messages that are lost and duplicated, jobs
 *                      that fail, cancels, heartbeats, timers that fire early
 *   FENCED             see above
 *   MUTATION_n         a mutation that has to break the model
 */

#ifndef NL
#define NL 1
#endif
#ifndef J
#define J 1
#endif
#ifndef NA
#define NA 1
#endif
#ifndef STEPS
#define STEPS 1
#endif
#ifndef W
#define W 0
#endif
#ifndef NW
#define NW 2
#endif
#ifndef NH
#define NH 1
#endif
#ifndef TMAX
#define TMAX 2
#endif
#ifdef REPEATABLE
#define ID true
#else
#define ID false
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
#ifndef FAILS
#define FAILS 0
#endif
#ifndef CANCELS
#define CANCELS 0
#endif
#ifndef BEATS
#define BEATS 0
#endif
#ifndef EARLY
#define EARLY 0
#endif

#define NR   (STEPS + 1)		/* step runs; the last may be needed for the rollback */
#define PER  (NL * NA)
#define NP   (NR * PER)
#define ALL  ((1 << NL) - 1)

/* The number of a pack, in its messages and as the key of its item. */
#define KEY(r, l, a)  ((r) * PER + (l) * NA + (a))
#define RUN(m)        ((m) / PER)
#define LANE(m)       (((m) / NA) % NL)
#define ATTEMPT(m)    ((m) % NA)
#ifdef MUTATION_27
#define ITEM(m)       ((m) >= PER && !rollback -> (m) % PER : (m))
#else
#define ITEM(m)       (m)
#endif

/* The state of a pack; from 2 on it is final. */
#define ABSENT    0
#define CLAIMED   1
#define FINISHED  2
#define CANCELLED 3
#define FINAL(p)  (pack[p] >= FINISHED)

/* What is known about a job. */
#define NONE    0
#define STARTED 1
#define OK      2
#define FAIL    3
#define UNKNOWN 4
#define NOTRUN  5
#define ENDED(c)    ((c) >= OK)
#ifdef MUTATION_11
#define EXECUTED(c) ((c) == OK || (c) == FAIL)
#else
#define EXECUTED(c) ((c) == OK || (c) == FAIL || (c) == UNKNOWN)
#endif

/* The pack items. */
byte pack[NP];
byte token[NP];
byte lease[NP];		/* grows with every lease: no two are equal */
byte spent[NP];		/* whether it has ended: 0, 1, 2, see above */
bit  cancel[NP];
byte code[NP * J];

/* The done sets. */
byte done[NR];
byte bad[NR];
#ifdef MUTATION_24
byte count[NR];
#endif

/* The execution. */
#define RUNNING 0
#define CLOSING 1
#define END     2
byte phase;
byte at;
bit  rollback;		/* the step run undoes what is in todo */
byte todo;		/* set of lane * J + job */

/* The queues. */
byte msg[NP];
bit  wakeup;		/* a wake-up for the engine */

/* The workers, as far as leases are concerned. */
byte work[NW];		/* pack + 1 */
byte mine[NW];		/* the token */
byte held[NW];		/* the lease: 1 live, 2 ended */

/* What really happened, whether a process knows it or not. */
byte ran[NP * J];	/* how often each job has begun */
byte undone;		/* set of lane * J + job */
bit  late;		/* messages have expired */
bit  progress = 1;	/* something was written since the timer fired */
#ifdef FENCED
byte seen[NL * J];	/* the highest fence that each device has seen */
#endif
#ifdef MUTATION_23
bit  due = 1;
#endif

byte crashes = CRASHES, losses = LOSSES, dups = DUPS, fails = FAILS, cancels = CANCELS, beats = BEATS, early = EARLY;

/* A job belongs to a pack if it has to be undone, or to be attempted (again). */
#define PART(m, j) ((rollback && RUN(m) == at) -> ((todo >> (LANE(m) * J + (j))) & 1) : (ATTEMPT(m) == 0 || code[(ITEM(m) - 1) * J + (j)] == FAIL))

inline send(m) {
	if
	:: msg[m] < 2 -> msg[m]++; progress = 1
	:: msg[m] == 2 -> skip
	:: losses > 0 -> losses--; progress = 1
	fi
}

inline sendWakeup() {
	if
	:: wakeup = 1; progress = 1
	:: losses > 0 -> losses--; progress = 1
	fi
}

/* A job calls its device only while its step run is open and the execution has not ended. */
#ifdef FENCED
#define TOUCH(r)
#else
#define TOUCH(r) assert(at == (r) && phase != END)
#endif

#if J == 1
#define HASFAILED(p) (code[p] == FAIL)
#else
#define HASFAILED(p) (code[(p) * 2] == FAIL || code[(p) * 2 + 1] == FAIL)
#endif

/* A lane is finished if no attempt follows the last final one. */
inline isOver(r, l) {
	n = 0;
	do
	:: FINAL(ITEM(KEY(r, l, n))) && pack[ITEM(KEY(r, l, n))] == FINISHED && n + 1 < NA && HASFAILED(ITEM(KEY(r, l, n))) -> n++
	:: else -> break
	od;
	over = FINAL(ITEM(KEY(r, l, n)));
	n = 0
}

inline add(r, l, b) {
	progress = progress || !((done[r] >> (l)) & 1);
	done[r] = done[r] | (1 << (l));
	bad[r] = bad[r] | ((b) << (l))
#ifdef MUTATION_24
	; count[r]++
#endif
}
#ifdef MUTATION_24
#define COMPLETE(r) (count[r] >= NL)
#else
#define COMPLETE(r) (done[r] == ALL)
#endif

inline leaves(p) {	/* reports whether the pack leaves a job that did not succeed */
	b = 0; n = 0;
	do
	:: n < J -> b = b || (code[(p) * J + n] != NONE && code[(p) * J + n] != OK); n++
	:: else -> n = 0; break
	od
}

inline renewLease(p) {
	lease[p]++; spent[p] = 0; held[me] = 1; progress = 1
}

inline forget() {
	work[me] = 0; mine[me] = 0; held[me] = 0; m = 0; p = 0; j = 0; n = 0; b = 0; read = 0; begun = 0;
	do
	:: n < J -> c[n] = 0; n++
	:: else -> n = 0; break
	od
}

/* The message is not deleted, so it arrives again. */
#define BACK if :: msg[m] < 2 -> msg[m]++ :: else fi; forget(); goto idle

#if CRASHES
#define DIE :: atomic { crashes > 0 -> crashes--; progress = 1; if :: losses > 0 -> losses--; forget(); goto idle :: BACK fi }
#else
#define DIE
#endif

#ifdef MUTATION_26
#define LATE (late && pack[p] != ABSENT)
#else
#define LATE late
#endif

/* A message of a claimed pack stays hidden until the lease has ended. */
#if defined(MUTATION_2) || defined(MUTATION_3)
#define RECEIVABLE(k) (msg[k] > 0)
#else
#define RECEIVABLE(k) (msg[k] > 0 && !(pack[ITEM(k)] == CLAIMED && spent[ITEM(k)] == 0))
#endif
#define RECEIVE(k) :: atomic { RECEIVABLE(k) -> m = k; if :: msg[k]-- :: dups > 0 -> dups-- fi; break }

proctype Worker(byte me) {
	byte m, p, j, n, read, begun;
	byte c[J];
	bit b;

end_idle:
idle:
	do
	RECEIVE(0)
#if NP > 1
	RECEIVE(1)
#endif
#if NP > 2
	RECEIVE(2)
#endif
#if NP > 3
	RECEIVE(3)
#endif
#if NP > 4
	RECEIVE(4)
#endif
#if NP > 5
	RECEIVE(5)
#endif
#if NP > 6
	RECEIVE(6)
	RECEIVE(7)
#endif
	od;

claim:
	if
	:: atomic { true ->
		p = ITEM(m);
		if
#ifdef MUTATION_26
		:: late && pack[p] != ABSENT -> forget(); goto idle
#else
		:: late -> forget(); goto idle
#endif
		:: !LATE && pack[p] == ABSENT ->
#if W
			/* No more packs are claimed at a time than the window allows. */
			do
			:: n < NL * NA -> read = read + (pack[RUN(m) * PER + n] == CLAIMED && spent[RUN(m) * PER + n] == 0); n++
			:: else -> n = 0; break
			od;
			assert(rollback || read < W);
			read = 0;
#endif
			pack[p] = CLAIMED; token[p] = 1; work[me] = m + 1; mine[me] = 1; renewLease(p);
			b = 1;
			do
			:: n < J ->
				if
				:: PART(m, n) ->
#ifdef MUTATION_4
					code[p * J + n] = (ID -> STARTED : NONE);
#else
					code[p * J + n] = ((ID || b) -> STARTED : NONE);
#endif
					b = 0
				:: else -> code[p * J + n] = NONE
				fi;
				c[n] = code[p * J + n]; n++
			:: else -> n = 0; b = 0; break
			od
#if J == 2
			; if	/* a job that does not belong to the pack has no code and does not start */
			:: !PART(m, 0) -> begun = begun | 4
			:: else
			fi;
			if
			:: !PART(m, 1) -> begun = begun | 8
			:: else
			fi
#endif
		:: !LATE && FINAL(p) -> work[me] = m + 1; goto after
		:: !LATE && pack[p] == CLAIMED ->
			if
#ifdef MUTATION_3
			:: spent[p] == 0 ->	/* a claim under the worker's own name counts as its own */
				work[me] = m + 1; mine[me] = token[p]; held[me] = 1;
				do
				:: n < J -> c[n] = code[p * J + n]; n++
				:: else -> n = 0; break
				od;
				goto jobs
#elif defined(MUTATION_2)
			:: spent[p] == 0 && !cancel[p] && token[p] < TMAX -> work[me] = m + 1; mine[me] = token[p]; read = lease[p]; goto takeover
			:: spent[p] == 0 && (cancel[p] || token[p] == TMAX) -> forget(); goto idle
#else
			:: spent[p] == 0 -> BACK
#endif
			:: spent[p] > 0 && (cancel[p] || token[p] == TMAX) -> forget(); goto idle	/* left to the engine */
			:: spent[p] > 0 && !cancel[p] && token[p] < TMAX -> work[me] = m + 1; mine[me] = token[p]; read = lease[p]; goto takeover
			fi
		fi }
	DIE
	fi;
	goto jobs;

takeover:
	if
	:: atomic { true ->
		if
#ifdef MUTATION_1
		:: pack[p] == CLAIMED && token[p] == mine[me] && !cancel[p] ->
#else
		:: pack[p] == CLAIMED && token[p] == mine[me] && lease[p] == read && !cancel[p] ->
#endif
			token[p]++; mine[me] = token[p]; renewLease(p); read = 0;
			do
			:: n < J ->
#ifdef MUTATION_5
				if
				:: code[p * J + n] == STARTED && !ID -> code[p * J + n] = NONE
				:: else
				fi;
#else
				if
				:: code[p * J + n] == STARTED && !ID -> code[p * J + n] = UNKNOWN
				:: else
				fi;
#endif
				c[n] = code[p * J + n]; n++
			:: else -> n = 0; break
			od
#if J == 2
			; if
			:: !PART(m, 0) -> begun = begun | 4
			:: else
			fi;
			if
			:: !PART(m, 1) -> begun = begun | 8
			:: else
			fi
#endif
		:: else -> BACK
		fi }
	DIE
	fi;

jobs:
	do
	:: atomic { j < J && (ENDED(c[j]) || ((begun >> 2) & (1 << j))) -> j++ }
	:: atomic { j == J -> goto finish }
	:: atomic { j < J && !((begun >> 2) & (1 << j)) && c[j] == STARTED -> break }
	:: atomic { j < J && !((begun >> 2) & (1 << j)) && c[j] == NONE ->	/* record the start first */
		if
#ifdef MUTATION_4
		:: true -> c[j] = STARTED; break
#else
		:: pack[p] == CLAIMED && token[p] == mine[me] && !cancel[p] ->
			code[p * J + j] = STARTED; c[j] = STARTED; renewLease(p); break
		:: pack[p] == CLAIMED && token[p] == mine[me] && cancel[p] -> goto release
		:: !(pack[p] == CLAIMED && token[p] == mine[me]) -> BACK
#endif
		fi }
	:: atomic { beats > 0 -> beats--;	/* a heartbeat */
		if
#ifdef MUTATION_9
		:: pack[p] == CLAIMED && !cancel[p] -> renewLease(p)
		:: pack[p] == CLAIMED && cancel[p] -> goto release
		:: pack[p] != CLAIMED -> BACK
#else
		:: pack[p] == CLAIMED && token[p] == mine[me] && !cancel[p] -> renewLease(p)
		:: pack[p] == CLAIMED && token[p] == mine[me] && cancel[p] -> goto release
		:: !(pack[p] == CLAIMED && token[p] == mine[me]) -> BACK
#endif
		fi }
	DIE
	od;

begin:	/* Only under a live lease. */
#ifdef FENCED
	if
	:: atomic { held[me] == 1 }
	:: atomic { held[me] == 2 -> BACK }
	DIE
	fi;
	if
	:: atomic { true ->
#ifdef MUTATION_19
		b = mine[me] >= seen[LANE(m) * J + j];
#define FENCE mine[me]
#else
#define FENCE (RUN(m) * 32 + ATTEMPT(m) * 8 + mine[me])
		b = FENCE >= seen[LANE(m) * J + j];
#endif
		if
		:: b -> seen[LANE(m) * J + j] = FENCE
		:: !b ->
			assert(!(pack[p] == CLAIMED && token[p] == mine[me] && spent[p] == 0));	/* the device refuses the holder */
			BACK
		fi;
		b = 0;
		if
		:: rollback && RUN(m) == at -> undone = undone | (1 << (LANE(m) * J + j))
		:: else -> assert(!((undone >> (LANE(m) * J + j)) & 1))	/* an undone job begins again */
		fi;
		assert(ID || ran[m * J + j] == 0);	/* it begins twice */
		ran[m * J + j] = 1; begun = begun | (1 << j) }
	DIE
	fi;
#else
	if
	:: atomic { held[me] == 1 ->
		TOUCH(RUN(m));	/* a job begins after the end of its step run */
		assert(ID || ran[m * J + j] == 0);	/* it begins twice */
		if
		:: rollback -> undone = undone | (1 << (LANE(m) * J + j))
		:: else
		fi;
		ran[m * J + j] = 1; begun = begun | (1 << j) }
	:: atomic { held[me] == 2 -> BACK }
	DIE
	fi;
#endif
	if
#ifdef MUTATION_18
	:: atomic { held[me] > 0 ->
#else
	:: atomic { held[me] == 1 ->
#endif
		TOUCH(RUN(m));	/* a job continues after the end of its step run */
		if
		:: c[j] = OK
		:: fails > 0 -> fails--; c[j] = FAIL
		fi;
		j++ }
#ifndef MUTATION_18
	:: atomic { held[me] == 2 -> BACK }	/* aborted */
#endif
	DIE
	fi;
	goto jobs;

finish:
#ifdef MUTATION_10
	if
	:: atomic { true -> add(RUN(m), LANE(m), 0); sendWakeup() }
	DIE
	fi;
#endif
	if
	:: atomic { true ->
		if
#ifdef MUTATION_8
		:: pack[p] == CLAIMED ->
#elif defined(MUTATION_16)
		:: token[p] == mine[me] ->
#else
		:: pack[p] == CLAIMED && token[p] == mine[me] ->
#endif
			assert(!FINAL(p));	/* a final result changes */
			pack[p] = FINISHED; progress = 1;
			do
			:: n < J -> code[p * J + n] = c[n]; n++
			:: else -> n = 0; break
			od
		:: else -> BACK
		fi }
	DIE
	fi;
	goto after;

release:
	if
	:: atomic { true ->
		if
		:: pack[p] == CLAIMED && token[p] == mine[me] ->
			pack[p] = CANCELLED; progress = 1;
			do
			:: n < J ->
				if
				:: !PART(m, n) || ENDED(c[n]) -> code[p * J + n] = c[n]
				:: PART(m, n) && c[n] == NONE -> code[p * J + n] = NOTRUN
#ifdef MUTATION_6
				:: PART(m, n) && c[n] == STARTED && ID && !((begun >> n) & 1) -> code[p * J + n] = NOTRUN
				:: PART(m, n) && c[n] == STARTED && !(ID && !((begun >> n) & 1)) -> code[p * J + n] = UNKNOWN
#else
				:: PART(m, n) && c[n] == STARTED && ID && mine[me] == 1 && !((begun >> n) & 1) -> code[p * J + n] = NOTRUN
				:: PART(m, n) && c[n] == STARTED && !(ID && mine[me] == 1 && !((begun >> n) & 1)) -> code[p * J + n] = UNKNOWN
#endif
				fi;
				n++
			:: else -> n = 0; break
			od
		:: else -> BACK
		fi }
	DIE
	fi;

after:	/* The pack is known to be final. */
	if
	:: atomic { pack[p] == FINISHED && ATTEMPT(m) + 1 < NA && HASFAILED(p) -> send(m + 1); forget(); goto idle }
	:: atomic { !(pack[p] == FINISHED && ATTEMPT(m) + 1 < NA && HASFAILED(p)) -> leaves(p); add(RUN(m), LANE(m), b) }
	DIE
	fi;
#if W
	if
	:: atomic { pack[p] == FINISHED && !(rollback && RUN(m) == at) && LANE(m) + W < NL -> send(KEY(RUN(m), LANE(m) + W, 0)) }
	:: atomic { !(pack[p] == FINISHED && !(rollback && RUN(m) == at) && LANE(m) + W < NL) -> skip }
	DIE
	fi;
#endif
	if
	:: atomic { true ->
		if
		:: COMPLETE(RUN(m)) || b -> sendWakeup()
		:: else
		fi;
		forget(); goto idle }
	DIE
	fi
}


inline resetHandler() {	/* reset the handler's variables */
	r = 0; ph = 0; l = 0; a = 0; st = 0; rd = 0; rt = 0; wait = 0; timerFired = 0; D = 0; n = 0; k = 0; next = 0; over = 0; e = 0; b = 0
}

#if CRASHES
#define FALL :: atomic { crashes > 0 -> crashes--; progress = 1; resetHandler(); goto idle }
#else
#define FALL
#endif

#ifdef MUTATION_13
#define NOTSKIPPED && !(W && l >= W)
#elif defined(MUTATION_14)
#define NOTSKIPPED && a == 0
#else
#define NOTSKIPPED
#endif

/* Executed jobs are undone: those of step runs before the given one. */
inline allUndone(below) {
	k = 0;
	do
	:: k < (below) ->
		assert(ran[k] == 0 || ((undone >> (LANE(k / J) * J + k % J)) & 1));	/* an executed job is not undone */
		k++
	:: else -> k = 0; break
	od
}

#define GO 1
#define UNDO 2
#define STOP 3

proctype Handler() {
	byte r, ph, l, a, st, rd, rt, D, n, k, next, e;
	bit wait, timerFired, over, b;

end_idle:
idle:
	do
	:: atomic { wakeup -> wakeup = 0; break }
	:: atomic { phase != END && early > 0 -> early--; timerFired = 1; break }
	:: atomic { timeout && phase != END ->
		assert(progress);	/* nothing continues, and the timer does not help */
#ifdef MUTATION_23
		assert(due);	/* the execution is never advanced again */
		due = 0;
#endif
		progress = 0; timerFired = 1; break }
	od;

load:
	if
	:: atomic { true ->
		r = at; ph = phase;
		if
		:: phase == END -> resetHandler(); goto idle
		:: phase == CLOSING -> goto close
		:: else
		fi }
	FALL
	fi;
	if
	:: atomic { true ->
		D = done[r];
		if
		:: bad[r] != 0 && !rollback -> goto fail
		:: !(bad[r] != 0 && !rollback) && COMPLETE(r) -> goto decide
		:: !(bad[r] != 0 && !rollback) && !COMPLETE(r) && !timerFired -> resetHandler(); goto idle
		:: else
		fi }
	FALL
	fi;

walk:	/* The timer has fired: check every lane that is not in the done set. */
	do
	:: atomic { l < NL && ((D >> l) & 1) -> l++; a = 0 }
	:: atomic { l == NL -> break }
	:: atomic { l < NL && !((D >> l) & 1) ->
		k = ITEM(KEY(r, l, a)); st = pack[k]; rd = lease[k]; rt = token[k];
		if
		:: at != r -> resetHandler(); goto load
		:: else
		fi;
		if
		:: st == FINISHED && a + 1 < NA && HASFAILED(k) -> a++
		:: st >= FINISHED && !(st == FINISHED && a + 1 < NA && HASFAILED(k)) ->
#ifndef MUTATION_21
			leaves(k); add(r, l, b); b = 0;
#endif
			l++; a = 0
		:: st == ABSENT ->
			if
#if W && !defined(MUTATION_25)
			:: rollback || a > 0 || l < W || ((D >> (l - W)) & 1) -> send(KEY(r, l, a))
			:: else
#else
			:: true -> send(KEY(r, l, a))
#endif
			fi;
			l++; a = 0
		:: st == CLAIMED && spent[k] == 0 -> l++; a = 0
		:: st == CLAIMED && spent[k] > 0 && !(cancel[k] || rt == TMAX) ->
#ifndef MUTATION_22
			send(KEY(r, l, a));
#endif
			l++; a = 0
		:: st == CLAIMED && spent[k] > 0 && (cancel[k] || rt == TMAX) ->
			if
			:: spent[k] == 2 -> goto seize
			:: else -> l++; a = 0
			fi
		fi }
	FALL
	od;
	atomic { resetHandler(); goto load };

fail:	/* A job has failed: close. */
	if
	:: atomic { true ->
		if
		:: at == r && phase == RUNNING -> phase = CLOSING; progress = 1
		:: else
		fi;
		resetHandler(); goto load }
	FALL
	fi;

close:	/* Close every lane, not only those of the window, along all attempts. */
	do
	:: atomic { l == NL -> break }
	:: atomic { l < NL ->
		k = ITEM(KEY(r, l, a)); st = pack[k]; rd = lease[k]; rt = token[k];
		if
#ifdef MUTATION_13
		:: st == ABSENT && W && l >= W -> add(r, l, 1); l++; a = 0
#endif
#ifdef MUTATION_14
		:: st == ABSENT && a > 0 -> add(r, l, 1); l++; a = 0
#endif
#ifdef MUTATION_12
		:: st == ABSENT -> add(r, l, 1); l++; a = 0
#else
		:: st == ABSENT NOTSKIPPED -> break
#endif
		:: st == FINISHED && a + 1 < NA && HASFAILED(k) -> a++
		:: st >= FINISHED && !(st == FINISHED && a + 1 < NA && HASFAILED(k)) ->
#ifndef MUTATION_20
			leaves(k); add(r, l, b); b = 0;
#endif
			l++; a = 0
		:: st == CLAIMED && spent[k] < 2 -> break
		:: st == CLAIMED && spent[k] == 2 -> goto seize
		fi }
	FALL
	od;
	if
	:: atomic { l < NL && st == ABSENT ->	/* a cancelled marker */
		if
		:: pack[k] == ABSENT ->
			pack[k] = CANCELLED; progress = 1;
			do
			:: n < J ->
				if
				:: PART(KEY(r, l, a), n) -> code[k * J + n] = NOTRUN
				:: else
				fi;
				n++
			:: else -> n = 0; break
			od
		:: else
		fi;
		goto close }
	:: atomic { l < NL && st == CLAIMED ->	/* ask it to stop, and wait */
		if
		:: pack[k] == CLAIMED -> progress = progress || !cancel[k]; cancel[k] = 1; wait = 1; l++; a = 0
		:: else
		fi;
		goto close }
	:: atomic { l == NL ->
		if
#ifdef MUTATION_30
		:: true -> goto decide
#else
		:: !wait && COMPLETE(r) -> goto decide
		:: else -> resetHandler(); goto idle
#endif
		fi }
	FALL
	fi;

seize:	/* Take away a claim whose lease ended longer ago than skew and grace. */
	if
	:: atomic { true ->
		if
		:: pack[k] == CLAIMED && token[k] == rt && lease[k] == rd ->
			pack[k] = CANCELLED; progress = 1;
#ifndef MUTATION_16
			token[k]++;
#endif
			do
			:: n < J ->
				if
#ifdef MUTATION_7
				:: code[k * J + n] == STARTED -> code[k * J + n] = (ID -> NOTRUN : UNKNOWN)
#else
				:: code[k * J + n] == STARTED -> code[k * J + n] = UNKNOWN
#endif
				:: code[k * J + n] == NONE && PART(KEY(r, l, a), n) -> code[k * J + n] = NOTRUN
				:: else
				fi;
				n++
			:: else -> n = 0; break
			od
		:: else
		fi;
		if
		:: ph == CLOSING -> goto close
		:: else -> goto walk
		fi }
	FALL
	fi;

decide:	/* All packs of all step runs and attempts. */
	if
	:: atomic { true ->
		if
		:: at != r || phase != ph -> resetHandler(); goto load
		:: else
		fi;
		l = 0; e = 0;
		do
		:: l < NL ->
			isOver(r, l);
			assert(over || (rollback && !((todo >> (l * J)) & ((1 << J) - 1))));	/* classified before a lane is finished */
			l++
		:: else -> l = 0; break
		od;
		if
		:: ph == RUNNING && !rollback && r + 1 < STEPS -> next = GO
		:: ph == RUNNING && !rollback && r + 1 == STEPS -> next = STOP;
			k = 0;
			do
			:: k < STEPS * NL * J ->
#if NA == 1
				assert(ran[k] > 0);	/* a job is lost: it has never begun, and the execution is complete */
#endif
				k++
			:: else -> k = 0; break
			od
		:: ph == RUNNING && rollback -> next = STOP;
			if
			:: bad[r] == 0 -> allUndone(r * PER * J)
			:: else
			fi
		:: ph == CLOSING ->
			k = 0;
			do
			:: k < (rollback -> r : r + 1) * PER * J ->
				assert(code[k] != NOTRUN || ran[k] == 0);	/* a job is recorded as not executed, but was executed */
#ifdef MUTATION_15
				if
				:: EXECUTED(code[k]) && (ATTEMPT(k / J) + 1 == NA || pack[k / J + 1] == ABSENT) -> e = e | (1 << (LANE(k / J) * J + k % J))
				:: else
				fi;
#else
				if
				:: EXECUTED(code[k]) -> e = e | (1 << (LANE(k / J) * J + k % J))
				:: else
				fi;
#endif
				k++
			:: else -> k = 0; break
			od;
			if
			:: e == 0 || rollback -> next = STOP;
				allUndone((r + 1) * PER * J)
			:: else -> next = UNDO
			fi
		fi }
	FALL
	fi;
	if
	:: atomic { true ->
		if
#ifdef MUTATION_17
		:: true ->
#else
		:: at == r && phase == ph ->
#endif
			assert(phase != END);	/* something after the end */
			progress = 1;
#ifdef MUTATION_23
			due = 1;
#endif
			if
			:: next == STOP -> phase = END; resetHandler(); goto idle
			:: else -> assert(at == r)	/* the next step is created twice */
			fi;
			at = r + 1; phase = RUNNING;
			if
			:: next == UNDO -> rollback = 1; todo = e;
				l = 0;
				do
				:: l < NL ->
					if
					:: (e >> (l * J)) & ((1 << J) - 1)
					:: else -> done[at] = done[at] | (1 << l)
					fi;
					l++
				:: else -> l = 0; break
				od
			:: else
			fi;
			r = at; ph = 0
		:: else -> resetHandler(); goto load
		fi }
	FALL
	fi;

	/* Dispatch. */
#ifdef MUTATION_28
	if
	:: atomic { true -> assert(done[r] == 0 || rollback); done[r] = 0 }	/* the done set is forgotten */
	FALL
	fi;
#endif
	do
	:: atomic { l < NL && (W == 0 || l < W || rollback) && !((rollback && !((todo >> (l * J)) & ((1 << J) - 1)))) -> send(KEY(r, l, 0)); l++ }
	:: atomic { l < NL && !((W == 0 || l < W || rollback) && !((rollback && !((todo >> (l * J)) & ((1 << J) - 1))))) -> l++ }
	:: atomic { l == NL -> resetHandler(); goto idle }
	FALL
	od
}



/* Remove the items of an execution that has ended. */
#if NW == 1
#define IDLE (work[0] == 0)
#else
#define IDLE (work[0] == 0 && work[1] == 0)
#endif
inline erase() {
	n = 0;
	do
	:: n < NP -> pack[n] = ABSENT; token[n] = 0; lease[n] = 0; spent[n] = 0; cancel[n] = 0; n++
	:: else -> break
	od;
	n = 0;
	do
	:: n < NR -> done[n] = 0; bad[n] = 0; n++
	:: else -> n = 0; break
	od
}

/* Leases end, in any order, and their holders know it. */
#define LAPSE(p) \
	:: atomic { pack[p] == CLAIMED && spent[p] == 0 -> spent[p] = 1; \
		n = 0; \
		do \
		:: n < NW -> \
			if \
			:: work[n] == p + 1 && mine[n] == token[p] && held[n] == 1 -> held[n] = 2 \
			:: else \
			fi; \
			n++ \
		:: else -> n = 0; break \
		od } \
	:: atomic { pack[p] == CLAIMED && spent[p] == 1 -> spent[p] = 2 }

active proctype Clock() {
	byte n;
end_clock:
	do
	LAPSE(0)
#if NP > 1
	LAPSE(1)
#endif
#if NP > 2
	LAPSE(2)
#endif
#if NP > 3
	LAPSE(3)
#endif
#if NP > 4
	LAPSE(4)
#endif
#if NP > 5
	LAPSE(5)
#endif
#if NP > 6
	LAPSE(6)
	LAPSE(7)
#endif
#ifdef AGED
#ifdef MUTATION_26B
	:: atomic { phase == END && IDLE && done[0] != 0 -> erase() }
#else
	:: atomic { phase == END && !late -> late = 1 }
	:: atomic { late && IDLE && done[0] != 0 -> erase() }
#endif
#endif
#if CANCELS
#ifdef MUTATION_29
	:: atomic { cancels > 0 && phase == RUNNING -> cancels--; phase = CLOSING; wakeup = 1; progress = 1 }
#else
	:: atomic { cancels > 0 && phase == RUNNING && !rollback -> cancels--; phase = CLOSING; wakeup = 1; progress = 1 }
#endif
#endif
	od
}



#ifdef ENDS
ltl ends { <> (phase == END) }
#endif

init {
	byte n;
	atomic {
		n = 0;
		do
		:: n < NL -> if :: W == 0 || n < W -> msg[KEY(0, n, 0)] = 1 :: else fi; n++
		:: else -> n = 0; break
		od;
		do
		:: n < NW -> run Worker(n); n++
		:: else -> n = 0; break
		od;
		do
		:: n < NH -> run Handler(); n++
		:: else -> n = 0; break
		od
	}
}
