package definition

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"reflect"
	"strconv"

	"github.com/lockstep-run/lockstep/shared/definition/yamldoc"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

// Canonical returns the definition as JSON, which Parse reads back to an equal definition. Two
// sources with the same meaning have the same canonical form, whatever their layout, comments and
// order of keys. Its keys are sorted, so that it does not depend on the order in which the Go types
// declare their fields.
func Canonical(d *spec.Definition) []byte {
	out, err := workflow.EncodeJSON(toCanonical(d))
	if err == nil {
		out, err = yamldoc.SortKeys(out)
	}
	if err != nil {
		panic("definition: a parsed definition has no JSON form: " + err.Error()) // its parts came from JSON
	}
	return out
}

// Digest identifies the meaning of a definition.
func Digest(d *spec.Definition) string {
	sum := sha256.Sum256(Canonical(d))
	return hex.EncodeToString(sum[:])
}

// canonicalDefinition is a definition in the form that authors write. It replaces the fields
// of [spec.Definition] that authors write differently.
type canonicalDefinition struct {
	*spec.Definition
	Acquire  []canonicalAcquire `json:"acquire,omitempty"`
	Config   *canonicalConfig   `json:"config,omitempty"`
	Steps    []canonicalStep    `json:"steps"`
	Crons    []spec.Cron        `json:"crons,omitempty"` // always empty: hides the field of spec.Definition, which is written in triggers
	Triggers canonicalTriggers  `json:"triggers,omitzero"`
}

type canonicalTriggers struct {
	Cron []spec.Cron `json:"cron,omitempty"`
	*spec.Triggers
}

// IsZero reports whether there is nothing to write.
func (t canonicalTriggers) IsZero() bool { return len(t.Cron)+len(t.All()) == 0 }

type canonicalStep struct {
	*spec.Step
	Acquire          []canonicalAcquire `json:"acquire,omitempty"`
	Workflow         *canonicalNested   `json:"workflow,omitempty"`
	Switch           []canonicalCase    `json:"switch,omitempty"`
	Input            *canonicalInput    `json:"input,omitempty"`
	Insert           *canonicalInsert   `json:"insert,omitempty"`
	Schedule         *canonicalSchedule `json:"schedule,omitempty"`
	FromInput        bool               `json:"fromInput,omitempty"` // always false: hides the field of spec.Step
	FunctionBlock    string             `json:"functionBlock,omitempty"`
	Parameters       json.RawMessage    `json:"parameters,omitempty"`
	RawParameters    json.RawMessage    `json:"rawParameters,omitempty"`
	OnFailure        []canonicalCase    `json:"onFailure,omitempty"`
	Parallel         *canonicalParallel `json:"parallel,omitempty"`
	FailureTolerance any                `json:"failureTolerance,omitempty"`
	Loop             *spec.Loop         `json:"loop,omitempty"`
	Foreach          *canonicalForeach  `json:"foreach,omitempty"`
	Rollout          *canonicalRollout  `json:"rollout,omitempty"`
}

type canonicalForeach struct {
	*spec.Foreach
	Items            string `json:"items"`
	FailureTolerance any    `json:"failureTolerance,omitempty"`
}

type canonicalNested struct {
	Steps []canonicalStep `json:"steps"`
}

// canonicalCase writes the case of a switch without a condition as its default.
type canonicalCase struct {
	When    string          `json:"when,omitempty"`
	Default any             `json:"default,omitempty"`
	Next    string          `json:"next,omitempty"`
	Steps   []canonicalStep `json:"steps,omitempty"`
}

type canonicalParallel struct {
	*spec.Parallel
	Branches []canonicalBranch `json:"branches"`
}

type canonicalBranch struct {
	*spec.Branch
	Steps []canonicalStep `json:"steps"`
}

type canonicalRollout struct {
	*spec.Rollout
	Batches          []any `json:"batches,omitempty"`
	FailureTolerance any   `json:"failureTolerance,omitempty"`
}

