// Package views holds the requests and responses of the HTTP API: requests, filters, and how
// executions, steps, locks and costs are shown. Their JSON is the wire format. They consist of the
// types of package workflow, and shared/engine/query fills them.
//
// Every field of a view is always present. What is unknown or does not apply is null. A list or map
// without members is empty and never null.
package views

import (
	"encoding/json"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/statemachines"
)

// ExecutionView is one execution.
type ExecutionView struct {
	ID         string                       `json:"id"`
	Workflow   workflow.Ref                 `json:"workflow"` // exact
	State      statemachines.ExecutionState `json:"state"`
	Status     statemachines.Status         `json:"status"`
	Outcome    *workflow.Outcome            `json:"outcome"` // null until it has ended
	Cause      *workflow.Cause              `json:"cause"`
	Reason     string                       `json:"reason"`
	RolledBack bool                         `json:"rolledBack"`
	// FailedRollback is the failed rollback of an execution that ended FAILED_UNSAFE; null for any
	// other.
	FailedRollback *FailedRollback `json:"failedRollback"`

	Remains  *string                `json:"remains"`  // of one that ended FAILED_UNSAFE: what may be left, and why it was not undone
	Rollback *workflow.RollbackMode `json:"rollback"` // requested by its start; null means that of the definition

	Limits *ExecutionLimits `json:"limits"` // null without any

	Region *string `json:"region"` // whose pools get its jobs

	EntityOutcomes map[workflow.EntityOutcome]int `json:"entityOutcomes"` // number of entities by outcome
	FailedEntities []workflow.EntityFailure       `json:"failedEntities"` // the first ten, the worst outcomes first
	FailedSteps    []FailedStep                   `json:"failedSteps"`    // of an execution that completed in part: the first ten, in the order in which they were entered
	Kept           *int                           `json:"kept"`           // number of entities whose locks it still holds after its end; null before
	Acknowledged   *workflow.Acknowledgements     `json:"acknowledged"`
	Probe          bool                           `json:"probe"`    // only the pure steps at its beginning are executed
	Key            *string                        `json:"key"`      // business key
	KeyOwner       *string                        `json:"keyOwner"` // execution id: that execution had the key, so this one gave way to it
	RerunOf        *string                        `json:"rerunOf"`  // execution id
	RerunBy        []string                       `json:"rerunBy"`  // execution ids, the last ten

	// FollowUpOf is the execution one of whose events has started this one, and FollowUp the one
	// that its own last end has started, as its definition says. FollowUpFailure says why that has
	// not been possible so far. Lists have neither.
	FollowUpOf      *string          `json:"followUpOf"`
	FollowUp        *string          `json:"followUp"`
	FollowUpFailure *FollowUpFailure `json:"followUpFailure"`

	Parameters   json.RawMessage        `json:"parameters"` // null in lists if they are stored outside of the state item
	Output       json.RawMessage        `json:"output"`     // what it has given; null before it has completed, and in lists if it is stored outside of the state item
	Labels       map[string]string      `json:"labels"`
	Metadata     json.RawMessage        `json:"metadata"` // null without any, and whenever parameters is
	Tenant       string                 `json:"tenant"`
	CreatedBy    string                 `json:"createdBy"`
	CreatedAt    time.Time              `json:"createdAt"`
	UpdatedAt    time.Time              `json:"updatedAt"` // of the last event of its history
	StartedAt    *time.Time             `json:"startedAt"`
	EndedAt      *time.Time             `json:"endedAt"`
	CurrentStep  *string                `json:"currentStep"`
	Entities     map[string]int         `json:"entities"` // number of entities by type
	Dropped      Dropped                `json:"dropped"`
	Progress     Progress               `json:"progress"`
	Waiting      *Waiting               `json:"waiting"`
	Error        *FailureView           `json:"error"`
	Cancellation *workflow.Cancellation `json:"cancellation"`
	Parent       *string                `json:"parent"`
	Compensates  *workflow.Compensated  `json:"compensates"` // what it undoes; null if it is no compensation
	Item         *int                   `json:"item"`        // if it was started for an item of a list: the number of the item, from 0
	ChildSets    []ChildSetView         `json:"childSets"`
	Children     []string               `json:"children"` // in the order in which they were started

	// Unacknowledged are the first ten executions that it has started, in any try, and that wait to
	// be acknowledged: they ended unsafely, or were cancelled after they had changed something, and
	// keep their locks until then. Lists leave them out.
	Unacknowledged []UnacknowledgedChild `json:"unacknowledged"`

	// UnacknowledgedMore says that there are more, or may be: it has started so many that did not
	// end well that not all of them have been looked at.
	UnacknowledgedMore bool `json:"unacknowledgedMore"`

	Blocks        map[string]string `json:"blocks"` // reference as written -> version in use
	Try           int               `json:"try"`
	Version       int64             `json:"version"`
	EngineVersion string            `json:"engine"` // version of the engine that wrote it last

	// IdempotencyExpiresAt is how long the idempotency key that found it is remembered. It is only
	// in the list for a key, since the execution does not know it.
	IdempotencyExpiresAt *time.Time `json:"idempotencyExpiresAt"`
}

