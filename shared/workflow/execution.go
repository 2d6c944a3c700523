package workflow

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/lockstep-run/lockstep/statemachines"
)

// SchemaVersion is the version of the stored form of an execution. A binary refuses to
// change an item with a higher version than its own.
const SchemaVersion = 2

// Needs returns the lowest schema version that can read the execution. An execution that uses
// nothing new stays readable for the previous release.
func (x *Execution) Needs() int {
	outcomes := x.Kept != nil || x.Result != nil || x.Undo != nil || x.Acknowledged != nil || x.LastEnd != nil || x.Probe || x.RerunOf != ""
	flow := x.Output != nil || x.WentBack > 0 || x.RollbackTries > 0 || len(x.Threads) > 0 || x.KeptBranches != nil || x.SignalOrder > 0 || len(x.AwaitedSignals) > 0 || x.Hold || x.Stepping || x.NextSeq != 0 || x.Key != "" || !x.RateAt.IsZero() || x.Announced > 0 || x.Piped || len(x.OnEnd) > 0 || x.FollowUpOf != nil || x.Rollback != "" || x.Timeout > 0 || x.Limits != (RunLimits{}) || x.Region != "" || x.Input.Sealed != nil ||
		x.BlockedBy != nil && x.BlockedBy.Entity.IsSlot() || x.Awaited() || x.Wait != nil && x.Wait.Kind == WaitChildInput
	if outcomes || flow || x.Scope.needsPlaces() || slices.ContainsFunc(x.StepRuns, StepRun.needsOutcomes) {
		return SchemaVersion
	}
	for _, s := range x.PastScopes {
		if s.needsPlaces() {
			return SchemaVersion
		}
	}
	return 1
}

