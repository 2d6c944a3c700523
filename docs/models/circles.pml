/*
 * Executions that wait for themselves through others that they have started. A parent holds an
 * entity, or a place where a limit allows several, until all its children are over. A child wants a
 * lock that others hold. Nobody times out, and no timer rings: what the search does not find stands
 * for ever, which Spin reports as an invalid end state.
 *
 * A child registers with all that block it, is stored with them, and then searches, as described in
 * docs/protocols/locks.md. It searches again whenever it is woken: by the end of one that blocks it,
 * or by another child that has found it to be the youngest of a circle. Every read of an execution
 * is a step of its own.
 *
 * Executions 0 to 2 are parents, or execution 1 is a child of 0; 3 to 5 want a lock, and are
 * ordered by age. CONF says who holds what, and who is whose child:
 *
 *   1  two families: 3 of 0 wants what 1 holds, 4 of 1 wants what 0 holds; 5 of 1 wants nothing
 *   2  a grandparent: 3 of 1, which is a child of 0, wants what 2 holds, and 4 of 2 what 0 holds
 *   3  no circle: 3 of 0 wants what 1 holds, 4 of 1 what 2 holds, which ends by itself
 *   4  a limit of two places, which 0 and 1 have: 3 of 0 and 4 of 1 want one
 *   5  a limit of two places, which 0 and 2 have: 3 of 0 wants one, and 2 ends by itself
 *   6  places and an entity: 3 of 0 wants a place, which 0 and 1 have; 4 of 1 wants what 0 holds
 *
 * In 1, 2, 4 and 6 exactly one child is ended for the circle, and everybody ends. In 3 and 5 nobody
 * is ended for one.
 *
 *   MUTATION_FIRST     the search begins before what blocks the child is stored
 *   MUTATION_FINDER    who finds a circle ends, not the youngest
 *   MUTATION_ONE       who wants a place waits for the first of those that have one
 *   MUTATION_STATE     a parent waits for its children only once none of its branches is at work
 *   MUTATION_PARENT    only the parent of a child is looked at, not all ancestors
 *   MUTATION_ALL       a parent of several waits only if all of them were found
 */

#ifndef CONF
#define CONF 1
#endif

#define N		6
#define NONE		7
#define BIT(n)		(1 << (n))
#define KID(p, c)	((exists[c] && parent[c] == (p) && !over[c]) -> BIT(c) : 0)
#define KIDS(p)		(KID(p, 1) | KID(p, 3) | KID(p, 4) | KID(p, 5))
#define CIRCLE		(CONF != 3 && CONF != 5)

/* parent of each execution, what each child wants (those that block it), who is at work alone */
byte parent[N];
byte wants[N];
bool alone[N], exists[N];

bool over[N];		/* it holds nothing any more */
bool branch[N];		/* another branch of a parent is at work */
byte blocked[N];	/* as stored: those that block it */
byte waiters[N];	/* as registered */
byte version[N];
bool mail[N];
byte killed;

/* a parent waits for a child as long as both are not over */
inline readParent(a, p, waits) {
	atomic {
		p = parent[a];
		waits = p != NONE && !over[p];
#ifdef MUTATION_STATE
		waits = waits && !branch[p];
#endif
		if
		:: waits && seen[p] == 255 -> seen[p] = version[p]
		:: else
		fi
	}
}

/* up adds the ancestors that wait for a */
inline up(a) {
	at = a;
	do
	:: readParent(at, p, waits);
		if
		:: !waits -> break
		:: else ->
			note[p] = note[p] | BIT(at);
			if
			:: found & BIT(p) -> break
			:: else -> found = found | BIT(p); front = front | BIT(p)
			fi;
			at = p
		fi;
#ifdef MUTATION_PARENT
		break
#endif
	od
}

inline wake(m) {
	for (k : 0 .. N - 1) {
		if
		:: m & BIT(k) -> mail[k] = true
		:: else
		fi
	}
}

inline end(n) {
	atomic {
		over[n] = true; blocked[n] = 0; version[n]++;
		wake(waiters[n]);
		waiters[n] = 0;
		if
		:: parent[n] != NONE -> mail[parent[n]] = true
		:: else
		fi
	}
}

/* prune leaves those that are found and wait for others that are; stays[] says so of one */
inline prune() {
	d_step {
		changed = true;
		do
		:: changed ->
			changed = false;
			for (k : 0 .. N - 1) {
				if
				:: (found & BIT(k)) == 0
#ifdef MUTATION_ONE
				:: (found & BIT(k)) != 0 && k >= 3 && (note[k] & found & -note[k]) == 0 -> found = found & ~BIT(k); changed = true
				:: (found & BIT(k)) != 0 && k >= 3 && (note[k] & found & -note[k]) != 0
#else
				/* the end of any of them is enough */
				:: (found & BIT(k)) != 0 && k >= 3 && (note[k] & found) != note[k] -> found = found & ~BIT(k); changed = true
				:: (found & BIT(k)) != 0 && k >= 3 && (note[k] & found) == note[k]
#endif
#ifdef MUTATION_ALL
				:: (found & BIT(k)) != 0 && k < 3 && (KIDS(k) & ~found) != 0 -> found = found & ~BIT(k); changed = true
				:: (found & BIT(k)) != 0 && k < 3 && (KIDS(k) & ~found) == 0
#else
				/* it waits for all: one that is stuck is enough */
				:: (found & BIT(k)) != 0 && k < 3 && (note[k] & found) == 0 -> found = found & ~BIT(k); changed = true
				:: (found & BIT(k)) != 0 && k < 3 && (note[k] & found) != 0
#endif
				fi
			}
		:: else -> break
		od;
		changed = false; k = 0
	}
}