// UnacknowledgedChild is an execution that a step has started, and that waits to be acknowledged.
type UnacknowledgedChild struct {
	ID       string                       `json:"id"`
	Step     string                       `json:"step"` // label
	Item     *int                         `json:"item"` // number of its item in the list of the step, from 0; null without a list
	ItemText *string                      `json:"itemText"`
	State    statemachines.ExecutionState `json:"state"`
}

// ExecutionLimits are the limits of an execution over all its tries, of its definition or its start;
// null for none. StepRuns is how many of the step runs it has had.
type ExecutionLimits struct {
	Steps    *int               `json:"steps"`
	StepRuns int                `json:"stepRuns"`
	Wall     *workflow.Duration `json:"wall"` // time since it was created
}

// FollowUpFailure is the last attempt to start what the end of an execution starts. RetryAt is when it is tried
// again, nil if it is not: if DeadLetter, once an operator redrives the dead letters.
type FollowUpFailure struct {
	At         time.Time  `json:"at"`
	Attempts   int        `json:"attempts"`
	Error      string     `json:"error"`
	RetryAt    *time.Time `json:"retryAt"`
	DeadLetter bool       `json:"deadLetter"`
}

// FailedRollback is a rollback that has failed. If a compensating execution failed, Execution is
// its id, State how it ended, and Entities are the first entities of the execution that it was to
// undo, which lists leave out. If a block was to undo the step, the first two are null, and
// Entities are the named entities that the step has left unsafe. Obstacle is the reason why the
// rollback cannot be retried, and null if it can.
type FailedRollback struct {
	Step      string                        `json:"step"` // label of the first step that failed to be undone
	Execution *string                       `json:"execution"`
	State     *statemachines.ExecutionState `json:"state"`
	Entities  []string                      `json:"entities"`
	Obstacle  *string                       `json:"obstacle"`
}

// FailedStep is a step that failed although its execution completed: the failure was tolerated, or
// it stopped a rollout. Jobs counts the jobs that failed, Unmet the entities that got no job
// because an assertion is not true for them. Failure is the first failure, or null if nothing is
// known, as for a failure in an execution that the step has started.
type FailedStep struct {
	Step    string       `json:"step"`  // label
	Visit   int          `json:"visit"` // run of the step, from 1
	Jobs    int          `json:"jobs"`
	Unmet   int          `json:"unmet"`
	Failure *FailureView `json:"failure"`

	// Because says how it comes that the execution has completed all the same. Child is the
	// execution that the step has started, nil if it has started none, or several.
	Because FailureLeft `json:"because"`
	Child   *ChildView  `json:"child"`
}

// FailureLeft is why an execution completes although a step of it failed.
type FailureLeft string

// The reasons.
const (
	LeftTolerated       FailureLeft = "TOLERATED"         // failureTolerance
	LeftContinueOnError FailureLeft = "CONTINUE_ON_ERROR" // of the step, or of one around it
	LeftBranch          FailureLeft = "BRANCH"            // allowPartial of the parallel step around it
	LeftRollout         FailureLeft = "ROLLOUT"           // the rollout around it has stopped
	LeftChild           FailureLeft = "CHILD"             // it has ended well, and something in the execution that it has started failed
)