// Execution is the state item of one execution of a definition, and the only authority
// on it: whether locks, packs, messages and index entries are valid depends on this item.
// It is changed by one conditional write at a time.
type Execution struct {
	Schema        int    `json:"schema"`
	EngineVersion string `json:"engine,omitempty"` // version of the engine that wrote it last

	Tenant string `json:"tenant"`
	ID     string `json:"id"` // UUIDv7: its text order is the order of creation, which decides lock conflicts

	State           statemachines.ExecutionState `json:"state"`
	Version         int64                        `json:"version"`                   // +1 with every commit, but not when a waiter registers
	Epoch           int64                        `json:"epoch"`                     // +1 whenever locking begins or an operator unlocks; never reset
	Try             int                          `json:"try"`                       // +1 with an operator's retry
	Commit          string                       `json:"commit"`                    // id of the last commit, to recognise a write whose reply was lost
	MinFencingToken int64                        `json:"minFencingToken,omitempty"` // of the engine that wrote it: if it is below the engine's own, the tables were restored since

	Workflow  Ref               `json:"workflow"`            // exact
	Blocks    map[string]string `json:"blocks,omitempty"`    // reference as written -> pinned version
	Workflows map[string]string `json:"workflows,omitempty"` // the same for referenced definitions
	Input     Input             `json:"input"`
	Parent    *Parent           `json:"parent,omitempty"`
	RerunOf   string            `json:"rerunOf,omitempty"` // id of the execution some of whose entities this one repeats
	RerunBy   []string          `json:"rerunBy,omitempty"` // ids of the last ten executions that repeat some entities of this one
	Probe     bool              `json:"probe,omitempty"`   // only the pure steps at the beginning are executed

	// Key is the business key; at most one live execution of the workflow holds it. KeyOwner is the
	// execution to which this one gave way because that one holds the key.
	Key      string `json:"key,omitempty"`
	KeyOwner string `json:"keyOwner,omitempty"`

	Hold     bool `json:"hold,omitempty"`     // its starter holds it before it begins
	Stepping bool `json:"stepping,omitempty"` // it waits for an operator before each step
	NextSeq  int  `json:"nextSeq,omitempty"`  // of the last step run that an operator has let it enter; -1 for the next one, whichever that is

	// Rollback and Timeout are set by its starter and override those of the definition.
	Rollback RollbackMode `json:"rollback,omitempty"`
	Timeout  Duration     `json:"timeout,omitempty"`

	// Limits are those of its starter; from VALID on, the smaller of these and of the definition's.
	Limits RunLimits `json:"limits,omitzero"`

	// Region is the region of the pools for its jobs. Before VALID it is empty if only its
	// definition sets it.
	Region string `json:"region,omitempty"`

	CreatedAt time.Time         `json:"createdAt"`
	StartedAt time.Time         `json:"startedAt,omitzero"`
	EndedAt   time.Time         `json:"endedAt,omitzero"`
	CreatedBy string            `json:"createdBy,omitempty"`
	Labels    map[string]string `json:"labels,omitempty"`

	CorrelationID string `json:"correlation,omitempty"` // id by which the starter recognises the execution and its effects
	TraceParent   string `json:"trace,omitempty"`       // W3C traceparent of the span that started it

	// Scope is the scope of this try. PastScopes holds the scopes of earlier tries, by number,
	// because their step runs are read with the scope they had.
	Scope      Scope         `json:"scope,omitzero"`
	PastScopes map[int]Scope `json:"pastScopes,omitempty"`

	// LastEnd is how the previous try ended; nil in the first try, and once this one is RUNNING.
	LastEnd *LastEnd `json:"lastEnd,omitempty"`

	// Conflicts counts lock conflicts since the execution was created. From the second one on, it
	// reserves the lock that it waits for. BlockedBy names that lock.
	Conflicts int        `json:"conflicts,omitempty"`
	BlockedBy *BlockedBy `json:"blockedBy,omitempty"`
	LockSince time.Time  `json:"lockSince,omitzero"` // when this try first asked for locks
	LockMode  LockMode   `json:"lockMode,omitempty"` // exclusive if empty
	Unlocked  bool       `json:"unlocked,omitempty"` // an operator released the locks before the end was acknowledged

	// Kept are the entities whose locks the execution still holds after it ended unsafely or an
	// operator released some; nil for all. An empty set is not nil. Within one epoch the set only
	// loses places; Narrowed counts the commits that changed it.
	Kept     *Places `json:"kept,omitempty"`
	Narrowed int64   `json:"narrowed,omitempty"`

	// Dropped lists the first of the entities that were skipped, as the definition says, because
	// others had locked them. DroppedCount counts all of them.
	Dropped      []BlockedBy `json:"dropped,omitempty"`
	DroppedCount int         `json:"droppedCount,omitempty"`

	Wait           *Wait     `json:"wait,omitempty"`           // what it waits for in BLOCKED_WAITING and WAITING
	NotBefore      time.Time `json:"notBefore,omitzero"`       // as requested by its starter
	RateAt         time.Time `json:"rateAt,omitzero"`          // when the rate of its workflow lets it begin; zero if it has not taken from the rate
	Deadline       time.Time `json:"deadline,omitzero"`        // deadline of the execution; zero for none
	UpdatesApplied bool      `json:"updatesApplied,omitempty"` // the updates of entities are in the inventory

	// Cursor is the position of the execution in its program. While Threads is not empty, the
	// threads hold the positions: they are the branches of steps that execute several in parallel.
	Cursor
	Threads []Thread `json:"threads,omitempty"`

	// OnlyFailed is set by a retry that keeps the results of jobs that ended OK.
	OnlyFailed bool `json:"onlyFailed,omitempty"`

	// KeptBranches are those of the step with which a retry begins, until it has entered that.
	KeptBranches *KeptBranches `json:"keptBranches,omitempty"`

	// RollbackTries is how many of the last tries have only rolled back what was executed before
	// them.
	RollbackTries int `json:"rollbackTries,omitempty"`

	// Forced means that an operator wants this try even if results that it keeps are outdated.
	Forced bool `json:"forced,omitempty"`

	// WentBack is the first try in which the execution went back to an earlier step; 0 for none.
	// From then on the order of its step runs is not that of the program.
	WentBack int `json:"wentBack,omitempty"`

	// ResumeSeq is the number of the step run of an earlier try, inside a loop, at which this try
	// begins; 0 if it begins outside of loops.
	ResumeSeq int `json:"resumeSeq,omitempty"`

	StepRunSeq int       `json:"stepRunSeq"`         // counter of step runs, including rollbacks
	StepRuns   []StepRun `json:"stepRuns,omitempty"` // in order of Seq

	// Announced is the number of the last event known to have been published to subscribers. Its
	// timer stays near as long as there are later events and somebody is subscribed.
	Announced int64 `json:"announced,omitempty"`

	// Piped means that pipes turn its jobs into rows, so that its events are published even without
	// subscriptions.
	Piped bool `json:"piped,omitempty"`

	// OnEnd are the kinds of ends at which its definition starts another workflow, so that its
	// events are published, too. FollowUpOf is the execution one of whose events has started this
	// one; nil if none has.
	OnEnd      []EndKind   `json:"onEnd,omitempty"`
	FollowUpOf *FollowUpOf `json:"followUpOf,omitempty"`

	DueAt       time.Time `json:"dueAt,omitzero"`       // the timer; zero if nothing is left to do
	DiscardedAt time.Time `json:"discardedAt,omitzero"` // when it was discarded after its retention; zero while it is kept

	Cause        Cause             `json:"cause,omitempty"`
	Reason       string            `json:"reason,omitempty"`
	Error        *Failure          `json:"error,omitempty"`
	RolledBack   bool              `json:"rolledBack,omitempty"`
	Output       *Value            `json:"output,omitempty"` // output as defined by the definition, once it has completed; stored under ValueKey of step run 0
	Result       *Result           `json:"result,omitempty"` // outcomes of the entities; nil if none failed
	Undo         *Undo             `json:"undo,omitempty"`   // what a rollback of failed entities undoes; nil if there is none
	Cancellation *Cancellation     `json:"cancellation,omitempty"`
	Acknowledged *Acknowledgements `json:"acknowledged,omitempty"`

	// Events are the newest events; older ones are moved to items of their own. Sequence is the
	// number of the last event; PagedThrough that of the last one moved.
	Events       []Event `json:"events,omitempty"`
	Sequence     int64   `json:"sequence"`
	PagedThrough int64   `json:"pagedThrough,omitempty"`

	Cost Cost `json:"cost,omitzero"`

	// ItemBytes is the size of the item as last read or committed, without the mailbox, because no
	// sender may fill it up. It determines the cost of the next write, and whether the execution
	// may continue. It is not stored.
	ItemBytes int `json:"-"`

	// IndexWrites is how many entries of indexes the last commit has added, moved and removed, in
	// write units: a commit cannot count itself. See [Execution.IndexWritesAfter].
	IndexWrites int `json:"-"`

	// Waiters are the ids of executions to wake when this one releases its locks. They are read
	// with the item, and changed without changing Version.
	Waiters []string `json:"-"`

	// Signals is the mailbox: signals sent to the execution and not yet consumed, in order of
	// arrival. SignalOrder is the Order of the next one. They are read with the item, and a new
	// signal does not change Version. A commit removes what CommitOptions names, and changes
	// nothing else about them.
	Signals     []Signal `json:"-"`
	SignalOrder int64    `json:"-"`

	// Heard are the keys of the signals consumed last; HeardOut is how many have left this list.
	// Commits that consume signals change both. AwaitedSignals are the names that open waits want,
	// for which the mailbox reserves space; each commit writes them.
	Heard          []string `json:"-"`
	HeardOut       int64    `json:"-"`
	AwaitedSignals []string `json:"-"`

	// FailureStreak is also written without changing Version. The next successful commit removes
	// it.
	FailureStreak *FailureStreak `json:"-"`
}

