package views

import (
	"encoding/json"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/statemachines"
)

// The views are what the HTTP interface shows; their JSON is its wire form.
// Every field is always present: what is not known or does not apply is null,
// a list or a map without members is empty and never null.

// ExecutionView is one run as it is shown.
type ExecutionView struct {
	ID            string                       `json:"id"`
	Workflow      workflow.Ref                 `json:"workflow"` // exact
	State         statemachines.ExecutionState `json:"state"`
	Status        statemachines.Status         `json:"status"`
	Cause         *workflow.Cause              `json:"cause"`
	Reason        string                       `json:"reason"`
	RolledBack    bool                         `json:"rolledBack"`
	Parameters    json.RawMessage              `json:"parameters"` // null in lists where they live beside the state
	Labels        map[string]string            `json:"labels"`
	Tenant        string                       `json:"tenant"`
	CreatedBy     string                       `json:"createdBy"`
	CreatedAt     time.Time                    `json:"createdAt"`
	StartedAt     *time.Time                   `json:"startedAt"`
	EndedAt       *time.Time                   `json:"endedAt"`
	CurrentStep   *string                      `json:"currentStep"`
	Entities      map[string]int               `json:"entities"` // number by type
	Dropped       Dropped                      `json:"dropped"`
	Progress      Progress                     `json:"progress"`
	Waiting       *Waiting                     `json:"waiting"`
	Error         *FailureView                 `json:"error"`
	Cancellation  *workflow.Cancellation       `json:"cancellation"`
	Parent        *string                      `json:"parent"`
	Children      []string                     `json:"children"` // in the order in which they were started
	Blocks        map[string]string            `json:"blocks"`   // reference as written -> version that is used
	Try           int                          `json:"try"`
	Version       int64                        `json:"version"`
	EngineVersion string                       `json:"engine"` // version of the engine that wrote it last
}

// Dropped are the entities that a run left out because they were locked: how
// many, and the first of them.
type Dropped struct {
	Count    int          `json:"count"`
	Blockers []WaitingFor `json:"for"`
}

// Progress counts the latest attempts of the EXECUTE jobs of the steps entered
// so far. AsOf is when the packs were read; in lists, where they are not read,
// it is null.
type Progress struct {
	Jobs  JobCounts    `json:"jobs"`
	Steps StepProgress `json:"steps"`
	AsOf  *time.Time   `json:"asOf"`
}

// JobCounts is a number of jobs by state. Total, Completed and Failed are always
// counted; the others are null in lists of executions, where counting them would
// cost a read of every pack.
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

// StepProgress counts a definition's steps and those that are over.
type StepProgress struct {
	Total int `json:"total"`
	Done  int `json:"done"`
}

// WaitKind is what a run waits for.
type WaitKind string

// The kinds of waits.
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
	WaitEngine      WaitKind = "ENGINE"
)

// Waiting says what a run waits for, since when, and until when if it does not
// wait for ever.
type Waiting struct {
	Kind      WaitKind     `json:"kind"`
	Since     time.Time    `json:"since"`
	Until     *time.Time   `json:"until"`     // when it ends by itself, or gives up
	Step      *string      `json:"step"`      // label
	Condition *string      `json:"condition"` // of CONDITION: what has to become true
	Child     *string      `json:"child"`     // of CHILD: execution id
	Pool      *string      `json:"pool"`      // of WORKER: of the workers that have to come
	Reason    *string      `json:"reason"`    // of ENGINE: why looks at the run fail; of ACKNOWLEDGE: that it has no locks any more
	Blockers  []WaitingFor `json:"for"`       // of LOCK
}

// WaitingFor is one thing in the way: an entity that another run holds, or has
// reserved. Other kinds of waits may leave out what they do not have.
type WaitingFor struct {
	Entity     *string    `json:"entity"` // "type/id"
	HeldBy     *string    `json:"heldBy"`
	ReservedBy *string    `json:"reservedBy"`
	Since      *time.Time `json:"since"`
}

// FailureView is a [workflow.Failure] as it is shown.
type FailureView struct {
	Code    string          `json:"code"`
	Message string          `json:"message"`
	Step    *string         `json:"step"`
	Entity  *string         `json:"entity"` // "type/id"
	Details json.RawMessage `json:"details"`
}

