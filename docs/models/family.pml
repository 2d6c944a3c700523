/*
 * Families: an execution (0) starts children and waits for them. The step run that started them is
 * called the visit here. Nothing of a child happens after the end of the visit, unless that has let
 * it go; and everybody ends.
 *
 * A handler of the parent that has read an open visit creates children, in NEW, if they are absent;
 * no commit of the parent says so. A child checks in before it begins, and after each retry: it
 * reads its own item, then that of its parent, and commits on the version of its own. It does so
 * again whenever it is told or its timer fires. The visit is open while the parent is live and has
 * not committed that it closes. To end the visit, the parent commits that it closes, reads all
 * children after that, and commits the end when each is absent or over: settled, or waiting for an
 * operator. The done set of the visit says when to look, and is no reason to end.
 *
 * With FORGET nobody waits for the children. Such a child checks in once, before it begins. When all
 * of them exist, the parent commits that, and they may begin at any later time; a visit that ends
 * earlier is closed first, and ends when no child is new any more. Then those that are live are said
 * to have begun, and no other one begins.
 *
 * Each read and each write is a step of its own; a handler may stall between any two of them.
 * Handlers look whenever there is something to do, as the timer makes them.
 *
 *   MUTATION_1        a child does not check in
 *   MUTATION_2        a child checks in only before it begins
 *   MUTATION_3        the children are read before the visit is closed
 *   MUTATION_8        a check-in does not depend on the version of the child
 *   MUTATION_9        the timer of the parent does not complete the done set
 *   MUTATION_10       ends are counted, not listed by lane
 *   MUTATION_11       the visit ends without waiting for children
 *   MUTATION_13       a child in NEW counts as absent
 *   MUTATION_16       a child is created over one that exists
 *   MUTATION_17       a parent that is ending counts as waiting
 *   MUTATION_EXIT     the visit ends when the done set is full, without closing
 *   MUTATION_RETRY    a retry begins without checking in
 *   MUTATION_OVER     a child whose end has still to settle counts as over
 *   MUTATION_FORGET   a child that nobody waits for begins only while the visit is open
 *   MUTATION_UNASKED  a child that nobody waits for does not check in
 *   MUTATION_UNHEARD  the visit ends although children that nobody waits for are new
 */

#ifndef NX
#define NX 3		/* executions */
#endif
#ifndef W
#define W 2		/* window */
#endif
#ifndef H0
#define H0 2		/* handlers of execution 0 */
#endif
#ifndef H1
#define H1 1		/* handlers of each other execution */
#endif
#ifndef CANCELS
#define CANCELS 0	/* of the parent; with ANYONE of any execution */
#endif
#ifndef BADS
#define BADS 0		/* children that fail */
#endif
#ifndef RETRIES
#define RETRIES 0
#endif
#ifndef CRASHES
#define CRASHES 0	/* of a child's handler, between its end and the done set */
#endif
#ifndef FOREVER
#define FOREVER 0	/* mask of children that end only if they are cancelled */
#endif

/* CHAIN: execution 1 is the child of 0, 2 that of 1. Otherwise all are children of 0. */
#ifdef CHAIN
#define UP(n)		((n) - 1)
#define KID(p, l)	((p) + 1)
#define KIDS(p)		((p) + 1 < NX -> 1 : 0)
#define LANE(n)		0
#else
#define UP(n)		0
#define KID(p, l)	((l) + 1)
#define KIDS(p)		((p) == 0 -> NX - 1 : 0)
#define LANE(n)		((n) - 1)
#endif

#define NONE	0
#define NEW	1
#define READY	2
#define LIVE	3	/* all states between its check-in and its end */
#define ENDING	4	/* cancelled, and not over */
#define SETTLING 5	/* its end is decided, and its updates are being written */
#define OVER	6
#define FAILED	7	/* over, and may be tried again */