type canonicalInput struct {
	Template json.RawMessage `json:"template,omitempty"`
	Static   json.RawMessage `json:"static,omitempty"`
}

type canonicalInsert struct {
	*spec.Insert
	Row json.RawMessage `json:"row"`
}

type canonicalSchedule struct {
	*spec.ScheduleStep
	spec.ScheduleParameters
}

// canonicalAcquire writes ids as a list or as one token.
type canonicalAcquire struct {
	*spec.Acquire
	IDs   any    `json:"ids,omitempty"`
	IDsOf string `json:"idsOf,omitempty"` // always empty: hides the field of spec.Acquire, which is written in ids
}

type canonicalConfig struct {
	ExecutionStrategy map[string]bool      `json:"executionStrategy,omitempty"`
	OnLocked          spec.OnLocked        `json:"onLocked,omitempty"`
	LockMode          workflow.LockMode    `json:"lockMode,omitempty"`
	Timeout           workflow.Duration    `json:"timeout,omitempty"`
	Rollback          any                  `json:"rollback,omitempty"`
	MaxInFlight       int                  `json:"maxInFlight,omitempty"`
	FailureTolerance  any                  `json:"failureTolerance,omitempty"`
	OnEntityFailure   spec.OnEntityFailure `json:"onEntityFailure,omitempty"`
	StartWhen         any                  `json:"startWhen,omitempty"`
	NotBefore         string               `json:"notBefore,omitempty"`
	Concurrency       *spec.Concurrency    `json:"concurrency,omitempty"`
	Rate              *spec.StartRate      `json:"rate,omitempty"`
	Region            string               `json:"region,omitempty"`
	Limits            workflow.RunLimits   `json:"limits,omitzero"`
}

func toCanonical(d *spec.Definition) canonicalDefinition {
	return canonicalDefinition{
		Definition: d, Acquire: toCanonicalAcquires(d.Acquire), Config: toCanonicalConfig(&d.Config), Steps: toCanonicalSteps(d.Steps),
		Triggers: canonicalTriggers{d.Crons, &d.Triggers},
	}
}

func toCanonicalSteps(steps []spec.Step) []canonicalStep {
	all := make([]canonicalStep, len(steps))
	for i := range steps {
		s := &steps[i]
		all[i] = canonicalStep{Step: s, Acquire: toCanonicalAcquires(s.Acquire)}
		if s.FailureTolerance != nil {
			all[i].FailureTolerance = toCanonicalTolerance(*s.FailureTolerance)
		}
		if s.Workflow != nil {
			all[i].Workflow = &canonicalNested{toCanonicalSteps(s.Workflow.Steps)}
		}
		if s.Loop != nil {
			loop := *s.Loop
			loop.Over = toCanonicalToken(loop.Over)
			all[i].Loop = &loop
		}
		if f := s.Foreach; f != nil {
			all[i].Foreach = &canonicalForeach{Foreach: f, Items: toCanonicalToken(f.Items)}
			if f.FailureTolerance != (spec.Tolerance{}) {
				all[i].Foreach.FailureTolerance = toCanonicalTolerance(f.FailureTolerance)
			}
		}
		if s.Rollout != nil {
			all[i].Rollout = toCanonicalRollout(s.Rollout)
		}
		all[i].Switch, all[i].OnFailure = toCanonicalCases(s.Switch, true), toCanonicalCases(s.OnFailure, false)
		if s.Parallel != nil {
			p := &canonicalParallel{Parallel: s.Parallel}
			for k := range s.Parallel.Branches {
				p.Branches = append(p.Branches, canonicalBranch{&s.Parallel.Branches[k], toCanonicalSteps(s.Parallel.Branches[k].Steps)})
			}
			all[i].Parallel = p
		}
		if s.HTTP != nil {
			continue // which the block and its parameters were made from
		}
		if s.Insert != nil {
			all[i].Insert = &canonicalInsert{s.Insert, s.Parameters}
			continue
		}
		if s.Schedule != nil {
			c := &canonicalSchedule{ScheduleStep: s.Schedule}
			if err := json.Unmarshal(s.Parameters, &c.ScheduleParameters); err != nil {
				panic("definition: the schedule of a step cannot be read back: " + err.Error())
			}
			all[i].Schedule = c
			continue
		}
		all[i].FunctionBlock = s.FunctionBlock
		if s.FromInput {
			all[i].Input = &canonicalInput{s.Parameters, s.RawParameters}
		} else {
			all[i].Parameters, all[i].RawParameters = s.Parameters, s.RawParameters
		}
	}
	return all
}

