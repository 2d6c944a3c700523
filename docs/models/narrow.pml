/*
 * Locks that narrow: an execution that ends FAILED_UNSAFE keeps some of its entities,
 * and an operator acknowledges or unlocks them one by one, or retries the execution.
 * The rest of the protocol is that of locks.pml, where it is checked with more handlers
 * and more executions.
 *
 * An execution asks for a list of entities. The place of an entity is its index in that
 * list, and the lock item of the entity says it with the epoch. What is kept is a set of
 * places in the execution's item: kept, which counts as absent while narrowed is 0.
 * Each commit that writes the set raises narrowed.
 *
 * Each label of the process Handler is one call to the store. What a handler does
 * between two calls is atomic.
 *
 * Switches (-D):
 *   NX, NE          executions and entities
 *   WANTS           bits: execution x wants entity e if bit x*NE+e is set
 *   SHARERS         bits: executions that share their locks
 *   H0, H1, H2      handlers of each execution
 *   OPERATORS       operators who act at a time
 *   AFTER           the number of conflicts from which on an execution reserves
 *   FAILS           executions that end FAILED_UNSAFE, tries included
 *   FAILERS         bits: executions that may do so
 *   EMPTY           one that ends so may also keep nothing
 *   WHOLE           one that ends so may also keep everything, without a set (CANCELLED)
 *   UNLOCKS         unlocks by operators, of some entities or of all
 *   RETRIES         retries by operators
 *   SPLIT           lock items are read one by one
 *   CRASHES, LOSSES, DUPS, RINGS
 *                   handlers that die, messages that are lost, and that arrive twice,
 *                   timers that may fire at any time
 *   EMAX, RMAX      the highest epoch of an execution and the highest revision of a
 *                   lock; the model goes on for ever if it passes one
 *   MUTATION_x      a mutation that has to break the model
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
#ifndef SHARERS
#define SHARERS 0
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
#ifndef OPERATORS
#define OPERATORS 1
#endif
#ifndef AFTER
#define AFTER 2
#endif
#ifndef FAILS
#define FAILS 1
#endif
#ifndef FAILERS
#define FAILERS 7
#endif
#ifndef UNLOCKS
#define UNLOCKS 0
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
#define EMAX 8
#endif
#ifndef RMAX
#define RMAX 30
#endif

/* The states of an execution, as far as locks are concerned. */
#define SCHEDULED 1
#define LOCKING   2
#define RUNNING   3
#define ROLLBACK  4
#define UNSAFE    5	/* it waits for a person: FAILED_UNSAFE, or CANCELLED with irreversible changes */
#define ACKED     6	/* acknowledged */
#define OVER      7	/* ended well */

#define HAS(set, e) (((set) >> (e)) & 1)
#define WANTED(x)   (((WANTS) >> ((x) * NE)) & ((1 << NE) - 1))
#define SHARES(x)   HAS(SHARERS, x)
#define OLDER(x, y) ((x) < (y))

/* The place of entity e in list w. */
#define PLACE(w, e) (((e) > 0 && HAS(w, 0)) + ((e) > 1 && HAS(w, 1)))

#define HOLDS(s)   (!((s) == SCHEDULED || (s) == ACKED || (s) == OVER))
#define LIVE(y, k) (epoch[y] == (k) && HOLDS(state[y]))
#define PERSON(y)  (state[y] == UNSAFE)
#define ACTIVE(y)  (state[y] >= SCHEDULED && state[y] <= ROLLBACK)

/* Held: live at that epoch, and the place is in the set, if there is one. */
#ifdef MUTATION_EMPTY
#define IN_SET(n, set, p) ((set) == 0 || HAS(set, p))
#else
#define IN_SET(n, set, p) ((n) == 0 || HAS(set, p))
#endif
#define HELD(y, k, p) (LIVE(y, k) && IN_SET(narrowed[y], kept[y], p))
#ifdef MUTATION_OLDSET
#define READ_AS_HELD(y, k, p) (LIVE(y, k) && IN_SET(oldNarrowed[y], oldKept[y], p))
#define READ_NARROWED(y)      oldNarrowed[y]
#elif defined(MUTATION_ENTRY)
#define READ_AS_HELD(y, k, p) (HOLDS(state[y]) && IN_SET(narrowed[y], kept[y], p))
#define READ_NARROWED(y)      narrowed[y]
#else
#define READ_AS_HELD(y, k, p) HELD(y, k, p)
#define READ_NARROWED(y)      narrowed[y]
#endif