// Dropped are the entities that an execution left out because they were locked: their number, and
// the first of them.
type Dropped struct {
	Count    int          `json:"count"`
	Blockers []WaitingFor `json:"for"`
}

// Progress counts the latest attempts of the EXECUTE jobs of the steps entered so far. AsOf is when
// the packs were read; it is null in lists, where they are not read.
type Progress struct {
	Jobs  JobCounts    `json:"jobs"`
	Steps StepProgress `json:"steps"`
	AsOf  *time.Time   `json:"asOf"`

	// Percent is the mean progress that the running jobs of the last open step report, and Message
	// the text of the job that reported last. They are null if no job reports any, and in lists.
	Percent *float64 `json:"percent"`
	Message *string  `json:"message"`
}

// JobCounts is the number of jobs by state. Total, Completed and Failed are always counted. The
// others are null in lists of executions, where counting them would read every pack.
type JobCounts struct {
	Total     int  `json:"total"`
	Pending   *int `json:"pending"`
	Claimed   *int `json:"claimed"`
	Running   *int `json:"running"`
	Completed int  `json:"completed"`
	Failed    int  `json:"failed"`
	Cancelled *int `json:"cancelled"`
	Unknown   *int `json:"unknown"`
}

// StepProgress counts the steps of a definition and those that are over.
type StepProgress struct {
	Total int `json:"total"`
	Done  int `json:"done"`
}

// Waiting is what an execution waits for and since when.
type Waiting struct {
	Kind      workflow.WaitKind `json:"kind"`
	Since     time.Time         `json:"since"`
	Until     *time.Time        `json:"until"`              // when the wait ends by itself or times out; null for never
	Step      *string           `json:"step"`               // label
	Condition *string           `json:"condition"`          // of CONDITION: what has to become true
	Child     *string           `json:"child"`              // of CHILD and CHILD_INPUT: execution id
	Sequence  *int64            `json:"sequence,omitempty"` // of STEP and HOLD: number of the event with which it began
	Pool      *string           `json:"pool"`               // of WORKER: the pool whose workers it waits for
	Reason    *string           `json:"reason"`             // of ENGINE: why the execution cannot be advanced; of ACKNOWLEDGE: that it holds no locks any more; of LOCK: that the holder has ended and waits for an operator; of KEY: who has it
	Blockers  []WaitingFor      `json:"for"`                // of LOCK; of KEY, without entity
	Signal    string            `json:"signal,omitempty"`   // of SIGNAL: its name
	Unfit     int               `json:"unfit,omitempty"`    // of SIGNAL: signals taken that did not fit
	Answers   *int              `json:"answers,omitempty"`  // of INPUT: how many people have answered
	Need      *int              `json:"need,omitempty"`     // of INPUT: how many have to
	All       []StepWaiting     `json:"all,omitempty"`      // all that its steps wait for, in all branches, also what stands above
}

// StepWaiting is what one step of an execution waits for.
type StepWaiting struct {
	Kind  workflow.WaitKind `json:"kind"`
	Step  string            `json:"step"`  // label
	Until *time.Time        `json:"until"` // nil for a child
	Child *string           `json:"child"` // of CHILD, unless there are several, and of CHILD_INPUT
}

// WaitingFor is one blocker: an entity that another execution holds or has reserved. Fields that do
// not apply to the kind of wait are null.
type WaitingFor struct {
	Entity     *string    `json:"entity"` // "type/id"
	HeldBy     *string    `json:"heldBy"`
	ReservedBy *string    `json:"reservedBy"`
	Since      *time.Time `json:"since"`
}

// FailureView is a [workflow.Failure].
type FailureView struct {
	Code    string          `json:"code"`
	Message string          `json:"message"`
	Step    *string         `json:"step"`
	Entity  *string         `json:"entity"` // "type/id"
	Details json.RawMessage `json:"details"`
}