#define BIT(n)		(1 << (n))
#ifdef MUTATION_OVER
#define ISOVER(s)	((s) >= SETTLING)
#else
#define ISOVER(s)	((s) >= OVER)
#endif
#ifdef MUTATION_13
#define ISABSENT(s)	((s) == NONE || (s) == NEW)
#else
#define ISABSENT(s)	((s) == NONE)
#endif
#ifdef MUTATION_17
#define OPEN(p)		((state[p] == LIVE || state[p] == ENDING) && !letGo[p] && !ended[p])
#else
#define OPEN(p)		(state[p] == LIVE && !closing[p] && !ended[p])
#endif
#define FULL(p)		(BIT(KIDS(p)) - 1)
#ifdef FORGET
#define MAYBEGIN(n)	((n) == 0 || !ended[UP(n)] || allThere[UP(n)])
#define MAYWORK(n)	true
#ifdef MUTATION_UNHEARD
#define ISDONE(s)	true
#else
#define ISDONE(s)	((s) != NEW)
#endif
#else
#define MAYWORK(n)	((n) == 0 || !ended[UP(n)] || letGo[UP(n)])
#define MAYBEGIN(n)	MAYWORK(n)
#define ISDONE(s)	(ISABSENT(s) || ISOVER(s))
#endif
#define REST(n)		(state[n] == NONE || state[n] >= OVER)

byte state[NX], version[NX];
bool closing[NX], letGo[NX], ended[NX], allThere[NX];	/* of the visit */
byte done[NX], bad[NX], count[NX];
byte worked;				/* mask of the children that have begun */
byte cancels, bads, retried, crashes;

#define THERE(p, l)	(KIDS(p) <= (l) || state[KID(p, l)] != NONE)
#define ALLTHERE(p)	(THERE(p, 0) && THERE(p, 1) && THERE(p, 2))

#define commits(n, v)	(version[n] == v)

/* One write: a lane is added to the done set of the visit. */
inline addDone(p, l, failed) {
	atomic {
#ifdef MUTATION_10
		count[p]++;
		if
		:: count[p] >= KIDS(p) -> done[p] = FULL(p)
		:: else
		fi;
#else
		done[p] = done[p] | BIT(l);
#endif
		if
		:: failed -> bad[p] = bad[p] | BIT(l)
		:: else
		fi
	}
}

inline letsGo(p) {
#ifdef LETGO
	if
	:: letGo[p] = 1
	:: skip
	fi
#else
	skip
#endif
}

