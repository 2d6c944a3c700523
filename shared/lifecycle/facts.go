package lifecycle

import (
	"encoding/json"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// Facts is what the engine has fetched for one decision. A nil field is a fact that has not been
// fetched; Decide asks for it when it needs it.
type Facts struct {
	CheckIn        *CheckIn
	Parent         *Parent
	FromParent     bool // the parent has sent a message: the execution must check whether the parent still waits
	Resolution     *Resolution
	Readiness      *Readiness
	Conditions     map[int]*Readiness // for step runs that wait for a condition, by StepRunSeq
	Escalated      map[int]int        // by StepRunSeq: level up to which executions have been started
	Answer         *AnswerCheck       // for CommandAnswer
	Signals        map[Need]*SignalCheck
	Discovery      *Discovery
	Blocker        *Blocker
	Locks          *LockResult
	Plans          map[Need]*Plan   // by the need they answer
	Reports        map[Need]*Report // by the need they answer
	Routes         map[Need]*Route  // by the need they answer
	Joins          map[Need]*Join   // by the need they answer
	Output         *Output
	Agains         map[Need]*Again // by the need they answer
	Outcomes       *Outcomes
	Child          map[int]*ChildStatus // by Seq of the step run
	Children       map[int]*ChildSet    // by Seq of the step run
	Entities       *ScopeEntities
	KeptJobs       *KeptJobs
	Outdated       *Outdated
	Observed       bool   // the tenant has subscriptions, or may have
	Published      *int64 // number of the last event that was published to subscribers
	UpdatesApplied bool
	Unreferenced   *bool // the parent can no longer ask for the execution
	Discarded      bool  // the packs, and the items stored outside the state item, may be dropped
	Command        *Command
}

// Lasting returns the facts that no commit makes stale: those that belong to the wake-up, and
// those that are immutable or answer a need that names a step run.
func (f *Facts) Lasting() Facts {
	return Facts{
		FromParent: f.FromParent, Observed: f.Observed, Command: f.Command,
		Resolution: f.Resolution, UpdatesApplied: f.UpdatesApplied,
		Plans: f.Plans, Routes: f.Routes, Joins: f.Joins, Output: f.Output,
	}
}

// CheckIn is what an execution that exists but has not begun has found out about items other than
// its own. Key is the status of its business key. Owner is the execution that holds the key if Key
// is KeyHeld or KeyUndecided.
type CheckIn struct {
	Key   KeyStatus
	Owner string
}

// KeyStatus says who has a business key.
type KeyStatus string

// The statuses of a key.
const (
	KeyMine      KeyStatus = "mine"
	KeyHeld      KeyStatus = "held"      // a live execution holds it, and has every signal of the mailbox
	KeyUndecided KeyStatus = "undecided" // another one holds it; look again later: the owner has yet to check in, or cannot take a signal now, or this execution is being retried
)

// Resolution is the program of the execution, made from the pinned definitions, with the pinned or
// newest matching version of each block that it names. If the execution must be rejected, it holds
// the problem instead.
type Resolution struct {
	Program   *spec.Program
	Blocks    map[string]workflow.Block // by reference as written
	Workflows map[string]string         // version of each referenced definition, by reference as written
	Problem   *workflow.Failure
}

// Readiness says whether the execution may begin.
type Readiness struct {
	Ready     bool              // startWhen is true now, or the definition has none
	Condition string            // source of startWhen, "" if the definition has none
	NotBefore time.Time         // it may not begin before this time; zero for none
	RateAt    time.Time         // once it is ready: when the rate of the workflow lets it begin; zero for none
	Reason    string            // why startWhen cannot be evaluated now (which counts as false), for example because it names an unknown entity
	Problem   *workflow.Failure // notBefore has no value, or the rate is used up
}

// Discovery is the scope of the execution in its fixed order, or the problem that
// prevents one.
type Discovery struct {
	Scope        workflow.Scope
	AcquireIndex int // index of the acquisition whose block must be called first; -1 for none
	Problem      *workflow.Failure
}

// ChildStatus is what is known about the execution that a step run has started.
type ChildStatus struct {
	StepRunSeq int
	State      sm.ExecutionState
	Partial    bool              // it completed, but something in it failed
	Dropped    bool              // it has left out entities that others held
	HasChanges bool              // something that is not pure was executed and was not undone
	Output     *workflow.Value   // output of a child that settled well, as the step run will hold it; nil if its definition has none
	TooDeep    *workflow.Failure // why that output cannot be the value of a variable, which the step makes it; Output is nil then
	Failure    *workflow.Failure
	Refused    bool // there is no child; Failure says why
	Absent     bool // for a closed step run: there is no child, and none will begin
	Over       bool // it does nothing more by itself, see IsOver

	WaitsForPerson bool   // see the function of that name
	Asks           string // what a person is asked, in readable form
}

// Blocker says whether the execution was registered as a waiter, and whether waiting is a deadlock.
// It is registered if the blocking execution still holds the entity, or if the reservation still
// exists. NeedsPerson means that the holder waits for an operator; Narrowed is how often it has
// released entities. Nothing else is known if the execution has not recorded NeedsPerson and was
// not registered.
type Blocker struct {
	Registered    bool
	Deadlock      bool
	NeedsPerson   bool
	Narrowed      int64
	WaiterSetFull bool // it is not registered, because the waiter set is full: only its timer wakes the execution
}

// LockResult is the result of asking for all locks at one epoch. Either they are granted, with the
// scope as read under the locks and without the entities dropped because other executions hold or
// have reserved them; or Conflict is the first conflict.
type LockResult struct {
	Epoch    int64
	Scope    workflow.Scope
	Dropped  []workflow.BlockedBy
	Conflict *workflow.BlockedBy

	WaiterSetFull bool // after a conflict: see Blocker
	Problem       *workflow.Failure
	Outdated      []OutdatedEntity // for a new try, if the locks are granted
}

// Plan says how many jobs a step has, or a rollback wave must undo.
type Plan struct {
	Jobs      int
	Skipped   int
	Unmet     int // entities that failed an assertion and have no job
	AlreadyOK int // entities whose job ended OK in an earlier try
	Entities  int // entities of the step's type, whether they take part or not
	Cause     workflow.Cause
	Problem   *workflow.Failure // for example a false assertion, or a parameter without a value

	UnmetFailure *workflow.Failure // failure of the first entity that failed an assertion

	Value      *workflow.Value      // for a step that sets variables: what it sets; for a loop or a foreach: its list
	Route      int                  // for a switch: the number of its case, counted from 1
	CaseErrors []workflow.CaseError // for a switch: the conditions before its case that have no value

	Until       time.Time        // for a wait for a time that the step names
	Starts      string           // for a step that evaluates which workflow it starts: its reference
	Items       int              // number of items of a loop over a list or of a foreach; number of waves of a rollout
	Only        *workflow.Places // for a step that starts a child for each item: the items that take part; nil for all
	Part        *workflow.Places // for a repetition, or a step before pipelines, on some entities only: those that have a job; nil if not known
	BytesBefore []int            // for a pipeline: StepRun.BytesBefore of each of its steps; nil if not known
	Waves       []int            // for a rollout: number of entities in each wave; its Value is a [workflow.Waves]

	// For a wait for people: the JSON of a Question, its title, and the answer to use at the
	// deadline; nil for none.
	Question, Default *workflow.Value

	DefaultRejects bool // of an approval: Default rejects it
	Title          string
}

// Route says which case of a node's onFailure handles the failure of a step run.
type Route struct {
	Case  int             // counted from 1; 0 for none
	Error *workflow.Value // the failure as expressions see it

	CaseErrors []workflow.CaseError // the conditions before it that have no value
}

// Join is the combined result of a step run's branches, or why it has none.
type Join struct {
	Value   *workflow.Value // {"result": ..., "branches": {LABEL: ...}, "failed": [{branch, code, message}]}
	Problem *workflow.Failure
}

// Output is the output that the definition of the execution specifies, or why it has no value.
type Output struct {
	Value   *workflow.Value
	Missing string
}

// ScopeEntities holds all entities of the scope with their places, including those that a retry
// leaves out.
type ScopeEntities struct{ List []workflow.ScopeEntity }

// Report is the result of reading the packs of an open step run, or of doing what its step says if the
// engine does that itself.
type Report struct {
	StepRunSeq  int
	Complete    bool             // every lane is over: Counts is final
	Counts      workflow.Counts  // for the lanes that are over; for all when Complete
	Cost        workflow.Cost    // cost of the packs, when Complete
	NextCheckAt time.Time        // earliest time at which something waiting should be checked; zero for none
	Offered     bool             // jobs that have waited that long to be claimed were sent once more
	PassedOver  bool             // the queue is past the jobs that were offered; a worker may still have them
	Behind      bool             // the queue is not past the jobs that were offered: workers of the pool are at what comes before
	Unclaimed   bool             // jobs have waited to be claimed for longer than the policy allows
	Skipped     int              // for a step run in a pipeline, when Complete
	Unmet       int              // for a step run in a pipeline, when Complete: entities that failed an assertion
	HasUpdates  bool             // some job requests updates of entities, when Complete
	Breaks      bool             // for a step run with one lane, when Complete: a job has answered BREAK
	Left        *workflow.Places // in a step that repeats, with Breaks: the entities whose jobs have; nil if not known
	Brief       bool             // only Failed and Unknown of Counts are set; NeedFailure has the rest

	UnmetFailure *workflow.Failure // failure of the first of the Unmet
	Doubt        *workflow.Failure // of the first job about which it is unknown whether, or how far, it was executed; nil for none, or if not looked for

	// Next is the label of the step that the block of a global step has named; Goto is its target.
	Next string
	Goto *spec.Target

	// Result is what the only job of a step run has given; ResultRef says where that is stored if it
	// is large.
	Result    json.RawMessage
	ResultRef *workflow.PayloadRef

	// Wait is what the block of a global step asks to wait for. Question is the JSON of a Question
	// if that is input.
	Wait     *workflow.AskedWait
	Question *workflow.Value

	// Problem fails the step run before its jobs are over: an assertion of a later step of a
	// pipeline is false, or a job requests an update of an entity that the execution does not hold.
	Cause   workflow.Cause
	Problem *workflow.Failure
}

// CheckBy sets NextCheckAt to the given time if that is earlier.
func (r *Report) CheckBy(at time.Time) {
	if r.NextCheckAt.IsZero() || at.Before(r.NextCheckAt) {
		r.NextCheckAt = at
	}
}

// Command is a request from an operator, or an order from the engine, to the execution.
type Command struct {
	Kind     CommandKind
	Actor    string
	Reason   string
	Source   string                // for a cancellation
	Rollback workflow.RollbackMode // for a cancellation; for a retry: RollbackAuto to continue the failed rollback
	Cascade  bool                  // for a cancellation: also cancel the child that the execution waits for
	FromStep string                // for a retry: label of the first step, empty for the step that failed; for a rewind: the step to go back to; for a resume: the waiting step, if named
	Entities string                // for a retry: "failed" or "all"; empty for "all" after a rollback and "failed" otherwise

	Only []workflow.EntityKey // for acknowledge and unlock: the entities to release; none for all

	RerunBy string // for a rerun: id of the execution that repeats this one

	Answer *Answer // for CommandAnswer
	Tokens *Tokens // for CommandIssueToken and CommandRevoke

	Sequence int64 // for CommandNext: number of the event with which the wait began; 0 for the current wait
	All      bool  // for CommandNext: enter this and all later steps
	Force    bool  // for CommandRewind: even if something was changed since; for CommandRetry: even if kept results are outdated
}

// Tokens says which tokens are issued or revoked.
type Tokens struct {
	StepRunSeq int
	For        string    // name under which the bearer answers
	ExpiresAt  time.Time // zero for never
}

// Answer is an answer to a waiting step run. The step run was determined when the request first
// read the execution, and does not change.
type Answer struct {
	StepRunSeq int
	Named      bool   // the request names the step run, so only an answer to that one counts as a repetition
	Key        string // see workflow.AnswerKey
	Digest     string // see workflow.AnswerDigest
	Next       bool   // in step mode: once it decides, the execution enters the step that follows

	ByToken    bool   // TokenBy, Generation and ExpiresAt are those of the token
	TokenBy    string // issuer of the token
	Generation int64
	ExpiresAt  time.Time // zero for never
}

// SignalCheck says whether a signal matches what a step run waits for, and what value it brings.
type SignalCheck struct {
	Fits  bool
	Value *workflow.Value
}

// AnswerCheck says whether an answer is valid: its sender may answer, and its value matches the
// schema. If not, Problem is the refusal.
type AnswerCheck struct {
	StepRunSeq int
	Problem    error
	Rejects    bool
	Value      *workflow.Value
}

// CommandKind is the kind of a command.
type CommandKind string

// Commands. The engine gives CommandBreak when it cannot continue and repeating would not help.
const (
	CommandBreak       CommandKind = "break"
	CommandCancel      CommandKind = "cancel"
	CommandAcknowledge CommandKind = "acknowledge"
	CommandRetry       CommandKind = "retry"
	CommandResume      CommandKind = "resume"
	CommandUnlock      CommandKind = "unlock"
	CommandRerun       CommandKind = "rerun"
	CommandAnswer      CommandKind = "answer"
	CommandNext        CommandKind = "next"
	CommandRewind      CommandKind = "rewind"
	CommandIssueToken  CommandKind = "issueToken"
	CommandRevoke      CommandKind = "revokeTokens"
)

// verb returns what the command does to an execution, for messages.
func (k CommandKind) verb() string {
	switch k {
	case CommandIssueToken:
		return "make a token for"
	case CommandRevoke:
		return "revoke the tokens of"
	}
	return string(k)
}

// Need names a fact without which Decide cannot continue.
type Need struct {
	Kind       NeedKind
	StepRunSeq int // number of the step run that is or will be planned or reported, or that has a child
	StepIndex  int // for NeedPlan: index in the program; for an ACQUIRE: index of the acquisition
	Undoes     int // for NeedPlan: StepRunSeq of the step run to undo; 0 for a step

	ExecutionFails bool // for NeedOutcomes: no entity succeeds, because the execution fails

	Signal     string // for NeedSignal: id of the signal
	Level      int    // for NeedEscalated
	Acquire    bool   // for NeedPlan: a call of a block's acquire
	Iteration  int    // for NeedPlan: which repetition
	Pipeline   int    // for NeedPlan: StepRunSeq of the first step run of its pipeline
	OnlyFailed bool   // for NeedPlan: without the entities whose job ended OK in an earlier try
	Try        int    // for NeedPlan
	Resumes    int    // for NeedPlan
	In, Index  int    // for NeedPlan and NeedAgain: as for a step run in the loop
}

// StepRun returns the step run of a need, with the fields that the need knows.
func (n Need) StepRun() workflow.StepRun {
	r := workflow.StepRun{
		Seq: n.StepRunSeq, Try: n.Try, StepIndex: n.StepIndex, Undoes: n.Undoes, Kind: workflow.JobExecute,
		Iteration: n.Iteration, Pipeline: n.Pipeline, OnlyFailed: n.OnlyFailed, In: n.In, Index: n.Index, Resumes: n.Resumes,
	}
	if n.Undoes > 0 {
		r.Kind = workflow.JobRollback
	}
	if n.Acquire {
		r.Kind = workflow.JobAcquire
	}
	return r
}

// NeedForPlan returns the need for the plan of a step run.
func NeedForPlan(r *workflow.StepRun) Need {
	return Need{
		Kind: NeedPlan, StepRunSeq: r.Seq, StepIndex: r.StepIndex, Undoes: r.Undoes, Acquire: r.Kind == workflow.JobAcquire,
		Iteration: r.Iteration, Pipeline: r.Pipeline, OnlyFailed: r.OnlyFailed, Try: r.Try, In: r.In, Index: r.Index, Resumes: r.Resumes,
	}
}

// NeedKind is the kind of a needed fact.
type NeedKind string

// Facts that can be needed. Some are fetched by work on items other than the execution's own:
// NeedReadiness, NeedBlocker, NeedLocks, NeedClose and others. All of that work is conditional and
// may be repeated.
const (
	NeedCheckIn        NeedKind = "checkIn" // a CheckIn, after taking the key if it is free, or handing the signals over
	NeedParent         NeedKind = "parent"  // whether the step run of the parent waits for the execution
	NeedResolution     NeedKind = "resolution"
	NeedReadiness      NeedKind = "readiness" // after registering with every entity that the condition reads
	NeedCondition      NeedKind = "condition" // the same for the condition for which StepRunSeq waits
	NeedAnswer         NeedKind = "answer"    // an AnswerCheck of the command for StepRunSeq
	NeedEscalated      NeedKind = "escalated" // confirmation that the executions up to Level have been started
	NeedSignal         NeedKind = "signal"    // a SignalCheck of Signal for StepRunSeq
	NeedDiscovery      NeedKind = "discovery"
	NeedBlocker        NeedKind = "blocker"
	NeedLocks          NeedKind = "locks"
	NeedPlan           NeedKind = "plan"
	NeedReport         NeedKind = "report"
	NeedRoute          NeedKind = "route"          // a Route: StepRunSeq has failed, and StepIndex may handle it
	NeedJoin           NeedKind = "join"           // a Join
	NeedOutput         NeedKind = "output"         // the output of an execution that completes
	NeedAgain          NeedKind = "again"          // an Again: the loop StepRunSeq has executed its steps once more
	NeedFailure        NeedKind = "failure"        // a Report with the first failure in the lanes that are over
	NeedClose          NeedKind = "close"          // a Report, after stopping jobs that have not started
	NeedChild          NeedKind = "child"          // the status of a child, after starting it if it does not exist
	NeedChildClose     NeedKind = "childClose"     // the status of a child whose step run is closed, after telling it so if it is not over
	NeedChildren       NeedKind = "children"       // a ChildSet; if the timer has fired, after starting missing children and recording those that are over
	NeedFailedChildren NeedKind = "failedChildren" // a ChildSet that is Checked, after reading the children that did not end well
	NeedChildrenClose  NeedKind = "childrenClose"  // a ChildSet of a closed step run, after reading all children and telling those that are not over
	NeedEntities       NeedKind = "entities"       // the scope, with places
	NeedKeptJobs       NeedKind = "keptJobs"       // a KeptJobs
	NeedOutdated       NeedKind = "outdated"       // an Outdated for the new try, which has yet to acquire its locks
	NeedOutcomes       NeedKind = "outcomes"       // the outcomes of the execution's entities
	NeedPublished      NeedKind = "published"      // up to which event the history has been published to subscribers
	NeedUpdatesApplied NeedKind = "updatesApplied" // confirmation that the updates of entities are in the inventory
	NeedUnreferenced   NeedKind = "unreferenced"   // whether the parent can no longer ask for the execution
	NeedDiscarded      NeedKind = "discarded"      // confirmation that the items stored outside the state item may be dropped
)

// Policy is the configuration that decisions depend on.
type Policy struct {
	PollInterval    time.Duration // longest time between two wake-ups of a waiting execution
	LockTimeout     time.Duration // how long an execution may wait for its locks
	StartTimeout    time.Duration // how long an execution may wait for its condition, if the definition does not say
	MessageLifetime time.Duration // how long the message of a pack may be worked on
	PackSize        int           // jobs per pack of a large step of a repeatable block
	MinPackedJobs   int           // steps with fewer jobs use packs of one
	MaxStepRuns     int           // step runs per execution
	Retention       time.Duration // how long an ended execution that needs no operator is kept; 0 for ever
	MinFencingToken int64         // lock tokens are greater; it increases when the tables are restored
}

// Decision is what must happen next.
type Decision struct {
	// Need is set if a fact is missing. Uncommitted is the execution as decided so far: the fact
	// must be fetched for that state, which is not committed. Nothing else is set then.
	Need        *Need
	Uncommitted *workflow.Execution

	// Next is the state to commit; nil if there is nothing to write. WakeWaiters asks the commit to
	// remove the waiters and wake them.
	Next        *workflow.Execution
	WakeWaiters bool

	// DelayedWakeup asks for a delayed wake-up at the new timer, because the sweep of timers is
	// coarser.
	DelayedWakeup bool

	// Consumed are the ids of signals that the commit takes out of the mailbox. DependsOnSignals
	// makes the commit require that no signal has arrived since the execution was read. That is so
	// if it moves to a state that accepts no signals, decides that a signal has not come in time,
	// or begins to wait for one whose wake-up may already have come.
	Consumed         []string
	DependsOnSignals bool

	// CommandPending means that the command has not been decided: something that was due comes
	// first, and is committed alone. Decide must be called again with the command.
	CommandPending bool

	// LimitReached means that a limit ends an execution that would not end by itself.
	LimitReached bool

	// DispatchSeq is the StepRunSeq of the step run whose packs must be sent, or whose child must
	// be started, once Next is committed; 0 for none. If that step run has ended, it was closed,
	// and the rest of its pipeline continues without it.
	DispatchSeq int

	// Idle means that nothing is left to do until a message arrives or the timer fires. Otherwise
	// Decide must be called again with what was committed.
	Idle bool
}
