package spec

import (
	"encoding/json"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Definition is an immutable, versioned workflow as its author wrote it. The
// zero value of an optional field is its default.
type Definition struct {
	Package     string            `json:"package"`
	Name        string            `json:"name"`
	Version     string            `json:"version"`
	Description string            `json:"description,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`

	Parameters json.RawMessage `json:"parameters,omitempty"` // JSON Schema 2020-12; absent accepts any object
	SeedEntity string          `json:"seedEntity,omitempty"` // entity type of executeOnParameters without a type

	Acquire        []Acquire `json:"acquire,omitempty"`
	AssertNotEmpty bool      `json:"assertNotEmpty,omitempty"`
	Config         Config    `json:"config,omitzero"`
	Cron           *Cron     `json:"cron,omitempty"`
	Steps          []Step    `json:"steps"` // the tree as written
}

// FlatSteps lists the definition's steps depth first: each step, then the steps
// nested in it. A step's place in this list is its index.
func (d *Definition) FlatSteps() []*Step {
	var all []*Step
	var walk func(steps []Step)
	walk = func(steps []Step) {
		for i := range steps {
			all = append(all, &steps[i])
			if n := steps[i].Workflow; n != nil {
				walk(n.Steps)
			}
		}
	}
	walk(d.Steps)
	return all
}

// Ref is the definition's exact reference.
func (d *Definition) Ref() workflow.Ref {
	return workflow.Ref{Package: d.Package, Name: d.Name, Version: d.Version}
}

// Acquire adds entities of one type to a run's scope besides those its starter
// names: by ids, by group, by a CEL query over attributes, by ids that an
// expression or another type's entities name, by what a block's acquire returns,
// or, with none of these, all of the type.
type Acquire struct {
	Type    string   `json:"type"`
	IDs     []string `json:"ids,omitempty"`
	IDsExpr string   `json:"idsOf,omitempty"` // CEL over parameters: a list of ids; written ids: ${...}
	Groups  []string `json:"groups,omitempty"`
	Query   string   `json:"query,omitempty"`
	Expand  *Expand  `json:"expand,omitempty"`

	Block         string          `json:"block,omitempty"`      // reference; its acquire() runs as an ACQUIRE job
	Parameters    json.RawMessage `json:"parameters,omitempty"` // of the block; strings may hold ${CEL over parameters}
	RawParameters json.RawMessage `json:"rawParameters,omitempty"`
}

// Expand names ids by way of entities of another type that are in the scope
// already: for each of them, IDsExpr is a CEL expression over entity and parameters
// that gives a list of ids of the acquired type.
type Expand struct {
	From    string `json:"from"`
	IDsExpr string `json:"ids"`
}

// Acquisition is one entry of the definition's acquire lists.
type Acquisition struct {
	Acquire
	StepIndex      int // index in Flat of the step whose list it stands in, -1 for the definition's own
	AssertNotEmpty bool
}

// Acquisitions lists everything that the definition acquires: its own list, then
// those of its steps, depth first. An entry's place in this list is its index.
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

// OnLocked says what a run does that finds an entity locked by another run.
type OnLocked string

// The policies of lock conflicts; OnLockedWait is the default.
const (
	OnLockedWait OnLocked = "wait"
	OnLockedFail OnLocked = "fail"
	OnLockedSkip OnLocked = "skip"
)

// Config is how a definition wants to be run.
type Config struct {
	Parallel         bool                  `json:"parallel,omitempty"` // executionStrategy.parallel
	OnLocked         OnLocked              `json:"onLocked,omitempty"`
	LockMode         workflow.LockMode     `json:"lockMode,omitempty"`
	Timeout          workflow.Duration     `json:"timeout,omitempty"` // of the whole run, from its creation or its retry
	Rollback         workflow.RollbackMode `json:"rollback,omitempty"`
	RollbackContinue bool                  `json:"rollbackContinue,omitempty"` // rollback.onFailure: continue
	MaxInFlight      int                   `json:"maxInFlight,omitempty"`      // jobs of one step outstanding at a time; 0 no limit
	FailureTolerance Tolerance             `json:"failureTolerance,omitzero"`
	StartWhen        string                `json:"startWhen,omitempty"`     // CEL, bool, over parameters, now and entity(type, id)
	StartDeadline    workflow.Duration     `json:"startDeadline,omitempty"` // how long startWhen may stay false; startWhen.deadline
	NotBefore        string                `json:"notBefore,omitempty"`     // RFC 3339, or ${CEL} over parameters
}

// Cron starts a run of the newest version by the clock.
type Cron struct {
	Schedule            string             `json:"schedule"`              // minute, hour, day, month, weekday; seconds may stand before them
	Zone                string             `json:"zone,omitempty"`        // IANA name; UTC by default
	Concurrency         bool               `json:"concurrency,omitempty"` // start although an earlier run has not ended
	Parameters          json.RawMessage    `json:"parameters,omitempty"`
	ExecuteOnParameters *workflow.Selector `json:"executeOnParameters,omitempty"`
	Disabled            bool               `json:"disabled,omitempty"`
}

// Tolerance is how many of a step's entities may fail before the step does: a
// count, or a percentage of the step's entities.
type Tolerance struct {
	Count   int     `json:"count,omitempty"`
	Percent float64 `json:"percent,omitempty"`
}

// Allows reports whether failed of total jobs are still tolerated.
func (t Tolerance) Allows(failed, total int) bool {
	if t.Percent > 0 {
		return float64(failed)*100 <= t.Percent*float64(total)
	}
	return failed <= t.Count
}

// Step is one node of a definition's tree. It calls a block, or holds an embedded
// workflow, or refers to another definition.
type Step struct {
	Label         string            `json:"label"`
	FunctionBlock string            `json:"functionBlock,omitempty"` // reference, perhaps by major or minor
	Workflow      *EmbeddedWorkflow `json:"workflow,omitempty"`
	Reference     *Reference        `json:"workflowReference,omitempty"`
	RunOn         string            `json:"runOn,omitempty"` // entity type, or "global"; of a block

	Acquire        []Acquire `json:"acquire,omitempty"`
	AssertNotEmpty bool      `json:"assertNotEmpty,omitempty"`

	Condition     string          `json:"condition,omitempty"`     // CEL, bool
	Assert        []string        `json:"assert,omitempty"`        // CEL, bool
	Parameters    json.RawMessage `json:"parameters,omitempty"`    // object; strings may hold ${CEL}
	RawParameters json.RawMessage `json:"rawParameters,omitempty"` // object, passed on as it is

	Delay           workflow.Duration `json:"delay,omitempty"` // before the step begins
	Retry           *workflow.Retry   `json:"retry,omitempty"`
	Repeat          *Repeat           `json:"repeat,omitempty"`
	ContinueOnError bool              `json:"continueOnError,omitempty"`
	Timeout         workflow.Duration `json:"timeout,omitempty"`     // one attempt of one job
	StepTimeout     workflow.Duration `json:"stepTimeout,omitempty"` // the whole visit
}

// EmbeddedWorkflow is an embedded workflow: steps that run where they stand, in the same
// run and under its locks, with labels of the same definition.
type EmbeddedWorkflow struct {
	Steps []Step `json:"steps"`
}

// Reference names another definition. Its parameters are the step's.
type Reference struct {
	Workflow            string                 `json:"workflow"` // reference, perhaps by major or minor
	Mode                workflow.ReferenceMode `json:"mode,omitempty"`
	ExecuteOnParameters json.RawMessage        `json:"executeOnParameters,omitempty"` // of a run of its own; object, strings may hold ${CEL}
}

// Repeat visits a step again and again: as long as the condition is true after a
// visit, at most Count times in all. With entities, each goes on for itself.
type Repeat struct {
	Count int               `json:"count,omitempty"` // visits in all; 0 up to the limit of steps
	While string            `json:"while,omitempty"` // CEL, bool; may read the step's own result
	Delay workflow.Duration `json:"delay,omitempty"` // between visits
}
