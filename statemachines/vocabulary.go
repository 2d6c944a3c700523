package statemachines

import (
	"slices"
	"strings"
)

// Dialect names another workflow engine whose words for an execution's state
// Lockstep can speak. Lockstep's own model says more than each of them; its
// states can be put into their words, and not the other way round.
type Dialect string

// The dialects.
const (
	DialectNeops      Dialect = "neops"
	DialectRuvon      Dialect = "Ruvon"
	DialectFlowMonkey Dialect = "FlowMonkey"
	DialectNoETL      Dialect = "NoETL"
)

// Dialects lists the dialects.
func Dialects() []Dialect {
	return []Dialect{DialectNeops, DialectRuvon, DialectFlowMonkey, DialectNoETL}
}

// Situation is what some dialect's word for an execution depends on.
type Situation struct {
	State           ExecutionState
	Waiting         string // in WAITING: INPUT, TIMER, SIGNAL, CHILD, CHILD_INPUT
	JobsOutstanding bool   // jobs are with workers, or on their way
	RolledBack      bool
	Cause           string // of a failure
}

// Word is one line of the mapping: the dialect's word, and when it applies.
type Word struct {
	Dialect Dialect
	Word    string
	When    string
	applies func(Situation) bool
}

// Words is the whole mapping. Within a dialect the first word that applies is
// the one; some word applies to every situation.
func Words() []Word { return slices.Clone(words) }

// WordFor is what the dialect calls the situation. It is empty only for a
// dialect that does not exist and for a state that does not.
func WordFor(d Dialect, s Situation) string {
	for _, w := range words {
		if w.Dialect == d && w.applies(s) {
			return w.Word
		}
	}
	return ""
}

var words = slices.Concat(neopsWords(), ruvonWords, flowMonkeyWords, noetlWords)

// neopsWords are Lockstep's own, but for the states that neops does not have. It
// has no cancellation: a cancelled run is one that has failed, and unless it was
// rolled back nobody can promise that it left nothing behind.
func neopsWords() []Word {
	var same []Word
	for _, s := range ExecutionStates() {
		switch s {
		case ExecutionWaiting, ExecutionCancelling, ExecutionCancelled, ExecutionCancelledAck:
		default:
			same = append(same, Word{DialectNeops, string(s), "the state of that name", in(s)})
		}
	}
	return append(same,
		Word{DialectNeops, "RUNNING", "WAITING: a step waits, others may go on", in(ExecutionWaiting)},
		Word{DialectNeops, "ERROR", "CANCELLING: it stops, and what to do about it is being decided", in(ExecutionCancelling)},
		Word{DialectNeops, "FAILED_SAFE", "CANCELLED and rolled back", all(in(ExecutionCancelled), rolledBack)},
		Word{DialectNeops, "FAILED_UNSAFE", "CANCELLED, otherwise", in(ExecutionCancelled)},
		Word{DialectNeops, "FAILED_SAFE_ACK", "CANCELLED_ACK and rolled back", all(in(ExecutionCancelledAck), rolledBack)},
		Word{DialectNeops, "FAILED_UNSAFE_ACK", "CANCELLED_ACK, otherwise", in(ExecutionCancelledAck)},
	)
}

var ruvonWords = []Word{
	{DialectRuvon, "PENDING_SUB_WORKFLOW", "WAITING for CHILD", all(in(ExecutionWaiting), waiting("CHILD"))},
	{DialectRuvon, "WAITING_CHILD_HUMAN_INPUT", "WAITING for CHILD_INPUT", all(in(ExecutionWaiting), waiting("CHILD_INPUT"))},
	{DialectRuvon, "PENDING_ASYNC", "WAITING for TIMER: it goes on by itself, nobody has to act", all(in(ExecutionWaiting), waiting("TIMER"))},
	{DialectRuvon, "WAITING_HUMAN_INPUT", "WAITING for INPUT, for SIGNAL, for anything else from outside", in(ExecutionWaiting)},
	{DialectRuvon, "FAILED_ROLLED_BACK", "FAILED_SAFE, acknowledged or not, and rolled back", all(in(ExecutionFailedSafe, ExecutionFailedSafeAck), rolledBack)},
	{DialectRuvon, "FAILED_WORKER_CRASH", "a failure whose cause is WORKER_CRASH", all(status(StatusFailed), cause("WORKER_CRASH"))},
	{DialectRuvon, "FAILED_CHILD_WORKFLOW", "a failure whose cause is CHILD_FAILED", all(status(StatusFailed), cause("CHILD_FAILED"))},
	{DialectRuvon, "FAILED", "any other failure", status(StatusFailed)},
	{DialectRuvon, "COMPLETED", "status COMPLETED", status(StatusCompleted)},
	{DialectRuvon, "CANCELLED", "status CANCELLED", status(StatusCancelled)},
	{DialectRuvon, "PENDING_ASYNC", "not ended, with jobs outstanding", all(live, jobsOutstanding)},
	{DialectRuvon, "ACTIVE", "not ended, otherwise", live},
}

var flowMonkeyWords = append(
	[]Word{{DialectFlowMonkey, "waiting", "WAITING", in(ExecutionWaiting)}},
	statusWords(DialectFlowMonkey, strings.ToLower)...,
)

var noetlWords = statusWords(DialectNoETL, strings.ToUpper)

// statusWords are those of a dialect that has our five statuses, spelt its way.
func statusWords(d Dialect, spell func(string) string) []Word {
	var same []Word
	for _, s := range Statuses() {
		same = append(same, Word{d, spell(string(s)), "status " + string(s), all(known, status(s))})
	}
	return same
}

func in(states ...ExecutionState) func(Situation) bool {
	return func(s Situation) bool { return slices.Contains(states, s.State) }
}

func status(want Status) func(Situation) bool {
	return func(s Situation) bool { return StatusOf(s.State) == want }
}

func waiting(kind string) func(Situation) bool {
	return func(s Situation) bool { return s.Waiting == kind }
}

func cause(word string) func(Situation) bool {
	return func(s Situation) bool { return s.Cause == word }
}

func rolledBack(s Situation) bool      { return s.RolledBack }
func jobsOutstanding(s Situation) bool { return s.JobsOutstanding }
func known(s Situation) bool           { _, ok := factsByState[s.State]; return ok }
func live(s Situation) bool            { return known(s) && !Terminal(s.State) }

func all(conditions ...func(Situation) bool) func(Situation) bool {
	return func(s Situation) bool {
		return !slices.ContainsFunc(conditions, func(holds func(Situation) bool) bool { return !holds(s) })
	}
}
