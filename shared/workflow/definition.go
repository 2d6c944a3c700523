package workflow

import (
	"encoding/json"
	"fmt"
	"time"
)

// Duration is a time.Duration written as text in Go syntax, "90s" or "12m".
type Duration time.Duration

// Std is the value as the standard library's type.
func (d Duration) Std() time.Duration { return time.Duration(d) }

// MarshalText writes Go syntax.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText reads Go syntax.
func (d *Duration) UnmarshalText(b []byte) error {
	v, err := time.ParseDuration(string(b))
	if err != nil {
		return fmt.Errorf("want a duration such as 90s or 12m, not %q", b)
	}
	*d = Duration(v)
	return nil
}

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

// Flat lists the definition's steps depth first: each step, then the steps
// nested in it. A step's place in this list is its index.
func (d *Definition) Flat() []*Step {
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
func (d *Definition) Ref() Ref { return Ref{d.Package, d.Name, d.Version} }

// Acquire adds entities of one type to a run's scope besides those its starter
// names: by ids, by group, by a CEL query over attributes, by ids that an
// expression or another type's entities name, by what a block's acquire returns,
// or, with none of these, all of the type.
type Acquire struct {
	Type   string   `json:"type"`
	IDs    []string `json:"ids,omitempty"`
	IDsOf  string   `json:"idsOf,omitempty"` // CEL over parameters: a list of ids; written ids: ${...}
	Groups []string `json:"groups,omitempty"`
	Query  string   `json:"query,omitempty"`
	Expand *Expand  `json:"expand,omitempty"`

	Block         string          `json:"block,omitempty"`      // reference; its acquire() runs as an ACQUIRE job
	Parameters    json.RawMessage `json:"parameters,omitempty"` // of the block; strings may hold ${CEL over parameters}
	RawParameters json.RawMessage `json:"rawParameters,omitempty"`
}

// Expand names ids by way of entities of another type that are in the scope
// already: for each of them, IDs is a CEL expression over entity and parameters
// that gives a list of ids of the acquired type.
type Expand struct {
	From string `json:"from"`
	IDs  string `json:"ids"`
}

// Acquisition is one entry of the definition's acquire lists.
type Acquisition struct {
	Acquire
	Step           int // index in Flat of the step whose list it stands in, -1 for the definition's own
	AssertNotEmpty bool
}

// Acquisitions lists everything that the definition acquires: its own list, then
// those of its steps, depth first. An entry's place in this list is its index.
func (d *Definition) Acquisitions() []Acquisition {
	var all []Acquisition
	for _, a := range d.Acquire {
		all = append(all, Acquisition{a, -1, false})
	}
	for i, s := range d.Flat() {
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

// RollbackMode says whether a failed run is rolled back.
type RollbackMode string

// The rollback modes; RollbackAuto is the default.
const (
	RollbackAuto  RollbackMode = "auto"
	RollbackNever RollbackMode = "never"
)

// LockMode is how a run holds its entities.
type LockMode string

// The lock modes; exclusive is the default. Shared is for runs whose blocks are
// all pure.
const (
	LockExclusive LockMode = "exclusive"
	LockShared    LockMode = "shared"
)

// Config is how a definition wants to be run.
type Config struct {
	Parallel         bool         `json:"parallel,omitempty"` // executionStrategy.parallel
	OnLocked         OnLocked     `json:"onLocked,omitempty"`
	LockMode         LockMode     `json:"lockMode,omitempty"`
	Timeout          Duration     `json:"timeout,omitempty"` // of the whole run, from its creation or its retry
	Rollback         RollbackMode `json:"rollback,omitempty"`
	RollbackContinue bool         `json:"rollbackContinue,omitempty"` // rollback.onFailure: continue
	MaxInFlight      int          `json:"maxInFlight,omitempty"`      // jobs of one step outstanding at a time; 0 no limit
	FailureTolerance Tolerance    `json:"failureTolerance,omitzero"`
	StartWhen        string       `json:"startWhen,omitempty"`     // CEL, bool, over parameters, now and entity(type, id)
	StartDeadline    Duration     `json:"startDeadline,omitempty"` // how long startWhen may stay false; startWhen.deadline
	NotBefore        string       `json:"notBefore,omitempty"`     // RFC 3339, or ${CEL} over parameters
}

// Cron starts a run of the newest version by the clock.
type Cron struct {
	Schedule    string          `json:"schedule"`              // minute, hour, day, month, weekday; seconds may stand before them
	Zone        string          `json:"zone,omitempty"`        // IANA name; UTC by default
	Concurrency bool            `json:"concurrency,omitempty"` // start although an earlier run has not ended
	Parameters  json.RawMessage `json:"parameters,omitempty"`
	On          *Selector       `json:"executeOnParameters,omitempty"`
	Disabled    bool            `json:"disabled,omitempty"`
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

// RunOnGlobal is the runOn of a step that runs once, not once per entity.
const RunOnGlobal = "global"

// Step is one node of a definition's tree. It calls a block, or holds an embedded
// workflow, or refers to another definition.
type Step struct {
	Label         string     `json:"label"`
	FunctionBlock string     `json:"functionBlock,omitempty"` // reference, perhaps by major or minor
	Workflow      *Nested    `json:"workflow,omitempty"`
	Reference     *Reference `json:"workflowReference,omitempty"`
	RunOn         string     `json:"runOn,omitempty"` // entity type, or "global"; of a block

	Acquire        []Acquire `json:"acquire,omitempty"`
	AssertNotEmpty bool      `json:"assertNotEmpty,omitempty"`

	Condition     string          `json:"condition,omitempty"`     // CEL, bool
	Assert        []string        `json:"assert,omitempty"`        // CEL, bool
	Parameters    json.RawMessage `json:"parameters,omitempty"`    // object; strings may hold ${CEL}
	RawParameters json.RawMessage `json:"rawParameters,omitempty"` // object, passed on as it is

	Delay           Duration `json:"delay,omitempty"` // before the step begins
	Retry           *Retry   `json:"retry,omitempty"`
	Repeat          *Repeat  `json:"repeat,omitempty"`
	ContinueOnError bool     `json:"continueOnError,omitempty"`
	Timeout         Duration `json:"timeout,omitempty"`     // one attempt of one job
	StepTimeout     Duration `json:"stepTimeout,omitempty"` // the whole visit
}

// Nested is an embedded workflow: steps that run where they stand, in the same
// run and under its locks, with labels of the same definition.
type Nested struct {
	Steps []Step `json:"steps"`
}

// ReferenceMode says how a referenced definition runs.
type ReferenceMode string

// The modes. An embedded definition runs within the run, under its locks; a
// dispatched one is a run of its own that the step waits for; fire and forget
// starts one and goes on.
const (
	ModeEmbed         ReferenceMode = "embed"
	ModeDispatch      ReferenceMode = "dispatch"
	ModeFireAndForget ReferenceMode = "fireAndForget"
)

// Reference names another definition. Its parameters are the step's.
type Reference struct {
	Workflow string          `json:"workflow"` // reference, perhaps by major or minor
	Mode     ReferenceMode   `json:"mode,omitempty"`
	On       json.RawMessage `json:"executeOnParameters,omitempty"` // of a run of its own; object, strings may hold ${CEL}
}

// Repeat visits a step again and again: as long as the condition is true after a
// visit, at most Count times in all. With entities, each goes on for itself.
type Repeat struct {
	Count int      `json:"count,omitempty"` // visits in all; 0 up to the limit of steps
	While string   `json:"while,omitempty"` // CEL, bool; may read the step's own result
	Delay Duration `json:"delay,omitempty"` // between visits
}

// Retry repeats failed jobs of a step. Delays grow by Backoff each attempt.
type Retry struct {
	MaxRetries int      `json:"maxRetries"`         // 0 to 98; attempts are one more
	Delay      Duration `json:"delay,omitempty"`    // before the first repetition
	Backoff    float64  `json:"backoff,omitempty"`  // factor, 1 by default
	MaxDelay   Duration `json:"maxDelay,omitempty"` // 0 no cap
	Jitter     float64  `json:"jitter,omitempty"`   // 0 to 1, share of the delay that is random
	When       string   `json:"when,omitempty"`     // CEL over error; absent repeats retryable errors
}

// MaxRetries is the largest retry.maxRetries: the fence has two digits for the
// attempt.
const MaxRetries = 98

// Wait is the delay before the given attempt (from 2), without jitter.
func (r *Retry) Wait(attempt int) time.Duration {
	if r == nil || attempt < 2 {
		return 0
	}
	d, factor := float64(r.Delay), max(r.Backoff, 1)
	for range attempt - 2 {
		d *= factor
		if r.MaxDelay > 0 && d > float64(r.MaxDelay) {
			break
		}
		if d > float64(24*time.Hour) {
			return 24 * time.Hour
		}
	}
	if r.MaxDelay > 0 {
		d = min(d, float64(r.MaxDelay))
	}
	return time.Duration(d)
}