// NewFailureView returns the view of a failure, nil for nil.
func NewFailureView(f *workflow.Failure) *FailureView {
	if f == nil {
		return nil
	}
	return &FailureView{Code: f.Code, Message: f.Message, Step: nilIfZero(f.Step), Entity: nilIfZero(f.Entity), Details: f.Details}
}

// nilIfZero returns nil for a zero value, otherwise a pointer to it.
func nilIfZero[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}

// StatusView is the status contract of NoETL, with its field names: the lifecycle of an execution,
// without its data.
type StatusView struct {
	ExecutionID        string               `json:"execution_id"`
	State              statemachines.Status `json:"state"`
	CurrentStep        *string              `json:"current_step"`
	StartedAt          *time.Time           `json:"started_at"`
	EndedAt            *time.Time           `json:"ended_at"`
	TerminalEvent      *string              `json:"terminal_event"` // execution.completed, .failed_safe, .failed_unsafe, .cancelled
	CompletionInferred bool                 `json:"completion_inferred"`
}

// StepView is one step run, one call of a block's acquire, or one wave of a rollback.
type StepView struct {
	Sequence   int                     `json:"sequence"` // unique within the execution, in order of entry
	Step       string                  `json:"step"`     // label; OUTER.INNER within an embedded definition
	Try        int                     `json:"try"`
	Ordinal    int                     `json:"visit"`
	Iteration  *int                    `json:"repeat"`     // repetition, from 1; null without repeat
	Kind       *workflow.JobKind       `json:"kind"`       // null for a step without jobs of its own
	Wave       *int                    `json:"wave"`       // of a rollback, from 1
	Pipeline   *int                    `json:"stretch"`    // sequence of the first step run of its per-entity pipeline
	Superseded bool                    `json:"superseded"` // a later try executes it again
	Child      *ChildView              `json:"child"`      // the execution that it has started
	Children   *ChildSetView           `json:"children"`   // those that it has started for the items of a list
	Status     statemachines.StepState `json:"status"`
	Block      *string                 `json:"block"` // exact reference
	EnteredAt  time.Time               `json:"enteredAt"`
	EndedAt    *time.Time              `json:"endedAt"`
	Jobs       JobCounts               `json:"jobs"`
	Skipped    int                     `json:"skipped"` // entities whose condition was not true
	Error      *FailureView            `json:"error"`
	Value      json.RawMessage         `json:"value"`      // output of a step without jobs; null for none
	Route      *StepCase               `json:"route"`      // of a switch: the case that was taken
	Handled    *HandledCase            `json:"handled"`    // the case of onFailure that handles the failure
	CaseErrors []CaseError             `json:"caseErrors"` // the first conditions of cases that had no value, and so were not true
	Next       *string                 `json:"next"`       // label, or "end": where the execution continued, unless with the next step
	Rollout    *StepWave               `json:"rollout"`    // of a rollout, and of the step runs in its waves
	Wait       *StepWait               `json:"wait"`       // null if it has never waited
	Kept       *KeptBranches           `json:"kept"`       // of a step with branches: those that a retry has not executed again

	Within *int    `json:"within"` // sequence of the innermost surrounding step run with branches or rounds
	Branch *string `json:"branch"` // label of the innermost branch that it is in
	Index  *int    `json:"index"`  // round of the innermost surrounding loop, from 0
	Item   *string `json:"item"`   // a short form of the item of that round
}

// KeptBranches are the branches of an earlier step run that ended well, and that this one has not
// executed again.
type KeptBranches struct {
	Of       int      `json:"of"` // sequence of the earlier step run
	Branches []string `json:"branches"`
}

// StepWait is what a step run waits for, or has waited for.
type StepWait struct {
	Kind    workflow.WaitKind `json:"kind"`
	Since   time.Time         `json:"since"`
	Until   time.Time         `json:"until"`            // when the wait ends by itself, or its deadline
	Reason  *string           `json:"reason"`           // the question to people, or why the block of the step waits, or the name of the signal
	Signal  string            `json:"signal,omitempty"` // its name
	Open    bool              `json:"open"`             // it has not ended
	Lapsed  bool              `json:"lapsed"`           // its deadline came first
	Asked   bool              `json:"asked"`            // by the block of the step, which is called again after the wait
	Need    int               `json:"need"`             // how many people have to answer, 0 if none
	Answers []AnswerView      `json:"answers"`          // so far
	Unfit   int               `json:"unfit"`            // signals taken that did not fit
}

