// Package views holds the requests and answers of the HTTP API: requests, filters, and how
// executions, steps, locks and costs are shown. Their JSON is the wire form. They are made
// of the nouns of package workflow, and shared/engine/query fills them.
//
// Every field of a view is always present. What is unknown or does not apply is null. A
// list or map without members is empty and never null.
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
	// FailedRollback is what has failed to be undone of one that ended FAILED_UNSAFE; null for any other.
	FailedRollback *FailedRollback `json:"failedRollback"`

	Remains  *string                `json:"remains"`  // of one that ended FAILED_UNSAFE: what may be left, and why it was not undone
	Rollback *workflow.RollbackMode `json:"rollback"` // that its start asked for; null for that of the definition

	Region *string `json:"region"` // whose pools get its jobs

	EntityOutcomes map[workflow.EntityOutcome]int `json:"entityOutcomes"` // number of entities by outcome
	FailedEntities []workflow.EntityFailure       `json:"failedEntities"` // the first ten, the worst outcomes first
	FailedSteps    []FailedStep                   `json:"failedSteps"`    // of one that completed in part: the first ten, in the order in which they were entered
	Kept           *int                           `json:"kept"`           // entities whose locks it still holds after its end; null before
	Acknowledged   *workflow.Acknowledgement      `json:"acknowledged"`
	Probe          bool                           `json:"probe"`    // only the pure steps at its beginning are executed
	Key            *string                        `json:"key"`      // business key
	KeyOwner       *string                        `json:"keyOwner"` // execution id: it had the key, and this execution gave way to it
	RerunOf        *string                        `json:"rerunOf"`  // execution id
	RerunBy        []string                       `json:"rerunBy"`  // execution ids, the last ten

	Parameters    json.RawMessage        `json:"parameters"` // null in lists if they are stored apart from the state item
	Labels        map[string]string      `json:"labels"`
	Metadata      json.RawMessage        `json:"metadata"` // null without any, and where parameters are
	Tenant        string                 `json:"tenant"`
	CreatedBy     string                 `json:"createdBy"`
	CreatedAt     time.Time              `json:"createdAt"`
	UpdatedAt     time.Time              `json:"updatedAt"` // of the last event of its history
	StartedAt     *time.Time             `json:"startedAt"`
	EndedAt       *time.Time             `json:"endedAt"`
	CurrentStep   *string                `json:"currentStep"`
	Entities      map[string]int         `json:"entities"` // number of entities by type
	Dropped       Dropped                `json:"dropped"`
	Progress      Progress               `json:"progress"`
	Waiting       *Waiting               `json:"waiting"`
	Error         *FailureView           `json:"error"`
	Cancellation  *workflow.Cancellation `json:"cancellation"`
	Parent        *string                `json:"parent"`
	Compensates   *workflow.Compensated  `json:"compensates"` // what it undoes; null for one that undoes nothing
	Item          *int                   `json:"item"`        // of one that was started for an item of a list: its number, from 0
	ChildSets     []ChildSetView         `json:"childSets"`
	Children      []string               `json:"children"` // in the order in which they were started
	Blocks        map[string]string      `json:"blocks"`   // reference as written -> version that is used
	Try           int                    `json:"try"`
	Version       int64                  `json:"version"`
	EngineVersion string                 `json:"engine"` // version of the engine that wrote it last

	// IdempotencyExpiresAt is how long the key by which it was found is remembered: only in the list of a key,
	// since the execution does not know it.
	IdempotencyExpiresAt *time.Time `json:"idempotencyExpiresAt"`
}

// FailedRollback is a rollback that has failed. Execution is the one that was to undo what another has done,
// State how it ended, and Entities are the first of that other one, which are left out in lists. Where a block was
// to undo it, the first two are null, and Entities are those, of the ones that are named, that the step has left unsafe. Obstacle says why the rollback cannot be tried again, and is
// null if it can.
type FailedRollback struct {
	Step      string                        `json:"step"` // label: the first that failed to be undone
	Execution *string                       `json:"execution"`
	State     *statemachines.ExecutionState `json:"state"`
	Entities  []string                      `json:"entities"`
	Obstacle  *string                       `json:"obstacle"`
}

