package statemachines

import (
	"fmt"
	"slices"
	"testing"
)

// theirWords is what each of the other engines calls the states of a run. The
// mapping may use no other word, and has a use for every one of these.
var theirWords = map[Dialect][]string{
	DialectNeops: {
		"NEW", "VALID", "BLOCKED_WAITING", "READY", "RESOURCE_DISCOVERY", "RESOURCES_DISCOVERED", "SCHEDULED", "LOCKING", "LOCKED",
		"RUNNING", "ERROR", "ROLLBACK", "COMPLETED", "FAILED_SAFE", "FAILED_UNSAFE", "COMPLETED_ACK", "FAILED_SAFE_ACK", "FAILED_UNSAFE_ACK",
	},
	DialectRuvon: {
		"ACTIVE", "PENDING_ASYNC", "WAITING_HUMAN_INPUT", "PENDING_SUB_WORKFLOW", "WAITING_CHILD_HUMAN_INPUT",
		"COMPLETED", "FAILED", "FAILED_ROLLED_BACK", "FAILED_WORKER_CRASH", "FAILED_CHILD_WORKFLOW", "CANCELLED",
	},
	DialectFlowMonkey: {"pending", "running", "waiting", "completed", "failed", "cancelled"},
	DialectNoETL:      {"PENDING", "RUNNING", "COMPLETED", "FAILED", "CANCELLED"},
}

// situations is every combination of what a word can depend on, the values that
// nobody has thought of included.
func situations() []Situation {
	var all []Situation
	for _, state := range ExecutionStates() {
		for _, waiting := range []string{"", "LOCK", "CONDITION", "INPUT", "TIMER", "SIGNAL", "CHILD", "CHILD_INPUT", "RETRY", "WORKER", "ACKNOWLEDGE", "WEATHER"} {
			for _, cause := range []string{
				"", "VALIDATION", "LOCK_TIMEOUT", "LOCK_DEADLOCK", "STEP_FAILED", "ASSERTION", "WORKER_CRASH", "JOB_TIMEOUT",
				"UNCLAIMED", "CHILD_FAILED", "TIMEOUT", "LIMIT", "CANCELLED", "INTERNAL", "WEATHER",
			} {
				for bits := range 4 {
					all = append(all, Situation{State: state, Waiting: waiting, Cause: cause, JobsOutstanding: bits&1 != 0, RolledBack: bits&2 != 0})
				}
			}
		}
	}
	return all
}

func TestWordFor_IsTotalAndClosed(t *testing.T) {
	for _, d := range Dialects() {
		used := make(map[string]bool)
		for _, s := range situations() {
			word := WordFor(d, s)
			if !slices.Contains(theirWords[d], word) {
				t.Fatalf("%s has no word for %+v, or not %q", d, s, word)
			}
			used[word] = true
		}
		for _, word := range theirWords[d] {
			if !used[word] {
				t.Errorf("%s: nothing is ever called %s", d, word)
			}
		}
	}
}

// TestWords_EveryLineIsReachable finds lines that stand behind wider ones.
func TestWords_EveryLineIsReachable(t *testing.T) {
	table := Words()
	first := make([]bool, len(table))
	for _, s := range situations() {
		for _, d := range Dialects() {
			i := slices.IndexFunc(table, func(w Word) bool { return w.Dialect == d && w.applies(s) })
			first[i] = true
		}
	}
	for i, w := range table {
		if !first[i] {
			t.Errorf("%s: %s, %q, is never reached", w.Dialect, w.Word, w.When)
		}
		if w.When == "" {
			t.Errorf("%s: %s does not say when", w.Dialect, w.Word)
		}
	}
}

