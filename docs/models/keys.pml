/*
 * Business keys: at most one execution of a key is live. The item of a key names an execution
 * and has a revision; it is never removed, and the revision never becomes smaller. The key is
 * held while the execution that it names exists and has not ended.
 *
 * A starter reads the key and its owner. If the key is held, it is told so, or it puts the signal
 * that it brings into the owner's mailbox. If not, it writes its execution, in NEW, with that
 * signal in it. It never writes the key: that is done by the execution itself, which checks in
 * before it does anything, in NEW, and again in READY after each retry (in VALID, if it had never
 * asked for locks: it takes the key before it waits for its start). An execution that finds
 * the key held by one that has checked in gives way: it puts the signals of its mailbox into the
 * mailbox of that one, and then it is cancelled. One that is tried again does not: it waits for the
 * end of that one, with the signals that it has, because one that is cancelled is never tried again.
 * One that finds an owner that has still to check in waits for it too. A keyed signal (KEYED) is
 * sent to whoever holds the key, or with DIRECT to execution 1.
 *
 * Each read and each write is a step of its own; a starter or a handler may stall between any two
 * of them. Handlers look whenever there is something to do, as the timer makes them.
 *
 *   MUTATION_1           a retry does not write its key
 *   MUTATION_3           a starter takes the key before its execution exists
 *   MUTATION_4           the key is written on its owner, not on its revision
 *   MUTATION_5           an execution is cancelled first, and hands its signals over after that
 *   MUTATION_8           an end does not depend on signals
 *   MUTATION_9           only the starter looks at the key
 *   MUTATION_10          the key of an owner that has ended is written without the revision
 *   MUTATION_12          the item of a key is removed at the end of its execution
 *   MUTATION_FORWARD     nobody but the starter hands the signal over
 *   MUTATION_RETRY       a retry does not check in
 *   MUTATION_UNDECIDED   an execution gives way to one that has still to check in
 *   MUTATION_AGAIN       an execution that is tried again gives way
 *   MUTATION_MAILBOX     an execution that gives way hands over the signal of its start alone
 */

#ifndef NR
#define NR 2		/* executions */
#endif
#ifndef H0
#define H0 1		/* handlers of execution 0 */
#endif
#ifndef H1
#define H1 1		/* handlers of each other execution */
#endif
#ifndef S0
#define S0 1		/* starters of execution 0 */
#endif
#ifndef SIGNALS
#define SIGNALS 0	/* mask of the starts that bring a signal; bit 0 is execution 0 */
#endif
#ifndef KEYED
#define KEYED 0		/* signals that are sent by the key */
#endif
#ifndef RETRIES
#define RETRIES 0
#endif
#ifndef CANCELS
#define CANCELS 0
#endif
#ifndef CRASHES
#define CRASHES 0	/* of starters and senders */
#endif

#define NONE	0
#define NEW	1
#define READY	2
#define LIVE	3	/* all states between its check-in and its end */
#define FAILED	4
#define ENDED	5

#define OVER(s)		((s) == NONE || (s) >= FAILED)
#define UNDECIDED(s)	((s) == NEW || (s) == READY)
#define BIT(n)		(1 << (n))
#define BRINGS(n)	((SIGNALS >> (n)) & 1)

/* the item of the key: the owner's number + 1, 0 for none */
byte owner, rev;

/* the items of the executions */
byte state[NR], version[NR], sigO[NR];
byte box[NR], heard[NR];		/* masks of signals */

/* what has happened */
byte accepted, noticed;
byte starting, retried, cancels, crashes;

#if NR > 2
#define LIVES	((state[0] == LIVE) + (state[1] == LIVE) + (state[2] == LIVE))
#define KEPT	(noticed | heard[0] | heard[1] | heard[2] | (OVER(state[0]) -> 0 : box[0]) | (OVER(state[1]) -> 0 : box[1]) | (OVER(state[2]) -> 0 : box[2]))
#define REST	(OVER(state[0]) && OVER(state[1]) && OVER(state[2]))
#else
#define LIVES	((state[0] == LIVE) + (state[1] == LIVE))
#define KEPT	(noticed | heard[0] | heard[1] | (OVER(state[0]) -> 0 : box[0]) | (OVER(state[1]) -> 0 : box[1]))
#define REST	(OVER(state[0]) && OVER(state[1]))
#endif

/* One write: signal s is put into the mailbox of execution n, unless it is known there. */
inline put(n, s, onlyLive, ok) {
	if
	:: ((box[n] | heard[n]) & BIT(s)) != 0 -> ok = 1
	:: else ->
		if
		:: OVER(state[n]) || (onlyLive && state[n] != LIVE) -> ok = 0
		:: else -> box[n] = box[n] | BIT(s); sigO[n]++; ok = 1
		fi
	fi
}

/* The key, for a starter or a sender: o is its holder + 1, 0 for none. */
inline readKey(o, r) {
	atomic { o = owner; r = rev };
	if
	:: o == 0
	:: o != 0 && OVER(state[o - 1]) -> o = 0
	:: o != 0 && !OVER(state[o - 1])
	fi
}

