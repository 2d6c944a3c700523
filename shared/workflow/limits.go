package workflow

import "time"

// Limits of a state item. DynamoDB refuses an item of more than MaxItemBytes, and then
// nobody could end the execution or release its locks. So everything in it that grows has
// a bound, and room is kept for what must always fit:
//
//   - no step run is entered in an item of more than MaxRunningBytes: the execution fails
//     with the cause LIMIT, and there is room to close and roll back what was entered;
//   - no rollback wave begins in an item of more than MaxRollbackBytes: the rollback
//     fails, and there is room for cancel, acknowledge, unlock and retry;
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

// MaxTries bounds the tries of one execution, and MaxEvents the events it may have before
// it enters another step: the scope of every try and the whole history stay readable as
// long as the execution is kept.
const (
	MaxTries  = 100
	MaxEvents = 20_000
)

// The other bounds of what a state item holds.
const (
	MaxWaiters          = 64       // executions to wake; any others wait for their timers
	MaxNamed            = 20       // entities or step runs that a list names
	MaxReasonBytes      = 4 << 10  // of a reason, which the API limits to 1000 characters
	MaxEntityTypes      = 100      // of a scope
	MaxInlineScopeBytes = 320      // of the entities of a scope, as JSON; more are stored in items of their own
	MaxInlineEvents     = 40       // committed events; older ones are stored in items of their own
	MaxFailureTexts     = 32 << 10 // of all failures of step runs but the first and the last, and of all case errors
	MaxShortMessage     = 256      // of a message among these
	MaxReruns           = 10       // executions that repeat an ended one: the last
	MaxShortCode        = 32       // of a code when MaxFailureTexts is used up
	MaxPassed           = 50       // steps past which one jump leads that the history names
	MaxCaseErrors       = 3        // conditions of cases without a value that a step run names
	MaxCaseErrorText    = 120      // bytes of why one has no value
	MaxLabelBytes       = 64       // of a label
	MaxThreads          = 32       // branches that are executed side by side
	MaxInlineValueBytes = 128      // of a value of a step run; more are stored in items of their own
	MaxValueBytes       = 1 << 20  // of a value of a step run, as JSON
	MaxSetBytes         = 4 << 20  // of what the children of a step run with foreach give together, as JSON
	MaxAnswerBytes      = 64 << 10 // of an answer, as JSON
	MaxWaitTitle        = 128      // bytes of the title of a question in the state item
	MaxVariablesBytes   = 10 << 20 // of all variables that a step reads, as JSON
)

// MaxStepWait is the longest wait of a step.
const MaxStepWait = 400 * 24 * time.Hour

// MaxIndexedVersions is how many versions of a definition or a block its version index has
// room for: at most 50 KB before compression. A reference that only older versions match is
// found by reading all of them.
const MaxIndexedVersions = 1000
