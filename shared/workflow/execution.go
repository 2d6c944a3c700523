package workflow

import (
	"encoding/json"
	"maps"
	"time"

	"github.com/lockstep-run/lockstep/statemachines"
)

// SchemaVersion is the version of the stored form of an execution. A binary
// refuses to touch an item whose version is higher than its own.
const SchemaVersion = 1

// Execution is the state item of one run of a definition, and the only
// authority on it. Everything else (locks, packs, messages, indexes) is judged
// by what stands here. It is changed by one conditional write at a time.
type Execution struct {
	Schema        int    `json:"schema"`
	EngineVersion string `json:"engine,omitempty"` // version of the engine that wrote it last

	Tenant string `json:"tenant"`
	ID     string `json:"id"` // UUIDv7: its text order is the order of creation, and its age in lock conflicts

	State           statemachines.ExecutionState `json:"state"`
	Version         int64                        `json:"version"`                   // +1 with every commit, never by a waiter's registration
	Epoch           int64                        `json:"epoch"`                     // +1 whenever locking begins, never reset
	Try             int                          `json:"try"`                       // +1 with an operator's retry
	Commit          string                       `json:"commit"`                    // id of the last commit, recognises a write whose reply was lost
	MinFencingToken int64                        `json:"minFencingToken,omitempty"` // of tokens when it was written: a lower one than the engine's says that tables were restored since

	Workflow  Ref               `json:"workflow"`            // exact
	Blocks    map[string]string `json:"blocks,omitempty"`    // reference as written -> pinned version
	Workflows map[string]string `json:"workflows,omitempty"` // the same of definitions referred to
	Input     Input             `json:"input"`
	Parent    *Parent           `json:"parent,omitempty"`

	CreatedAt time.Time         `json:"createdAt"`
	StartedAt time.Time         `json:"startedAt,omitzero"`
	EndedAt   time.Time         `json:"endedAt,omitzero"`
	CreatedBy string            `json:"createdBy,omitempty"`
	Labels    map[string]string `json:"labels,omitempty"`

	CorrelationID string `json:"correlation,omitempty"` // what the starter calls whatever comes of it
	TraceParent   string `json:"trace,omitempty"`       // traceparent of the span that started it

	// Scope is what this try is about, Past what earlier tries were, by their
	// number: what they have done is judged by what they saw.
	Scope      Scope         `json:"scope,omitzero"`
	PastScopes map[int]Scope `json:"pastScopes,omitempty"`

	// Conflicts counts lock conflicts since the run was created; from the second
	// on the run reserves what it waits for. BlockedBy is what it waits for.
	Conflicts int        `json:"conflicts,omitempty"`
	BlockedBy *BlockedBy `json:"blockedBy,omitempty"`
	LockSince time.Time  `json:"lockSince,omitzero"` // when this try first asked for locks
	LockMode  LockMode   `json:"lockMode,omitempty"` // exclusive if empty
	Unlocked  bool       `json:"unlocked,omitempty"` // an operator let go of the locks before the end was acknowledged

	// Dropped are entities that were locked by others and that the definition
	// wants to be skipped then: the first few, and how many.
	Dropped      []BlockedBy `json:"dropped,omitempty"`
	DroppedCount int         `json:"droppedCount,omitempty"`

	Wait           *Wait     `json:"wait,omitempty"`           // what it waits for in BLOCKED_WAITING and WAITING
	NotBefore      time.Time `json:"notBefore,omitzero"`       // as its starter asked
	Deadline       time.Time `json:"deadline,omitzero"`        // of the whole run; zero for none
	UpdatesApplied bool      `json:"updatesApplied,omitempty"` // the updates of entities stand in the inventory

	// PC is the index of the step that is entered next, or that is being visited;
	// Round its repetition, and Rested the RunSeq for which its delay is over.
	// OnlyFailed is set by a retry that keeps what has come to OK.
	PC           int  `json:"pc,omitempty"`
	Iteration    int  `json:"iteration,omitempty"`
	DelayDoneSeq int  `json:"delayDoneSeq,omitempty"`
	OnlyFailed   bool `json:"onlyFailed,omitempty"`

	StepRunSeq int       `json:"stepRunSeq"`         // counter of step runs, rollbacks included
	StepRuns   []StepRun `json:"stepRuns,omitempty"` // in order of RunSeq; the last may be open

	DueAt       time.Time `json:"dueAt,omitzero"`       // the alarm clock; zero when nothing is left to do
	DiscardedAt time.Time `json:"discardedAt,omitzero"` // when it was given up, its retention being over; zero as long as it is kept

	Cause        Cause         `json:"cause,omitempty"`
	Reason       string        `json:"reason,omitempty"`
	Error        *Failure      `json:"error,omitempty"`
	RolledBack   bool          `json:"rolledBack,omitempty"`
	Cancellation *Cancellation `json:"cancellation,omitempty"`

	// The newest events ride here; older ones are paged out first. Sequence is
	// the number of the last event, Paged that of the last one paged out.
	Events       []Event `json:"events,omitempty"`
	Sequence     int64   `json:"sequence"`
	PagedThrough int64   `json:"pagedThrough,omitempty"`

	Cost Cost `json:"cost,omitzero"`

	// ItemBytes is the size of the item as it was read, which is what the next
	// write of it is charged by. It is not stored.
	ItemBytes int `json:"-"`

	// Waiters is read with the item and changed outside its version: the ids of
	// executions to wake when this one lets go of its locks.
	Waiters []string `json:"-"`

	// FailureStreak, too, is written outside the version, and is gone with the next commit of a look.
	FailureStreak *FailureStreak `json:"-"`
}

