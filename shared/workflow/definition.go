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
	Steps          []Step    `json:"steps"`
}

// Ref is the definition's exact reference.
func (d *Definition) Ref() Ref { return Ref{d.Package, d.Name, d.Version} }

// Acquire adds entities to a run's scope besides those its starter names: by
// ids, by group, by a CEL query over attributes, or all of a type.
type Acquire struct {
	Type   string   `json:"type"`
	IDs    []string `json:"ids,omitempty"`
	Groups []string `json:"groups,omitempty"`
	Query  string   `json:"query,omitempty"`
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

// Config is how a definition wants to be run.
type Config struct {
	Parallel         bool         `json:"parallel,omitempty"` // executionStrategy.parallel
	OnLocked         OnLocked     `json:"onLocked,omitempty"`
	LockMode         string       `json:"lockMode,omitempty"` // exclusive (default) or shared
	Timeout          Duration     `json:"timeout,omitempty"`  // of the whole run
	Rollback         RollbackMode `json:"rollback,omitempty"`
	RollbackContinue bool         `json:"rollbackContinue,omitempty"` // rollback.onFailure: continue
	MaxInFlight      int          `json:"maxInFlight,omitempty"`      // jobs of one step outstanding at a time; 0 no limit
	FailureTolerance Tolerance    `json:"failureTolerance,omitzero"`
	StartWhen        string       `json:"startWhen,omitempty"`
	NotBefore        string       `json:"notBefore,omitempty"`
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

// Step is one node of a definition's tree.
type Step struct {
	Label         string `json:"label"`
	FunctionBlock string `json:"functionBlock,omitempty"` // reference, perhaps by major or minor
	RunOn         string `json:"runOn,omitempty"`         // entity type, or "global"

	Condition     string          `json:"condition,omitempty"`     // CEL, bool
	Assert        []string        `json:"assert,omitempty"`        // CEL, bool
	Parameters    json.RawMessage `json:"parameters,omitempty"`    // object; strings may hold ${CEL}
	RawParameters json.RawMessage `json:"rawParameters,omitempty"` // object, passed on as it is

	Retry       *Retry   `json:"retry,omitempty"`
	Timeout     Duration `json:"timeout,omitempty"`     // one attempt of one job
	StepTimeout Duration `json:"stepTimeout,omitempty"` // the whole visit
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
