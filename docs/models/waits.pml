/*
 * A step that waits for answers of people: requests that answer, a deadline, tokens that expire
 * or are revoked, a callback whose job runs beside the wait, an escalation, and operators that
 * cancel, rewind or retry. Each round of a request loads the state item, reads a clock after
 * that, decides, and commits on the condition of the version; a commit that fails begins
 * another round. A request may be made twice, because its reply was lost. Its key says so.
 *
 * A wait is open while its execution is live and nothing has decided it. A rewind or a retry
 * begins another step run, 2, with a wait of its own. A request names step run 1 (NAMED), has a
 * token for it (TOKENS), or means the open wait. Each reading of a clock is right within the
 * skew: before, after, or, while time is 1, either. A token's expiry has a clock of its own.
 *
 * The job of a callback may end, well or badly, before the answer or after it, and may be sent
 * again: what is seen of it is its end. At the deadline it is stopped first if it is at work.
 *
 *   MUTATION_1    an answer that is too late is refused without a commit
 *   MUTATION_2    which wait is meant is settled again after a lost race
 *   MUTATION_3    keys are looked for in the open wait only
 *   MUTATION_4    whether the wait is open is judged before the key
 *   MUTATION_5    an answer is accepted, and the deadline is left to the alarm
 *   MUTATION_6    the generation of a token is not compared
 *   MUTATION_8    an answer does not depend on the version
 *   MUTATION_9    a lapse does not depend on the version
 *   MUTATION_10   a wait is open until its step run has ended
 *   MUTATION_11   answers are counted by key, not by person
 *   MUTATION_12   a decided wait lapses too
 *   MUTATION_13   a rejection counts as an answer like any other
 *   MUTATION_14   an escalation counts as done with the commit that begins it
 *   MUTATION_15   the token of a callback has the present generation
 *   MUTATION_16   an answer by token has no key
 *   MUTATION_17   the expiry of a token is judged before the key
 *   MUTATION_18   a callback that is answered goes on although its job has failed
 *   MUTATION_19   a callback takes answers while its job is stopped at the deadline
 *   MUTATION_20   the answer ends a callback whose job is at work
 */

#ifndef NR
#define NR 1		/* requests, from 1 on */
#endif
#ifndef TWICE
#define TWICE 0		/* mask of those that are made twice; bit 0 is request 1 */
#endif
#ifndef NAMED
#define NAMED 0		/* mask of those that name step run 1 */
#endif
#ifndef TOKENS
#define TOKENS 0	/* mask of those that have a token */
#endif
#ifndef LATER
#define LATER 0		/* mask of those whose token is issued after a revoke; without one they are not made */
#endif
#ifndef REJECTS
#define REJECTS 0	/* mask of those that reject */
#endif
#ifndef ONEPERSON
#define ONEPERSON 0	/* mask of those that are of person 1; any other request has a person of its own */
#endif
#ifndef NEED
#define NEED 1		/* answers that the wait needs */
#endif
#ifndef HANDLERS
#define HANDLERS 2
#endif
#ifndef CRASHES
#define CRASHES 0
#endif
#ifndef LOSSES
#define LOSSES 0
#endif

#define LIVE 0
#define CANCELLED 1
#define FAILED 2
#define OVER 3

#define ANSWERED 1
#define REJECTED 2
#define TIMEOUT 3
#define REWOUND 4
#define JOBFAILED 5

/* the state item; of each step run, 1 and 2 */
byte version, state, current = 1;
byte outcome[3];
byte decided[3];		/* 0, ANSWERED or REJECTED */
bool lapsed;			/* the job of the callback is stopped at the deadline */
byte answers[3];		/* mask of requests: their keys */
byte people[3];			/* mask of persons */
byte rejections[3];
byte gen[3];
byte level, paged;		/* of the escalation in step run 1 */

byte job;			/* of the callback: 0, ANSWERED if it has ended well, or JOBFAILED */
bool started;			/* somebody was called by the escalation */

