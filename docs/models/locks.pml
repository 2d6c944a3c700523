/*
 * How entities are locked: the protocol of docs/protocols/locks.md.
 *
 * Each label of the process Handler is one call to the store. What a handler does
 * between two calls is atomic. Any number of handlers may work on one execution.
 * Each may pause for any time, and may die before any call.
 *
 * Switches (-D):
 *   NX, NE          executions and entities
 *   WANTS           bits: execution x wants entity e if bit x*NE+e is set
 *   H0 .. H3        handlers of each execution
 *   CRASHES         how many handlers may die; with ENDLESS, any number
 *   LOSSES, DUPS    messages that are lost, and that arrive twice
 *   RINGS           timers may fire at any time
 *   CANCELS         executions that are cancelled before they have their locks
 *   RETRIES         executions that an operator retries after their end
 *   REBORN          how often the youngest execution starts again, as a younger one
 *   NESTED          execution 0 starts execution 1 and waits for it, 2 starts 3
 *   EMAX, RMAX      the highest epoch of an execution and the highest revision of a
 *                   lock; the model goes on for ever if it passes one
 *   WEAK            the first read of a lock item may show it as it was before its
 *                   last write, and so may a read of its owner, which is believed if
 *                   it says that the owner has left the epoch of the lock, or holds
 *                   nothing at it
 *   MUTATION_n      a mutation that has to break the model
 */

#ifndef NX
#define NX 2
#endif
#ifndef NE
#define NE 2
#endif
#ifndef WANTS
#define WANTS 15
#endif
#ifndef H0
#define H0 1
#endif
#ifndef H1
#define H1 1
#endif
#ifndef H2
#define H2 1
#endif
#ifndef H3
#define H3 1
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
#ifndef CANCELS
#define CANCELS 0
#endif
#ifndef RETRIES
#define RETRIES 0
#endif
#ifndef REBORN
#define REBORN 0
#endif
#ifndef EMAX
#define EMAX 6
#endif
#ifndef RMAX
#define RMAX 30
#endif

/* The number of conflicts from which on an execution reserves. */
#define RESERVE_AFTER 2

/* The states of an execution, as far as locks are concerned. */
#define ABSENT    0
#define SCHEDULED 1
#define LOCKING   2
#define LOCKED    3	/* it has its locks */
#define NEWER     4	/* it has its locks, in a state that an older binary does not know */
#define OVER      5	/* a state that holds nothing */

/* All states hold locks except those of a closed list. */
#ifdef MUTATION_11
#define HOLDS(s)   ((s) == LOCKING || (s) == LOCKED)
#else
#define HOLDS(s)   (!((s) == ABSENT || (s) == SCHEDULED || (s) == OVER))
#endif
#define LIVE(y, k) (epoch[y] == (k) && HOLDS(state[y]))
#define WORKS(y)   (state[y] == LOCKED || state[y] == NEWER)

/* A reservation stands while its execution still has to lock. */
#define STANDS(y)  (state[y] == SCHEDULED || state[y] == LOCKING)
#ifdef MUTATION_13
#define READ_AS_STANDING(y) (state[y] != OVER && state[y] != ABSENT)
#else
#define READ_AS_STANDING(y) STANDS(y)
#endif

#ifdef NESTED
#define PARENT(x)  ((x) == 0 || (x) == 2)
#define ROOT(x)    ((x) & 2)	/* the outermost execution that started it */
#else
#define PARENT(x)  false
#define ROOT(x)    (x)
#endif
#define OLDER(x, y) (ROOT(x) < ROOT(y))

#define HAS(set, e) (((set) >> (e)) & 1)
#define WANTED(x)  (((WANTS) >> ((x) * NE)) & ((1 << NE) - 1))

/* The state item of each execution. Items refer to execution n as n+1. */
byte state[NX];
byte epoch[NX];
byte want[NX];		/* set of entities, fixed before it locks */
byte waiters[NX];	/* set of executions */
byte blk[NX];		/* the execution that blocks it, 0 for none */
byte blkEpoch[NX];
bit  blkRes[NX];	/* blocked by a reservation */
byte conflicts[NX];	/* counted up to RESERVE_AFTER */
#ifdef DEVICE
byte has[NX * NE];	/* the tokens that it uses */
#endif