// FailedStep is a step whose failure an execution has left when it completed: it was tolerated, or
// it stopped a rollout. Jobs counts the jobs that failed, Unmet the entities that got none because an
// assertion is not true of them; Failure is that of the first, null if nothing is known, as of what
// failed in an execution that the step has started.
type FailedStep struct {
	Step    string       `json:"step"`  // label
	Visit   int          `json:"visit"` // which run of the step, from 1
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

// Dropped are the entities that an execution left out because they were locked: their
// number, and the first of them.
type Dropped struct {
	Count    int          `json:"count"`
	Blockers []WaitingFor `json:"for"`
}

// Progress counts the latest attempts of the EXECUTE jobs of the steps entered so far. AsOf
// is when the packs were read; it is null in lists, where they are not read.
type Progress struct {
	Jobs  JobCounts    `json:"jobs"`
	Steps StepProgress `json:"steps"`
	AsOf  *time.Time   `json:"asOf"`

	// Percent is the mean of how far the running jobs of the last open step say that they are, and
	// Message what the one of them says that has reported last. They are null if none says anything, and
	// in lists.
	Percent *float64 `json:"percent"`
	Message *string  `json:"message"`
}

// JobCounts is the number of jobs by state. Total, Completed and Failed are always counted.
// The others are null in lists of executions, where counting them would read every pack.
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

// Waiting says what an execution waits for and since when.
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
	Unfit     int               `json:"unfit,omitempty"`    // of SIGNAL: signals that it has taken and that did not fit
	Others    []OtherWait       `json:"others,omitempty"`   // what else it waits for, in other branches
}

// OtherWait is one more wait of an execution.
type OtherWait struct {
	Kind  workflow.WaitKind `json:"kind"`
	Step  string            `json:"step"`  // label
	Until *time.Time        `json:"until"` // nil for a child
	Child *string           `json:"child"` // of CHILD, unless there are several, and of CHILD_INPUT
}

// WaitingFor is one blocker: an entity that another execution holds or has reserved. Fields
// that do not apply to the kind of wait are null.
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

// NewFailureView is the view of a failure, nil for nil.
func NewFailureView(f *workflow.Failure) *FailureView {
	if f == nil {
		return nil
	}
	return &FailureView{Code: f.Code, Message: f.Message, Step: nilIfZero(f.Step), Entity: nilIfZero(f.Entity), Details: f.Details}
}

// nilIfZero is nil for a zero value, else a pointer to it.
func nilIfZero[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}

// StatusView is the status contract of NoETL, with its field names: the lifecycle of an
// execution, without its data.
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
	Iteration  *int                    `json:"repeat"`     // which repetition, from 1; null without repeat
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
	Value      json.RawMessage         `json:"value"`      // what a step without jobs has given; null for none
	Route      *StepCase               `json:"route"`      // of a switch: the case that was taken
	Handled    *HandledCase            `json:"handled"`    // the case of onFailure that handles the failure
	CaseErrors []CaseError             `json:"caseErrors"` // the first conditions of cases that had no value, and so were not true
	Next       *string                 `json:"next"`       // label, or "end": where the execution went on, if not with the step behind
	Rollout    *StepWave               `json:"rollout"`    // of a rollout, and of what is executed in its waves
	Wait       *StepWait               `json:"wait"`       // null for one that has never waited

	Within *int    `json:"within"` // sequence of the innermost step run around it that executes steps side by side or several times
	Branch *string `json:"branch"` // label of the innermost branch that it is in
	Index  *int    `json:"index"`  // for which time of the innermost loop around it, from 0
	Item   *string `json:"item"`   // a short form of the item of that time
}

// StepWait is what a step run waits for, or has waited for.
type StepWait struct {
	Kind    workflow.WaitKind `json:"kind"`
	Since   time.Time         `json:"since"`
	Until   time.Time         `json:"until"`   // when it ends by itself, or its deadline
	Reason  *string           `json:"reason"`  // what people are asked, or the name of the signal
	Open    bool              `json:"open"`    // it is not over
	Lapsed  bool              `json:"lapsed"`  // its deadline came first
	Asked   bool              `json:"asked"`   // by the block of the step, which is called again then
	Need    int               `json:"need"`    // how many people have to answer, 0 if nobody has
	Answers []AnswerView      `json:"answers"` // so far
	Unfit   int               `json:"unfit"`   // signals that it has taken and that did not fit
}

// StepWave is the wave of a rollout in which a step run was entered; of the rollout itself, the
// one that is or was executed last, 0 before the first.
type StepWave struct {
	Number    int  `json:"wave"`      // from 1
	Of        int  `json:"of"`        // how many waves there are
	Entities  int  `json:"entities"`  // in this one
	StoppedAt *int `json:"stoppedAt"` // of a rollout that has stopped: its first wave that did not end well
}

// StepCase is one case of a switch or of onFailure.
type StepCase struct {
	Number int     `json:"case"` // from 1
	When   *string `json:"when"` // null: always
}