// StepWave is the wave of a rollout in which a step run was entered. For the rollout itself it is
// the wave that is executed now or was last, 0 before the first.
type StepWave struct {
	Number    int  `json:"wave"`      // from 1
	Of        int  `json:"of"`        // number of waves
	Entities  int  `json:"entities"`  // in this one
	StoppedAt *int `json:"stoppedAt"` // of a stopped rollout: its first wave that failed
}

// StepCase is one case of a switch or of onFailure.
type StepCase struct {
	Number int     `json:"case"` // from 1
	When   *string `json:"when"` // null: always
}

// CaseError explains why the condition of a case has no value.
type CaseError struct {
	Step    string  `json:"step"` // label of the step with the switch or the onFailure
	Number  int     `json:"case"` // from 1
	When    *string `json:"when"`
	Message *string `json:"message"` // shortened; null if there was no room for it
}

// HandledCase is the case of onFailure that handles a failure, and the label of the step with the
// onFailure.
type HandledCase struct {
	Step   string  `json:"step"`
	Number int     `json:"case"` // from 1
	When   *string `json:"when"` // null: always
}

// ChildView is an execution that a step has started.
type ChildView struct {
	ID       string                        `json:"id"`
	Workflow workflow.Ref                  `json:"workflow"` // exact
	Mode     workflow.ReferenceMode        `json:"mode"`
	State    *statemachines.ExecutionState `json:"state"` // as last read by its parent
}

// ChildSetView is the executions that a step has started for the items of a list.
type ChildSetView struct {
	Step     string                 `json:"step"`     // label
	Sequence int                    `json:"sequence"` // of the step run
	Workflow workflow.Ref           `json:"workflow"` // exact
	Mode     workflow.ReferenceMode `json:"mode"`
	Total    int                    `json:"total"`   // number of executions in the end
	AtATime  int                    `json:"atATime"` // how many may run at a time
	Done     *int                   `json:"done"`    // how many have ended; null in lists
	Failed   *int                   `json:"failed"`  // how many of these have failed; null in lists
	Asking   int                    `json:"asking"`  // how many wait for a person; counts up to 32
}

// ChildExecutionView is an execution that a step has started, as it is now.
type ChildExecutionView struct {
	ID         string `json:"id"`
	Step       string `json:"step"`     // label of the step that started it
	Sequence   int    `json:"sequence"` // of the step run
	Try        int    `json:"try"`      // of the execution that started it
	Superseded bool   `json:"superseded"`

	Compensates *string `json:"compensates"` // id of the execution that it compensates; null if it is no compensation

	Workflow   workflow.Ref                  `json:"workflow"` // exact
	Mode       workflow.ReferenceMode        `json:"mode"`
	State      *statemachines.ExecutionState `json:"state"`  // null if it never began or was deleted
	Status     *statemachines.Status         `json:"status"` // like State
	Outcome    *workflow.Outcome             `json:"outcome"`
	Waiting    *Waiting                      `json:"waiting"`
	Output     json.RawMessage               `json:"output"`     // its output for the step that waited for it; null before it has completed
	Item       *int                          `json:"item"`       // number of its item in the list, from 0; null if the step started only this one
	ItemText   *string                       `json:"itemText"`   // a short form of that item
	Started    *int                          `json:"started"`    // number of executions that it has started itself, as far as known
	Parameters json.RawMessage               `json:"parameters"` // null if they are stored separately because they are large, or if it never began
}

// ResultView is the results of an execution: of the last run of each step, by label.
type ResultView struct {
	ExecutionID string                       `json:"executionId"`
	State       statemachines.ExecutionState `json:"state"`
	Status      statemachines.Status         `json:"status"`
	Output      json.RawMessage              `json:"output"` // as the definition computes it, after completion
	Steps       map[string]StepResult        `json:"steps"`
	Truncated   bool                         `json:"truncated"` // the results exceed the size of one response; /jobs has them all
}

