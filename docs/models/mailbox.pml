/*
 * The mailbox of an execution: signals that are sent to it, kept, consumed by the waits that
 * follow each other, or noticed at its end. Signals lie in the state item, outside its version.
 * A signal is written on a condition, and a commit on the version; a commit that ends the
 * execution, or lets a wait lapse, also on that no signal has come since it read the item.
 * Senders send a signal several times, because its reply may be lost: the second time is a
 * duplicate, whatever has become of the first. Consumed signals are remembered: the last few in
 * the state item, the others in items of their own.
 *
 * Two signals may have the same large value, which is stored before them (VALUES). The wake-up
 * after a signal may be lost; then the alarm finds it. Each reading of a clock is right within
 * the skew: before the deadline, after it, or, while time is 1, either.
 *
 *   MUTATION_1    the state is judged before the duplicate
 *   MUTATION_2    what leaves the list of consumed signals is forgotten
 *   MUTATION_3    one bound for signals of all names
 *   MUTATION_4    a wait lapses before the mailbox is looked into
 *   MUTATION_5    a lapse does not depend on signals
 *   MUTATION_6    an end does not depend on signals
 *   MUTATION_7    consuming does not depend on the version
 *   MUTATION_8    the number of signals is written as it was read
 *   MUTATION_9    a signal is sent before its value is stored
 *   MUTATION_10   a sender looks once among the forgotten ones, and its write depends on nothing
 *   MUTATION_11   who consumes a signal deletes its value
 *   MUTATION_12   a wait takes the last signal of its name
 */

#ifndef NS
#define NS 1		/* signals, from 1 on */
#endif
#ifndef TWICE
#define TWICE 0		/* mask of those that are sent twice; bit 0 is signal 1 */
#endif
#ifndef PINGS
#define PINGS 0		/* mask of those whose name no wait wants */
#endif
#ifndef WAITS
#define WAITS 1
#endif
#ifndef PLACES
#define PLACES 3
#endif
#ifndef KEPT
#define KEPT 1		/* of the places, for names that a wait wants */
#endif
#ifndef HEARD
#define HEARD 3		/* consumed signals that the state item remembers */
#endif
#ifndef SENDERS
#define SENDERS 1
#endif
#ifndef HANDLERS
#define HANDLERS 1	/* besides the alarm */
#endif
#ifndef LOSSES
#define LOSSES 0
#endif
#ifndef CRASHES
#define CRASHES 0
#endif

/* the state item */
byte version;
bool ended;		/* in a state that refuses signals */
byte wait;		/* how many waits are over */
byte box[PLACES];	/* the signals, in their order; 0 for none */
byte sigN, sigO;
byte heard[HEARD], heardN, heardOut;

byte items;		/* mask of consumed signals that have an item of their own */
bool value;		/* the large value is stored */

/* what has happened */
byte sends[NS + 1];	/* how often a signal has still to be sent */
byte accepted, consumed, noticed;
byte late;		/* mask of signals that were sent at or after the deadline */
byte time, looks, lost, crashed, sending;
bool cancelled, retried;

#define BIT(id)		(1 << ((id) - 1))
#define WANTS		(!ended && wait < WAITS)
#define AWAITED(id)	(((PINGS >> ((id) - 1)) & 1) == 0)
#define ROOM(id)	(sigN < PLACES - KEPT || (sigN < PLACES && WANTS && AWAITED(id)))
#define PAST(now)	if :: time == 0 -> now = 0 :: time == 1 -> now = 0 :: time == 1 -> now = 1 :: time == 2 -> now = 1 fi

#define TAKES(n)	(box[n] != 0 && AWAITED(box[n]) && ((late >> (box[n] - 1)) & 1) == 0)
#if PLACES == 2
#define ANY		(TAKES(0) || TAKES(1))
#else
#define ANY		(TAKES(0) || TAKES(1) || TAKES(2))
#endif

hidden byte i, k;

/* first is the first signal that the open wait takes, 0 for none */
inline find(first) {
	first = 0; i = 0;
	do
	:: i < PLACES && TAKES(i) && first == 0 -> first = box[i]; i++
	:: i >= PLACES -> break
	:: else -> i++
	od;
	i = 0
}

inline findLast(first) {
	first = 0; i = 0;
	do
	:: i < PLACES && TAKES(i) -> first = box[i]; i++
	:: i >= PLACES -> break
	:: else -> i++
	od;
	i = 0
}

inline remember(id) {
	if
	:: heardN < HEARD -> heard[heardN] = id; heardN++
	:: else ->
		i = 0;
		do
		:: i < HEARD - 1 -> heard[i] = heard[i + 1]; i++
		:: else -> break
		od;
		heard[HEARD - 1] = id; heardOut++; i = 0
	fi
}