proctype Starter(byte me) {
	byte o, r;
	bool ok;
again:
	readKey(o, r);
	if
	:: o == 0
	:: o != 0 && !BRINGS(me) -> goto done	/* it is told who holds the key */
	:: o != 0 && BRINGS(me) ->
		atomic {
			put(o - 1, me, 0, ok);
			if
			:: ok -> accepted = accepted | BIT(me); goto done
			:: else -> o = 0; r = 0; goto again
			fi
		}
	fi;
#ifdef MUTATION_3
	atomic {
		if
		:: rev == r -> owner = me + 1; rev++
		:: else -> o = 0; r = 0; goto again
		fi
	};
#endif
	atomic {
		if
		:: state[me] == NONE -> state[me] = NEW; version[me] = 1;
			if
			:: BRINGS(me) -> box[me] = BIT(me); sigO[me] = 1
			:: else
			fi
		:: else
		fi;
		if
		:: BRINGS(me) -> accepted = accepted | BIT(me)
		:: else
		fi
	};
#ifdef MUTATION_FORWARD
	/* it has answered, and dies or looks whether its execution has given way */
	if
	:: crashes < CRASHES -> atomic { crashes++; goto done }
	:: state[me] == ENDED ->
forward:
		readKey(o, r);
		if
		:: o != 0 ->
			atomic {
				put(o - 1, me, 0, ok);
				if
				:: ok -> goto done
				:: else -> goto forward
				fi
			}
		:: else -> goto done
		fi
	fi;
#endif
done:
	atomic { o = 0; r = 0; ok = 0; starting-- }
}

#if KEYED > 0
proctype Sender(byte s) {
	byte o, r;
	bool ok;
again:
#ifdef DIRECT
	o = 2;
	if
	:: OVER(state[1]) -> o = 0
	:: else
	fi;
#else
	readKey(o, r);
#endif
	if
	:: o == 0	/* it is told that nobody holds the key */
	:: o != 0 ->
		atomic {
			put(o - 1, s, 0, ok);
			if
			:: ok -> accepted = accepted | BIT(s)
			:: else -> o = 0; r = 0; goto again
			fi
		}
	fi;
	atomic { o = 0; r = 0; ok = 0; starting-- }
}
#endif

#define commits(n, v)	(version[n] == v)

proctype Handler(byte me) {
	byte v, g, left, o, r, s, was;
	bool ok;
end:
	(state[me] != NONE);
load:
	atomic { v = version[me]; g = sigO[me]; left = box[me]; was = state[me]; o = 0; r = 0; s = 0; ok = 0 };
	if
	:: was == NEW || was == READY -> goto checkIn
	:: was == LIVE -> goto live
	:: was >= FAILED ->
		/* nothing is left to do for it but after a retry */
		atomic { v = 0; g = 0; left = 0; was = 0 };
end_idle:
		atomic { UNDECIDED(state[me]) || state[me] == LIVE };
		goto load
	fi;

checkIn:
	atomic { o = owner; r = rev };
#ifdef MUTATION_9
	/* it writes the key, and looks at nobody */
	goto take;
#endif
	if
#if defined(MUTATION_1)
	:: o == me + 1 -> goto begin
#else
	:: o == me + 1 && was == NEW -> goto begin
	:: o == me + 1 && was == READY -> goto take
#endif
	:: o == 0 -> goto take
	:: o != 0 && o != me + 1 ->
		if
		:: OVER(state[o - 1]) -> goto take
#ifdef MUTATION_UNDECIDED
		:: !OVER(state[o - 1]) -> goto lose
#else
#ifdef MUTATION_AGAIN
		:: state[o - 1] == LIVE -> goto lose
#else
		:: state[o - 1] == LIVE && was == NEW -> goto lose
		:: state[o - 1] == LIVE && was == READY ->
			/* it looks again later */
			atomic { owner != o || state[o - 1] != LIVE || version[me] != v };
			goto load
#endif
		:: UNDECIDED(state[o - 1]) ->
			/* it looks again later */
			atomic { owner != o || !UNDECIDED(state[o - 1]) || version[me] != v };
			goto load
#endif
		fi
	fi;

take:
	atomic {
		if
#ifdef MUTATION_4
		:: owner == o ->
#else
#ifdef MUTATION_10
		:: rev == r || o != 0 ->
#else
#ifdef MUTATION_9
		:: true ->
#else
		:: rev == r ->
#endif
#endif
#endif
			owner = me + 1; rev++
		:: else -> o = 0; r = 0; goto checkIn
		fi
	};
begin:
	atomic {
		if
		:: commits(me, v) ->
			state[me] = LIVE; version[me]++;
			assert(LIVES <= 1)	/* two executions of a key are live */
		:: else
		fi;
		goto load
	};

lose:
#ifdef MUTATION_5
	atomic {
		if
		:: commits(me, v) && sigO[me] == g -> state[me] = ENDED; version[me]++
		:: else -> goto load
		fi
	};
#endif
#ifdef MUTATION_MAILBOX
	left = left & BIT(me);
#endif
#ifndef MUTATION_FORWARD
	do
	:: s < NR + KEYED && (left & BIT(s)) == 0 -> s++
	:: s < NR + KEYED && (left & BIT(s)) != 0 ->
		atomic {
#ifdef MUTATION_UNDECIDED
			put(o - 1, s, 0, ok);
#else
			put(o - 1, s, 1, ok);
#endif
			if
			:: ok -> ok = 0; s++
			:: else ->
#ifdef MUTATION_5
				goto load
#else
				o = 0; r = 0; s = 0; goto checkIn
#endif
			fi
		}
	:: s >= NR + KEYED -> break
	od;
#endif
#ifndef MUTATION_5
	atomic {
		if
		:: commits(me, v) && sigO[me] == g ->
			state[me] = ENDED; version[me]++;
#ifndef MUTATION_UNDECIDED
			assert(was == NEW);	/* an execution that is tried again is cancelled, and can never be finished */
#endif
#ifndef MUTATION_FORWARD
			assert((accepted & ~KEPT) == 0)	/* a signal was accepted, and the execution that had it gives way and loses it */
#endif
		:: else
		fi
	};
#endif
	goto load;

live:
	if
	:: left != 0 ->
		/* it takes a signal */
		atomic {
			if
			:: (left & 1) != 0 -> s = 0
			:: (left & 1) == 0 && (left & 2) != 0 -> s = 1
			:: (left & 3) == 0 && (left & 4) != 0 -> s = 2
			:: (left & 7) == 0 -> s = 3
			fi;
			if
			:: commits(me, v) ->
				assert((heard[me] & BIT(s)) == 0);	/* an execution takes a signal twice */
				box[me] = box[me] & ~BIT(s); heard[me] = heard[me] | BIT(s); version[me]++
			:: else
			fi
		}
	:: true ->
		/* it ends */
		atomic {
			if
#ifdef MUTATION_8
			:: commits(me, v) ->
#else
			:: commits(me, v) && sigO[me] == g ->
#endif
				if
				:: RETRIES > 0 -> state[me] = FAILED
				:: state[me] = ENDED
				fi;
				version[me]++; noticed = noticed | left
			:: else -> goto load
			fi
		};
		assert((accepted & ~KEPT) == 0);	/* a signal was accepted, and is neither taken nor noticed */
#ifdef MUTATION_12
		/* the item of the key goes with its execution */
		atomic {
			if
			:: owner == me + 1 -> owner = 0; rev = 0
			:: else
			fi
		}
#endif
	fi;
	goto load
}