// FailureStreak describes consecutive failures to advance an execution. While a service
// is unavailable nothing is counted, and the time of the outage is not part of the streak.
type FailureStreak struct {
	Since            time.Time `json:"since"`                     // time of the first failure, moved later by outages since
	Count            int       `json:"count"`                     // number of failures that are not outages
	Reason           string    `json:"reason"`                    // reason of the last failure
	UnavailableSince time.Time `json:"unavailableSince,omitzero"` // start of a continuing outage; zero if there is none
	Unfinished       bool      `json:"unfinished,omitempty"`      // the last attempt has begun and not ended yet
	Revision         int64     `json:"-"`                         // grows with each change; a streak begins with its time, so that it is not taken for an earlier one
}

// OrZero returns the streak, zero for none.
func (s *FailureStreak) OrZero() FailureStreak {
	if s == nil {
		return FailureStreak{}
	}
	return *s
}

// Parent is the execution that started this one.
type Parent struct {
	Execution  string `json:"execution"`
	StepRunSeq int    `json:"stepRunSeq"`      // of the step run that started this one
	Root       string `json:"root"`            // the outermost ancestor, whose age counts in lock conflicts
	Depth      int    `json:"depth"`           // from 1
	Waits      bool   `json:"waits,omitempty"` // it holds its locks until this execution has ended

	Member      *SetMember   `json:"member,omitempty"`      // position in a set; nil for a single child
	Compensates *Compensated `json:"compensates,omitempty"` // what it undoes; nil if nothing
}

