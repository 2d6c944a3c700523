package views

import (
	"encoding/json"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// PlanView is what a start would do, as far as that can be determined without starting. Nothing of
// it is stored, and it promises nothing: entities and locks may change before the start.
type PlanView struct {
	Workflow  workflow.Ref      `json:"workflow"` // exact
	Problem   *FailureView      `json:"problem"`  // ends the execution FAILED_SAFE before its first step; null for none
	Fails     bool              `json:"fails"`    // there is a problem, or a step that will certainly be reached fails already
	Region    *PlannedRegion    `json:"region"`   // null without one
	LockMode  string            `json:"lockMode"`
	OnLocked  string            `json:"onLocked"` // wait, skip or fail
	NotBefore *time.Time        `json:"notBefore"`
	StartWhen *PlannedCondition `json:"startWhen"` // null without one
	Blocks    map[string]string `json:"blocks"`    // exact reference of each block, by reference as written
	Warnings  []string          `json:"warnings"`  // what a starter should know, in words
	Entities  PlannedEntities   `json:"entities"`
	Locked    PlannedLocks      `json:"locked"`
	Steps     []PlannedStep     `json:"steps"`    // in order; empty if there is a problem
	Messages  int               `json:"messages"` // packs of all steps, as an estimate
	Cost      PlannedCost       `json:"cost"`
}

// PlannedRegion is the region whose pools would get the jobs.
type PlannedRegion struct {
	Name    string   `json:"name"`
	Known   bool     `json:"known"`   // the stage's setting regions names it; workers may serve others, too
	Regions []string `json:"regions"` // that the setting names
}

// PlannedCondition is a startWhen, evaluated once.
type PlannedCondition struct {
	Condition string  `json:"condition"`
	True      bool    `json:"true"`
	Reason    *string `json:"reason"` // why it cannot be evaluated
}

// PlannedEntities are the entities that the execution would lock.
type PlannedEntities struct {
	Total    int            `json:"total"`
	ByType   map[string]int `json:"byType"`
	Named    []string       `json:"named"`    // the first twenty, "type/id"
	Examined int            `json:"examined"` // number of entities whose attributes and locks were read
	More     []PlannedMore  `json:"more"`     // blocks that acquire more entities
}

// PlannedMore is a block that acquires entities. Which ones is unknown before it is called.
type PlannedMore struct {
	Step  *string `json:"step"` // label; null for the definition's own
	Block string  `json:"block"`
}

// PlannedLocks are the entities that the execution would wait for.
type PlannedLocks struct {
	Count int           `json:"count"` // of the examined ones
	Named []PlannedLock `json:"named"` // the first twenty
}

// PlannedLock is one such entity, and who holds or has reserved it.
type PlannedLock struct {
	Entity      string     `json:"entity"` // "type/id"
	HeldBy      *string    `json:"heldBy"`
	ReservedBy  *string    `json:"reservedBy"`
	Since       *time.Time `json:"since"`
	NeedsPerson bool       `json:"needsPerson"` // the holder has ended and keeps the lock until somebody acknowledges that
}

// StepEffect is what a step does to its entities.
type StepEffect string

// The effects.
const (
	EffectPure         StepEffect = "PURE"         // changes nothing
	EffectReversible   StepEffect = "REVERSIBLE"   // has a rollback
	EffectIrreversible StepEffect = "IRREVERSIBLE" // has none
	EffectContainer    StepEffect = "CONTAINER"    // has nested steps, and no jobs of its own
	EffectStarts       StepEffect = "STARTS"       // starts an execution of its own
	EffectSets         StepEffect = "SETS"         // sets variables
	EffectInserts      StepEffect = "INSERTS"      // puts a row into a table
	EffectSchedules    StepEffect = "SCHEDULES"    // makes or removes a schedule
	EffectChooses      StepEffect = "CHOOSES"      // chooses one of several cases
	EffectWaits        StepEffect = "WAITS"        // waits
)

// FailureEffect is what a failure beyond the tolerance at a step would lead to.
type FailureEffect string

// The effects of a failure.
const (
	FailureNothingLeft FailureEffect = "NOTHING_LEFT" // FAILED_SAFE: only pure steps were executed
	FailureRolledBack  FailureEffect = "ROLLED_BACK"  // FAILED_SAFE if every rollback succeeds
	FailureUnsafe      FailureEffect = "UNSAFE"       // FAILED_UNSAFE: changes remain, and locks are kept
	FailureContinues   FailureEffect = "CONTINUES"    // the definition continues after it
	FailureStops       FailureEffect = "STOPS"        // the wave of the rollout is undone, and no other begins
	FailureHandled     FailureEffect = "HANDLED"      // a case of onFailure handles every failure
)

// StepReach is whether the execution reaches a step.
type StepReach string

// Whether the execution reaches a step, if every step before it succeeds.
const (
	ReachedAlways    StepReach = "ALWAYS"
	ReachedByChoice  StepReach = "CHOICE"  // a switch decides, or the end of a wait
	ReachedByFailure StepReach = "FAILURE" // only after a failure that onFailure handles
	ReachedNever     StepReach = "NEVER"
)

// PlannedStep is one step. It assumes the entities as they are now, and that every earlier step
// succeeds for all entities.
type PlannedStep struct {
	Label     string         `json:"label"`
	Inside    *string        `json:"inside"` // label of the surrounding step
	Effect    StepEffect     `json:"effect"`
	RunOn     *string        `json:"runOn"`
	Block     *string        `json:"block"`     // exact reference
	Workflow  *string        `json:"workflow"`  // that it embeds or starts, exact reference
	Jobs      int            `json:"jobs"`      // of one iteration; 0 for a container
	AtMost    bool           `json:"atMost"`    // a condition that is unknown yet may skip some
	Messages  int            `json:"messages"`  // packs
	Skipped   int            `json:"skipped"`   // entities for which the condition is false
	SkippedBy *string        `json:"skippedBy"` // label of the surrounding step whose condition is false
	Unmet     int            `json:"unmet"`     // entities for which an assertion is false
	Unknown   []string       `json:"unknown"`   // parts that read results or variables: condition, assert, parameters, set, switch, waves; or items, of which Jobs counts one
	Repeats   bool           `json:"repeats"`
	Reached   StepReach      `json:"reached"`
	DecidedBy *string        `json:"decidedBy"` // label of the switch, or of the step with the onFailure, that decides whether it is reached
	Route     *StepCase      `json:"route"`     // the case that a switch takes, if known
	Next      *string        `json:"next"`      // label, or "end": where the execution continues, unless with the next step
	Problem   *FailureView   `json:"problem"`   // of an assertion or a parameter that fails already
	Fails     bool           `json:"fails"`     // the step fails before any job exists, if it is reached
	Tolerated int            `json:"tolerated"` // entities or items that may fail
	OnFailure *FailureEffect `json:"onFailure"` // null for a step that cannot fail by itself: one without jobs, executions and waits
	IfFails   string         `json:"ifFails"`   // the same in words, and what happens to tolerated failures

	Waves []workflow.Wave `json:"waves"` // of a rollout, for the entities that were examined
}

// PlannedCost is an estimate. It leaves out retries, rollbacks, large parameters and results, and
// executions that it starts.
type PlannedCost struct {
	Lines      []CostLine `json:"lines"`
	Dollars    float64    `json:"dollars"`
	PricesAsOf string     `json:"pricesAsOf"`
}

// NextView is what an execution that was started as a probe would do next.
type NextView struct {
	Step          *string      `json:"step"` // label of the first step that is not pure; null if all are
	Block         *string      `json:"block"`
	RunOn         *string      `json:"runOn"`
	Skipped       int          `json:"skipped"` // entities that take no part
	Unmet         int          `json:"unmet"`   // entities for which an assertion is false
	Problem       *FailureView `json:"problem"` // of an assertion or a parameter
	Jobs          int          `json:"jobs"`
	Items         []NextJob    `json:"items"` // one page
	NextPageToken *string      `json:"nextPageToken"`
}

// NextJob is one of the jobs of that step.
type NextJob struct {
	Entity     *string         `json:"entity"` // "type/id"; null for a job without an entity
	Item       *int            `json:"item"`   // of a step with foreach: the number of the item, from 0
	Parameters json.RawMessage `json:"parameters"`
}