/* The lock item of each entity. */
byte owner[NE];
byte ownerEpoch[NE];
byte token[NE];
byte rev[NE];
byte res[NE];
#ifdef WEAK
byte wasOwner[NE], wasEpoch[NE], wasToken[NE], wasRev[NE], wasRes[NE];	/* before its last write */
#define KEEP(e) wasOwner[e] = owner[e]; wasEpoch[e] = ownerEpoch[e]; wasToken[e] = token[e]; wasRev[e] = rev[e]; wasRes[e] = res[e];
#else
#define KEEP(e)
#endif

#ifdef WEAK
byte wasState[NX], wasAt[NX];	/* the state and the epoch of each execution before its last write */
#define WRITE(y) wasState[y] = state[y]; wasAt[y] = epoch[y];
#ifdef MUTATION_16
#define READ_AS_FREE(y, k) (!(wasAt[y] == (k) && HOLDS(wasState[y])))
#else
#define READ_AS_FREE(y, k) (wasAt[y] > (k) || wasAt[y] == (k) && !HOLDS(wasState[y]))
#endif
#else
#define WRITE(y)
#endif

/* Messages, limits of faults, and devices. */
bit  msg[NX];		/* a message is under way */
byte crashes = CRASHES, losses = LOSSES, dups = DUPS, cancels = CANCELS, retries = RETRIES, reborn = REBORN;
bit  fault;		/* a fault happened that only the timer repairs */
#ifdef DEVICE
byte device[NE];	/* the highest token that each entity's device has seen */
byte highest[NE];	/* the token of the last holder */
#endif
#if REBORN
byte lostRounds;		/* conflicts of the oldest execution */
#endif
#ifdef MUTATION_2
bit  bumped[NX];	/* a waiter has registered since this execution was last loaded */
#define UNSEEN && !bumped[x]
#else
#define UNSEEN
#endif

#define ALL_OVER (over[0] && cancels + retries + reborn == 0)
bit over[1];

inline checkAllOver() {
	over[0] = 1; n = 0;
	do
	:: n < NX -> over[0] = over[0] && state[n] == OVER; n++
	:: else -> break
	od;
	n = 0
}