// SetMember says which of a step run's children an execution is.
type SetMember struct {
	Lane    int `json:"lane"`              // its number in the set, from 0
	Lanes   int `json:"lanes"`             // size of the set
	Window  int `json:"window,omitempty"`  // how many may run at a time
	Ordinal int `json:"ordinal,omitempty"` // Ordinal of the step run, which is part of the key of its done sets
	Item    int `json:"item"`              // index of its item in the list, from 0
}

// MaxDepth bounds how deeply executions may start further executions.
const MaxDepth = 10

// Cursor is a position in a program. PC is the index of the step that is open or entered next.
// Iteration is the iteration of that step. DelayDoneSeq is the Seq of the step run whose delay is
// over.
type Cursor struct {
	PC           int `json:"pc,omitempty"`
	Iteration    int `json:"iteration,omitempty"`
	DelayDoneSeq int `json:"delayDoneSeq,omitempty"`
	Resumes      int `json:"resumes,omitempty"` // Seq of the step run whose wait the next one continues from
}

// Thread is one branch of a step that executes several in parallel. It has a cursor of its own
// until it is over.
type Thread struct {
	In    int `json:"in"`    // Seq of the step run whose branch it is
	Index int `json:"index"` // of the branch
	Cursor
	Done    bool     `json:"done,omitempty"`
	Failure *Failure `json:"failure,omitempty"` // why the branch failed; nil if it did not
	Cause   Cause    `json:"cause,omitempty"`

	Delay *Delay `json:"delay,omitempty"` // before the step that it enters next
}

// Delay is the delay of a step that a thread enters next. The execution has one in its Wait.
type Delay struct {
	Step  string    `json:"step"` // label
	Since time.Time `json:"since"`
	Until time.Time `json:"until"`
}

// WorksOn reports whether the execution is in a state in which a child of the step run may do
// something. During a rollback, that is only a child that undoes.
func (x *Execution) WorksOn(r *StepRun) bool {
	if r.Kind == JobRollback {
		return x.State == statemachines.ExecutionRollback
	}
	return x.State == statemachines.ExecutionRunning || x.State == statemachines.ExecutionWaiting
}

// Awaited reports whether a parent waits for this execution while holding its locks.
func (x *Execution) Awaited() bool { return x.Parent != nil && x.Parent.Waits }

// WaitKind is the kind of thing that an execution waits for.
type WaitKind string

// Kinds of waits, as the API names them.
const (
	WaitLock        WaitKind = "LOCK"
	WaitCondition   WaitKind = "CONDITION"
	WaitInput       WaitKind = "INPUT"
	WaitTimer       WaitKind = "TIMER"
	WaitSignal      WaitKind = "SIGNAL"
	WaitChild       WaitKind = "CHILD"
	WaitChildInput  WaitKind = "CHILD_INPUT"
	WaitRetry       WaitKind = "RETRY"
	WaitWorker      WaitKind = "WORKER"
	WaitAcknowledge WaitKind = "ACKNOWLEDGE"
	WaitHold        WaitKind = "HOLD"   // its starter holds it
	WaitStep        WaitKind = "STEP"   // an operator lets it enter each step
	WaitKey         WaitKind = "KEY"    // another execution has its business key
	WaitEngine      WaitKind = "ENGINE" // attempts to advance the execution fail
)

