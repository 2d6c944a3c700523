/*
 * From the commits of an execution to those who observe it. A commit adds an event to the state
 * item and, if the tenant observes, sets the execution's timer, which is near in whatever state
 * the execution is. After it the handler announces the execution by a message, which may be lost.
 * An observer reads how far the events have been handed on (the cursor, an item of its own), the
 * state item and then the pages of the history; it hands what follows to each subscription, as a
 * message of a queue that keeps it until the receiver has it, and then moves the cursor. The
 * timer announces the execution again, until the cursor has come to its last event.
 *
 * A subscription is made while all that goes on (SUBSCRIBE). Handlers know of subscriptions from
 * a cache that may be old. The subscription says from when on it is told of events.
 *
 *   MUTATION_1    the timer ends with an announcement, not with the cursor
 *   MUTATION_2    and an observer that finds another at work drops its message
 *   MUTATION_3    only an execution that has settled keeps its timer
 *   MUTATION_4    a subscription is told of all events since it was made
 *   MUTATION_5    from when on is settled before the subscription is written
 *   MUTATION_6    the pages of the history are read before the state item
 *   MUTATION_7    the cursor is moved before the events are handed on
 *   MUTATION_8    an execution is announced or not: it is not said up to which event
 *   MUTATION_9    the cursor is moved to where the execution is by then
 *   MUTATION_10   a handler looks into its cache before it reads the clock
 *   MUTATION_11   a message to a receiver is done before the receiver has it
 *   MUTATION_12   what comes for a subscription that is suspended is dropped
 *   MUTATION_13   the timer ends without a look at the version
 */

#ifndef EVENTS
#define EVENTS 1
#endif
#ifndef ENGINES
#define ENGINES 1
#endif
#ifndef OBSERVERS
#define OBSERVERS 1
#endif
#ifndef SUBS
#define SUBS 1		/* subscriptions, 1 or 2 */
#endif
#ifndef LOSSES
#define LOSSES 0	/* announcements that are lost */
#endif
#ifndef CRASHES
#define CRASHES 0
#endif
#ifndef DOWN
#define DOWN 0		/* how often a receiver refuses a message */
#endif

/* the state item */
byte version, seq, paged;
bool timer;
#ifdef MUTATION_8
bool announced;
#endif

byte pages;		/* the last event that is in a page */
byte cursor, lease;	/* the lease of an observer may be over at any time */
byte messages;		/* announcements */
byte out[SUBS];		/* masks of the events in messages to the receivers */
byte dead[SUBS];	/* and in dead letters */
byte received[SUBS];
bool suspended[SUBS];

/* the subscription: whether it is written, known to every cache that is read from now on, and
   whether an event that is stamped now is one that it is told of */
bool written, known, since;
byte told;		/* mask of the events that it is told of */

byte lost, crashed, refused;

#define THROUGH(n)	((1 << (n)) - 1)
#define RANGE(c, n)	(THROUGH(n) & ~THROUGH(c))
#define CRASH		crashed < CRASHES -> crashed++

inline announce() {
	if
	:: lost < LOSSES -> lost++
	:: messages < 2 -> messages++
	:: messages >= 2	/* one more is the same */
	fi
}

inline look(observes) {
	if
	:: written -> observes = 1
	:: !known -> observes = 0
	fi
}

/* a handler of the execution: load, read the clock, look into the cache, decide, commit, announce */
proctype Engine() {
	byte seenV, seenS;
	bool at, observes;
end:
	(seq < EVENTS);
load:
	atomic { seenV = version; seenS = seq };
	if
	:: seenS == EVENTS -> goto done
	:: else
	fi;
#ifdef MUTATION_10
	atomic { look(observes) };
	at = since;
#else
	at = since;
	atomic { look(observes) };
#endif
#ifdef PAGING
	if
	:: seenS > paged -> pages = seenS
	:: true -> skip
	fi;
#endif
	atomic {
		if
		:: version != seenV -> goto load
		:: else
		fi;
		version++; seq++;
		if :: pages >= seenS && seenS > paged -> paged = seenS :: else fi;
		if :: at -> told = told | (1 << (seq - 1)) :: else fi;
#ifdef MUTATION_3
		timer = observes && seq < EVENTS;
#else
		timer = observes;
#endif
	}
	if
	:: atomic { CRASH }
	:: atomic { observes -> announce() }
	:: !observes
	fi;
	seenV = 0; seenS = 0; at = 0; observes = 0;
	goto end;
done:
	skip
}

/* the timer: it repeats itself, so a crash changes nothing */
proctype Timer() {
	byte seenV, seenS;
	bool come;
end:
	atomic { timer && (cursor >= seq || messages == 0) -> seenV = version; seenS = seq };
#ifdef MUTATION_8
	come = announced;
#endif
#if defined(MUTATION_1) || defined(MUTATION_2)
	atomic { announce() };
	come = 1;
#endif
	come = come || cursor >= seenS;
	if
	:: come ->
		atomic {
			if
#ifdef MUTATION_13
			:: timer = 0
#else
			:: version == seenV -> version++; timer = 0
#endif
#ifdef MUTATION_8
				announced = 1
#endif
#ifndef MUTATION_13
			:: version != seenV
#endif
			fi
		}
	:: else -> atomic { announce() }
	fi;
	seenV = 0; seenS = 0; come = 0;
	goto end
}