/* what has happened */
byte makes[NR + 1];		/* how often a request has still to be made */
byte counted;			/* mask of requests */
byte refused[3];		/* by step run; an expiry is no refusal for ever */
byte time, expiry, crashed, lost;

#define BIT(id)		(1 << ((id) - 1))
#define IN(id, mask)	(((mask) >> ((id) - 1)) & 1)
#define PERSON(id)	(IN(id, ONEPERSON) -> 1 : BIT(id))
#ifdef MUTATION_10
#define OPEN(sr)	(outcome[sr] == 0 && decided[sr] == 0)
#elif defined(MUTATION_19)
#define OPEN(sr)	(state == LIVE && outcome[sr] == 0 && decided[sr] == 0)
#else
#define OPEN(sr)	(state == LIVE && outcome[sr] == 0 && decided[sr] == 0 && !lapsed)
#endif
#define READ(clock, past) \
	if :: clock == 0 -> past = 0 :: clock == 1 -> past = 0 :: clock == 1 -> past = 1 :: clock == 2 -> past = 1 fi
#define NUMBER(mask)	(((mask) & 1) + (((mask) >> 1) & 1) + (((mask) >> 2) & 1) + (((mask) >> 3) & 1))

inline leave(sr, how) {
	assert(outcome[sr] == 0);	/* a wait has two outcomes */
	assert(how != TIMEOUT || decided[sr] == 0);	/* a wait times out that an answer had decided */
#ifdef CALLBACK
	assert((how != ANSWERED && how != REJECTED) || job == ANSWERED);	/* a callback goes on without its job */
#endif
	outcome[sr] = how;
	if
	:: how == TIMEOUT || how == JOBFAILED -> state = FAILED
	:: how == ANSWERED || how == REJECTED -> state = OVER
	:: else
	fi
}

/* lapses the open wait of a state with the version seen */
inline lapse(seen) {
	if
	:: paged < level -> started = 1	/* before the commit */
	:: else
	fi;
	atomic {
		if
#ifdef MUTATION_9
		:: state == LIVE || decided[current] != 0 ->
#else
		:: version == seen ->
#endif
			assert(decided[current] == 0);	/* a wait times out that an answer had decided */
			assert(time > 0);	/* a wait times out before its deadline */
			assert(level == 0 || started);	/* the deadline passes, and the escalation has called nobody */
			version++;
			if
#ifdef CALLBACK
			:: job == 0 -> lapsed = 1
#endif
			:: else -> leave(current, TIMEOUT)
			fi
		:: else
		fi
	}
}