// NewFailureView is the failure as it is shown; nil for nil.
func NewFailureView(f *workflow.Failure) *FailureView {
	if f == nil {
		return nil
	}
	return &FailureView{Code: f.Code, Message: f.Message, Step: nilIfZero(f.Step), Entity: nilIfZero(f.Entity), Details: f.Details}
}

// nilIfZero is nil for a value that is nothing.
func nilIfZero[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}

// StatusView is the status contract of the NoETL seed, with its own names: the
// lifecycle of a run and nothing of what it works on.
type StatusView struct {
	ExecutionID        string               `json:"execution_id"`
	State              statemachines.Status `json:"state"`
	CurrentStep        *string              `json:"current_step"`
	StartedAt          *time.Time           `json:"started_at"`
	EndedAt            *time.Time           `json:"ended_at"`
	TerminalEvent      *string              `json:"terminal_event"` // execution.completed, .failed_safe, .failed_unsafe, .cancelled
	CompletionInferred bool                 `json:"completion_inferred"`
}

// StepView is one step run, one call of a block's acquire, or one wave of a
// rollback, as it is shown.
type StepView struct {
	Sequence   int                     `json:"sequence"` // unique within the run, in order of entry
	Step       string                  `json:"step"`     // label; OUTER.INNER within an embedded definition
	Try        int                     `json:"try"`
	Ordinal    int                     `json:"visit"`
	Iteration  *int                    `json:"repeat"`     // which repetition, from 1; null without repeat
	Kind       *workflow.JobKind       `json:"kind"`       // null of a step without jobs of its own
	Wave       *int                    `json:"wave"`       // of a rollback
	Pipeline   *int                    `json:"stretch"`    // sequence of the first run of its per-entity pipelines
	Superseded bool                    `json:"superseded"` // a later try does it again
	Child      *ChildView              `json:"child"`      // the run that it has started
	Status     statemachines.StepState `json:"status"`
	Block      *string                 `json:"block"` // exact reference
	EnteredAt  time.Time               `json:"enteredAt"`
	EndedAt    *time.Time              `json:"endedAt"`
	Jobs       JobCounts               `json:"jobs"`
	Skipped    int                     `json:"skipped"` // entities whose condition was not true
	Error      *FailureView            `json:"error"`
}

// ChildView is a run that a step has started.
type ChildView struct {
	ID       string                        `json:"id"`
	Workflow workflow.Ref                  `json:"workflow"` // exact
	Mode     workflow.ReferenceMode        `json:"mode"`
	State    *statemachines.ExecutionState `json:"state"` // as its parent saw it last
}

// ResultView is what a run's steps gave: the last visit of each step by label.
type ResultView struct {
	ExecutionID string                       `json:"executionId"`
	State       statemachines.ExecutionState `json:"state"`
	Status      statemachines.Status         `json:"status"`
	Steps       map[string]StepResult        `json:"steps"`
	Truncated   bool                         `json:"truncated"` // more than one answer holds; /jobs has them all
}

// StepResult is Result for a global step, Results by entity id for others.
type StepResult struct {
	Status  statemachines.StepState    `json:"status"`
	Ordinal int                        `json:"visit"`
	RunOn   string                     `json:"runOn"` // entity type, or "global"
	Result  json.RawMessage            `json:"result"`
	Results map[string]json.RawMessage `json:"results"`
}

// CostView is what a run has consumed and what that costs.
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

// LockView is one lock as it is shown. Of an entity that nobody holds, HeldBy
// and Since are null.
type LockView struct {
	Entity     workflow.EntityKey `json:"entity"`
	HeldBy     *string            `json:"heldBy"`
	ReservedBy *string            `json:"reservedBy"`
	Since      *time.Time         `json:"since"`
	Token      int64              `json:"token"`
	Mode       string             `json:"mode"` // exclusive or shared
	Waiting    []Waiter           `json:"waiting"`
}

// Waiter is a run that waits for a lock.
type Waiter struct {
	Execution string     `json:"execution"`
	Since     *time.Time `json:"since"`
}