proctype Handler(byte me) {
	byte v, s, l, t, d;
end:
	(state[me] != NONE);
load:
	atomic {
	v = version[me]; s = state[me]; l = 0; t = 0; d = 0;
	if
	:: s == NEW || s == READY -> goto checkIn
	:: s == LIVE && KIDS(me) == 0 -> goto work
	:: s == LIVE && KIDS(me) > 0 && closing[me] -> goto close
	:: s == LIVE && KIDS(me) > 0 && !closing[me] -> d = done[me]; goto follow
	:: s == ENDING -> goto close
	:: s == SETTLING -> goto settle
	:: s >= OVER -> goto over
	fi };

settle:
	atomic {
		if
		:: commits(me, v) ->
			assert(MAYWORK(me));	/* updates are written after the end of the parent's visit */
			state[me] = OVER; version[me]++
		:: else
		fi;
		goto load
	};

checkIn:
	/* the parent is read after the child */
	atomic {
		if
#ifdef MUTATION_1
		:: true -> t = LIVE
#else
#ifdef FORGET
#ifdef MUTATION_UNASKED
		:: true -> t = LIVE
#elif defined(MUTATION_FORGET)
		:: OPEN(UP(me)) -> t = LIVE
		:: !OPEN(UP(me)) -> t = ENDING
#else
		:: OPEN(UP(me)) || allThere[UP(me)] || s == READY -> t = LIVE
		:: !(OPEN(UP(me)) || allThere[UP(me)] || s == READY) -> t = ENDING
#endif
#else
		:: OPEN(UP(me)) -> t = LIVE
		:: !OPEN(UP(me)) && letGo[UP(me)] && s == READY -> t = LIVE
		:: !OPEN(UP(me)) && !(letGo[UP(me)] && s == READY) -> t = ENDING
#endif
#endif
		fi
	};
	atomic {
		if
#ifdef MUTATION_8
		:: true ->
#else
		:: commits(me, v) ->
#endif
			state[me] = t; version[me]++;
			if
			:: t == LIVE ->
				assert(MAYBEGIN(me));	/* a child begins after the end of the parent's visit */
				worked = worked | BIT(me)
			:: else
			fi
		:: else
		fi;
		goto load
	};

work:
end_work:
	if
	:: (FOREVER & BIT(me)) == 0 ->
		atomic {
			if
			:: commits(me, v) ->
				assert(MAYWORK(me));	/* a child works after the end of the parent's visit */
				version[me]++;
				if
				:: state[me] = SETTLING
				:: bads < BADS -> bads++; state[me] = FAILED
				fi
			:: else
			fi;
			goto load
		}
#ifndef MUTATION_2
#ifndef FORGET
	:: !OPEN(UP(me)) && !letGo[UP(me)] ->
		atomic {
			if
			:: commits(me, v) -> state[me] = ENDING; version[me]++
			:: else
			fi;
			goto load
		}
#endif
#endif
	:: version[me] != v -> goto load
	fi;

follow:
#ifdef FORGET
	/* it creates them, and goes on */
	do
	:: l < KIDS(me) ->
		atomic {
			if
			:: state[KID(me, l)] == NONE -> state[KID(me, l)] = NEW; version[KID(me, l)] = 1
			:: else
			fi;
			l++
		}
	:: else -> break
	od;
	atomic {
		if
		:: commits(me, v) -> ended[me] = 1; allThere[me] = 1; state[me] = SETTLING; version[me]++
		:: else
		fi;
		goto load
	};
#endif
	/* it looks at the lanes that are not in the done set */
	do
	:: l < KIDS(me) && (d & BIT(l)) != 0 -> l++
	:: l < KIDS(me) && (d & BIT(l)) == 0 ->
		atomic {
			t = state[KID(me, l)];
			if
			:: ISOVER(t)
			:: t == NONE && (l < W || (d & BIT(l - W)) != 0)
			:: else -> l++; goto next
			fi
		};
		atomic {
			if
			:: t == NONE ->
				if
#ifdef MUTATION_16
				:: true ->
#else
				:: state[KID(me, l)] == NONE ->
#endif
					state[KID(me, l)] = NEW; version[KID(me, l)]++
				:: else
				fi
#ifndef MUTATION_9
			:: else -> addDone(me, l, t == FAILED)
#else
			:: else
#endif
			fi;
			l++
		};
next:
		t = 0
	:: else -> break
	od;
	l = 0;
	if
	:: done[me] == FULL(me) -> goto shut
#ifndef TOLERANT
	:: bad[me] != 0 -> goto shut
#endif
	:: version[me] != v || done[me] != d -> goto load
#if defined(CHAIN) && !defined(MUTATION_2)
	:: me > 0 && !OPEN(UP(me)) && !letGo[UP(me)] ->
		atomic {
			if
			:: commits(me, v) -> state[me] = ENDING; closing[me] = 1; version[me]++
			:: else
			fi;
			goto load
		}
#endif
#ifndef MUTATION_9
	:: KIDS(me) > 0 && (done[me] & 1) == 0 && ISOVER(state[KID(me, 0)]) -> goto load
	:: KIDS(me) > 1 && (done[me] & 2) == 0 && ISOVER(state[KID(me, 1)]) -> goto load
	:: KIDS(me) > 2 && (done[me] & 4) == 0 && ISOVER(state[KID(me, 2)]) -> goto load
#endif
	fi;

shut:
#ifdef MUTATION_EXIT
	goto leave;
#endif
#ifdef MUTATION_3
	goto close;
#endif
	atomic {
		if
		:: commits(me, v) -> closing[me] = 1; version[me]++; letsGo(me)
		:: else
		fi;
		goto load
	};

close:
#ifndef MUTATION_11
	do
	:: atomic { l < KIDS(me) && !letGo[me] && ISDONE(state[KID(me, l)]) -> l++ }
	:: atomic { l < KIDS(me) && !letGo[me] && version[me] != v -> goto load }	/* else it is told, and looked at again later */
	:: l >= KIDS(me) || letGo[me] -> break
	od;
#endif
leave:
	atomic {
		l = 0; t = 0;
		if
		:: commits(me, v) ->
			assert(MAYWORK(me) || (worked & BIT(me)) == 0);	/* a child moves after the end of the parent's visit */
			assert(s != LIVE || bad[me] != 0 || letGo[me] || ALLTHERE(me));	/* the visit is complete without a child */
			ended[me] = 1; closing[me] = 1; version[me]++;
			if
			:: s == LIVE -> state[me] = SETTLING
			:: else -> state[me] = OVER
			fi
		:: else
		fi;
		goto load
	};

over:
	if
	:: me > 0 ->
		if
		:: crashes < CRASHES -> crashes++
		:: addDone(UP(me), LANE(me), s == FAILED)
		fi
	:: else
	fi;
	atomic { v = 0; s = 0; d = 0 };
end_over:
	atomic { state[me] < OVER };
	goto load
}