/* A reservation stands while its execution still has to lock, and waits for nobody who waits for a person. */
#ifdef MUTATION_RES
#define STANDS(y)  (state[y] == SCHEDULED || state[y] == LOCKING)
#else
#define STANDS(y)  (state[y] == LOCKING || (state[y] == SCHEDULED && !blkPerson[y]))
#endif

/* The state item of each execution. Items refer to execution n as n+1. */
byte state[NX];
byte epoch[NX];
byte want[NX];		/* the list of entities, as a set; places follow from it */
byte kept[NX];		/* set of places */
byte narrowed[NX];	/* 0: there is no set */
byte waiters[NX];	/* set of executions */
byte blk[NX];		/* the execution that blocks it, 0 for none */
byte blkEpoch[NX];
byte blkPlace[NX];
byte blkNarrowed[NX];
bit  blkRes[NX];	/* blocked by a reservation */
bit  blkPerson[NX];	/* blocked by one that waits for a person */
byte conflicts[NX];	/* counted up to AFTER */

/* The lock item of each entity. */
byte ent[NE * NX];	/* the epoch of each holder, 0 for none */
byte plc[NE * NX];	/* and its place */
bit  shr[NE];		/* the mode is shared */
byte rev[NE];
byte res[NE];

/* What is true: the entities that an execution works on, or has left unsafe without anybody having looked. */
byte has[NX];

bit  msg[NX];		/* a message is under way */
byte busy;		/* handlers that are not idle */
byte fails = FAILS, unlocks = UNLOCKS, retries = RETRIES, crashes = CRASHES, losses = LOSSES, dups = DUPS;
bit  fault;		/* a fault happened that only the timer repairs */

#if NX > 2
#define NO_MESSAGE (!msg[0] && !msg[1] && !msg[2])
#else
#define NO_MESSAGE (!msg[0] && !msg[1])
#endif
#define QUIET (busy == 0 && NO_MESSAGE)

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
#ifdef MUTATION_ACKWAKE
#define ACK_WAKES(y) skip
#else
#define ACK_WAKES(y) RELEASE_WAITERS(y)
#endif

#ifdef MUTATION_WIDEN
#define KEEPABLE(x) want[x]
#else
#define KEEPABLE(x) has[x]
#endif
#ifdef MUTATION_FIRST
#define NEXT_NARROWED(y) narrowed[y] = 1
#else
#define NEXT_NARROWED(y) narrowed[y] = narrowed[y] + 1
#endif

/* Choose any set within all, the empty one only if none is true. */
#define WITHIN(set, from) (((set) & (from)) == (set))
inline choose(chosen, all, none) {
	if
	:: none -> chosen = 0
	:: WITHIN(1, all) -> chosen = 1
	:: WITHIN(2, all) -> chosen = 2
	:: WITHIN(3, all) -> chosen = 3
#if NE > 2
	:: WITHIN(4, all) -> chosen = 4
	:: WITHIN(5, all) -> chosen = 5
	:: WITHIN(6, all) -> chosen = 6
	:: WITHIN(7, all) -> chosen = 7
#endif
	fi
}

/* The places of a set of entities in a list. */
inline places(these, list, result) {
	result = 0; n = 0;
	do
	:: n < NE ->
		if
		:: HAS(these, n) -> result = result | (1 << PLACE(list, n))
		:: else
		fi;
		n++
	:: else -> n = 0; break
	od
}

/* The entities of a list at a set of places. */
inline entities(these, list, result) {
	result = 0; n = 0;
	do
	:: n < NE ->
		if
		:: HAS(list, n) && HAS(these, PLACE(list, n)) -> result = result | (1 << n)
		:: else
		fi;
		n++
	:: else -> n = 0; break
	od
}