// FailureStreak is that looks at an execution fail, one after the other.
type FailureStreak struct {
	Since  time.Time `json:"since"` // of the first
	Count  int       `json:"count"`
	Reason string    `json:"reason"` // of the last
}

// Parent is the run that started this one.
type Parent struct {
	Execution  string `json:"execution"`
	StepRunSeq int    `json:"stepRunSeq"`      // of the visit
	Root       string `json:"root"`            // the outermost ancestor, whose age counts in lock conflicts
	Depth      int    `json:"depth"`           // from 1
	Waits      bool   `json:"waits,omitempty"` // it holds its locks until this one has ended
}

// MaxDepth bounds how deep runs may start runs.
const MaxDepth = 10

// MaxTries bounds how often an operator may let one run begin again, and
// MaxEvents how many events a run may have before it visits no further step: what
// a try has seen and what has happened stay readable as long as the run is kept.
const (
	MaxTries  = 100
	MaxEvents = 20_000
)

// Age orders runs in lock conflicts: the smaller is the older. A run that
// another started is as old as the outermost of its ancestors.
func (x *Execution) Age() string {
	if x.Parent != nil {
		return x.Parent.Root
	}
	return x.ID
}

// Awaited reports whether another run waits for this one, and holds its locks
// meanwhile.
func (x *Execution) Awaited() bool { return x.Parent != nil && x.Parent.Waits }

// WaitKind says what kind of thing a run waits for.
type WaitKind string

// The kinds, as the API names them.
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
)

// Wait is what a run waits for.
type Wait struct {
	Kind      WaitKind  `json:"kind"`
	Since     time.Time `json:"since"`
	Until     time.Time `json:"until,omitzero"`      // when it ends by itself, or the deadline
	Step      string    `json:"step,omitempty"`      // label
	Condition string    `json:"condition,omitempty"` // source of a startWhen, or "notBefore"
	Child     string    `json:"child,omitempty"`     // id
}

// MaxInlineInputBytes is up to how many bytes of parameters and selector ride in the
// state item; larger ones live in their own item and are read when needed.
const MaxInlineInputBytes = 256

// Input is what the starter gave. Either it rides here, or Stored says that it
// lives beside the state item.
type Input struct {
	Offloaded  bool            `json:"offloaded,omitempty"`
	Parameters json.RawMessage `json:"parameters,omitempty"`
	Selector   *Selector       `json:"selector,omitempty"`
}