// ListedWaits returns the kinds that lists show and can filter by. The others are shown only for a
// single execution, because each takes reads of its own.
func ListedWaits() []WaitKind {
	return []WaitKind{
		WaitInput, WaitSignal, WaitTimer, WaitCondition, WaitChild, WaitChildInput, WaitHold, WaitStep, WaitLock, WaitWorker, WaitAcknowledge, WaitEngine,
	}
}

// Wait is what an execution waits for.
type Wait struct {
	Kind      WaitKind  `json:"kind"`
	Since     time.Time `json:"since"`
	Until     time.Time `json:"until,omitzero"`      // when it ends by itself, or its deadline
	Step      string    `json:"step,omitempty"`      // label of the step
	Reason    string    `json:"reason,omitempty"`    // what a step waits for, in readable form
	Signal    string    `json:"signal,omitempty"`    // of SIGNAL: its name
	Condition string    `json:"condition,omitempty"` // source of a startWhen or of a wait.when, or "notBefore"
	Child     string    `json:"child,omitempty"`     // id of the child
	Event     int64     `json:"event,omitempty"`     // for HOLD and STEP: number of the event with which it began
}

// MaxInlineInputBytes is the largest size, in bytes, of parameters and selector in the state item.
// Larger ones are stored in an item of their own and read when needed.
const MaxInlineInputBytes = 256

// Input is what the starter passed. It is either here or, if Offloaded is set, in an item of its
// own.
type Input struct {
	Offloaded  bool            `json:"offloaded,omitempty"`
	Parameters json.RawMessage `json:"parameters,omitempty"`
	Selector   *Selector       `json:"selector,omitempty"`
	Metadata   json.RawMessage `json:"metadata,omitempty"` // an object of at most [MaxMetadataBytes], kept for the starter and never read

	Sealed *Sealed           `json:"sealed,omitempty"` // the parameters that are sealed, which Parameters does not have
	Plain  map[string]string `json:"-"`                // those that are still to be sealed
}

// MaxMetadataBytes is the size of the metadata of an execution, a definition, a step or a block as JSON.
const MaxMetadataBytes = 4 << 10

// BlockedBy names what blocks locking: the execution that holds the entity, at its lock epoch, or
// the older execution that has reserved it.
type BlockedBy struct {
	Entity      EntityKey `json:"entity"`
	Execution   string    `json:"execution"`
	Epoch       int64     `json:"epoch"`
	Reservation bool      `json:"reservation,omitempty"`
	Since       time.Time `json:"since"`

	// Place is the entity's place in the holder's list, 0 if unknown. Narrowed is how often the
	// holder had released entities. Both are as read. NeedsPerson means that the holder waits for
	// an operator; reservations of executions that wait for it are void.
	Place       int   `json:"place,omitempty"`
	Narrowed    int64 `json:"narrowed,omitempty"`
	NeedsPerson bool  `json:"needsPerson,omitempty"`

	// Others are the other live executions when a concurrency limit is reached: the end of any one
	// of them frees a slot. NeedsPerson then means that all of them wait for an operator.
	Others []SlotHolder `json:"others,omitempty"`
}

// Undo is a rollback of the entities that failed in an execution that otherwise completes.
type Undo struct {
	Entities Places `json:"entities"`
	StepRuns []int  `json:"stepRuns"` // Seq of the step runs that changed them, newest first
}

// Cause is the class of an execution's failure.
type Cause string