/* Whoever has something stands in its item. */
inline stands(y) {
	n = 0;
	do
	:: n < NE ->
		assert(!HAS(has[y], n) || ent[n * NX + y] == epoch[y]);	/* it has an entity whose item does not say so */
		n++
	:: else -> n = 0; break
	od
}

/* Reset a handler's variables: it is idle, dead, or reads everything again. */
inline forget() {
	ep = 0; w = 0; conf = 0; by = 0; byEpoch = 0; byPlace = 0; byNarrowed = 0; byRes = 0; byPerson = 0;
	i = 0; c = 0; set = 0; ok = 0; lost = 0; down = 0; gone = 0; n = 0;
	do
	:: n < NE -> v[n] = 0; clean(n); n++
	:: else -> n = 0; break
	od
}

/* Forget a lock item. */
inline clean(e) {
	r[e] = 0; s[e] = 0; vd[e] = 0; sh[e] = 0; h[e] = 0; hk[e] = 0; hp[e] = 0; hn[e] = 0; hw[e] = 0
}

#define IDLE   busy--; forget(); goto idle
#define RELOAD forget(); goto start

/* A handler may die before each call. */
#if CRASHES
#define DIE :: atomic { crashes > 0 -> crashes--; fault = 1; IDLE }
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

#define STILL  (state[x] == LOCKING && epoch[x] == ep)
#define FAILED gone = gone || !STILL

/* Registering with the execution that blocks this one, on the condition that it still does. */
#define SAME_AS_READ (LIVE(by, byEpoch) && narrowed[by] == byNarrowed)
#define REGISTER waiters[by] = waiters[by] | (1 << x)
#ifdef MUTATION_REG
#define CONFLICT_REGISTERS ((byRes && STANDS(by)) || (!byRes && LIVE(by, byEpoch)))
#else
#define CONFLICT_REGISTERS ((byRes && STANDS(by)) || (!byRes && SAME_AS_READ))
#endif
#ifdef MUTATION_START
#define START_REGISTERS ((byRes && STANDS(by)) || (!byRes && LIVE(by, byEpoch)))
#else
#define START_REGISTERS ((byRes && STANDS(by)) || (!byRes && SAME_AS_READ))
#endif

#ifdef MUTATION_PLACE1
#define SET_PLACE(e, p) \
	n = 0; do :: n < NX -> plc[(e) * NX + n] = (ent[(e) * NX + n] -> (p) : 0); n++ :: else -> n = 0; break od
#else
#define SET_PLACE(e, p) plc[(e) * NX + x] = p
#endif

