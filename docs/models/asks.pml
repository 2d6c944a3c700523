/*
 * CHILD_INPUT: an execution that waits for children says whether one below it needs a person.
 * Execution 0 waits for 1, and 1 for 2 and 3. The latter begin and end to wait for a person.
 *
 * A parent lists up to BOUND children that need a person, or have one below them that does; it
 * needs a person while the list is not empty. A child whose need changes sends its parent a
 * message. Its handler reads the item of the parent, then that of the child, and commits on the
 * version of the parent's item; if the parent's need has changed, it tells the parent of that. After
 * each commit it looks again at the same child; and if the list is empty now, it reads all
 * children, after the commit. Messages come in any order, and their handlers may stall; none is
 * lost here, because the timer, which heals that, reads all children too.
 *
 *   MUTATION_1   nobody looks again after a commit
 *   MUTATION_2   the other children are not read when the list becomes empty
 *   MUTATION_3   they are read before the commit
 */

#ifndef TOGGLES
#define TOGGLES 2
#endif
#ifndef H
#define H 2		/* handlers of each parent */
#endif
#ifndef BOUND
#define BOUND 1
#endif

#define BIT(n)		(1 << (n))
#define SIZE(m)		(((m) & 1) + (((m) >> 1) & 1))
#define KIDS(p)		((p) + 1)
#define KID(p, l)	((p) == 0 -> 1 : 2 + (l))
#define NEEDS(n)	((n) < 2 -> asks[n] != 0 : needs[n - 2])

byte asks[2], version[2];
bool needs[2];
byte mail[4];		/* messages about lane 0 and 1 of 0, then of 1 */
byte toggles, busy;

#define MAIL(p, l)	mail[(p) * 2 + (l)]

proctype Handler(byte p) {
	byte v, list, next, l, first;
	bool any;
end:
	atomic {
		if
		:: MAIL(p, 0) > 0 -> MAIL(p, 0)--; l = 0
		:: p == 1 && MAIL(p, 1) > 0 -> MAIL(p, 1)--; l = 1
		fi;
		busy++
	};
look:
	atomic { v = version[p]; list = asks[p] };
	/* the child is read after the parent */
	atomic {
		any = NEEDS(KID(p, l));
		if
		:: any && (list & BIT(l)) == 0 && SIZE(list) < BOUND -> next = list | BIT(l)
		:: !any && (list & BIT(l)) != 0 -> next = list & ~BIT(l)
		:: else -> next = list
		fi
	};
#ifdef MUTATION_3
	if
	:: next == 0 && list != 0 && p == 1 && NEEDS(KID(p, 1 - l)) -> next = BIT(1 - l)
	:: else
	fi;
#endif
	if
	:: next == list -> goto done
	:: else
	fi;
	atomic {
		if
		:: version[p] != v -> goto look
		:: else ->
			asks[p] = next; version[p]++;
			if
			:: (next != 0) != (list != 0) && p > 0 -> MAIL(0, 0)++
			:: else
			fi
		fi
	};
#ifndef MUTATION_1
	if
#if !defined(MUTATION_2) && !defined(MUTATION_3)
	:: next == 0 && p == 1 && NEEDS(KID(p, 1 - l)) -> l = 1 - l; goto look
	:: next == 0 && p == 1 && !NEEDS(KID(p, 1 - l)) -> goto look
	:: next != 0 || p == 0 -> goto look
#else
	:: goto look
#endif
	fi;
#endif
done:
	atomic { v = 0; list = 0; next = 0; l = 0; any = 0; busy-- };
	goto end
}

active [2] proctype Person() {
end:
	do
	:: atomic {
		toggles < TOGGLES ->
		toggles++; needs[_pid & 1] = !needs[_pid & 1]; MAIL(1, _pid & 1)++
	}
	od
}

active proctype Rest() {
	atomic {
		timeout;
		assert((asks[1] != 0) == (needs[0] || needs[1]));	/* a parent says wrongly whether a child needs a person */
		assert((asks[0] != 0) == (asks[1] != 0))	/* a grandparent says wrongly whether a grandchild needs a person */
	};
end:
	false
}

init {
	byte h;
	atomic {
		do
		:: h < H -> run Handler(0); run Handler(1); h++
		:: else -> break
		od;
		h = 0
	}
}