// TestWordFor_AgreesWithTheStatus: whatever the dialect, a run that has
// not ended has no word for an end, and one that has failed none for success.
func TestWordFor_AgreesWithTheStatus(t *testing.T) {
	meaning := map[string]Status{
		"COMPLETED": StatusCompleted, "COMPLETED_ACK": StatusCompleted, "completed": StatusCompleted,
		"CANCELLED": StatusCancelled, "cancelled": StatusCancelled, "failed": StatusFailed,
		"FAILED": StatusFailed, "FAILED_ROLLED_BACK": StatusFailed, "FAILED_WORKER_CRASH": StatusFailed, "FAILED_CHILD_WORKFLOW": StatusFailed,
		"FAILED_SAFE": StatusFailed, "FAILED_UNSAFE": StatusFailed, "FAILED_SAFE_ACK": StatusFailed, "FAILED_UNSAFE_ACK": StatusFailed,
	}
	for _, s := range situations() {
		for _, d := range Dialects() {
			word := WordFor(d, s)
			says, ends := meaning[word]
			is := StatusOf(s.State)
			if d == DialectNeops && is == StatusCancelled {
				is = StatusFailed // neops has no cancellation
			}
			if ends != Terminal(s.State) || ends && says != is {
				t.Fatalf("%s calls %+v %s", d, s, word)
			}
		}
	}
}

func TestWordFor_Examples(t *testing.T) {
	for _, c := range []struct {
		d    Dialect
		s    Situation
		want string
	}{
		{DialectRuvon, Situation{State: ExecutionRunning}, "ACTIVE"},
		{DialectRuvon, Situation{State: ExecutionRunning, JobsOutstanding: true}, "PENDING_ASYNC"},
		{DialectRuvon, Situation{State: ExecutionWaiting, Waiting: "INPUT"}, "WAITING_HUMAN_INPUT"},
		{DialectRuvon, Situation{State: ExecutionWaiting, Waiting: "CHILD", JobsOutstanding: true}, "PENDING_SUB_WORKFLOW"},
		{DialectRuvon, Situation{State: ExecutionWaiting, Waiting: "CHILD_INPUT"}, "WAITING_CHILD_HUMAN_INPUT"},
		{DialectRuvon, Situation{State: ExecutionFailedSafeAck, RolledBack: true, Cause: "WORKER_CRASH"}, "FAILED_ROLLED_BACK"},
		{DialectRuvon, Situation{State: ExecutionFailedUnsafe, Cause: "WORKER_CRASH"}, "FAILED_WORKER_CRASH"},
		{DialectRuvon, Situation{State: ExecutionFailedSafe, Cause: "CHILD_FAILED"}, "FAILED_CHILD_WORKFLOW"},
		{DialectRuvon, Situation{State: ExecutionFailedUnsafeAck, Cause: "STEP_FAILED"}, "FAILED"},
		{DialectRuvon, Situation{State: ExecutionCancelled, RolledBack: true}, "CANCELLED"},
		{DialectFlowMonkey, Situation{State: ExecutionWaiting, Waiting: "TIMER"}, "waiting"},
		{DialectFlowMonkey, Situation{State: ExecutionBlockedWaiting}, "pending"},
		{DialectFlowMonkey, Situation{State: ExecutionRollback}, "running"},
		{DialectNoETL, Situation{State: ExecutionWaiting}, "RUNNING"},
		{DialectNoETL, Situation{State: ExecutionLocked}, "PENDING"},
		{DialectNeops, Situation{State: ExecutionScheduled}, "SCHEDULED"},
		{DialectNeops, Situation{State: ExecutionCancelledAck, RolledBack: true}, "FAILED_SAFE_ACK"},
	} {
		t.Run(fmt.Sprintf("%s/%s", c.d, c.want), func(t *testing.T) {
			if got := WordFor(c.d, c.s); got != c.want {
				t.Errorf("%+v is called %s, want %s", c.s, got, c.want)
			}
		})
	}
	if got := WordFor(DialectNoETL, Situation{State: "PAUSED"}); got != "" {
		t.Errorf("a state that does not exist is called %s", got)
	}
	if got := WordFor("Esperanto", Situation{State: ExecutionNew}); got != "" {
		t.Errorf("a dialect that does not exist says %s", got)
	}
}