proctype Handler(byte x) {
	byte ep, w, conf, by, byEpoch, byPlace, byNarrowed, i, c, n, set;
	bit byRes, byPerson, ok, lost, down;
	bit gone;	/* a write has failed after another handler had advanced the execution */
	byte v[NE], r[NE], s[NE], en[NE * NX], pl[NE * NX];	/* evaluations, and lock items as read */
	byte h[NE], hk[NE], hp[NE], hn[NE];	/* its holder, with epoch, place and the holder's narrowed as read */
	bit sh[NE], vd[NE], hw[NE];		/* read as shared; as reserved in vain; the holder as waiting for a person */
#ifdef MUTATION_OLDSET
	byte oldKept[NX], oldNarrowed[NX];
#endif

endIdle:
idle:
	atomic { msg[x] ->
		if
		:: msg[x] = 0
		:: dups > 0 -> dups--
		fi;
		busy++ }

start:
	if
	:: atomic { true ->
		ep = epoch[x]; w = want[x]; conf = conflicts[x];
		if
		:: state[x] == SCHEDULED && blk[x] != 0 ->
			by = blk[x] - 1; byEpoch = blkEpoch[x]; byPlace = blkPlace[x]; byNarrowed = blkNarrowed[x];
			byRes = blkRes[x]; byPerson = blkPerson[x];
			goto again
		:: state[x] == SCHEDULED && blk[x] == 0 -> goto enter
		:: state[x] == LOCKING -> goto acquire
		:: state[x] == RUNNING -> goto work
		:: state[x] == ROLLBACK -> goto end
		:: else -> IDLE
		fi }
	DIE
	fi;

again:	/* Register again with the execution that blocks it, and wait. The answer says that one's state. */
	if
	:: atomic { true ->
		if
		:: START_REGISTERS -> REGISTER;
#ifdef MUTATION_START
			IDLE
#else
			if
			:: byRes || byPerson == PERSON(by) -> IDLE
			:: !byRes && byPerson && !PERSON(by) -> goto clear	/* retried: ask again, so that reservations count */
			:: else
			fi
#endif
		:: else ->
			if
			:: byRes -> goto clear
			:: else
			fi
		fi }
	DIE
	fi;

look:	/* Does it still hold this entity? */
	if
	:: atomic { true ->
		if
		:: HELD(by, byEpoch, byPlace) ->
			byNarrowed = narrowed[by];
			if
			:: PERSON(by) && !byPerson
			:: else -> goto again
			fi
		:: else -> goto clear
		fi }
	DIE
	fi;
	if	/* It waits for a person, so the reservations of this one are void. */
	:: atomic { true ->
		if
		:: state[x] == SCHEDULED && epoch[x] == ep ->
			blkPerson[x] = 1; blkNarrowed[x] = byNarrowed; byPerson = 1;
#ifndef MUTATION_FLAGWAKE
			RELEASE_WAITERS(x)
#endif
		:: else -> RELOAD
		fi;
		goto again }
	DIE
	fi;

clear:
	atomic { by = 0; byEpoch = 0; byPlace = 0; byNarrowed = 0; byRes = 0; byPerson = 0 }

enter:
	if
	:: atomic { true ->
		if
		:: state[x] == SCHEDULED && epoch[x] == ep ->
			state[x] = LOCKING;
			assert(epoch[x] < EMAX);	/* it goes on for ever */
			epoch[x]++; ep = epoch[x];
			blk[x] = 0; blkEpoch[x] = 0; blkPlace[x] = 0; blkNarrowed[x] = 0; blkRes[x] = 0; blkPerson[x] = 0
		:: else -> RELOAD
		fi }
	DIE
	fi;

acquire:
#ifdef MUTATION_OLDSET
	if
	:: atomic { true ->
		n = 0;
		do
		:: n < NX -> oldKept[n] = kept[n]; oldNarrowed[n] = narrowed[n]; n++
		:: else -> n = 0; break
		od }
	DIE
	fi;
#endif

items:	/* Read all lock items first. */
	i = 0;
	do
	:: atomic { i < NE ->
		do
		:: i < NE && HAS(w, i) && v[i] != MINE ->
			clean(i); v[i] = UNREAD;
			r[i] = rev[i]; s[i] = res[i]; sh[i] = shr[i];
			n = 0;
			do
			:: n < NX -> en[i * NX + n] = ent[i * NX + n]; pl[i * NX + n] = plc[i * NX + n]; n++
			:: else -> n = 0; break
			od;
			i++;
#ifdef SPLIT
			break
#endif
		:: i < NE && !(HAS(w, i) && v[i] != MINE) -> i++
		:: i == NE -> break
		od }
	:: atomic { i == NE -> i = 0; break }
	DIE
	od;

heads:	/* Then read the executions that they name. */
	do
	:: atomic { i < NE && (!HAS(w, i) || v[i] == MINE) -> i++ }
	:: atomic { i < NE && HAS(w, i) && v[i] == UNREAD ->
		v[i] = FREE; n = 0;
		do
		:: n < NX ->
			if
			:: n == x && en[i * NX + n] == ep -> v[i] = MINE
			:: n == x && en[i * NX + n] > ep -> v[i] = STALE
			:: n != x && en[i * NX + n] != 0 && v[i] == FREE && !(SHARES(x) && sh[i]) ->
				assert(epoch[n] >= en[i * NX + n]);	/* an epoch that its execution has not reached */
				if
				:: READ_AS_HELD(n, en[i * NX + n], pl[i * NX + n]) ->
					v[i] = CONFLICT; h[i] = n; hk[i] = en[i * NX + n]; hp[i] = pl[i * NX + n]; hn[i] = READ_NARROWED(n);
#ifdef MUTATION_ASREAD
					hw[i] = PERSON(n)
#endif
				:: else
				fi
			:: else
			fi;
			en[i * NX + n] = 0; pl[i * NX + n] = 0;
			n++
		:: else -> n = 0; break
		od;
		if
		:: v[i] == MINE || v[i] == STALE || s[i] == 0 || s[i] == x + 1 -> s[i] = 0; i++
		:: else
		fi }
	:: atomic { i < NE && HAS(w, i) && (v[i] == FREE || v[i] == CONFLICT) ->
		vd[i] = !STANDS(s[i] - 1);
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
		:: else -> n = 0; break
		od;
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
		ok = 0;
		if
		:: v[c] == FREE ->
			if
			:: SHARES(x) && sh[c] ->	/* join, whatever the revision */
				ok = shr[c] && ent[c * NX + x] < ep && (res[c] == 0 || !OLDER(res[c] - 1, x) || (vd[c] && res[c] == s[c]))
			:: else -> ok = rev[c] == r[c]
			fi;
			if
			:: ok ->
				assert(!gone);	/* a stale handler continues */
				assert(rev[c] < RMAX);	/* it goes on for ever */
				rev[c]++; n = 0;
				do
				:: n < NX ->
					if
					:: n == x || (SHARES(x) && SHARES(n) && sh[c])
					:: else ->
						assert(!(HAS(has[n], c) && (state[n] == RUNNING || state[n] == ROLLBACK)));	/* two holders */
						assert(!HAS(has[n], c));	/* a kept entity is taken before anybody has looked at it */
						ent[c * NX + n] = 0; plc[c * NX + n] = 0
					fi;
					n++
				:: else -> n = 0; break
				od;
#ifdef MUTATION_EPOCH
				if
				:: ent[c * NX + x] != 0 -> ent[c * NX + x] = ep
				:: else -> ent[c * NX + x] = ep; SET_PLACE(c, PLACE(w, c))
				fi;
#else
				ent[c * NX + x] = ep; SET_PLACE(c, PLACE(w, c));
#endif
				shr[c] = SHARES(x);
				v[c] = MINE
			:: !ok && ent[c * NX + x] == ep -> v[c] = MINE	/* another handler of this execution has taken it at this epoch */
			:: else -> lost = 1
			fi
		:: else
		fi;
		ok = 0; c = 0; i++ }
	:: atomic { i == NE -> i = 0; down = 0; break }
	DIE
	od;
	if
	:: atomic { lost -> lost = 0; FAILED }
	:: atomic { !lost -> goto commit }
	fi;

lose:	/* Another execution was faster: SELF, and from then on reserve. */
	if
	:: atomic { true ->
		if
		:: conf < AFTER -> conf++
		:: else
		fi;
		if
		:: !STILL -> RELOAD
		:: STILL && conf >= AFTER
		:: else -> goto acquire
		fi }
	DIE
	fi;
	do
	:: atomic { i < NE && v[i] != FREE -> i++ }
	:: atomic { i < NE && v[i] == FREE ->
		if
		:: res[i] == 0 || OLDER(x, res[i] - 1) || (vd[i] && res[i] == s[i]) ->
			assert(!gone);	/* a stale handler continues */
			res[i] = x + 1; assert(rev[i] < RMAX); rev[i]++
		:: res[i] == x + 1 -> skip	/* by another handler of this execution */
		:: else -> FAILED;
			if
			:: STILL
			:: else -> RELOAD
			fi
		fi;
		i++ }
	:: atomic { i == NE -> goto acquire }
	DIE
	od;

conflict:	/* The first conflict. Nothing is taken. */
	if
	:: atomic { true ->
		byRes = v[c] == RESERVED;
		if
		:: byRes -> by = s[c] - 1
		:: else -> by = h[c]; byEpoch = hk[c]; byPlace = hp[c]; byNarrowed = hn[c]
		fi;
		if
		:: conf < AFTER -> conf++
		:: else
		fi;
		if
		:: conf >= AFTER && !byRes ->
			if
			:: res[c] == 0 || OLDER(x, res[c] - 1) || (vd[c] && res[c] == s[c]) ->
				assert(!gone);	/* a stale handler continues */
				res[c] = x + 1; assert(rev[c] < RMAX); rev[c]++
			:: res[c] == x + 1 -> skip
			:: else -> FAILED;
				if
				:: STILL
				:: else -> RELOAD
				fi
			fi
		:: else
		fi }
	DIE
	fi;
	if	/* Register with the blocker, if it still blocks. */
	:: atomic { true ->
		if
		:: CONFLICT_REGISTERS ->
			assert(!gone);	/* a stale handler continues */
			REGISTER;
#ifdef MUTATION_ASREAD
			byPerson = !byRes && hw[c]
#else
			byPerson = !byRes && PERSON(by)	/* the answer says that one's state */
#endif
		:: else ->
			by = 0; byEpoch = 0; byPlace = 0; byNarrowed = 0; byRes = 0; c = 0; FAILED;
			if
			:: STILL -> goto acquire
			:: else -> RELOAD
			fi
		fi }
	DIE
	fi;

release:
	if
	:: atomic { true ->
		if
		:: STILL ->
			state[x] = SCHEDULED;
			blk[x] = by + 1; blkEpoch[x] = byEpoch; blkPlace[x] = byPlace; blkNarrowed[x] = byNarrowed;
			blkRes[x] = byRes; blkPerson[x] = byPerson;
			if
			:: conflicts[x] < AFTER -> conflicts[x]++
			:: else
			fi;
			RELEASE_WAITERS(x);
			IDLE
		:: else -> RELOAD
		fi }
	DIE
	fi;

commit:
	if
	:: atomic { true ->
		if
		:: STILL ->
			state[x] = RUNNING; has[x] = w;
			stands(x);
			n = 0;
			do
			:: n < NX ->
				assert(n == x || !(has[n] & w) || (SHARES(x) && SHARES(n)));	/* two have one entity */
				n++
			:: else -> n = 0; break
			od
		:: else -> RELOAD
		fi }
	DIE
	fi;

work:	/* It ends well, or has to undo something. */
	if
	:: atomic { true ->
		if
		:: state[x] == RUNNING && epoch[x] == ep ->
			stands(x);
			if
			:: true ->
				state[x] = OVER; has[x] = 0;
				RELEASE_WAITERS(x);
				IDLE
			:: fails > 0 && HAS(FAILERS, x) ->
				fails--; state[x] = ROLLBACK;
#ifdef MUTATION_UNDO
				choose(set, has[x], false);
				places(set, want[x], kept[x]); NEXT_NARROWED(x);
				RELEASE_WAITERS(x)
#endif
			fi
		:: else -> RELOAD
		fi }
	DIE
	fi;

end:	/* It ends FAILED_UNSAFE and keeps some of what it has. */
	if
	:: atomic { true ->
		if
		:: state[x] == ROLLBACK && epoch[x] == ep ->
			stands(x);
			state[x] = UNSAFE;
			if
			:: true ->
#ifdef MUTATION_UNDO
				entities(kept[x], want[x], set);
#else
#ifdef EMPTY
				choose(set, KEEPABLE(x), true);
#else
				choose(set, KEEPABLE(x), false);
#endif
				places(set, want[x], kept[x]); NEXT_NARROWED(x);
#endif
				has[x] = set
#ifdef WHOLE
			:: true ->	/* everything that it still has */
#ifdef MUTATION_WHOLEWAKE
				IDLE
#else
				skip
#endif
#endif
			fi;
			END_WAKES(x);
			IDLE
		:: else -> RELOAD
		fi }
	DIE
	fi
}