// Causes of failure.
const (
	CauseValidation   Cause = "VALIDATION"    // the definition, a block, the parameters or the selection are invalid; nothing was locked
	CauseLockTimeout  Cause = "LOCK_TIMEOUT"  // the locks were not free in time, or the definition does not wait for them
	CauseLockDeadlock Cause = "LOCK_DEADLOCK" // executions waited for each other, and this one was ended
	CauseStepFailed   Cause = "STEP_FAILED"   // a step had more failures than are tolerated
	CauseAssertion    Cause = "ASSERTION"     // an assertion of a step is not true
	CauseWorkerCrash  Cause = "WORKER_CRASH"  // a worker was lost, and its job cannot be repeated
	CauseJobTimeout   Cause = "JOB_TIMEOUT"   // a job took too long
	CauseUnclaimed    Cause = "UNCLAIMED"     // no worker has claimed the jobs of a step
	CauseChildFailed  Cause = "CHILD_FAILED"  // an execution that a step has started has failed
	CauseTimeout      Cause = "TIMEOUT"       // the execution, a step or a wait took too long
	CauseLimit        Cause = "LIMIT"         // it reached a limit
	CauseOutdated     Cause = "OUTDATED"      // others have changed its entities since, so that its earlier results or findings are outdated
	CauseCancelled    Cause = "CANCELLED"     // somebody has cancelled it
	CauseInternal     Cause = "INTERNAL"      // an error in the engine
	CauseRestored     Cause = "RESTORED"      // the tables were restored to an earlier time, so it is unknown what the execution did since
)

// The sources of a cancellation. A request to cancel names one of the first three.
const (
	CancelledByUser    = "user"
	CancelledBySystem  = "system" // a program that watches over executions
	CancelledByAdmin   = "admin"
	CancelledByTimeout = "timeout" // the execution timed out, which is a failure
	CancelledByParent  = "parent"  // the parent no longer waits for the execution
	CancelledByKey     = "key"     // the execution gives way to the one that holds its key
)

// Cancellation records who cancelled an execution, and why.
type Cancellation struct {
	Source   string       `json:"source"`
	Reason   string       `json:"reason"`
	By       string       `json:"by"` // empty if the execution has ended itself: its time is over, or another one has its key
	At       time.Time    `json:"at"`
	Rollback RollbackMode `json:"rollback,omitempty"`
	Cascade  bool         `json:"cascade,omitempty"` // also cancel the child that it waits for
}

// Status returns the normalised lifecycle status of the execution.
func (x *Execution) Status() statemachines.Status { return statemachines.StatusOf(x.State) }

// RoundOf returns the innermost loop around a step run, as the number that step runs inside the loop
// have in In, and the round of the step run, from 0. It returns 0 and 0 if there is no loop.
func (x *Execution) RoundOf(r *StepRun) (loop, index int) {
	for r != nil && r.In > 0 {
		around := x.StepRunBySeq(r.In)
		if around != nil && around.Times > 0 {
			return r.In, r.Index
		}
		r = around
	}
	return 0, 0
}

// SameRound reports whether two runs of a step belong to the same round of the same loop, or both to
// none.
func (x *Execution) SameRound(a, b *StepRun) bool {
	loopA, indexA := x.RoundOf(a)
	loopB, indexB := x.RoundOf(b)
	return loopA == loopB && indexA == indexB
}

// InEarlierRound reports whether a step run belongs to an earlier round than another one, in a loop
// around both or, with waves, to an earlier wave of a rollout.
func (x *Execution) InEarlierRound(r, other *StepRun, waves bool) bool {
	for ; r != nil && r.In > 0; r = x.StepRunBySeq(r.In) {
		if around := x.StepRunBySeq(r.In); around == nil || around.Times == 0 || !waves && len(around.Waves) > 0 {
			continue
		}
		for o := other; o != nil && o.In > 0; o = x.StepRunBySeq(o.In) {
			if o.In == r.In && r.Index < o.Index {
				return true
			}
		}
	}
	return false
}

// RepetitionAround returns the repetition, from 1, of a step that was open when a step run nested
// in it was entered; 0 if that step does not repeat.
func (x *Execution) RepetitionAround(step int, r *StepRun) (iteration int) {
	for i := range x.StepRuns {
		if o := &x.StepRuns[i]; o.StepIndex == step && o.Forward() && o.Seq < r.Seq {
			iteration = o.Iteration
		}
	}
	return iteration
}

