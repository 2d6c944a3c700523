package lifecycle

import (
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// Facts is what the engine has learned of the world for one decision. A nil
// field is a fact that has not been fetched; Decide asks for it when it matters.
type Facts struct {
	Resolution     *Resolution
	Readiness      *Readiness
	Discovery      *Discovery
	Blocker        *Blocker
	Locks          *LockResult
	Plans          map[Need]*Plan   // by the need they answer
	Reports        map[Need]*Report // by the need they answer
	Child          *ChildStatus
	UpdatesApplied bool
	Unreferenced   *bool // nobody will ask for the run again
	Discarded      bool  // all that lies beside the state item, and the packs, may be dropped
	Command        *Command
}

// Resolution is the run's program, of the pinned definitions, with the pinned or
// newest matching version of each block it names, or what keeps it from running.
type Resolution struct {
	Program   *spec.Program
	Blocks    map[string]workflow.Block // by reference as written
	Workflows map[string]string         // version of each definition referred to, by reference as written
	Problem   *workflow.Failure
}

// Readiness is whether the run may begin. Before At it may not; zero is no such
// moment. Condition is the source of its startWhen, if it has one, and Ready says
// that it is true now, or that there is none; one that cannot be evaluated now,
// because it names an entity that does not exist, say, is not true, and Why says so.
// Problem is a moment that has no value.
type Readiness struct {
	Ready     bool
	Condition string
	NotBefore time.Time
	Reason    string
	Problem   *workflow.Failure
}

// Discovery is the run's scope, in its fixed order, or what keeps it from
// having one. Acquire, if it is not negative, is the index of an acquisition for
// which a block has to be asked first.
type Discovery struct {
	Scope        workflow.Scope
	AcquireIndex int
	Problem      *workflow.Failure
}

// ChildStatus is what is known of the run that a visit has started.
type ChildStatus struct {
	StepRunSeq int
	State      sm.ExecutionState
	HasChanges bool // something that it has executed stands, and is not pure
	Failure    *workflow.Failure
}

// Blocker answers whether the run or reservation that the execution waits for
// still stands, and thus whether the execution has been registered to be woken;
// and whether it would wait for itself.
type Blocker struct {
	Registered bool
	Deadlock   bool
}

// LockResult is the outcome of asking for all locks at one epoch: granted with
// the scope as read under the locks, less what was dropped because others hold or
// have reserved it; or the first conflict met.
type LockResult struct {
	Epoch    int64
	Scope    workflow.Scope
	Dropped  []workflow.BlockedBy
	Conflict *workflow.BlockedBy
	Problem  *workflow.Failure
}

// Plan says on how many entities a step runs, or a rollback wave has to undo.
type Plan struct {
	Jobs      int
	Skipped   int
	AlreadyOK int // of entities with which an earlier try has come to OK
	Entities  int // of the step's type, whether they take part or not
	Cause     workflow.Cause
	Problem   *workflow.Failure // an assertion that is false, a parameter that has no value
}

// Report is what the packs of the open step run say.
type Report struct {
	StepRunSeq  int
	Complete    bool            // every lane is over: Tally is final
	Counts      workflow.Counts // of the lanes that are over; of all when Complete
	Cost        workflow.Cost   // of the packs, when Complete
	NextCheckAt time.Time       // zero, or the earliest moment at which waiting should be checked
	Unclaimed   bool            // jobs wait to be claimed and nobody has come for longer than policy allows
	Skipped     int             // of a run of a stretch, when Complete
	HasUpdates  bool            // some job asks for updates of entities, when Complete

	// Problem ends the run although its jobs do not: an assertion that is false
	// further down a stretch, or an update of an entity that the run does not hold.
	Cause   workflow.Cause
	Problem *workflow.Failure
}

// Command is what an operator asks of the execution.
type Command struct {
	Kind     CommandKind
	Actor    string
	Reason   string
	Source   string // of a cancellation
	Rollback workflow.RollbackMode
	Cascade  bool   // of a cancellation: cancel the run that it waits for too
	FromStep string // of a retry: label of the step to begin with; empty for the one that failed
	Entities string // of a retry: "failed" or "all"; empty for what fits
}

// CommandKind names an operator's verb, or what the engine itself orders.
type CommandKind string

// The verbs. CommandBreak is the engine's: it cannot go on, and repeating would
// not help.
const (
	CommandBreak       CommandKind = "break"
	CommandCancel      CommandKind = "cancel"
	CommandAcknowledge CommandKind = "acknowledge"
	CommandRetry       CommandKind = "retry"
	CommandResume      CommandKind = "resume"
	CommandUnlock      CommandKind = "unlock"
)

// Need names a fact that Decide cannot go on without.
type Need struct {
	Kind       NeedKind
	StepRunSeq int // of the run that is, or will be, planned, reported, or has a child
	StepIndex  int // of NeedPlan: index in the program; of an ACQUIRE, of the acquisition
	Undoes     int // of NeedPlan: StepRunSeq of the step run to undo, 0 for a step

	Acquire    bool // of NeedPlan: the call of a block's acquire
	Iteration  int  // of NeedPlan: which repetition
	Pipeline   int  // of NeedPlan: StepRunSeq of the first run of its stretch
	OnlyFailed bool // of NeedPlan: not what an earlier try has come to OK with
	Try        int  // of NeedPlan
}

// StepRun is the step run of a need, as far as the need says it.
func (n Need) StepRun() workflow.StepRun {
	r := workflow.StepRun{
		Seq: n.StepRunSeq, Try: n.Try, StepIndex: n.StepIndex, Undoes: n.Undoes, Kind: workflow.JobExecute,
		Iteration: n.Iteration, Pipeline: n.Pipeline, OnlyFailed: n.OnlyFailed,
	}
	if n.Undoes > 0 {
		r.Kind = workflow.JobRollback
	}
	if n.Acquire {
		r.Kind = workflow.JobAcquire
	}
	return r
}

// NeedForPlan is the need of the plan of a step run.
func NeedForPlan(r *workflow.StepRun) Need {
	return Need{
		Kind: NeedPlan, StepRunSeq: r.Seq, StepIndex: r.StepIndex, Undoes: r.Undoes, Acquire: r.Kind == workflow.JobAcquire,
		Iteration: r.Iteration, Pipeline: r.Pipeline, OnlyFailed: r.OnlyFailed, Try: r.Try,
	}
}

// NeedKind is the kind of a needed fact.
type NeedKind string

// The facts that can be needed. NeedLocks, NeedBlocker and NeedClose are
// answered by work on items other than the execution's own; all of it is
// conditional and may be repeated.
const (
	NeedResolution     NeedKind = "resolved"
	NeedReadiness      NeedKind = "ready" // after registering with every entity that its condition reads
	NeedDiscovery      NeedKind = "discovered"
	NeedBlocker        NeedKind = "blocker"
	NeedLocks          NeedKind = "locks"
	NeedPlan           NeedKind = "plan"
	NeedReport         NeedKind = "report"
	NeedClose          NeedKind = "closing"   // a Report, after stopping what has not started
	NeedChild          NeedKind = "child"     // what has become of a child, after starting it if it does not exist
	NeedChildCancel    NeedKind = "childEnd"  // the same, after asking it to cancel
	NeedUpdatesApplied NeedKind = "applied"   // that the updates of entities stand in the inventory
	NeedUnreferenced   NeedKind = "unneeded"  // whether the run that started this one may still ask for it
	NeedDiscarded      NeedKind = "discarded" // that what lies beside the state item may be dropped
)

// Policy is the configuration that decisions depend on.
type Policy struct {
	PollInterval    time.Duration // longest sleep between looks at a run that waits
	LockTimeout     time.Duration // how long a run may wait for its locks
	StartTimeout    time.Duration // how long a run may wait for its condition, of a definition that does not say
	MessageLifetime time.Duration // how long a pack's message may be worked on
	PackSize        int           // jobs per pack of a large step of a repeatable block
	MinPackedJobs   int           // steps with fewer jobs use packs of one
	MaxStepRuns     int           // step runs per execution
	Retention       time.Duration // how long a run is kept that has ended and needs nobody; 0 is for ever
	MinFencingToken int64         // tokens of locks are greater; one that grows says that the tables were restored
}

// Decision is what has to happen next.
type Decision struct {
	// Need is set if a fact is missing, with the execution as far as it has been
	// decided: what is needed has to be fetched for that draft, which is not
	// committed. Nothing else is set then.
	Need        *Need
	Uncommitted *workflow.Execution

	// Next is the state to commit, nil if there is nothing to write. Release asks
	// the commit to remove the waiters and wake them.
	Next        *workflow.Execution
	WakeWaiters bool

	// LimitReached says that with Next a bound has stopped a run that would go on and on.
	LimitReached bool

	// DispatchSeq is the StepRunSeq of the step run whose packs have to be sent once Next
	// is committed, or whose child has to be started; 0 for none.
	DispatchSeq int

	// Idle says that after this nothing is left to do until a message or the
	// alarm; otherwise Decide wants to be called again with what was committed.
	Idle bool
}

// CheckBy asks for a look at the latest at the given time.
func (r *Report) CheckBy(at time.Time) {
	if r.NextCheckAt.IsZero() || at.Before(r.NextCheckAt) {
		r.NextCheckAt = at
	}
}