proctype Request() {
	byte id, sr, first, seen, arrived, tokenGen;
	bool known, open, revoked, used, due, past, expired, seenCounted;
next:
	atomic {
		id = 0; sr = 0; first = 0; seen = 0; tokenGen = 0; known = 0; open = 0; revoked = 0; used = 0; due = 0; past = 0; expired = 0; seenCounted = 0; arrived = 0;
		if
		:: makes[1] > 0 && (!IN(1, LATER) || gen[1] > 0) -> id = 1
#if NR > 1
		:: makes[2] > 0 && (!IN(2, LATER) || gen[1] > 0) -> id = 2
#endif
#if NR > 2
		:: makes[3] > 0 && (!IN(3, LATER) || gen[1] > 0) -> id = 3
#endif
		:: else -> goto done
		fi;
		if
		:: IN(id, LATER) -> tokenGen = gen[1]
		:: else
		fi;
#ifdef MUTATION_15
		if
		:: IN(id, TOKENS) -> tokenGen = gen[1]
		:: else
		fi;
#endif
		makes[id]--; arrived = time
	}
round:
	atomic {
		seen = version; past = 0; expired = 0;
		if
		:: IN(id, TOKENS | NAMED) -> sr = 1
#ifdef MUTATION_2
		:: !IN(id, TOKENS | NAMED) -> sr = current
#else
		:: !IN(id, TOKENS | NAMED) && sr == 0 -> sr = current
#endif
		:: else
		fi;
		if :: first == 0 -> first = sr :: else fi;
		open = OPEN(sr);
		seenCounted = IN(id, counted);
#ifdef MUTATION_3
		known = IN(id, answers[current]) && OPEN(current);
#else
		known = IN(id, answers[sr]) || (!IN(id, TOKENS | NAMED) && IN(id, answers[1] | answers[2]));
#endif
#ifdef MUTATION_16
		known = known && !IN(id, TOKENS);
#endif
		revoked = IN(id, TOKENS) && gen[sr] != tokenGen;
		used = (people[sr] & PERSON(id)) != 0;
		due = OPEN(current)
	}
#ifdef DEADLINE
	atomic { READ(time, past) };
#endif
#ifdef EXPIRES
	atomic { if :: IN(id, TOKENS) -> READ(expiry, expired) :: else fi };
#endif
#ifdef MUTATION_17
	if
	:: expired -> goto tooLate
	:: else
	fi;
#endif
#ifdef MUTATION_4
	if
	:: !open -> goto refuse
	:: else
	fi;
#endif
	if
	:: known -> goto told
	:: else
	fi;
#ifndef MUTATION_5
	if
	:: due && past ->
#ifdef MUTATION_1
		goto refuse
#else
		lapse(seen);
		goto round
#endif
	:: else
	fi;
#endif
	if
	:: !open -> goto refuse
#ifndef MUTATION_6
	:: open && revoked -> goto refuse
#endif
	:: else
	fi;
	if
	:: expired -> goto tooLate
	:: else
	fi;
#ifndef MUTATION_11
	if
	:: used -> goto refuse
	:: else
	fi;
#endif
	atomic {
#ifndef MUTATION_8
		if
		:: version != seen -> goto round
		:: else
		fi;
#endif
		assert(!IN(id, counted));	/* an answer counts twice */
		assert(!IN(id, refused[sr]));	/* an answer counts that was refused */
		assert(sr == first);	/* an answer to one question is taken for another */
		assert(state == LIVE || outcome[sr] != 0);	/* an answer counts after the execution was cancelled */
		assert(arrived < 2);	/* an answer is accepted that came after the deadline */
		assert(!IN(id, TOKENS) || gen[sr] == (IN(id, LATER) -> 1 : 0));	/* a revoked token is used */
		version++;
		counted = counted | BIT(id);
		answers[sr] = answers[sr] | BIT(id);
		people[sr] = people[sr] | PERSON(id);
		if
		:: IN(id, REJECTS) ->
			rejections[sr] = rejections[sr] | BIT(id);
#ifndef MUTATION_13
			decided[sr] = REJECTED
#endif
		:: else
		fi;
		if
#ifdef MUTATION_11
		:: decided[sr] == 0 && NUMBER(answers[sr]) >= NEED ->
#else
		:: decided[sr] == 0 && NUMBER(people[sr]) >= NEED ->
#endif
			decided[sr] = ANSWERED;
			assert(NUMBER(people[sr]) >= NEED);	/* one person decides for several */
			assert(rejections[sr] == 0)	/* a wait is approved that somebody has rejected */
		:: else
		fi;
#if !defined(CALLBACK) || defined(MUTATION_20)
		if
		:: decided[sr] != 0 -> leave(sr, decided[sr])
		:: else
		fi;
#endif
		if
		:: lost < LOSSES -> lost++; goto round
		:: crashed < CRASHES -> crashed++; goto next
		:: true
		fi
	}
told:
	atomic {
		assert(IN(id, counted));	/* an answer is accepted and does not count */
		goto next
	}
refuse:
	atomic {
		assert(!seenCounted && !IN(id, answers[sr]));	/* an answer is refused that counts */
		refused[sr] = refused[sr] | BIT(id);
		goto next
	}
tooLate:
	atomic {
		assert(!seenCounted);	/* an answer is refused that counts */
		goto next
	}
done:
	skip
}

