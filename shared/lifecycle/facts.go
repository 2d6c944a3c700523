package lifecycle

import (
	"encoding/json"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// Facts is what the engine has fetched for one decision. A nil field is a fact that has
// not been fetched; Decide asks for it when it needs it.
type Facts struct {
	CheckIn        *CheckIn
	Parent         *Parent
	FromParent     bool // the parent has sent a message: the execution has to look whether it still waits
	Resolution     *Resolution
	Readiness      *Readiness
	Conditions     map[int]*Readiness // of step runs that wait for one, by StepRunSeq
	Escalated      map[int]int        // by StepRunSeq: up to which level executions have been started
	Answer         *AnswerCheck       // of CommandAnswer
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
	Observed       bool   // somebody observes the executions of the tenant, or may
	HandedOn       *int64 // the number of the last event that was handed on to those who observe
	UpdatesApplied bool
	Unreferenced   *bool // the parent can no longer ask for the execution
	Discarded      bool  // the packs, and the items stored apart from the state item, may be dropped
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

// CheckIn is what an execution that exists, and has not begun, has found out about what is not
// its own item. Key is that of its business key, and Owner the execution that has the key where
// Key is KeyHeld or KeyUndecided.
type CheckIn struct {
	Key   KeyStatus
	Owner string
}

// KeyStatus says who has a business key.
type KeyStatus string

// The statuses of a key.
const (
	KeyMine      KeyStatus = "mine"
	KeyHeld      KeyStatus = "held"      // an execution that is live has it, and has every signal of the mailbox
	KeyUndecided KeyStatus = "undecided" // another one has it, and the execution looks again later: the owner has still to check in, or cannot take a signal now, or this one is tried again
)

// Resolution is the program of the execution, made from the pinned definitions, with the
// pinned or newest matching version of each block it names, or the problem that rejects
// the execution.
type Resolution struct {
	Program   *spec.Program
	Blocks    map[string]workflow.Block // by reference as written
	Workflows map[string]string         // version of each referenced definition, by reference as written
	Problem   *workflow.Failure
}

// Readiness is whether the execution may begin.
type Readiness struct {
	Ready     bool              // startWhen is true now, or the definition has none
	Condition string            // source of startWhen, "" if the definition has none
	NotBefore time.Time         // it may not begin before this time; zero for none
	RateAt    time.Time         // once it is ready: when the rate of the workflow lets it begin; zero for none
	Reason    string            // why startWhen cannot be evaluated now, which counts as not true: it names an unknown entity, for example
	Problem   *workflow.Failure // notBefore has no value, or the rate has no place
}

// Discovery is the scope of the execution in its fixed order, or the problem that
// prevents one.
type Discovery struct {
	Scope        workflow.Scope
	AcquireIndex int // index of the acquisition whose block has to be called first, -1 for none
	Problem      *workflow.Failure
}

// ChildStatus is what is known about the execution that a step run has started.
type ChildStatus struct {
	StepRunSeq int
	State      sm.ExecutionState
	Partial    bool            // it completed, and something in it failed
	Dropped    bool            // it has left out entities that others held
	HasChanges bool            // something that is not pure was executed and has not been undone
	Output     *workflow.Value // of a child that has settled well, as the step run is to hold it; nil if its definition has none
	Failure    *workflow.Failure
	Refused    bool // there is no child: Failure says why
	Absent     bool // of a step run that is closed: there is no child, and none will begin
	Over       bool // nothing of it goes on by itself, see IsOver

	WaitsForPerson bool   // see the function of that name
	Asks           string // what a person is asked, as people read it
}

// Blocker says whether the execution was registered as a waiter, because the execution
// that blocks it still holds the entity or the reservation still exists, and whether
// waiting is a deadlock. NeedsPerson says that the holder waits for an operator, and
// Narrowed how often it has released entities; that is all that is known where the
// execution has not recorded NeedsPerson and was not registered.
type Blocker struct {
	Registered  bool
	Deadlock    bool
	NeedsPerson bool
	Narrowed    int64
}

// LockResult is the result of asking for all locks at one epoch. They are granted with
// the scope as read under the locks, without the entities that were dropped because
// other executions hold or have reserved them; or Conflict is the first conflict.
type LockResult struct {
	Epoch    int64
	Scope    workflow.Scope
	Dropped  []workflow.BlockedBy
	Conflict *workflow.BlockedBy
	Problem  *workflow.Failure
	Outdated []OutdatedEntity // of a new try, if the locks are granted
}

// Plan says how many jobs a step has, or a rollback wave has to undo.
type Plan struct {
	Jobs      int
	Skipped   int
	Unmet     int // entities that an assertion failed: they have no job
	AlreadyOK int // entities whose job ended with OK in an earlier try
	Entities  int // entities of the step's type, whether they take part or not
	Cause     workflow.Cause
	Problem   *workflow.Failure // an assertion that is false, a parameter that has no value

	UnmetFailure *workflow.Failure // of the first of the entities that an assertion failed

	Value      *workflow.Value      // of a step that sets variables: what it sets; of a loop or a foreach: its list
	Route      int                  // of a switch: the number of its case, from 1
	CaseErrors []workflow.CaseError // of a switch: the conditions before its case that have no value

	Until time.Time        // of a wait for a time that the step names
	Items int              // of a loop over a list, or a foreach: how many items it has; of a rollout: how many waves
	Only  *workflow.Places // of a step that starts a child for each item: the items that take part; nil for all
	Waves []int            // of a rollout: how many entities each wave has; its Value is a [workflow.Waves]

	// Of a wait for people: the JSON of a Question, its title, and what is taken for the answer
	// at the deadline, nil for nothing.
	Question, Default *workflow.Value

	DefaultRejects bool // of an approval: Default rejects it
	Title          string
}

// Route says which case of a node's onFailure handles the failure of a step run.
type Route struct {
	Case  int             // from 1; 0 for none
	Error *workflow.Value // the failure as expressions see it

	CaseErrors []workflow.CaseError // the conditions before it that have no value
}

// Join is what the branches of a step run have given together, or why that cannot be told.
type Join struct {
	Value   *workflow.Value // {"result": ..., "branches": {LABEL: ...}, "failed": [{branch, code, message}]}
	Problem *workflow.Failure
}

// Output is what the definition of the execution says that it gives, or why it has no value.
type Output struct {
	Value   *workflow.Value
	Missing string
}

// ScopeEntities are all entities of the scope with their places, also those that a retry
// leaves out.
type ScopeEntities struct{ List []workflow.ScopeEntity }

// Report is the result of reading the packs of an open step run, or of doing what its step says if the
// engine does that itself.
type Report struct {
	StepRunSeq  int
	Complete    bool            // every lane is over: Counts is final
	Counts      workflow.Counts // of the lanes that are over; of all when Complete
	Cost        workflow.Cost   // of the packs, when Complete
	NextCheckAt time.Time       // the earliest time at which something waiting should be checked; zero for none
	Offered     bool            // jobs that have waited to be claimed for that long were sent once more
	Unclaimed   bool            // jobs have waited to be claimed for longer than policy allows
	Skipped     int             // of a step run in a pipeline, when Complete
	Unmet       int             // of a step run in a pipeline, when Complete: entities that an assertion failed
	HasUpdates  bool            // some job asks for updates of entities, when Complete
	Breaks      bool            // of a step run with one lane, when Complete: a job has answered BREAK
	Brief       bool            // of Counts, only Failed and Unknown are set; NeedFailure has the rest

	UnmetFailure *workflow.Failure // of the first of these
	Doubt        *workflow.Failure // of the first job of which nobody knows whether, or how far, it was executed; nil for none, and where it has not been looked for

	// Next is the label of the step that the block of a global step has named, and Goto where
	// that is.
	Next string
	Goto *spec.Target

	// Result is what the only job of a step run has given; ResultRef says where that is stored if it
	// is large.
	Result    json.RawMessage
	ResultRef *workflow.PayloadRef

	// Wait is what the block of a global step asks to wait for, and Question the JSON of a Question
	// if that is input.
	Wait     *workflow.AskedWait
	Question *workflow.Value

	// Problem fails the step run before its jobs are over: an assertion of a later
	// step of a pipeline is false, or a job asks to update an entity that the
	// execution does not hold.
	Cause   workflow.Cause
	Problem *workflow.Failure
}

// CheckBy sets NextCheckAt to the given time if that is earlier.
func (r *Report) CheckBy(at time.Time) {
	if r.NextCheckAt.IsZero() || at.Before(r.NextCheckAt) {
		r.NextCheckAt = at
	}
}

// Command is a request of an operator, or an order of the engine, to the execution.
type Command struct {
	Kind     CommandKind
	Actor    string
	Reason   string
	Source   string                // of a cancellation
	Rollback workflow.RollbackMode // of a cancellation; of a retry: RollbackAuto to go on with the rollback that has failed
	Cascade  bool                  // of a cancellation: also cancel the child that the execution waits for
	FromStep string                // of a retry: label of the step to begin with, empty for the step that failed; of a rewind, the step to go back to; of a resume, the step that waits, if it names one
	Entities string                // of a retry: "failed" or "all"; empty for "all" after a rollback and "failed" otherwise

	Only []workflow.EntityKey // of acknowledge and unlock: the entities to release; none for all

	RerunBy string // of a rerun: id of the execution that repeats this one

	Answer *Answer // of CommandAnswer
	Tokens *Tokens // of CommandIssueToken and CommandRevoke

	Sequence int64 // of CommandNext: the number of the event with which the wait began, 0 for the one that is open
	All      bool  // of CommandNext: enter this and all later steps
	Force    bool  // of CommandRewind: even if something was changed since; of CommandRetry: even if results that it keeps are outdated
}

// Tokens says which tokens are made or revoked.
type Tokens struct {
	StepRunSeq int
	For        string    // by this name its bearer answers
	ExpiresAt  time.Time // zero for never
}

// Answer is what somebody answers to a step run that waits. Which step run that is was settled
// when the request first looked at the execution, and stays so.
type Answer struct {
	StepRunSeq int
	Named      bool   // the request names the step run: the same key was given to another one by another request
	Key        string // see workflow.AnswerKey
	Digest     string // see workflow.AnswerDigest
	Next       bool   // in step mode: once it decides, the execution enters the step that follows

	ByToken    bool   // TokenBy, Generation and ExpiresAt are those of the token
	TokenBy    string // who has made it
	Generation int64
	ExpiresAt  time.Time // zero for never
}

// SignalCheck says whether a signal is what a step run waits for, and what it brings.
type SignalCheck struct {
	Fits  bool
	Value *workflow.Value
}

// AnswerCheck says whether an answer is one: its sender may answer, and its value matches the
// schema. If not, Problem is the refusal.
type AnswerCheck struct {
	StepRunSeq int
	Problem    error
	Rejects    bool
	Value      *workflow.Value
}

// CommandKind is the kind of a command.
type CommandKind string

// The commands. CommandBreak is given by the engine when it cannot continue and
// repeating would not help.
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

// verb is what the command does with an execution, for messages.
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
	StepRunSeq int // of the step run that is, or will be, planned, reported, or has a child
	StepIndex  int // of NeedPlan: index in the program; of an ACQUIRE, index of the acquisition
	Undoes     int // of NeedPlan: StepRunSeq of the step run to undo, 0 for a step

	ExecutionFails bool // of NeedOutcomes: no entity succeeds, because the execution does not

	Signal     string // of NeedSignal: its id
	Level      int    // of NeedEscalated
	Acquire    bool   // of NeedPlan: a call of a block's acquire
	Iteration  int    // of NeedPlan: which repetition
	Pipeline   int    // of NeedPlan: StepRunSeq of the first step run of its pipeline
	OnlyFailed bool   // of NeedPlan: without the entities whose job ended with OK in an earlier try
	Try        int    // of NeedPlan
	Resumes    int    // of NeedPlan
	In, Index  int    // of NeedPlan, and of NeedAgain: as of a step run in the loop
}

// StepRun is the step run of a need, with the fields that the need knows.
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

// NeedForPlan is the need for the plan of a step run.
func NeedForPlan(r *workflow.StepRun) Need {
	return Need{
		Kind: NeedPlan, StepRunSeq: r.Seq, StepIndex: r.StepIndex, Undoes: r.Undoes, Acquire: r.Kind == workflow.JobAcquire,
		Iteration: r.Iteration, Pipeline: r.Pipeline, OnlyFailed: r.OnlyFailed, Try: r.Try, In: r.In, Index: r.Index, Resumes: r.Resumes,
	}
}

// NeedKind is the kind of a needed fact.
type NeedKind string

// The facts that can be needed. Some are fetched by work on other items than the
// execution's own: NeedReadiness, NeedBlocker, NeedLocks, NeedClose and others. All of
// that work is conditional and may be repeated.
const (
	NeedCheckIn        NeedKind = "checkIn" // a CheckIn, after taking the key if that is free, or handing the signals over
	NeedParent         NeedKind = "parent"  // whether the step run of the parent waits for the execution
	NeedResolution     NeedKind = "resolution"
	NeedReadiness      NeedKind = "readiness" // after registering with every entity that the condition reads
	NeedCondition      NeedKind = "condition" // the same for the condition for which StepRunSeq waits
	NeedAnswer         NeedKind = "answer"    // an AnswerCheck of the command for StepRunSeq
	NeedEscalated      NeedKind = "escalated" // that the executions up to Level have been started
	NeedSignal         NeedKind = "signal"    // a SignalCheck of Signal for StepRunSeq
	NeedDiscovery      NeedKind = "discovery"
	NeedBlocker        NeedKind = "blocker"
	NeedLocks          NeedKind = "locks"
	NeedPlan           NeedKind = "plan"
	NeedReport         NeedKind = "report"
	NeedRoute          NeedKind = "route"          // a Route: StepRunSeq has failed, and StepIndex may handle it
	NeedJoin           NeedKind = "join"           // a Join
	NeedOutput         NeedKind = "output"         // the output of the execution, which completes
	NeedAgain          NeedKind = "again"          // an Again: the loop StepRunSeq has executed its steps once more
	NeedFailure        NeedKind = "failure"        // a Report with the first failure of those lanes that are over
	NeedClose          NeedKind = "close"          // a Report, after stopping jobs that have not started
	NeedChild          NeedKind = "child"          // the status of a child, after starting it if it does not exist
	NeedChildClose     NeedKind = "childClose"     // the status of a child, whose step run is closed, after telling it so if it is not over
	NeedChildren       NeedKind = "children"       // a ChildSet; if the timer has fired, after starting those that may be started and noting those that are over
	NeedFailedChildren NeedKind = "failedChildren" // a ChildSet that is Checked: after reading those that did not end well
	NeedChildrenClose  NeedKind = "childrenClose"  // a ChildSet of a step run that is closed, after reading all and telling those that are not over
	NeedEntities       NeedKind = "entities"       // the scope, with places
	NeedKeptJobs       NeedKind = "keptJobs"       // a KeptJobs
	NeedOutdated       NeedKind = "outdated"       // an Outdated of the new try, which has still to take its locks
	NeedOutcomes       NeedKind = "outcomes"       // what the execution has made of its entities
	NeedHandedOn       NeedKind = "handedOn"       // how far the events have been handed on to those who observe
	NeedUpdatesApplied NeedKind = "updatesApplied" // that the updates of entities are in the inventory
	NeedUnreferenced   NeedKind = "unreferenced"   // whether the parent can no longer ask for the execution
	NeedDiscarded      NeedKind = "discarded"      // that the items stored apart from the state item may be dropped
)

// Policy is the configuration that decisions depend on.
type Policy struct {
	PollInterval    time.Duration // longest time between two wake-ups of an execution that waits
	LockTimeout     time.Duration // how long an execution may wait for its locks
	StartTimeout    time.Duration // how long an execution may wait for its condition, if the definition does not say
	MessageLifetime time.Duration // how long the message of a pack may be worked on
	PackSize        int           // jobs per pack of a large step of a repeatable block
	MinPackedJobs   int           // steps with fewer jobs use packs of one
	MaxStepRuns     int           // step runs per execution
	Retention       time.Duration // how long an ended execution that needs no operator is kept; 0 is for ever
	MinFencingToken int64         // lock tokens are greater; it increases when the tables are restored
}

// Decision is what has to happen next.
type Decision struct {
	// Need is set if a fact is missing. Uncommitted is the execution as decided so far:
	// the fact has to be fetched for that state, which is not committed. Nothing else
	// is set then.
	Need        *Need
	Uncommitted *workflow.Execution

	// Next is the state to commit, nil if there is nothing to write. WakeWaiters asks
	// the commit to remove the waiters and wake them.
	Next        *workflow.Execution
	WakeWaiters bool

	// Consumed are the ids of signals that the commit takes out of the mailbox. DependsOnSignals
	// makes the commit depend on that no signal has come since the execution was read: it moves
	// to a state that accepts none, decides that one has not come in time, or begins to wait for
	// one, whose wake-up may have come before.
	Consumed         []string
	DependsOnSignals bool

	// CommandPending says that the command has not been decided: something that was due comes
	// first, and is committed alone. Decide has to be called again with the command.
	CommandPending bool

	// LimitReached says that a limit ends an execution that would not end by itself.
	LimitReached bool

	// DispatchSeq is the StepRunSeq of the step run whose packs have to be sent, or
	// whose child has to be started, once Next is committed; 0 for none. If the step run
	// has ended, it was closed, and the rest of its pipeline goes on without it.
	DispatchSeq int

	// Idle says that nothing is left to do until a message arrives or the timer fires.
	// Otherwise Decide has to be called again with what was committed.
	Idle bool
}