// Scope is which entities the run is about, fixed before locking. Small scopes
// ride inline; larger ones are chunks stored beside the state under Key, which
// is unique to the handler that stored them, so that two handlers never mix.
type Scope struct {
	Counts map[string]int `json:"counts,omitempty"` // by entity type
	Key    string         `json:"key,omitempty"`
	Chunks int            `json:"chunks,omitempty"`
	Inline []ScopeEntity  `json:"inline,omitempty"`

	// Held is set once the scope carries the tokens and attributes of the locks
	// taken in epoch HeldEpoch.
	HeldEpoch int64 `json:"heldEpoch,omitempty"`
}

// Total is the number of entities.
func (s Scope) Total() int {
	n := 0
	for _, c := range s.Counts {
		n += c
	}
	return n
}

// BlockedBy names what keeps a run from locking: the run that holds the entity,
// at its lock epoch, or the older run that has reserved it.
type BlockedBy struct {
	Entity      EntityKey `json:"entity"`
	Execution   string    `json:"execution"`
	Epoch       int64     `json:"epoch"`
	Reservation bool      `json:"reservation,omitempty"`
	Since       time.Time `json:"since"`
}

// Cause says in one word why a run failed.
type Cause string

// The causes.
const (
	CauseValidation   Cause = "VALIDATION"
	CauseLockTimeout  Cause = "LOCK_TIMEOUT"
	CauseLockDeadlock Cause = "LOCK_DEADLOCK"
	CauseStepFailed   Cause = "STEP_FAILED"
	CauseAssertion    Cause = "ASSERTION"
	CauseWorkerCrash  Cause = "WORKER_CRASH"
	CauseJobTimeout   Cause = "JOB_TIMEOUT"
	CauseUnclaimed    Cause = "UNCLAIMED"
	CauseChildFailed  Cause = "CHILD_FAILED"
	CauseTimeout      Cause = "TIMEOUT"
	CauseLimit        Cause = "LIMIT"
	CauseCancelled    Cause = "CANCELLED"
	CauseInternal     Cause = "INTERNAL"
	CauseRestored     Cause = "RESTORED" // the tables were set back: what the run did since is not known
)

// Cancellation records who ended a run early, and why.
type Cancellation struct {
	Source   string       `json:"source"` // user, parent, timeout
	Reason   string       `json:"reason"`
	By       string       `json:"by"`
	At       time.Time    `json:"at"`
	Rollback RollbackMode `json:"rollback,omitempty"`
	Cascade  bool         `json:"cascade,omitempty"` // cancel the run that it waits for too
}

// Status is the normalised lifecycle status of the run.
func (x *Execution) Status() statemachines.Status { return statemachines.StatusOf(x.State) }

// ScopeOf is the scope of the try to which a step run belongs.
func (x *Execution) ScopeOf(r *StepRun) Scope {
	if scope, ok := x.PastScopes[r.Try]; ok {
		return scope
	}
	return x.Scope
}

// StepRunBySeq is the step run with the number, nil if there is none.
func (x *Execution) StepRunBySeq(seq int) *StepRun {
	for i := range x.StepRuns {
		if x.StepRuns[i].Seq == seq {
			return &x.StepRuns[i]
		}
	}
	return nil
}

// LastStepRun is the last step run, or nil before the first.
func (x *Execution) LastStepRun() *StepRun {
	if len(x.StepRuns) == 0 {
		return nil
	}
	return &x.StepRuns[len(x.StepRuns)-1]
}

// OwnerStatus is as much of an execution as lock judgement needs.
type OwnerStatus struct {
	State statemachines.ExecutionState
	Epoch int64
}

// Clone copies the execution deeply enough that a change of the copy, by
// assignment or by append, never shows in the original.
func (x *Execution) Clone() *Execution {
	c := *x
	c.StepRuns = append([]StepRun(nil), x.StepRuns...)
	c.Events = append([]Event(nil), x.Events...)
	c.Waiters = append([]string(nil), x.Waiters...)
	c.Dropped = append([]BlockedBy(nil), x.Dropped...)
	c.Cost = x.Cost.Clone()
	c.Blocks, c.Workflows, c.PastScopes = maps.Clone(x.Blocks), maps.Clone(x.Workflows), maps.Clone(x.PastScopes)
	return &c
}
