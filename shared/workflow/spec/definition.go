// Package spec holds the types of what authors write: a definition, its tree of steps and its
// configuration. It also holds the program that an execution makes of them, in which embedded
// definitions replace the references to them.
package spec

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Definition is an immutable, versioned workflow as its author wrote it. The zero value of
// an optional field is its default.
type Definition struct {
	Package     string            `json:"package"`
	Name        string            `json:"name"`
	Version     string            `json:"version"`
	Description string            `json:"description,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
	Metadata    json.RawMessage   `json:"metadata,omitempty"` // object of editors: kept and never read

	Parameters json.RawMessage `json:"parameters,omitempty"` // JSON Schema 2020-12; absent accepts any object
	SeedEntity string          `json:"seedEntity,omitempty"` // entity type of an executeOnParameters without a type

	Acquire        []Acquire `json:"acquire,omitempty"`
	AssertNotEmpty *bool     `json:"assertNotEmpty,omitempty"` // nil: only a selection of the starter must match something
	Config         Config    `json:"config,omitzero"`
	Cron           *Cron     `json:"cron,omitempty"`
	Crons          []Cron    `json:"crons,omitempty"` // those that have names
	Triggers       Triggers  `json:"triggers,omitzero"`
	Steps          []Step    `json:"steps"` // the tree as written

	Pipes  []Pipe          `json:"pipes,omitempty"`
	Output json.RawMessage `json:"output,omitempty"` // object: the output of a completed execution; strings may contain ${CEL}
	OnEnd  OnEnd           `json:"onEnd,omitzero"`
}

// FlatSteps lists the steps of the definition depth first: each step, then the steps nested
// in it. The position of a step in this list is its index.
func (d *Definition) FlatSteps() []*Step {
	var all []*Step
	var walk func(steps []Step)
	walk = func(steps []Step) {
		for i := range steps {
			all = append(all, &steps[i])
			for _, g := range steps[i].Groups() {
				walk(g.Steps)
			}
		}
	}
	walk(d.Steps)
	return all
}

// Ref returns the definition's exact reference.
func (d *Definition) Ref() workflow.Ref {
	return workflow.Ref{Package: d.Package, Name: d.Name, Version: d.Version}
}

// Schema returns the workflow.SchemaVersion that a program needs to read the definition.
func (d *Definition) Schema() int {
	if d.Output != nil || d.Metadata != nil || len(d.Crons) > 0 || len(d.Pipes) > 0 || d.OnEnd != (OnEnd{}) || d.Config.Region != "" || d.Config.Concurrency != nil || d.Config.Rate != nil || d.Config.Limits != (workflow.RunLimits{}) || len(d.Triggers.All()) > 0 || slices.ContainsFunc(d.FlatSteps(), (*Step).needsFlow) {
		return 2
	}
	return 1
}

// needsFlow reports whether the step has a field that came with schema 2.
func (s *Step) needsFlow() bool {
	if s.Metadata != nil || !s.Pace.IsZero() || s.Retry != nil && (len(s.Retry.On) > 0 || s.Retry.Fresh) || s.Reference != nil && (s.Reference.OnParentClose != "" || s.Reference.Region != "" || s.Reference.Among != nil) {
		return true
	}
	chooses := s.Switch != nil || s.OnFailure != nil || s.Next != "" || s.OnResume != ""
	remembers := s.Set != nil || s.OutputKey != "" || s.FromInput
	keepsSecrets := bytes.Contains(s.Parameters, []byte("${"+SecretName+"."))
	return chooses || remembers || keepsSecrets || s.HTTP != nil || s.Idempotent || s.ByEngine() || s.Parallel != nil || s.Wait != nil || s.Callback != nil || s.Loop != nil || s.Foreach != nil || s.Rollout != nil || s.Compensate != nil
}

// Acquire adds entities of one type to the scope of an execution, in addition to those its starter
// names: by ids, by group, by a CEL query over attributes, by ids that an expression or entities of
// another type return, by what acquire of a block returns or, with none of these, all entities of
// the type.
type Acquire struct {
	Type    string   `json:"type"`
	IDs     []string `json:"ids,omitempty"`
	IDsExpr string   `json:"idsOf,omitempty"` // CEL over parameters: a list of ids; written ids: ${...}
	Groups  []string `json:"groups,omitempty"`
	Query   string   `json:"query,omitempty"`
	Expand  *Expand  `json:"expand,omitempty"`

	Block         string          `json:"block,omitempty"`      // reference; its acquire is called as an ACQUIRE job
	Parameters    json.RawMessage `json:"parameters,omitempty"` // of the block; strings may contain ${CEL over parameters}
	RawParameters json.RawMessage `json:"rawParameters,omitempty"`
}

// Expand derives ids from entities of another type that are already in the scope. IDsExpr is a CEL
// expression over entity and parameters; for each of these entities it returns a list of ids of the
// acquired type.
type Expand struct {
	From    string `json:"from"`
	IDsExpr string `json:"ids"`
}

// Acquisition is one entry of the acquire lists of a definition.
type Acquisition struct {
	Acquire
	StepIndex      int // index in FlatSteps of the step whose list it is in, -1 for the list of the definition
	AssertNotEmpty bool
}

// Acquisitions lists all acquisitions of the definition: its own list, then those of its
// steps, depth first. The position of an entry in this list is its index.
func (d *Definition) Acquisitions() []Acquisition {
	var all []Acquisition
	for _, a := range d.Acquire {
		all = append(all, Acquisition{a, -1, false})
	}
	for i, s := range d.FlatSteps() {
		for _, a := range s.Acquire {
			all = append(all, Acquisition{a, i, s.AssertNotEmpty})
		}
	}
	return all
}

// OnLocked is what an execution does when another execution holds the lock of an entity.
type OnLocked string

// The policies of lock conflicts; OnLockedWait is the default.
const (
	OnLockedWait OnLocked = "wait"
	OnLockedFail OnLocked = "fail"
	OnLockedSkip OnLocked = "skip"
)

// Config is how a definition is executed.
type Config struct {
	Parallel         bool                  `json:"parallel,omitempty"` // executionStrategy.parallel
	OnLocked         OnLocked              `json:"onLocked,omitempty"`
	LockMode         workflow.LockMode     `json:"lockMode,omitempty"`
	Timeout          workflow.Duration     `json:"timeout,omitempty"` // of the whole execution, from its creation or its retry
	Rollback         workflow.RollbackMode `json:"rollback,omitempty"`
	RollbackContinue bool                  `json:"rollbackContinue,omitempty"` // rollback.onFailure: continue
	MaxInFlight      int                   `json:"maxInFlight,omitempty"`      // jobs of one step outstanding at a time; 0 for no limit
	FailureTolerance *Tolerance            `json:"failureTolerance,omitempty"` // nil means none, and in an embedded definition that of the surrounding one
	OnEntityFailure  OnEntityFailure       `json:"onEntityFailure,omitempty"`
	StartWhen        string                `json:"startWhen,omitempty"`     // CEL, bool, over parameters, now and entity(type, id)
	StartDeadline    workflow.Duration     `json:"startDeadline,omitempty"` // how long startWhen may be false; startWhen.deadline
	NotBefore        string                `json:"notBefore,omitempty"`     // RFC 3339, or ${CEL} over parameters
	Concurrency      *Concurrency          `json:"concurrency,omitempty"`
	Rate             *StartRate            `json:"rate,omitempty"`
	Limits           workflow.RunLimits    `json:"limits,omitzero"`
	Region           string                `json:"region,omitempty"` // of executions that are started without one
}

// StartRate limits how often executions of a workflow begin.
type StartRate struct {
	Limit   workflow.Rate `json:"limit"`
	Key     string        `json:"key,omitempty"` // text with ${CEL over parameters}: executions with the same key share the rate
	OnLimit OnLimit       `json:"onLimit,omitempty"`
}

// Concurrency limits how many executions of a workflow are live at the same time. An execution is
// live from when it has its locks until it releases them.
type Concurrency struct {
	Limit   int     `json:"limit"`
	Key     string  `json:"key,omitempty"` // text with ${CEL over parameters}: executions with the same key share the limit
	OnLimit OnLimit `json:"onLimit,omitempty"`
}

// OnLimit is what an execution does when the concurrency limit is reached.
type OnLimit string

// The choices; OnLimitWait is the default.
const (
	OnLimitWait OnLimit = "wait"
	OnLimitFail OnLimit = "fail"
)

// OnEntityFailure is what an execution that otherwise completes does with the entities that
// failed within the tolerance.
type OnEntityFailure string

// The choices; OnEntityFailureUndo is the default.
const (
	OnEntityFailureUndo  OnEntityFailure = "undo"  // undo what was executed on them
	OnEntityFailureLeave OnEntityFailure = "leave" // leave them as they are, if the outcomes of their jobs are known
)

// Cron starts an execution of the newest version at fixed times.
type Cron struct {
	Name                string             `json:"name,omitempty"`        // of one of several
	Schedule            string             `json:"schedule"`              // minute, hour, day, month, weekday; optionally with seconds before them
	Zone                string             `json:"zone,omitempty"`        // IANA name; UTC by default
	Concurrency         bool               `json:"concurrency,omitempty"` // start even if an earlier execution has not ended
	Parameters          json.RawMessage    `json:"parameters,omitempty"`
	ExecuteOnParameters *workflow.Selector `json:"executeOnParameters,omitempty"`
	Disabled            bool               `json:"disabled,omitempty"`
}

// Tolerance is how many entities may fail: a count, or a percentage, rounded down. The tolerance of
// a definition counts the entities of the whole execution that have failed so far, that of a step
// the entities of the step.
type Tolerance struct {
	Count   int     `json:"count,omitempty"`
	Percent float64 `json:"percent,omitempty"`
}

// Step is one node of the tree of a definition. It calls a block, contains an embedded
// workflow, refers to another definition, sets variables, or chooses between cases.
type Step struct {
	Label         string            `json:"label"`
	FunctionBlock string            `json:"functionBlock,omitempty"` // reference; the version may be a major or a minor
	Workflow      *EmbeddedWorkflow `json:"workflow,omitempty"`
	Reference     *Reference        `json:"workflowReference,omitempty"`
	RunOn         string            `json:"runOn,omitempty"` // of a block: entity type, "global" or, with foreach, "item"

	Acquire        []Acquire `json:"acquire,omitempty"`
	AssertNotEmpty bool      `json:"assertNotEmpty,omitempty"`

	Metadata json.RawMessage `json:"metadata,omitempty"` // object of editors: kept and never read

	Condition     string          `json:"condition,omitempty"`     // CEL, bool
	Assert        []string        `json:"assert,omitempty"`        // CEL, bool
	Parameters    json.RawMessage `json:"parameters,omitempty"`    // object; strings may contain ${CEL}
	RawParameters json.RawMessage `json:"rawParameters,omitempty"` // object, passed on unchanged

	Delay            workflow.Duration `json:"delay,omitempty"`            // before the step begins
	FailureTolerance *Tolerance        `json:"failureTolerance,omitempty"` // of this step alone; nil means that of the definition
	Retry            *workflow.Retry   `json:"retry,omitempty"`
	Pace             workflow.Rate     `json:"pace,omitzero"` // how often a job of the step may begin
	Repeat           *Repeat           `json:"repeat,omitempty"`
	ContinueOnError  bool              `json:"continueOnError,omitempty"`
	Timeout          workflow.Duration `json:"timeout,omitempty"`     // one attempt of one job
	StepTimeout      workflow.Duration `json:"stepTimeout,omitempty"` // the whole step run

	Insert    *Insert         `json:"insert,omitempty"`
	Schedule  *ScheduleStep   `json:"schedule,omitempty"`
	Set       json.RawMessage `json:"set,omitempty"`       // object: values by the path of a variable; strings may contain ${CEL}
	Switch    []Case          `json:"switch,omitempty"`    // the default case, if any, is the last
	OnFailure []Case          `json:"onFailure,omitempty"` // handle a failure of the step
	Parallel  *Parallel       `json:"parallel,omitempty"`
	OutputKey string          `json:"outputKey,omitempty"` // path of the variable that becomes the result of the step
	Next      string          `json:"next,omitempty"`      // label of the step that follows, or NextEnd; empty means the next step in the list
	OnResume  string          `json:"onResume,omitempty"`  // label of the step that follows when the wait is over that its block has asked for; empty for the step itself
	FromInput bool            `json:"fromInput,omitempty"` // the parameters are written as input

	Wait     *Wait      `json:"wait,omitempty"`
	Callback *WaitInput `json:"callback,omitempty"` // of a step that calls a global block: the answer to what the block sends
	Loop     *Loop      `json:"loop,omitempty"`     // of a step with an embedded workflow, which is executed in rounds

	// HTTP is the call of a step with http, as written; FunctionBlock and Parameters are derived
	// from it. Idempotent means that the call may be repeated whatever its method is.
	HTTP       json.RawMessage `json:"http,omitempty"`
	Idempotent bool            `json:"idempotent,omitempty"`

	Foreach *Foreach `json:"foreach,omitempty"` // of a step that calls a block once for each item
	Rollout *Rollout `json:"rollout,omitempty"` // of a step with an embedded workflow, which is executed wave by wave

	Compensate *Compensation `json:"compensate,omitempty"` // undoes the step, in place of the rollback of its block if it calls one
}

// Endpoint returns the name of the endpoint that a step with http calls, "" for none.
func (s *Step) Endpoint() string {
	var call struct {
		Endpoint string `json:"endpoint"`
	}
	_ = json.Unmarshal(s.HTTP, &call) // the reader of definitions wrote it; nil for any other step
	return call.Endpoint
}

// EmbeddedWorkflow is a workflow nested in a step. Its steps belong to the same execution,
// run under its locks and share the labels of the definition.
type EmbeddedWorkflow struct {
	Steps []Step `json:"steps"`
}

// Reference names another definition, whose parameters are those of the step.
type Reference struct {
	Workflow            string                 `json:"workflow"`        // reference; the version may be a major or a minor. With Among it is ${CEL}
	Among               []string               `json:"among,omitempty"` // the references of which Workflow has to be one when the step is entered
	Mode                workflow.ReferenceMode `json:"mode,omitempty"`
	ExecuteOnParameters json.RawMessage        `json:"executeOnParameters,omitempty"` // of an execution of its own; object, strings may contain ${CEL}
	OnParentClose       workflow.OnParentClose `json:"onParentClose,omitempty"`       // of mode dispatch; empty means cancel
	Region              string                 `json:"region,omitempty"`              // of an execution of its own; empty means that of the parent
}

// Names returns the references of which the step may start one.
func (r *Reference) Names() []string {
	if len(r.Among) > 0 {
		return r.Among
	}
	return []string{r.Workflow}
}

// Repeat repeats a step as long as the condition is true after an iteration, at most Count
// times in all. In a step on entities, each entity repeats independently.
type Repeat struct {
	Count int               `json:"count,omitempty"` // iterations in all; 0 for as many as the limit of step runs allows
	While string            `json:"while,omitempty"` // CEL, bool; may read the result of the step itself
	Delay workflow.Duration `json:"delay,omitempty"` // between iterations
}