/* Timers fire when nothing can continue after a fault. Without a fault, whoever sleeps then must have a reason. */
active proctype Clock() {
	byte n, e;
	bit reason;
endClock:
	do
	:: atomic { QUIET && fault ->
		fault = 0;
		do
		:: n < NX ->
			if
			:: ACTIVE(n) -> msg[n] = 1
			:: else
			fi;
			n++
		:: else -> n = 0; break
		od }
#ifdef RINGS
	:: atomic { true ->
		if
		:: n = 0
		:: n = 1
#if NX > 2
		:: n = 2
#endif
		fi;
		if
		:: ACTIVE(n) -> msg[n] = 1
		:: else
		fi;
		n = 0 }
#endif
	:: d_step { QUIET && !fault ->
		do
		:: n < NX ->
			assert(!ACTIVE(n) || state[n] == SCHEDULED);	/* it stands still */
			if
			:: state[n] == SCHEDULED ->
				e = 0; reason = 0;
				do
				:: e < NX ->
					reason = reason || (e != n && (has[e] & want[n]) && !(SHARES(e) && SHARES(n)));
					e++
				:: else -> e = 0; break
				od;
				assert(reason);	/* it sleeps without a reason */
				reason = 0
			:: else
			fi;
			n++
		:: else -> n = 0; break
		od }
	od
}