/* Send a wake-up to every execution in the set; it may be lost. */
inline wake(set) {
	n = 0;
	do
	:: n < NX ->
		if
		:: (set >> n) & 1 ->
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

#define REGISTER(y) assert(!gone); waiters[y] = waiters[y] | (1 << x); BUMP(y)
#ifdef MUTATION_2
#define BUMP(y) bumped[y] = 1
#else
#define BUMP(y) skip
#endif

/* Reset a handler's variables: it is idle, dead, or reads everything again. */
inline forget() {
	ep = 0; w = 0; by = 0; byEpoch = 0; byRes = 0; conf = 0; i = 0; lost = 0; down = 0; gone = 0; reread = 0; c = 0; n = 0;
	do
	:: n < NE -> o[n] = 0; k[n] = 0; r[n] = 0; s[n] = 0; v[n] = 0; vd[n] = 0; t[n] = 0; n++
	:: else -> break
	od;
	n = 0
}

/* A handler may die before each call. */
#ifdef ENDLESS
#define DIE :: atomic { true -> fault = 1; forget(); goto idle }
#elif CRASHES
#define DIE :: atomic { crashes > 0 -> crashes--; fault = 1; forget(); goto idle }
#else
#define DIE
#endif

/* The evaluation of one lock. */
#define UNREAD   0
#define FREE     1
#define MINE     2
#define STALE    3
#define CONFLICT 4
#define RESERVED 5
#define UNSURE   6

#ifdef MUTATION_7
#define AS_HELD && owner[c] == by + 1 && ownerEpoch[c] == byEpoch
#else
#define AS_HELD
#endif

#ifdef MUTATION_15
#define READ_WEAKLY true
#else
#define READ_WEAKLY !reread
#endif

#define RELOAD forget(); goto start
#define FAILED gone = gone || !(state[x] == LOCKING && epoch[x] == ep)

proctype Handler(byte x) {
	byte ep, w, by, byEpoch, conf, i, n, c;
	bit byRes, ok, lost, down;
	bit reread;	/* it has read the lock items before, in this call */
	bit gone;	/* a write has failed after another handler had advanced the execution */
	byte o[NE], k[NE], r[NE], s[NE], v[NE], t[NE];	/* lock items as read, evaluations, tokens */
	bit vd[NE];					/* its reservation was read as void */
#ifdef MUTATION_10
	byte hs[NX], he[NX];
#endif

idle:
	do
	:: atomic { msg[x] ->
		if
		:: msg[x] = 0
		:: dups > 0 -> dups--
		fi;
		break }
	:: atomic { ALL_OVER -> goto done }
	od;

start:
	if
	:: atomic { true ->
		ep = epoch[x]; w = want[x]; conf = conflicts[x];
#ifdef MUTATION_2
		bumped[x] = 0;
#endif
		if
		:: state[x] == SCHEDULED && blk[x] != 0 ->
			by = blk[x] - 1; byEpoch = blkEpoch[x]; byRes = blkRes[x];
#ifdef MUTATION_5
			goto enter
#else
			goto again
#endif
		:: state[x] == SCHEDULED && blk[x] == 0 -> goto enter
		:: state[x] == LOCKING -> goto acquire
		:: WORKS(x) -> goto work
		:: else -> forget(); goto idle
		fi }
	DIE
	fi;

again:	/* Register again with the execution that blocks it, and wait. */
	if
	:: atomic { true ->
#ifdef MUTATION_4
		ok = 1;
#else
		ok = (byRes && STANDS(by)) || (!byRes && LIVE(by, byEpoch));
#endif
		if
		:: ok -> REGISTER(by);
#ifdef NESTED
			if
			:: !PARENT(x) -> goto walk
			:: else
			fi;
#endif
			forget(); goto idle
		:: else -> by = 0; byEpoch = 0; byRes = 0
		fi;
		ok = 0 }
	DIE
	fi;

enter:
	if
	:: atomic { true ->
		if
		:: state[x] == SCHEDULED && epoch[x] == ep UNSEEN ->
			WRITE(x)
			state[x] = LOCKING;
			assert(epoch[x] < EMAX);	/* it goes on for ever */
			epoch[x]++; ep = epoch[x];
			blk[x] = 0; blkEpoch[x] = 0; blkRes[x] = 0;
			by = 0; byEpoch = 0; byRes = 0
		:: else ->
#ifdef MUTATION_3
			forget(); goto idle
#else
			RELOAD
#endif
		fi }
	DIE
	fi;

acquire:
	i = 0;
#ifdef MUTATION_10
	if
	:: atomic { true ->
		do
		:: i < NX -> hs[i] = state[i]; he[i] = epoch[i]; i++
		:: else -> break
		od;
		i = 0 }
	DIE
	fi;
#endif

items:	/* Read all lock items first. */
	do
	:: atomic { i < NE && (!HAS(w, i) || v[i] == MINE) -> i++ }
	:: atomic { i < NE && HAS(w, i) && v[i] != MINE -> o[i] = owner[i]; k[i] = ownerEpoch[i]; r[i] = rev[i]; s[i] = res[i]; v[i] = UNREAD; t[i] = token[i]; i++ }
#ifdef WEAK
	:: atomic { i < NE && HAS(w, i) && v[i] != MINE && READ_WEAKLY -> o[i] = wasOwner[i]; k[i] = wasEpoch[i]; r[i] = wasRev[i]; s[i] = wasRes[i]; v[i] = UNREAD; t[i] = wasToken[i]; i++ }
#endif
	:: atomic { i == NE -> i = 0; reread = 1; break }
	DIE
	od;

heads:	/* Then read the executions that they name. */
	do
	:: atomic { i < NE && (!HAS(w, i) || v[i] == MINE) -> i++ }
	:: atomic { i < NE && HAS(w, i) && v[i] == UNREAD ->
		if
		:: o[i] == x + 1 && k[i] == ep -> v[i] = MINE
		:: o[i] == x + 1 && k[i] > ep ->
#ifdef MUTATION_1
			v[i] = FREE
#else
			v[i] = STALE
#endif
		:: o[i] == x + 1 && k[i] < ep -> v[i] = FREE
		:: o[i] == 0 -> v[i] = FREE
		:: o[i] != 0 && o[i] != x + 1 ->
#ifdef MUTATION_10
			if
			:: he[o[i] - 1] == k[i] && HOLDS(hs[o[i] - 1]) -> v[i] = CONFLICT
			:: else -> v[i] = FREE
			fi
#else
			if
#ifdef WEAK
			:: READ_AS_FREE(o[i] - 1, k[i]) -> v[i] = FREE
#endif
			:: LIVE(o[i] - 1, k[i]) -> v[i] = CONFLICT
			:: epoch[o[i] - 1] < k[i] -> v[i] = UNSURE; assert(false)
			:: else -> v[i] = FREE
			fi
#endif
		fi;
		if
		:: v[i] == MINE || v[i] == STALE || s[i] == 0 || s[i] == x + 1 -> s[i] = 0; i++
		:: else
		fi }
	:: atomic { i < NE && HAS(w, i) && (v[i] == FREE || v[i] == CONFLICT) && s[i] != 0 ->
		vd[i] = !READ_AS_STANDING(s[i] - 1);
		if
		:: v[i] == FREE && !vd[i] && OLDER(s[i] - 1, x) -> v[i] = RESERVED
		:: else
		fi;
		i++ }
	:: atomic { i == NE ->
		i = 0; c = NE; n = 0;
		do
		:: n < NE ->
			if
			:: v[n] == STALE -> RELOAD
			:: (v[n] == CONFLICT || v[n] == RESERVED) && c == NE -> c = n
			:: else
			fi;
			n++
		:: else -> break
		od;
		n = 0;
		if
		:: c < NE -> goto conflict
		:: else -> c = 0; break
		fi }
	DIE
	od;

take:	/* Take all free locks, in any order. */
	if
	:: down = 0
	:: down = 1
	fi;
	do
	:: atomic { i < NE ->
		c = (down -> NE - 1 - i : i);
		if
		:: v[c] == FREE && rev[c] == r[c] ->
			assert(!gone);	/* a stale handler continues */
			assert(rev[c] < RMAX);	/* it goes on for ever */
			KEEP(c) rev[c]++; token[c] = rev[c]; owner[c] = x + 1; ownerEpoch[c] = ep;
			v[c] = MINE; t[c] = rev[c]
		:: v[c] == FREE && rev[c] != r[c] && owner[c] == x + 1 && ownerEpoch[c] == ep && token[c] == r[c] + 1 ->
			v[c] = MINE; t[c] = token[c]	/* another handler of this execution has taken it at this epoch */
		:: v[c] == FREE && rev[c] != r[c] && !(owner[c] == x + 1 && ownerEpoch[c] == ep && token[c] == r[c] + 1) ->
			lost = 1
		:: else
		fi;
		c = 0; i++ }
	:: atomic { i == NE -> i = 0; down = 0; break }
	DIE
	od;
	if
	:: atomic { lost -> lost = 0; FAILED }
	:: atomic { !lost -> goto commit }
	fi;

lose:	/* Another execution was faster: SELF, and from the second conflict on, reserve. */
	if
	:: atomic { true ->
#ifndef MUTATION_7B
		if
		:: conf < RESERVE_AFTER -> conf++
		:: else
		fi;
#endif
#if REBORN
		if
		:: x == 0 -> lostRounds++; assert(lostRounds <= 4)	/* it starves */
		:: else
		fi;
#endif
#ifndef MUTATION_6
		if
		:: state[x] == LOCKING && epoch[x] == ep
		:: else -> RELOAD
		fi;
#endif
#ifdef MUTATION_14
		goto items
#else
		if
		:: conf >= RESERVE_AFTER
		:: else -> goto items
		fi
#endif
		}
	DIE
	fi;
	do
	:: atomic { i < NE && v[i] != FREE -> i++ }
	:: atomic { i < NE && v[i] == FREE ->
		if
		:: res[i] == 0 || OLDER(x, res[i] - 1) || (vd[i] && res[i] == s[i]) ->
			assert(!gone);	/* a stale handler continues */
			KEEP(i) res[i] = x + 1; assert(rev[i] < RMAX); rev[i]++
		:: res[i] == x + 1 -> skip	/* by another handler of this execution */
		:: else -> FAILED;
#ifndef MUTATION_6
			if
			:: (state[x] == LOCKING && epoch[x] == ep)
			:: else -> RELOAD
			fi
#endif
		fi;
		i++ }
	:: atomic { i == NE -> goto acquire }
	DIE
	od;

conflict:	/* The first conflict. Nothing is taken. */
	if
	:: atomic { true ->
		byRes = v[c] == RESERVED;
		by = (byRes -> s[c] : o[c]) - 1;
		byEpoch = (byRes -> 0 : k[c]);
#ifndef MUTATION_7B
		if
		:: conf < RESERVE_AFTER -> conf++
		:: else
		fi;
#endif
#if REBORN
		if
		:: x == 0 -> lostRounds++; assert(lostRounds <= 4)	/* it starves */
		:: else
		fi;
#endif
		if
		:: conf >= RESERVE_AFTER && !byRes ->
			if
			:: (res[c] == 0 || OLDER(x, res[c] - 1) || (vd[c] && res[c] == s[c])) AS_HELD ->
				assert(!gone);	/* a stale handler continues */
				KEEP(c) res[c] = x + 1; assert(rev[c] < RMAX); rev[c]++
			:: res[c] == x + 1 -> skip
			:: else -> FAILED;
#ifndef MUTATION_6
				if
				:: state[x] == LOCKING && epoch[x] == ep
				:: else -> RELOAD
				fi
#endif
			fi
		:: else
		fi }
	DIE
	fi;
	if	/* Register with the blocker, if it still blocks. */
	:: atomic { true ->
#ifdef MUTATION_4
		ok = 1;
#else
		ok = (byRes && STANDS(by)) || (!byRes && LIVE(by, byEpoch));
#endif
		if
		:: ok -> ok = 0; REGISTER(by)
		:: else ->
			by = 0; byEpoch = 0; byRes = 0; c = 0; FAILED;
#ifndef MUTATION_6
			if
			:: state[x] == LOCKING && epoch[x] == ep
			:: else -> RELOAD
			fi;
#endif
			goto acquire
		fi }
	DIE
	fi;

release:
	if
	:: atomic { true ->
		if
		:: state[x] == LOCKING && epoch[x] == ep UNSEEN ->
			WRITE(x)
			state[x] = SCHEDULED;
#ifndef MUTATION_5
			blk[x] = by + 1; blkEpoch[x] = byEpoch; blkRes[x] = byRes;
#endif
			if
			:: conflicts[x] < RESERVE_AFTER -> conflicts[x]++
			:: else
			fi;
			wake(waiters[x]); waiters[x] = 0;
#ifdef NESTED
			if
			:: !PARENT(x) -> goto walk
			:: else
			fi;
#endif
			forget(); goto idle
		:: else ->
#ifdef MUTATION_3
			forget(); goto idle
#else
			RELOAD
#endif
		fi }
	DIE
	fi;

commit:
	if
	:: atomic { true ->
		if
		:: state[x] == LOCKING && epoch[x] == ep UNSEEN ->
			WRITE(x)
			state[x] = LOCKED;
			n = 0;
			do
			:: n < NX ->
				i = 0;
				do
				:: i < NE ->
					assert(!(n != x && WORKS(n) && HAS(want[n], i) && HAS(w, i)));	/* two holders */
					assert(n != x || !HAS(w, i) || (owner[i] == x + 1 && ownerEpoch[i] == ep));	/* it holds nothing */
					i++
				:: else -> i = 0; break
				od;
				n++
			:: else -> n = 0; break
			od;
#ifdef DEVICE
			do
			:: n < NE ->
				if
				:: HAS(w, n) -> has[x * NE + n] = t[n];
					assert(t[n] > highest[n]);	/* tokens grow from holder to holder */
					highest[n] = t[n]
				:: else
				fi;
				n++
			:: else -> n = 0; break
			od
#endif
		:: else ->
#ifdef MUTATION_3
			forget(); goto idle
#else
			RELOAD
#endif
		fi }
	DIE
	fi;

work:
#ifdef DEVICE
	i = 0;
	atomic {	/* the handler keeps the tokens as it read them */
		do
		:: i < NE -> t[i] = has[x * NE + i]; i++
		:: else -> i = 0; break
		od;
		if
		:: WORKS(x) && epoch[x] == ep
		:: else -> RELOAD
		fi
	}
	do
	:: atomic { i < NE && !HAS(w, i) -> i++ }
	:: atomic { i < NE && HAS(w, i) ->
		if
#ifdef MUTATION_12
		:: true -> assert(t[i] >= device[i]); device[i] = t[i]	/* a late change overwrites a newer one */
#else
		:: t[i] >= device[i] -> device[i] = t[i]
		:: t[i] < device[i] -> assert(!(WORKS(x) && epoch[x] == ep))	/* the device refuses the holder */
#endif
		fi;
		i++ }
	:: atomic { i == NE -> i = 0; break }
	DIE
	od;
#endif
#ifdef NESTED
	if
	:: atomic { !PARENT(x) -> skip }
	:: atomic { PARENT(x) && state[x + 1] == OVER -> skip }
	:: atomic { PARENT(x) && state[x + 1] != OVER ->
		if
		:: state[x + 1] == ABSENT -> WRITE(x + 1) state[x + 1] = SCHEDULED; msg[x + 1] = 1
		:: else
		fi;
		forget(); goto idle }
	DIE
	fi;
#endif
#ifdef STATES
	if	/* An engine of a newer version may continue. */
	:: atomic { true ->
		if
		:: state[x] == LOCKED && epoch[x] == ep -> WRITE(x) state[x] = NEWER
		:: else
		fi }
	DIE
	fi;
#endif

end:
	if
	:: atomic { true ->
		if
		:: WORKS(x) && epoch[x] == ep UNSEEN ->
			WRITE(x)
			state[x] = OVER;
			wake(waiters[x]); waiters[x] = 0;
#ifdef NESTED
			if
			:: !PARENT(x) -> msg[x - 1] = 1
			:: else
			fi;
#endif
#ifdef MUTATION_9B
			n = 0;
			do	/* the lock items are deleted */
			:: n < NE ->
				if
				:: owner[n] == x + 1 -> owner[n] = 0; ownerEpoch[n] = 0; token[n] = 0; rev[n] = 0; res[n] = 0
				:: else
				fi;
				n++
			:: else -> n = 0; break
			od;
#endif
			checkAllOver(); forget(); goto idle
		:: else ->
#ifdef MUTATION_3
			forget(); goto idle
#else
			RELOAD
#endif
		fi }
	DIE
	fi;

#ifdef NESTED
walk:	/* Follow the chain of waits from the execution that blocks this one. */
#ifdef MUTATION_8
	atomic { forget(); goto idle }
#endif
	do
	:: atomic { true ->
		if
		:: (byRes && !STANDS(by)) || (!byRes && byEpoch != 0 && !LIVE(by, byEpoch)) -> forget(); goto idle	/* it has released the lock */
		:: else
		fi;
		n = by;
		if
		:: PARENT(n) && WORKS(n) && state[n + 1] != OVER -> by = n + 1; byEpoch = 0; byRes = 0
		:: !(PARENT(n) && WORKS(n)) && state[n] == SCHEDULED && blk[n] != 0 -> by = blk[n] - 1; byEpoch = blkEpoch[n]; byRes = blkRes[n]
		:: else -> forget(); goto idle
		fi;
		n = 0;
		if
		:: by == x -> break
		:: else
		fi }
	DIE
	od;
	if	/* It waits for itself. */
	:: atomic { true ->
		if
		:: state[x] == SCHEDULED && epoch[x] == ep ->
			WRITE(x)
			state[x] = OVER; blk[x] = 0;
			wake(waiters[x]); waiters[x] = 0;
			msg[x - 1] = 1;
			checkAllOver(); forget(); goto idle
		:: else -> RELOAD
		fi }
	DIE
	fi;
#endif

done:	skip
}

/* The timer: it fires when nothing can continue after a fault. */
active proctype Clock() {
	byte n;
	do
	:: atomic { timeout && fault ->
		fault = 0;
		do
		:: n < NX ->
			if
			:: state[n] != OVER && state[n] != ABSENT -> msg[n] = 1
			:: else
			fi;
			n++
		:: else -> n = 0; break
		od }
#ifdef RINGS
	:: atomic { true ->	/* or at any time */
		do
		:: n < NX ->
			if
			:: state[n] != OVER && state[n] != ABSENT -> msg[n] = 1
			:: else
			fi;
			n++
		:: else -> n = 0; break
		od }
#endif
	:: atomic { ALL_OVER -> break }
	od
}

#if CANCELS || RETRIES || REBORN
active proctype Operator() {
	byte n, x;
	do
#if CANCELS
	:: atomic { cancels > 0 -> cancels--;
		if
		:: x = 0
		:: x = 1
		fi;
		if
		:: state[x] == SCHEDULED || state[x] == LOCKING ->
			WRITE(x)
			state[x] = OVER; blk[x] = 0; blkEpoch[x] = 0; blkRes[x] = 0;
			wake(waiters[x]); waiters[x] = 0
		:: else
		fi;
		checkAllOver(); x = 0 }
#endif
#if RETRIES
	:: atomic { retries > 0 ->
		if
		:: state[0] == OVER -> x = 0
		:: state[1] == OVER -> x = 1
		fi;
		retries--;
		WRITE(x)
		state[x] = SCHEDULED; conflicts[x] = 0;
		if	/* it may want fewer entities than before */
		:: skip
		:: want[x] & 254 -> want[x] = want[x] & 254
		:: want[x] & 1 -> want[x] = 1
		fi;
#ifdef MUTATION_9
		epoch[x] = 0;
#endif
		msg[x] = 1; over[0] = 0; x = 0 }
	:: atomic { retries > 0 -> retries = 0 }
#endif
#if REBORN
	:: atomic { reborn > 0 && state[NX - 1] == OVER ->
		reborn--; WRITE(NX - 1) state[NX - 1] = SCHEDULED; conflicts[NX - 1] = 0; msg[NX - 1] = 1; over[0] = 0 }
#endif
	:: atomic { ALL_OVER -> break }
	od
}
#endif

#ifdef ENDS
ltl ends { <> ALL_OVER }
#endif

init {
	byte n;
	atomic {
		do
		:: n < NX ->
			want[n] = WANTED(n);
#ifdef NESTED
			if
			:: PARENT(n) -> state[n] = SCHEDULED; msg[n] = 1
			:: else
			fi;
#else
			state[n] = SCHEDULED; msg[n] = 1;
#endif
			n++
		:: else -> break
		od;
		n = H0;
		do
		:: n > 0 -> run Handler(0); n--
		:: else -> break
		od;
		n = H1;
		do
		:: n > 0 -> run Handler(1); n--
		:: else -> break
		od;
#if NX > 2
		n = H2;
		do
		:: n > 0 -> run Handler(2); n--
		:: else -> break
		od;
#endif
#if NX > 3
		n = H3;
		do
		:: n > 0 -> run Handler(3); n--
		:: else -> break
		od;
#endif
	}
}