inline takeOut(id) {
	i = 0; k = 0;
	do
	:: i < PLACES && box[i] == id -> i++
	:: i < PLACES && box[i] != id -> box[k] = box[i]; k++; i++
	:: i >= PLACES && k < PLACES -> box[k] = 0; k++
	:: i >= PLACES && k >= PLACES -> break
	od;
	i = 0; k = 0
}

/* known is whether the state item knows the signal */
inline know(id, known) {
	known = 0; i = 0;
	do
	:: i < PLACES -> known = known || box[i] == id; i++
	:: else -> break
	od;
	i = 0;
	do
	:: i < heardN -> known = known || heard[i] == id; i++
	:: else -> break
	od;
	i = 0
}

proctype Sender() {
	byte id, h, out;
	bool known, now;
next:
	id = 0; h = 0; out = 0; known = 0; now = 0;
	atomic {
		if
		:: sends[1] > 0 -> id = 1
#if NS > 1
		:: sends[2] > 0 -> id = 2
#endif
#if NS > 2
		:: sends[3] > 0 -> id = 3
#endif
		:: else -> goto done
		fi;
		sends[id]--; sending++;
		PAST(now)
	}
#if defined(VALUES) && !defined(MUTATION_9)
	value = 1;
	if :: crashed < CRASHES -> atomic { crashed++; goto dead } :: true fi;
#endif
again:
#ifdef MUTATION_10
	if
	:: (items & BIT(id)) != 0 -> goto told
	:: else
	fi;
#endif
	atomic {
		know(id, known);
		if
#ifdef MUTATION_1
		:: ended ->
			assert((accepted & BIT(id)) == 0);	/* a signal that was accepted is refused when it is sent again */
			goto dead
#endif
		:: else
		fi;
		if
		:: known -> goto told
		:: else
		fi;
#ifndef MUTATION_10
		if
		:: heardOut != h -> out = heardOut; goto look
		:: else
		fi;
#endif
		if
		:: ended ->
			assert((accepted & BIT(id)) == 0);	/* a signal that was accepted is refused when it is sent again */
			goto dead
		:: else
		fi;
		if
#ifdef MUTATION_3
		:: sigN < PLACES ->
#else
		:: ROOM(id) ->
#endif
			assert((consumed & BIT(id)) == 0);	/* a consumed signal is accepted again */
			box[sigN] = id; sigN++; sigO++;
			accepted = accepted | BIT(id);
			if :: now -> late = late | BIT(id) :: else fi
		:: else ->
			assert((accepted & BIT(id)) == 0);	/* a signal that was accepted is refused when it is sent again */
#ifdef AGAIN
			/* it comes again when it may have a place */
			goto queue
#else
			goto dead
#endif
		fi
	}
#if defined(VALUES) && defined(MUTATION_9)
	if :: crashed < CRASHES -> atomic { crashed++; goto dead } :: true fi;
	value = 1;
#endif
	if :: crashed < CRASHES -> atomic { crashed++; goto dead } :: true fi;
told:
	atomic {
		if
		:: lost < LOSSES -> lost++
		:: looks = 1
		fi;
		sending--; goto next
	}
#ifndef MUTATION_10
look:
	if
	:: (items & BIT(id)) != 0 -> goto told
	:: else -> h = out; out = 0; goto again
	fi;
#endif
#ifdef AGAIN
queue:
#ifdef MUTATION_3
	(sigN < PLACES || ended) -> goto again;
#else
	(ROOM(id) || ended) -> goto again;
#endif
#endif
dead:
	atomic { sending--; goto next };
done:
	skip
}

inline count(n) {
	n = 0; i = 0;
	do
	:: i < PLACES && box[i] != 0 -> n++; i++
	:: else -> break
	od;
	i = 0
}

/*
 * A handler looks at the execution after a wake-up, the alarm whenever there is something to
 * do: a look that changes nothing does no harm. A look: load, read the clock, decide, commit,
 * until there is nothing left to do.
 */
