/*
 * A poll over HTTP that its worker repeats because it got no answer. A process of its own
 * serves each request of the poll. It may die at any line, and go on when a later request
 * was answered long ago. All requests carry the attempt that the worker chose, and share
 * one item: the receipt of the pack that is claimed for them, or that there is none. Each
 * write of the item is conditional on its version. A request that finds a receipt writes
 * it again before it claims the pack; otherwise the request that wrote it first could go
 * on to the next message when it finds the pack finished.
 *
 * The worker takes the answer of its last request. It begins the pack's jobs, or goes on to
 * its next poll. Another worker may receive the message of pack 1, too.
 *
 *   MUTATION_1   the pack is claimed before the receipt is stored
 *   MUTATION_2   the receipt is stored without a condition
 *   MUTATION_3   a repetition whose pack may not be handed out claims another
 *   MUTATION_4   that there is no pack is answered and not stored
 *   MUTATION_5   a repetition does not store the receipt again
 */

#ifndef REQUESTS
#define REQUESTS 3
#endif

#define NONE   0
#define NOPACK 3	/* packs are 1 and 2 */
#define MINE   1
#define OTHERS 2

byte receipt;
byte current;		/* bit i: nobody has written the receipt since request i read or wrote it */
byte claim[3];		/* NONE, MINE, OTHERS */
bool finished[3];
bool received[3];		/* a request has received its message */
byte last;		/* number of the last request of the worker */
bool over;		/* the worker has an answer */
byte running;

inline answer(pack) {
	atomic {
		if
		:: id == last && !over ->
			over = true;
			if
			:: pack != NOPACK ->
				assert(claim[pack] == MINE && !finished[pack]);	/* a worker begins the jobs of a pack that is not its own */
				finished[pack] = true
			:: else
			fi
		:: else	/* nobody waits for it any more */
		fi;
		goto end
	}
}

/* stores what follows, or goes back to read what another request has stored */
inline put(what) {
	atomic {
		if
		:: (current >> id) & 1 -> current = 1 << id; receipt = what
		:: else -> goto taken
		fi
	}
}

proctype Request(byte id) {
	byte r, got;
again:
	atomic { r = receipt; current = current | (1 << id) }
	if
	:: r == NOPACK -> answer(NOPACK)
	:: r == NONE -> goto receive
	:: else
	fi;
#ifndef MUTATION_5
	put(r);
#endif
	atomic {
		if
		:: claim[r] == NONE -> claim[r] = MINE
		:: claim[r] == MINE && !finished[r]	/* leased once more */
		:: else ->
#ifdef MUTATION_3
			goto receive
#else
			goto nothing
#endif
		fi
	}
	answer(r);
nothing:
	put(NOPACK);
	answer(NOPACK);

receive:
	atomic {
		if
		:: !received[1] -> got = 1; received[1] = true
		:: !received[2] -> got = 2; received[2] = true
		:: got = NONE	/* none came in time */
		fi
	}
	if
	:: got == NONE ->
#ifndef MUTATION_4
		put(NOPACK);
#endif
		answer(NOPACK)
	:: else
	fi;
#ifdef MUTATION_1
	if
	:: claim[got] == NONE -> claim[got] = MINE
	:: else -> goto receive
	fi;
	if :: id < REQUESTS -> goto dead :: true fi;
#endif
#ifdef MUTATION_2
	atomic { current = 1 << id; receipt = got };
#else
	put(got);
#endif
	if
	:: id < REQUESTS -> goto dead	/* the last one lives: the worker repeats until it has an answer */
	:: true
	fi;
	atomic {
		if
		:: claim[got] == NONE -> claim[got] = MINE
		:: claim[got] == MINE && !finished[got]
		:: else -> goto receive	/* the message is a duplicate */
		fi
	}
	if
	:: id < REQUESTS -> goto dead
	:: true
	fi;
	answer(got);

taken:
	if
	:: got != NONE && claim[got] == NONE -> received[got] = false	/* its message is given back */
	:: else
	fi;
	got = NONE;
	goto again;
dead:
	skip;
end:
	running--
}

active proctype Worker() {
	do
	:: !over && last < REQUESTS ->
		atomic { last++; running++; run Request(last) }
	:: over && running == 0 -> break
	od;
	assert(claim[1] != MINE || finished[1]);	/* a pack is claimed, and its worker does not know of it */
	assert(claim[2] != MINE || finished[2])	/* a pack is claimed, and its worker does not know of it */
}

active proctype OtherWorker() {
	if
	:: atomic { claim[1] == NONE -> claim[1] = OTHERS }
	:: true
	fi
}