#if RETRIES > 0
active proctype Retry() {
	byte n;
end:
	do
	:: atomic {
		retried < RETRIES && (state[0] == FAILED || state[1] == FAILED) ->
		if
		:: state[0] == FAILED -> n = 0
		:: state[1] == FAILED -> n = 1
		fi;
		retried++; version[n]++;
#ifdef MUTATION_RETRY
		state[n] = LIVE;
#else
		state[n] = READY;
#endif
		n = 0;
		assert(LIVES <= 1)	/* two executions of a key are live */
	}
	od
}
#endif

#if CANCELS > 0
active proctype Cancel() {
	byte n, v, g, left;
end:
	do
	:: atomic {
		cancels < CANCELS && (!OVER(state[0]) || !OVER(state[1])) ->
		if
		:: !OVER(state[0]) -> n = 0
		:: !OVER(state[1]) -> n = 1
		fi;
		cancels++; v = version[n]; g = sigO[n]; left = box[n]
	};
	atomic {
		if
		:: version[n] == v && sigO[n] == g -> state[n] = ENDED; version[n]++; noticed = noticed | left
		:: else
		fi;
		assert((accepted & ~KEPT) == 0);	/* a signal was accepted, and is neither taken nor noticed */
		n = 0; v = 0; g = 0; left = 0
	}
	od
}
#endif

/* when nothing moves any more */
active proctype Rest() {
	atomic {
		timeout;
		assert(starting == 0);	/* a starter gets no answer */
		assert(REST);	/* an execution waits for ever */
		assert((accepted & ~KEPT) == 0)	/* a signal was accepted, and is neither taken nor noticed */
	}
}

#ifdef ENDS
ltl ends { <> [] (starting == 0 && REST) }
#endif

init {
	byte n;
	atomic {
		do
		:: n < NR -> run Starter(n); starting++; n++
		:: else -> break
		od;
		n = 1;
		do
		:: n < S0 -> run Starter(0); starting++; n++
		:: else -> break
		od;
#if KEYED > 0
		n = 0;
		do
		:: n < KEYED -> run Sender(NR + n); starting++; n++
		:: else -> break
		od;
#endif
		n = 0;
		do
		:: n < H0 -> run Handler(0); n++
		:: else -> break
		od;
		n = 1;
		do
		:: n < NR -> run Handler(n);
#if H1 > 1
			run Handler(n);
#endif
			n++
		:: else -> break
		od;
		n = 0
	}
}