active proctype Alarm() {
	byte seen, what, seenJob;
	bool past, stopped;
end:
	do
	:: atomic {
			state == LIVE && outcome[current] == 0 && (
#ifdef DEADLINE
				(time > 0 && !lapsed
#ifndef MUTATION_12
					&& decided[current] == 0
#endif
				) ||
#endif
#ifdef ESCALATES
				(current == 1 && decided[1] == 0 && (level == 0 || paged < level)) ||
#endif
				(job != 0 && (decided[current] != 0 || lapsed || job == JOBFAILED)));
			seen = version; what = decided[current]; seenJob = job; stopped = lapsed
		};
		if
		:: seenJob != 0 && (what != 0 || stopped || seenJob == JOBFAILED) ->
			atomic {
				if
				:: version == seen ->
					version++;
					if
					:: stopped -> leave(current, TIMEOUT)
#ifdef MUTATION_18
					:: !stopped && what != 0 -> leave(current, what)
					:: else -> leave(current, JOBFAILED)
#else
					:: !stopped && seenJob == JOBFAILED -> leave(current, JOBFAILED)
					:: else -> leave(current, what)
#endif
					fi
				:: else
				fi
			}
		:: else ->
#ifdef DEADLINE
			atomic { READ(time, past) };
#endif
			if
			:: past -> lapse(seen)
			:: else ->
#ifdef ESCALATES
				atomic {
					if
					:: version == seen && level == 0 ->
						version++; level = 1; seen = version;
#ifdef MUTATION_14
						paged = 1;
#endif
						if :: crashed < CRASHES -> crashed++; goto again :: true fi
					:: version == seen && paged < level
					:: else -> goto again
					fi
				};
				started = 1;
				if :: crashed < CRASHES -> atomic { crashed++; goto again } :: true fi;
				atomic {
					if
					:: version == seen && paged < level -> version++; paged = level
					:: else
					fi
				}
#else
				skip
#endif
			fi
		fi;
again:
		atomic { seen = 0; what = 0; seenJob = 0; past = 0; stopped = 0 }
	od
}

#ifdef DEADLINE
active proctype Time() {
	time = 1;
	time = 2
}
#endif

#ifdef EXPIRES
active proctype Expiry() {
	expiry = 1;
	expiry = 2
}
#endif

#ifdef CALLBACK
active proctype Job() {
	if
	:: job = ANSWERED
	:: job = JOBFAILED
	fi
}
#endif

/* each of an operator's commands is decided on the state that it commits to */
active proctype Operator() {
end:
#ifdef REVOKE
	atomic {
		if
		:: OPEN(current) -> gen[current]++; version++
		:: true
		fi
	};
#endif
#ifdef CANCEL
	atomic {
		if
		:: state == LIVE -> state = CANCELLED; version++
		:: true
		fi
	};
#endif
#ifdef REWIND
	atomic {
		if
		:: state == LIVE && outcome[1] == 0 -> leave(1, REWOUND); current = 2; version++
		:: true
		fi
	};
#endif
#ifdef RETRY
	atomic { state == FAILED -> state = LIVE; current = 2; version++ };
#endif
	skip
}

/* when nothing moves any more */
active proctype Rest() {
	atomic {
		timeout;
#ifdef DEADLINE
		assert(!OPEN(current));	/* a wait stays open after its deadline */
#endif
		assert(state != LIVE || decided[current] == 0 || outcome[current] != 0);	/* a wait is decided, and its step does not end */
		assert(state != LIVE || NUMBER(people[current]) < NEED || decided[current] != 0)	/* a wait has its answers, and stays open */
	}
}

init {
	atomic {
		byte n = 1;
		do
		:: n <= NR -> makes[n] = 1 + IN(n, TWICE); n++
		:: else -> break
		od;
		n = 0;
		do
		:: n < HANDLERS -> run Request(); n++
		:: else -> break
		od;
		n = 0
	}
}