proctype Observer(byte me) {
	byte c, s, from, to, n;
end:
	atomic { messages > 0 -> messages-- };
	c = cursor;
	atomic {
		if
		:: cursor == c && (lease == 0 || lease == me) -> lease = me
		:: cursor == c && lease != 0 && lease != me -> lease = me	/* its time is over */
		:: cursor != c || (lease != 0 && lease != me) ->
#ifndef MUTATION_2
			if :: messages < 2 -> messages++ :: else fi;
#endif
			c = 0; goto end
		fi
	}
	if :: atomic { CRASH; goto again } :: true fi;
#ifdef MUTATION_6
	to = pages;
	atomic { s = seq; from = paged };
#else
	atomic { s = seq; from = paged };
	to = pages;
#endif
#ifndef MUTATION_6
	assert(to >= from);	/* events are in no page and not in the state item */
#endif
	if
	:: s <= c -> goto free
	:: else
	fi;
#ifdef MUTATION_7
	atomic { if :: cursor == c -> cursor = s :: else -> goto free fi };
	if :: atomic { CRASH; goto again } :: true fi;
#endif
	n = 0;
	do
	:: n < SUBS ->
		atomic {
			/* what it has read: the pages up to "to", and from the state item what follows "from" */
			out[n] = out[n] | ((RANGE(c, s) & (THROUGH(to) | RANGE(from, s))) & told);
			n++
		}
		if :: atomic { CRASH; goto again } :: true fi
	:: else -> break
	od;
#ifndef MUTATION_7
	atomic {
		if
#ifdef MUTATION_9
		:: cursor = seq
#else
		:: cursor == c -> cursor = s
		:: cursor != c
#endif
		fi
	}
#endif
free:
	atomic {
		if :: lease == me -> lease = 0 :: else fi;
		c = 0; s = 0; from = 0; to = 0; n = 0;
		goto end
	};
again:
	/* it has died, and its message comes again */
	atomic {
		if :: messages < 2 -> messages++ :: else fi;
		c = 0; s = 0; from = 0; to = 0; n = 0;
		goto end
	}
}

/* hands on what the queue holds, to one receiver */
proctype Deliver(byte n) {
	byte what;
end:
	atomic { out[n] != 0 -> what = out[n] };
#ifdef MUTATION_11
	out[n] = out[n] & ~what;
	if :: atomic { CRASH; what = 0; goto end } :: true fi;
#endif
	if
	:: atomic { suspended[n] ->
		out[n] = out[n] & ~what;
#ifndef MUTATION_12
		dead[n] = dead[n] | what;
#endif
		what = 0; goto end }
	:: atomic { refused < DOWN ->
		refused++; suspended[n] = 1; out[n] = out[n] & ~what; dead[n] = dead[n] | what; what = 0; goto end }
	:: atomic { !suspended[n] -> received[n] = received[n] | what }
	fi;
	if :: atomic { CRASH; what = 0; goto end } :: true fi;
	/* another message may hold more by now; one more delivery does no harm */
	atomic { out[n] = out[n] & ~what; what = 0; goto end }
}

/* an operator resumes a subscription, and brings back its dead letters */
#if DOWN > 0
active proctype Operator() {
end:
	atomic {
		if
		:: suspended[0] -> suspended[0] = 0; out[0] = out[0] | dead[0]; dead[0] = 0
#if SUBS > 1
		:: suspended[1] -> suspended[1] = 0; out[1] = out[1] | dead[1]; dead[1] = 0
#endif
		fi;
		goto end
	}
}
#endif

#ifdef SUBSCRIBE
active proctype Subscriber() {
#ifdef MUTATION_5
	since = 1;
	written = 1;
	known = 1
#else
	written = 1;
#ifdef MUTATION_4
	since = 1;
	known = 1
#else
	known = 1;
	since = 1
#endif
#endif
}
#endif

#if SUBS > 1
#define ALL	((told & ~received[0]) == 0 && (told & ~received[1]) == 0)
#else
#define ALL	((told & ~received[0]) == 0)
#endif

/* when nothing moves any more */
active proctype Rest() {
	atomic {
		timeout;
		assert(seq == EVENTS);	/* an observer holds up the execution */
		assert(ALL);	/* an event was never told */
		assert(!timer);	/* a timer is left for ever */
	}
}

init {
	atomic {
		byte n;
#ifndef SUBSCRIBE
		written = 1; known = 1; since = 1;
#endif
		n = 0;
		do
		:: n < ENGINES -> run Engine(); n++
		:: else -> break
		od;
		run Timer();
		n = 0;
		do
		:: n < OBSERVERS -> n++; run Observer(n)
		:: else -> break
		od;
		n = 0;
		do
		:: n < SUBS -> run Deliver(n); n++
		:: else -> break
		od;
		n = 0
	}
}