// CaseError says why the condition of a case has no value.
type CaseError struct {
	Step    string  `json:"step"` // label of the step that has the switch or the onFailure
	Number  int     `json:"case"` // from 1
	When    *string `json:"when"`
	Message *string `json:"message"` // shortened; null if there was no room for it
}

// HandledCase is the case of onFailure that handles a failure, and the label of the step that
// has the onFailure.
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
	State    *statemachines.ExecutionState `json:"state"` // as its parent has last read it
}

// ChildSetView is the executions that a step has started for the items of a list.
type ChildSetView struct {
	Step     string                 `json:"step"`     // label
	Sequence int                    `json:"sequence"` // of the step run
	Workflow workflow.Ref           `json:"workflow"` // exact
	Mode     workflow.ReferenceMode `json:"mode"`
	Total    int                    `json:"total"`   // how many there are to be
	AtATime  int                    `json:"atATime"` // how many may be at work at a time
	Done     *int                   `json:"done"`    // how many are over; null in lists
	Failed   *int                   `json:"failed"`  // how many of these have not ended well; null in lists
	Asking   int                    `json:"asking"`  // how many wait for a person: at most 32 are counted
}

// ChildExecutionView is an execution that a step has started, as it is now.
type ChildExecutionView struct {
	ID         string `json:"id"`
	Step       string `json:"step"`     // label of the step that has started it
	Sequence   int    `json:"sequence"` // of the step run
	Try        int    `json:"try"`      // of the execution that has started it
	Superseded bool   `json:"superseded"`

	Compensates *string `json:"compensates"` // id of the execution whose work it undoes; null for one that undoes nothing

	Workflow   workflow.Ref                  `json:"workflow"` // exact
	Mode       workflow.ReferenceMode        `json:"mode"`
	State      *statemachines.ExecutionState `json:"state"`  // null if it never began, or has been removed
	Status     *statemachines.Status         `json:"status"` // likewise
	Outcome    *workflow.Outcome             `json:"outcome"`
	Waiting    *Waiting                      `json:"waiting"`
	Output     json.RawMessage               `json:"output"`     // what it gave to the step that waited for it; null for none
	Item       *int                          `json:"item"`       // the number of its item in the list, from 0; null for the only one of its step
	ItemText   *string                       `json:"itemText"`   // a short form of that item
	Started    *int                          `json:"started"`    // how many executions it has started itself, as far as that is known
	Parameters json.RawMessage               `json:"parameters"` // null if they are stored apart because they are large, or it never began
}

// ResultView is the results of an execution: of the last run of each step, by label.
type ResultView struct {
	ExecutionID string                       `json:"executionId"`
	State       statemachines.ExecutionState `json:"state"`
	Status      statemachines.Status         `json:"status"`
	Output      json.RawMessage              `json:"output"` // as the definition says, once it has completed; null if it has none
	Steps       map[string]StepResult        `json:"steps"`
	Truncated   bool                         `json:"truncated"` // the results exceed the size of one answer; /jobs has them all
}

// StepResult has Result for a global step, and Results by entity id for other steps.
type StepResult struct {
	Status  statemachines.StepState    `json:"status"`
	Ordinal int                        `json:"visit"`
	RunOn   string                     `json:"runOn"` // entity type, or "global"
	Result  json.RawMessage            `json:"result"`
	Results map[string]json.RawMessage `json:"results"`
}

// PinnedDefinition is the definition with which an execution works, as it was published. Blocks and Workflows
// are the versions to which the execution is pinned, by reference as written; they are empty until it is VALID.
// Workflows has the definitions that are embedded as well as those that steps start, the inner ones included.
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

// EntityExecutionView is an execution that has locked an entity. Of one that has been removed
// since, only the id is known, and the other fields are null.
type EntityExecutionView struct {
	ID            string                        `json:"id"`
	Workflow      *workflow.Ref                 `json:"workflow"` // exact
	State         *statemachines.ExecutionState `json:"state"`
	Status        *statemachines.Status         `json:"status"`
	Outcome       *workflow.Outcome             `json:"outcome"`       // null until it has ended
	EntityOutcome *workflow.EntityOutcome       `json:"entityOutcome"` // of this entity; null until it has ended, and if it is not kept
	CreatedAt     *time.Time                    `json:"createdAt"`
	EndedAt       *time.Time                    `json:"endedAt"`
}

// FailedEntityView is an entity that did not succeed in an execution. Step, Code and Message
// say why, if the execution keeps that: it does for its first ten.
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

// LockView is one lock. HeldBy and Since are null if no execution holds it.
type LockView struct {
	Entity     workflow.EntityKey `json:"entity"`
	HeldBy     *string            `json:"heldBy"`
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