#if CANCELS > 0
active proctype Cancel() {
	byte n;
end:
	do
	:: atomic {
		cancels < CANCELS && state[0] == LIVE -> n = 0;
		cancels++; state[n] = ENDING; closing[n] = 1; version[n]++; letsGo(n); n = 0
	}
#ifdef ANYONE
	:: atomic {
		cancels < CANCELS && (state[1] == LIVE || state[1] == NEW || state[1] == READY) -> n = 1;
		cancels++; state[n] = ENDING; closing[n] = 1; version[n]++; n = 0
	}
#endif
	od
}
#endif

#if RETRIES > 0
active proctype Retry() {
	byte n;
end:
	do
	:: atomic {
		retried < RETRIES && ((KIDS(1) == 0 && state[1] == FAILED) || state[NX - 1] == FAILED) ->
		if
		:: KIDS(1) == 0 && state[1] == FAILED -> n = 1
		:: state[NX - 1] == FAILED -> n = NX - 1
		fi;
		retried++; version[n]++; worked = worked & ~BIT(n);
#ifdef MUTATION_RETRY
		state[n] = LIVE;
		assert(MAYWORK(n));	/* a child works after the end of the parent's visit */
#else
		state[n] = READY;
#endif
		n = 0
	}
	od
}
#endif

/* when nothing moves any more */
active proctype Rest() {
	byte n;
	atomic {
		timeout;
		do
		:: n < NX ->
			assert(REST(n) || (n > 0 && letGo[UP(n)] && (FOREVER & BIT(n)) != 0));	/* an execution waits for ever */
#ifdef FORGET
			assert(n == 0 || !allThere[UP(n)] || (worked & BIT(n)) != 0);	/* a child that nobody waits for never begins */
#endif
			n++
		:: else -> break
		od;
		assert(closing[0] || ended[0])	/* the visit is open for ever */
	};
end:
	false
}

init {
	byte n, h;
	atomic {
		state[0] = LIVE; version[0] = 1;
		h = 0;
		do
		:: h < H0 -> run Handler(0); h++
		:: else -> break
		od;
		n = 1;
		do
		:: n < NX ->
			h = 0;
			do
			:: h < H1 -> run Handler(n); h++
			:: else -> break
			od;
			n++
		:: else -> break
		od;
		n = 0; h = 0
	}
}