// WaveOf returns the rollout in one of whose waves a step run was entered, and the number of the
// wave, from 0. rollout is nil if there is none.
func (x *Execution) WaveOf(r *StepRun) (rollout *StepRun, wave int) {
	for r != nil && r.In > 0 {
		around := x.StepRunBySeq(r.In)
		if around != nil && len(around.Waves) > 0 {
			return around, r.Index
		}
		r = around
	}
	return nil, 0
}

// StoppedRollout returns the step run of the rollout that has stopped; nil if none has.
func (x *Execution) StoppedRollout() *StepRun {
	for i := range x.StepRuns {
		if r := &x.StepRuns[i]; r.StoppedAt > 0 && r.SupersededBy == 0 {
			return r
		}
	}
	return nil
}

// StepRunBySeq returns the step run with a number; nil if there is none.
func (x *Execution) StepRunBySeq(seq int) *StepRun {
	i, found := slices.BinarySearchFunc(x.StepRuns, seq, func(r StepRun, seq int) int { return r.Seq - seq })
	if !found {
		return nil
	}
	return &x.StepRuns[i]
}

// LastStepRun returns the last step run; nil before the first.
func (x *Execution) LastStepRun() *StepRun {
	if len(x.StepRuns) == 0 {
		return nil
	}
	return &x.StepRuns[len(x.StepRuns)-1]
}

// Event is one entry of the history of an execution. Sequence starts at 1 and has no
// gaps. Only events of the layer "execution" may open or close the execution.
type Event struct {
	Sequence int64           `json:"sequence"`
	At       time.Time       `json:"at"`
	Layer    string          `json:"layer"` // execution, workflow, step
	Type     string          `json:"type"`  // execution.validated, step.exited, ...
	From     string          `json:"from,omitempty"`
	To       string          `json:"to,omitempty"`
	Step     string          `json:"step,omitempty"`
	Entity   string          `json:"entity,omitempty"` // "type/id"
	Actor    string          `json:"actor,omitempty"`  // who requested it; empty for the engine itself
	Data     json.RawMessage `json:"data,omitempty"`
}

// IdempotencyRecord is the execution that an idempotency key is bound to until it expires.
type IdempotencyRecord struct {
	Execution string
	Digest    string // digest of the request
	ExpiresAt time.Time
}

// Clone copies the execution deeply enough that changing the copy, by assignment or by append,
// never changes the original.
func (x *Execution) Clone() *Execution {
	c := *x
	c.StepRuns = append([]StepRun(nil), x.StepRuns...)
	c.Events = append([]Event(nil), x.Events...)
	c.Waiters = append([]string(nil), x.Waiters...)
	c.Signals, c.Heard = append([]Signal(nil), x.Signals...), append([]string(nil), x.Heard...)
	c.AwaitedSignals = append([]string(nil), x.AwaitedSignals...)
	c.RerunBy = append([]string(nil), x.RerunBy...)
	c.Threads = append([]Thread(nil), x.Threads...)
	c.Dropped = append([]BlockedBy(nil), x.Dropped...)
	c.Cost = x.Cost.Clone()
	c.Blocks, c.Workflows, c.PastScopes = maps.Clone(x.Blocks), maps.Clone(x.Workflows), maps.Clone(x.PastScopes)
	return &c
}

// DerivedID returns an execution id that is derived from a time and a text: a UUIDv7 whose random
// part is a hash of the text. Starting the same thing again gives the same id.
func DerivedID(at time.Time, seed string) string {
	b := sha256.Sum256([]byte(seed))
	ms := uint64(at.UnixMilli()) //nolint:gosec // times before 1970 do not occur
	for i := range 6 {
		b[i] = byte(ms >> (40 - 8*i))
	}
	b[6] = b[6]&0x0f | 0x70
	b[8] = b[8]&0x3f | 0x80
	h := hex.EncodeToString(b[:16])
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}