/* circle keeps those to which x leads, if one of them leads back to it */
inline circle(x) {
	d_step {
		if
		:: (found & BIT(x)) == 0 -> ring = 0
		:: else ->
			ring = BIT(x); changed = true;
			do
			:: changed ->
				changed = false;
				for (k : 0 .. N - 1) {
					if
					:: (ring & BIT(k)) && (note[k] & found & ~ring) -> ring = ring | (note[k] & found); changed = true
					:: else
					fi
				}
			:: else -> break
			od;
			changed = false;
			for (k : 0 .. N - 1) {
				if
				:: (ring & BIT(k)) && (note[k] & BIT(x)) -> changed = true
				:: else
				fi
			}
			ring = (changed -> ring : 0)
		fi;
		changed = false; k = 0
	}
}

inline search(x) {
	ring = 0;
again:
	atomic {
		found = 0; front = 0; ring = 0;
		for (k : 0 .. N - 1) {
			note[k] = 0; seen[k] = 255
		}
		k = 0; seen[x] = version[x]
	};
	mine = wants[x];
	up(x);
	do
	:: front == 0 -> break
	:: else ->
		d_step {
			h = 0;
			do
			:: front & BIT(h) -> break
			:: else -> h++
			od;
			front = front & ~BIT(h)
		};
		atomic { who = waiters[h] };
		w = 3;
		do
		:: w == N -> break
		:: else ->
			if
			:: (who & BIT(w)) && (found & BIT(w)) == 0 && w != x ->
				atomic {
					b = blocked[w]; seen[w] = version[w]
				};
				if
				:: (b & found) && w != x -> note[w] = b; found = found | BIT(w); up(w)
				:: else
				fi
			:: else
			fi;
			w++
		od
	od;
	note[x] = mine; found = found | BIT(x);
	prune();
	circle(x);
	if
	:: ring == 0
	:: else ->
		/* all of them are read once more */
		atomic {
			k = 0;
			do
			:: k == N -> break
			:: (ring & BIT(k)) && seen[k] != version[k] -> k = 0; goto again
			:: else -> k++
			od;
			k = 0
		};
		d_step {
			victim = x;
#ifndef MUTATION_FINDER
			for (k : 3 .. N - 1) {
				if
				:: (ring & BIT(k)) -> victim = (k > victim || !(ring & BIT(victim)) -> k : victim)
				:: else
				fi
			}
			k = 0
#endif
		};
		if
		:: victim == x ->
			atomic {
				if
				:: version[x] == seen[x] && !over[x] ->
					killed++;
					assert(CIRCLE && killed == 1);
					end(x);
					goto done
				:: else
				fi
			}
		:: else -> mail[victim] = true
		fi
	fi
}

proctype Child(byte x) {
	byte note[N], seen[N];
	byte found, front, ring, mine, at, p, h, who, w, b, victim, k, j;
	bool waits, changed;
look:
	/* the lock is free as soon as one of those is over */
	j = 0;
	do
	:: j == N -> break
	:: (wants[x] & BIT(j)) && over[j] -> goto take
	:: else ->
		if
		:: wants[x] & BIT(j) ->
			atomic {
				if
				:: over[j] -> goto look
				:: else -> waiters[j] = waiters[j] | BIT(x)
				fi
			}
		:: else
		fi;
		j++
	od;
	if
	:: wants[x] == 0 -> goto take
	:: else
	fi;
#ifdef MUTATION_FIRST
	if
	:: blocked[x] == 0 -> search(x)
	:: else
	fi;
#endif
	atomic {
		if
		:: blocked[x] != wants[x] -> blocked[x] = wants[x]; version[x]++
		:: else
		fi
	};
#ifndef MUTATION_FIRST
	search(x);
#endif
	atomic { mail[x] -> mail[x] = false };
	goto look;
take:
	end(x);
done:
	skip
}

proctype Parent(byte x) {
	byte k;
	if
	:: branch[x] -> atomic { branch[x] = false; version[x]++ }
	:: else
	fi;
	atomic { KIDS(x) == 0 -> skip };
	end(x)
}

proctype Alone(byte x) {
	byte k;
	end(x)
}

inline child(c, p, what) {
	exists[c] = true; parent[c] = p; wants[c] = what
}

init {
	byte i;
	atomic {
		for (i : 0 .. N - 1) {
			parent[i] = NONE
		}
		exists[0] = true;
#if CONF == 1
		exists[1] = true; branch[1] = true;
		child(3, 0, BIT(1)); child(4, 1, BIT(0)); child(5, 1, 0);
#elif CONF == 2
		exists[1] = true; parent[1] = 0; exists[2] = true;
		child(3, 1, BIT(2)); child(4, 2, BIT(0));
#elif CONF == 3
		exists[1] = true; exists[2] = true; alone[2] = true;
		child(3, 0, BIT(1)); child(4, 1, BIT(2));
#elif CONF == 4
		exists[1] = true;
		child(3, 0, BIT(0) | BIT(1)); child(4, 1, BIT(0) | BIT(1));
#elif CONF == 5
		exists[2] = true; alone[2] = true;
		child(3, 0, BIT(0) | BIT(2));
#else
		exists[1] = true;
		child(3, 0, BIT(0) | BIT(1)); child(4, 1, BIT(0));
#endif
		for (i : 0 .. N - 1) {
			if
			:: exists[i] && alone[i] -> run Alone(i)
			:: exists[i] && !alone[i] && i < 3 -> run Parent(i)
			:: exists[i] && i >= 3 -> run Child(i)
			:: else
			fi
		}
	};
	(over[0] && (over[1] || !exists[1]) && (over[2] || !exists[2]));
	assert(!CIRCLE || killed == 1)
}