proctype Handler(bool alarm) {
	byte seenV, seenO, seenN, take, left, out, now, tries;
	bool open, over;
end:
	atomic {
		if
		:: !alarm && looks > 0 -> looks = 0
		:: alarm && !ended && (wait == WAITS || time > 0 || ANY)
		fi
	}
load:
	atomic {
		seenV = version; seenO = sigO; seenN = sigN; now = 0; out = 0;
#ifdef MUTATION_12
		findLast(take);
#else
		find(take);
#endif
		left = 0; i = 0;
		do
		:: i < PLACES && box[i] != 0 -> left = left | BIT(box[i]); i++
		:: else -> break
		od;
		i = 0;
		open = WANTS; over = ended;
		if :: heardN == HEARD -> out = heard[0] :: else fi
	}
	if
	:: over -> goto idle
	:: !over && !open -> goto close
	:: else
	fi;
#ifdef DEADLINE
	atomic { PAST(now) };
#endif
#ifdef MUTATION_4
	if
	:: now -> take = 0
	:: else
	fi;
#endif
	if
	:: take != 0 -> goto consume
	:: take == 0 && now -> goto lapse
	:: else -> goto idle
	fi;

consume:
#ifndef MUTATION_2
	if
	:: out != 0 -> items = items | BIT(out)
	:: else
	fi;
#endif
	atomic {
#ifndef MUTATION_7
		if
		:: version != seenV -> tries = 0; goto load
		:: else
		fi;
		find(now);
		assert(now == take);	/* a wait takes a signal before one that came earlier */
		now = 0;
#endif
		assert((consumed & BIT(take)) == 0);	/* a signal is consumed twice */
#ifdef VALUES
		assert(value);	/* a signal is consumed, and its value is missing */
#ifdef MUTATION_11
		value = 0;
#endif
#endif
		version++; wait++; consumed = consumed | BIT(take);
		takeOut(take);
#ifdef MUTATION_8
		sigN = seenN - 1;
#else
		sigN--;
#endif
		remember(take);
		tries = 0
	}
	atomic { count(now); assert(now == sigN); now = 0 };	/* the number of signals is wrong */
	goto load;

lapse:
	atomic {
		if
		:: version != seenV -> tries = 0; goto load
#ifndef MUTATION_5
		:: version == seenV && sigO != seenO ->
			tries++;
			assert(tries <= PLACES);	/* more commits are lost to signals than there are places */
			goto load
#endif
		:: else
		fi;
		find(take);
		assert(take == 0);	/* a wait times out, and its signal had come in time */
		version++; wait++; tries = 0;
		goto load
	}

close:
	atomic {
		if
		:: version != seenV -> tries = 0; goto load
#ifndef MUTATION_6
		:: version == seenV && sigO != seenO ->
			tries++;
			assert(tries <= PLACES);	/* more commits are lost to signals than there are places */
			goto load
#endif
		:: else
		fi;
		version++; ended = 1; noticed = noticed | left; tries = 0;
		assert((accepted & ~(consumed | noticed)) == 0)	/* a signal was accepted and is neither consumed nor noticed */
	}
idle:
	seenV = 0; seenO = 0; seenN = 0; take = 0; left = 0; out = 0; now = 0; open = 0; over = 0; tries = 0;
	goto end
}

#ifdef DEADLINE
active proctype Time() {
	time = 1;
	time = 2
}
#endif

#ifdef CANCEL
active proctype Operator() {
	byte seenV, seenO, left;
cancel:
	atomic {
		seenV = version; seenO = sigO; left = 0; i = 0;
		do
		:: i < PLACES && box[i] != 0 -> left = left | BIT(box[i]); i++
		:: else -> break
		od;
		i = 0
	}
	atomic {
		if
		:: ended -> skip
#ifdef MUTATION_6
		:: !ended && version == seenV ->
#else
		:: !ended && version == seenV && sigO == seenO ->
#endif
			version++; ended = 1; noticed = noticed | left;
			assert((accepted & ~(consumed | noticed)) == 0)	/* a signal was accepted and is neither consumed nor noticed */
		:: else -> goto cancel
		fi
	}
#ifdef RETRY
	if
	:: atomic { ended -> version++; ended = 0 }
	:: true
	fi
#endif
}
#endif

/* when nothing moves any more */
active proctype Rest() {
	atomic {
		timeout;
		assert(sending == 0);	/* a signal never gets a place */
		assert(!(WANTS && ANY));	/* a wait does not take its signal */
		assert(!ended || (accepted & ~(consumed | noticed)) == 0)	/* a signal was accepted and is neither consumed nor noticed */
	}
}

init {
	atomic {
		byte n = 1;
		do
		:: n <= NS -> sends[n] = 1 + ((TWICE >> (n - 1)) & 1); n++
		:: else -> break
		od;
		n = 0;
		do
		:: n < SENDERS -> run Sender(); n++
		:: else -> break
		od;
		n = 0;
		do
		:: n < HANDLERS -> run Handler(false); n++
		:: else -> break
		od;
		run Handler(true);
		n = 0
	}
}