// StepResult has Result for a global step, and Results by entity id for other steps.
type StepResult struct {
	Status  statemachines.StepState    `json:"status"`
	Ordinal int                        `json:"visit"`
	RunOn   string                     `json:"runOn"` // entity type, or "global"
	Result  json.RawMessage            `json:"result"`
	Results map[string]json.RawMessage `json:"results"`
}

// PinnedDefinition is the definition that an execution uses, as it was published. Blocks and
// Workflows are the versions to which the execution is pinned, by reference as written; they are
// empty until it is VALID. Workflows has the definitions that are embedded as well as those that
// steps start, including nested ones.
type PinnedDefinition struct {
	Workflow    workflow.Ref      `json:"workflow"` // exact
	Digest      string            `json:"digest"`   // of the canonical source
	PublishedAt time.Time         `json:"publishedAt"`
	Definition  json.RawMessage   `json:"definition"` // the source
	Workflows   map[string]string `json:"workflows"`
	Blocks      map[string]string `json:"blocks"`
}

// CostView is what an execution has consumed, and what that costs.
type CostView struct {
	ExecutionID    string             `json:"executionId"`
	WriteUnits     map[string]float64 `json:"writeUnits"` // by table
	ReadUnits      map[string]float64 `json:"readUnits"`  // by table
	DynamoRequests int                `json:"requests"`   // to DynamoDB
	QueueRequests  float64            `json:"queueRequests"`
	Invocations    float64            `json:"invocations"`
	Lines          []CostLine         `json:"lines"`
	Dollars        float64            `json:"dollars"`
	PricesAsOf     string             `json:"pricesAsOf"` // date of the price table
}

// CostLine is one line of a bill.
type CostLine struct {
	Item     string  `json:"what"`
	Quantity float64 `json:"quantity"`
	Unit     string  `json:"unit"`
	Dollars  float64 `json:"dollars"`
}

// EntityExecutionView is an execution that has locked an entity. If the execution was deleted
// since, only its id is known, and the other fields are null.
type EntityExecutionView struct {
	ID            string                        `json:"id"`
	Workflow      *workflow.Ref                 `json:"workflow"` // exact
	State         *statemachines.ExecutionState `json:"state"`
	Status        *statemachines.Status         `json:"status"`
	Outcome       *workflow.Outcome             `json:"outcome"`       // null until it has ended
	EntityOutcome *workflow.EntityOutcome       `json:"entityOutcome"` // of this entity; null until the execution has ended, and if it is not stored
	CreatedAt     *time.Time                    `json:"createdAt"`
	EndedAt       *time.Time                    `json:"endedAt"`
}

// FailedEntityView is an entity that did not succeed in an execution. Step, Code and Message give
// the reason if the execution stores it, as it does for the first ten.
type FailedEntityView struct {
	Entity         string                 `json:"entity"` // "type/id"
	Outcome        workflow.EntityOutcome `json:"outcome"`
	Execution      string                 `json:"execution"`
	Workflow       workflow.Ref           `json:"workflow"` // exact
	EndedAt        *time.Time             `json:"endedAt"`
	Step           *string                `json:"step"` // label
	Code           *string                `json:"code"`
	Message        *string                `json:"message"`
	SucceededLater *string                `json:"succeededLater"` // id of a later execution in which the entity succeeded
}

// LockView is one lock. HeldBy and Since are null if no execution holds it. SharedWith names the other
// executions that hold it; it is empty in a list, which has an item for each of them.
type LockView struct {
	Entity     workflow.EntityKey `json:"entity"`
	HeldBy     *string            `json:"heldBy"`
	SharedWith []string           `json:"sharedWith"`
	ReservedBy *string            `json:"reservedBy"`
	Since      *time.Time         `json:"since"`
	Token      int64              `json:"token"`
	Mode       string             `json:"mode"` // exclusive or shared
	Waiting    []Waiter           `json:"waiting"`
}

// Waiter is an execution that waits for a lock.
type Waiter struct {
	Execution string     `json:"execution"`
	Since     *time.Time `json:"since"`
}
