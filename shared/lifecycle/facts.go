package lifecycle

import (
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Facts is what the engine has learned of the world for one decision. A nil
// field is a fact that has not been fetched; Decide asks for it when it matters.
type Facts struct {
	Resolved   *Resolved
	Discovered *Discovered
	Blocker    *Blocker
	Locks      *LockAnswer
	Plans      map[Need]*Plan // by the need they answer
	Report     *Report
	Command    *Command
}

// Resolved is the pinned definition with the newest matching version of each
// block it names, or what keeps it from running.
type Resolved struct {
	Definition *workflow.Definition
	Blocks     map[string]workflow.Block // by reference as written
	Problem    *workflow.Failure
}

// Discovered is the run's scope, in its fixed order, or what keeps it from
// having one.
type Discovered struct {
	Scope   workflow.Scope
	Problem *workflow.Failure
}

// Blocker answers whether the run or reservation that the execution waits for
// still stands, and thus whether the execution has been registered to be woken;
// and whether it would wait for itself.
type Blocker struct {
	Registered bool
	Deadlock   bool
}

// LockAnswer is the outcome of asking for all locks at one epoch: granted with
// the scope as read under the locks, less what was dropped because others hold or
// have reserved it; or the first conflict met.
type LockAnswer struct {
	Epoch    int64
	Scope    workflow.Scope
	Dropped  []workflow.BlockedBy
	Conflict *workflow.BlockedBy
	Problem  *workflow.Failure
}

// Plan says on how many entities a step runs, or a rollback wave has to undo.
type Plan struct {
	Jobs    int
	Skipped int
	Cause   workflow.Cause
	Problem *workflow.Failure // an assertion that is false, a parameter that has no value
}

// Report is what the packs of the open step run say.
type Report struct {
	RunSeq   int
	Complete bool           // every lane is over: Tally is final
	Tally    workflow.Tally // of the lanes that are over; of all when Complete
	Cost     workflow.Cost  // of the packs, when Complete
	NextLook time.Time      // zero, or the earliest moment at which waiting should be checked
	Silent   bool           // jobs wait to be claimed and nobody has come for longer than policy allows
}

// Command is what an operator asks of the execution.
type Command struct {
	Kind     CommandKind
	Actor    string
	Reason   string
	Source   string // of a cancellation
	Rollback workflow.RollbackMode
}

// CommandKind names an operator's verb, or what the engine itself orders.
type CommandKind string

// The verbs. CommandBreak is the engine's: it cannot go on, and repeating would
// not help.
const (
	CommandBreak       CommandKind = "break"
	CommandCancel      CommandKind = "cancel"
	CommandAcknowledge CommandKind = "acknowledge"
)

// Need names a fact that Decide cannot go on without.
type Need struct {
	Kind   NeedKind
	Step   int // of NeedPlan: index in the definition
	Undoes int // of NeedPlan: RunSeq of the step run to undo, 0 for a step
}

// NeedKind is the kind of a needed fact.
type NeedKind string

// The facts that can be needed. NeedLocks, NeedBlocker and NeedClosing are
// answered by work on items other than the execution's own; all of it is
// conditional and may be repeated.
const (
	NeedResolved   NeedKind = "resolved"
	NeedDiscovered NeedKind = "discovered"
	NeedBlocker    NeedKind = "blocker"
	NeedLocks      NeedKind = "locks"
	NeedPlan       NeedKind = "plan"
	NeedReport     NeedKind = "report"
	NeedClosing    NeedKind = "closing" // a Report, after stopping what has not started
)

// Policy is the configuration that decisions depend on.
type Policy struct {
	Poll        time.Duration // longest sleep between looks at a run that waits
	LockWait    time.Duration // how long a run may wait for its locks
	MessageLife time.Duration // how long a pack's message may be worked on
	PackSize    int           // jobs per pack of a large step of a repeatable block
	PackFrom    int           // steps with fewer jobs use packs of one
	MaxSteps    int           // step runs per execution
}

// Decision is what has to happen next.
type Decision struct {
	// Need is set if a fact is missing, with the execution as far as it has been
	// decided: what is needed has to be fetched for that draft, which is not
	// committed. Nothing else is set then.
	Need  *Need
	Draft *workflow.Execution

	// Next is the state to commit, nil if there is nothing to write. Release asks
	// the commit to remove the waiters and wake them.
	Next    *workflow.Execution
	Release bool

	// Dispatch asks, once Next is committed, for the packs of its last step run
	// to be sent.
	Dispatch bool

	// Rest says that after this nothing is left to do until a message or the
	// alarm; otherwise Decide wants to be called again with what was committed.
	Rest bool
}

// Look asks for a look at the latest at the given time.
func (r *Report) Look(at time.Time) {
	if r.NextLook.IsZero() || at.Before(r.NextLook) {
		r.NextLook = at
	}
}
