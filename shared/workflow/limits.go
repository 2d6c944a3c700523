package workflow

import "time"

// Limits of a state item. DynamoDB refuses an item of more than MaxItemBytes, and then
// nobody could end the execution or release its locks. So everything in it that grows has
// a bound, and room is kept for what must always fit:
//
//   - no step run is entered in an item of more than MaxRunningBytes: the execution fails
//     with the cause LIMIT, and there is room to close and roll back what was entered;
//   - no rollback wave begins in an item of more than MaxRollbackBytes: the rollback
//     fails, and there is room for cancel, acknowledge and unlock; a retry needs CommandBytes;
//   - no answer and no token is taken that would fill an item to more than MaxAnsweredBytes:
//     what was executed can still be rolled back;
//   - entities are named only while CommandBytes are left.
const (
	MaxItemBytes     = 400 << 10
	MaxRunningBytes  = 190 << 10
	MaxAnsweredBytes = 212 << 10
	MaxRollbackBytes = 240 << 10
	CommandBytes     = 48 << 10
)

// MaxStepRunSeq is the largest number of a step run: the fence has six digits for it.
const MaxStepRunSeq = 999_999

// MaxTries bounds the tries of one execution. MaxEvents bounds the events that it may have before
// it enters another step. With these bounds the scope of every try and the whole history stay
// readable for as long as the execution is kept.
const (
	MaxTries  = 100
	MaxEvents = 20_000
)

// Other bounds of the contents of a state item.
const (
	MaxWaiters          = 64       // executions to wake; any others wait for their timers
	MaxNamed            = 20       // entities or step runs that a list names
	MaxReasonBytes      = 4 << 10  // of a reason, which the API limits to 1000 characters
	MaxEntityTypes      = 100      // in a scope
	MaxInlineScopeBytes = 320      // size of a scope's entities, as JSON; larger scopes are stored in items of their own
	MaxInlineEvents     = 40       // committed events; older ones are stored in items of their own
	MaxFailureTexts     = 32 << 10 // size of all failures of step runs except the first and the last, and of all case errors
	MaxShortMessage     = 256      // size of each message among these
	MaxEarlierAcks      = 10       // the last acknowledgements before the latest
	MaxReruns           = 10       // the last executions that repeat an ended one
	MaxShortCode        = 32       // size of a code once MaxFailureTexts is used up
	MaxPassed           = 50       // steps skipped by one jump that the history names
	MaxCaseErrors       = 3        // case conditions without a value that a step run names
	MaxCaseErrorText    = 120      // size of the reason why a condition has no value
	MaxLabelBytes       = 64       // size of a label
	MaxThreads          = 32       // branches that are executed in parallel
	MaxInlineValueBytes = 128      // size of a step run's value; larger values are stored in items of their own
	MaxValueBytes       = 1 << 20  // size of a step run's value, as JSON
	MaxSetBytes         = 4 << 20  // total size of the results of a foreach step's children, as JSON
	MaxAnswerBytes      = 64 << 10 // size of an answer, as JSON
	MaxWaitTitle        = 128      // size of a question's title in the state item
	MaxVariables        = 500      // variables that a definition sets, and those that an execution has set
	MaxVariablesBytes   = 10 << 20 // total size of the variables that a step reads, as JSON
)

// MaxStepWait is the longest wait of a step.
const MaxStepWait = 400 * 24 * time.Hour

// MaxIndexedVersions is how many versions of a definition or a block its version index can hold: at
// most 50 KB before compression. A reference that only older versions match is resolved by reading
// all of them.
const MaxIndexedVersions = 1000

// RunLimits bound one execution over all its tries, in addition to the bounds of every execution.
// Zero is no bound.
type RunLimits struct {
	Steps int      `json:"steps,omitempty"` // step runs
	Wall  Duration `json:"wall,omitempty"`  // time since it was created
}

// Lower returns the smaller of each bound.
func (l RunLimits) Lower(other RunLimits) RunLimits {
	if l.Steps == 0 || other.Steps > 0 && other.Steps < l.Steps {
		l.Steps = other.Steps
	}
	if l.Wall == 0 || other.Wall > 0 && other.Wall < l.Wall {
		l.Wall = other.Wall
	}
	return l
}
