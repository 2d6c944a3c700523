package render

import (
	"slices"
	"strings"

	sm "github.com/lockstep-run/lockstep/statemachines"
)

// operatorVerbs are the verbs that operators have for a run, with the event that each
// asks for.
var operatorVerbs = []struct {
	verb string
	on   sm.Event
}{
	{"cancel", sm.EventCancelRequested},
	{"retry", sm.EventExecutionRetried},
	{"resume", sm.EventExecutionResumed},
	{"unlock", sm.EventLockReleased},
	{"acknowledge", sm.EventExecutionAcknowledged},
}

func verbAllowed(verb string, state sm.ExecutionState) bool {
	for _, o := range operatorVerbs {
		if o.verb != verb {
			continue
		}
		if verb == "resume" { // many things end a wait; an operator may end these
			return state == sm.ExecutionBlockedWaiting || state == sm.ExecutionWaiting
		}
		for _, to := range sm.ExecutionStates() {
			if _, err := sm.TransitionExecution(state, o.on, to); err == nil {
				return true
			}
		}
	}
	return false
}

// IllegalStateHint says in which states a verb works, and which verb would work in the
// state that a run is in.
func IllegalStateHint(verb string, state sm.ExecutionState, id string) string {
	var in, instead []string
	for _, s := range sm.ExecutionStates() {
		if verbAllowed(verb, s) {
			in = append(in, string(s))
		}
	}
	for _, o := range operatorVerbs {
		if o.verb != verb && verbAllowed(o.verb, state) {
			instead = append(instead, "\"lockstep "+o.verb+" "+id+"\"")
		}
	}
	s := verb + " is for runs in " + strings.Join(slices.Compact(in), ", ")
	if len(instead) == 0 {
		return s + "; a run in " + string(state) + " takes no operator's verb"
	}
	return s + "; this one, in " + string(state) + ", takes " + strings.Join(instead, " or ")
}