/* The places that y keeps. */
#define ALL(y)  ((1 << (PLACE(want[y], NE - 1) + HAS(want[y], NE - 1))) - 1)
#define KEPT(y) (narrowed[y] == 0 -> ALL(y) : kept[y])

/* An operator reads an execution, and writes on the condition of the version read. */
#if OPERATORS > 1
#define THEN_WRITE }; atomic { true ->
#else
#define THEN_WRITE
#endif
#define AS_READ (state[y] == UNSAFE && epoch[y] == k && narrowed[y] == v)
#ifdef MUTATION_LOSTACK
#define SAME_VERSION (state[y] == UNSAFE && epoch[y] == k)
#else
#define SAME_VERSION AS_READ
#endif

/* Remove some of what y keeps. */
inline read() {
	k = epoch[y]; v = narrowed[y]; set = KEPT(y);
	choose(p, set, set == 0)
}
inline write(to) {
	if
	:: SAME_VERSION ->
		entities(p, want[y], a);
		kept[y] = set & ~p; narrowed[y]++; has[y] = has[y] & ~a;
		if
		:: kept[y] == 0 -> state[y] = to
		:: else
		fi;
		ACK_WAKES(y)
	:: else
	fi;
	k = 0; v = 0; set = 0; p = 0; a = 0; y = 0
}