// toCanonicalRollout writes shares and the tolerance as counts or percentages.
func toCanonicalRollout(r *spec.Rollout) *canonicalRollout {
	w := &canonicalRollout{Rollout: r}
	for _, s := range r.Batches {
		if s.Percent > 0 {
			w.Batches = append(w.Batches, s.String())
		} else {
			w.Batches = append(w.Batches, s.Count)
		}
	}
	if r.FailureTolerance != nil {
		w.FailureTolerance = toCanonicalTolerance(*r.FailureTolerance)
	}
	return w
}

// toCanonicalToken writes an expression as one token.
func toCanonicalToken(source string) string {
	if source == "" {
		return ""
	}
	return "${" + source + "}"
}

func toCanonicalCases(cases []spec.Case, defaults bool) []canonicalCase {
	var all []canonicalCase
	for i := range cases {
		c := canonicalCase{When: cases[i].When, Next: cases[i].Next, Steps: toCanonicalSteps(cases[i].Steps)}
		if defaults && c.When == "" {
			if c.Default, c.Next = any(c.Next), ""; c.Default == "" {
				c.Default = true
			}
		}
		all = append(all, c)
	}
	return all
}

func toCanonicalAcquires(acquires []spec.Acquire) []canonicalAcquire {
	var all []canonicalAcquire
	for i := range acquires {
		a := canonicalAcquire{Acquire: &acquires[i]}
		switch {
		case a.Acquire.IDsExpr != "":
			a.IDs = "${" + a.Acquire.IDsExpr + "}"
		case len(a.Acquire.IDs) > 0:
			a.IDs = a.Acquire.IDs
		}
		all = append(all, a)
	}
	return all
}

// toCanonicalTolerance returns a tolerance as authors write it: a count or a percentage.
func toCanonicalTolerance(t spec.Tolerance) any {
	if t.Percent > 0 {
		return strconv.FormatFloat(t.Percent, 'f', -1, 64) + "%"
	}
	return t.Count
}

func toCanonicalConfig(c *spec.Config) *canonicalConfig {
	w := canonicalConfig{OnLocked: c.OnLocked, LockMode: c.LockMode, Timeout: c.Timeout, MaxInFlight: c.MaxInFlight, NotBefore: c.NotBefore, OnEntityFailure: c.OnEntityFailure, Concurrency: c.Concurrency, Rate: c.Rate, Region: c.Region, Limits: c.Limits}
	if c.Parallel {
		w.ExecutionStrategy = map[string]bool{"parallel": true}
	}
	switch {
	case c.RollbackContinue && c.Rollback == "":
		w.Rollback = map[string]string{"onFailure": "continue"}
	case c.RollbackContinue:
		w.Rollback = map[string]string{"mode": string(c.Rollback), "onFailure": "continue"}
	case c.Rollback != "":
		w.Rollback = c.Rollback
	}
	if c.FailureTolerance != nil {
		w.FailureTolerance = toCanonicalTolerance(*c.FailureTolerance)
	}
	switch {
	case c.StartDeadline > 0:
		w.StartWhen = map[string]any{"condition": c.StartWhen, "deadline": c.StartDeadline}
	case c.StartWhen != "":
		w.StartWhen = c.StartWhen
	}
	if reflect.ValueOf(w).IsZero() {
		return nil
	}
	return &w
}