proctype Operator() {
	byte y, n, k, v, set, p, a;
endOperator:
	do
	:: atomic {	/* acknowledge some entities */
		if
		:: state[0] == UNSAFE -> y = 0
		:: state[1] == UNSAFE -> y = 1
#if NX > 2
		:: state[2] == UNSAFE -> y = 2
#endif
		fi;
		read();
		THEN_WRITE
		write(ACKED) }
#if UNLOCKS
	:: atomic { unlocks > 0 ->
		if
		:: state[0] == UNSAFE && has[0] -> y = 0
		:: state[1] == UNSAFE && has[1] -> y = 1
		fi;
		unlocks--;
		if
		:: read(); write(UNSAFE)
		:: epoch[y]++; has[y] = 0;
#ifndef MUTATION_UNLOCKSET
			kept[y] = 0; narrowed[y]++;
#endif
			RELEASE_WAITERS(y); y = 0
		fi }
#endif
#if RETRIES
	:: atomic { retries > 0 ->
		if
		:: state[0] == UNSAFE || state[0] == ACKED -> y = 0
		:: state[1] == UNSAFE || state[1] == ACKED -> y = 1
		fi;
		retries--;
		if
#ifndef MUTATION_DROP
		:: state[y] == UNSAFE && KEPT(y) != 0 ->	/* under the locks it has kept */
			state[y] = RUNNING;
#ifdef MUTATION_WIDE
			kept[y] = 0; narrowed[y] = 0;
#endif
			set = KEPT(y); entities(set, want[y], has[y]); set = 0
#endif
		:: else ->	/* anew; it may want fewer entities than before */
			state[y] = SCHEDULED; conflicts[y] = 0;
			if
			:: skip
			:: want[y] & 254 -> want[y] = want[y] & 254
			:: want[y] & 1 -> want[y] = 1
			fi;
#ifndef MUTATION_SETSTAYS
			kept[y] = 0; narrowed[y] = 0
#endif
		fi;
		msg[y] = 1; y = 0 }
#endif
	od
}

#ifdef ENDS
ltl ends { <> [] QUIET }
#endif

init {
	byte n;
	atomic {
		do
		:: n < NX -> want[n] = WANTED(n); state[n] = SCHEDULED; msg[n] = 1; n++
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
		n = OPERATORS;
		do
		:: n > 0 -> run Operator(); n--
		:: else -> break
		od
	}
}
