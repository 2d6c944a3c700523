package lifecycle

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Expressions are a definition's compiled conditions, assertions and parameter
// templates, bound to everything that all jobs of one step see alike. The entity
// is nil in a global step.
type Expressions interface {
	// Condition is true where the step has none. An error says that it cannot be
	// evaluated for the entity.
	Condition(step int, entity *workflow.Held) (bool, error)
	// Assertion returns the source of the first assertion that is not true, "" if
	// all are. An error says that one cannot be evaluated.
	Assertion(step int, entity *workflow.Held) (string, error)
	// Parameters are the step's resolved parameters, a JSON object.
	Parameters(step int, entity *workflow.Held) (json.RawMessage, error)
	// Check validates resolved parameters against the block's schema.
	Check(step int, parameters json.RawMessage) error
}

// Planned is a plan together with the jobs it counts, in their fixed order.
type Planned struct {
	Plan Plan
	Jobs []workflow.JobInput
}

// PlanStep says on which entities a step runs and with which parameters. Its
// order is: condition (false or not evaluable: the entity is skipped), then
// assertions (one that is not true fails the step, and no job exists), then
// parameters (one that has no value fails the step too). Everything it reads is
// immutable once the step is entered, so a plan can be made again at any time.
//
// without names the entities that have failed in an earlier step and were
// tolerated: they take no further part.
func PlanStep(step int, s *workflow.Step, ex Expressions, entities []workflow.Held, without map[workflow.EntityKey]bool) Planned {
	if s.RunOn == workflow.RunOnGlobal {
		return planJobs(step, s, ex, []*workflow.Held{nil})
	}
	var on []*workflow.Held
	excluded := 0
	for i := range entities {
		e := &entities[i]
		switch {
		case e.Key.Type != s.RunOn:
		case without[e.Key]:
			excluded++
		default:
			on = append(on, e)
		}
	}
	p := planJobs(step, s, ex, on)
	p.Plan.Skipped += excluded
	return p
}

func planJobs(step int, s *workflow.Step, ex Expressions, on []*workflow.Held) Planned {
	var p Planned
	var taking []*workflow.Held
	for _, e := range on {
		if ok, err := ex.Condition(step, e); err != nil || !ok {
			p.Plan.Skipped++
			continue
		}
		taking = append(taking, e)
	}
	for _, e := range taking {
		failed, err := ex.Assertion(step, e)
		if err != nil {
			return stopped(s, e, workflow.CauseAssertion, "ASSERTION", fmt.Sprintf("an assertion cannot be evaluated: %v", err))
		}
		if failed != "" {
			return stopped(s, e, workflow.CauseAssertion, "ASSERTION", "assertion is not true: "+failed)
		}
	}
	for i, e := range taking {
		params, err := ex.Parameters(step, e)
		if err == nil {
			err = ex.Check(step, params)
		}
		if err != nil {
			return stopped(s, e, workflow.CauseStepFailed, "PARAMETERS", sentence(err))
		}
		j := workflow.JobInput{Index: i, Parameters: params}
		if e != nil {
			key := e.Key
			j.Entity, j.Attributes, j.Token = &key, e.Attributes, e.Token
		}
		p.Jobs = append(p.Jobs, j)
	}
	p.Plan.Jobs = len(p.Jobs)
	return p
}

// sentence is an error's text for people, with its issues but without its code.
func sentence(err error) string {
	var e *workflow.Error
	if !errors.As(err, &e) {
		return err.Error()
	}
	s := e.Message
	for _, i := range e.Issues {
		s += "; " + i.String()
	}
	return s
}

func stopped(s *workflow.Step, e *workflow.Held, cause workflow.Cause, code, message string) Planned {
	why := &workflow.Failure{Code: code, Message: message, Step: s.Label}
	if e != nil {
		why.Entity = e.Key.String()
	}
	return Planned{Plan: Plan{Cause: cause, Problem: why}}
}

// PlanUndo says which jobs of an executed run a rollback wave has to undo, from
// the run's own plan and what its packs say: every job that was executed or may
// have been, with the result of its latest attempt that has one.
func PlanUndo(executed Planned, packs []*workflow.Pack) Planned {
	final := Latest(packs)
	var p Planned
	for _, j := range executed.Jobs {
		rec, ok := final[j.Index]
		if !ok || !rec.Code.Executed() {
			continue
		}
		undo := j
		undo.Index, undo.Result = len(p.Jobs), rec.Result
		p.Jobs = append(p.Jobs, undo)
	}
	p.Plan.Jobs = len(p.Jobs)
	return p
}

// Latest merges the packs of a step run into one record per job. A later attempt
// replaces an earlier one, unless it was not executed; a result stays until a
// later attempt has one.
func Latest(packs []*workflow.Pack) map[int]workflow.JobRecord {
	ordered := slices.Clone(packs)
	slices.SortFunc(ordered, func(a, b *workflow.Pack) int { return a.Key.Attempt - b.Key.Attempt })
	latest := make(map[int]workflow.JobRecord)
	for _, p := range ordered {
		for _, rec := range p.Jobs {
			old, seen := latest[rec.Index]
			if seen && old.Code.Executed() && !rec.Code.Executed() {
				continue
			}
			if rec.Result == nil {
				rec.Result = old.Result
			}
			latest[rec.Index] = rec
		}
	}
	return latest
}

// Count tallies a run's jobs. Jobs without a record have not been executed. name
// gives a job's "type/id", or "" for a global call.
func Count(jobs int, latest map[int]workflow.JobRecord, name func(index int) string) workflow.Tally {
	var t workflow.Tally
	for i := range jobs {
		rec := latest[i]
		switch rec.Code {
		case workflow.CodeOK:
			t.OK++
		case workflow.CodeFail:
			t.Failed++
			if t.Failure == nil && rec.Failure != nil {
				why := *rec.Failure
				why.Entity = name(i)
				t.Failure = &why
			}
		case workflow.CodeUnknown:
			t.Unknown++
			if t.UnknownEntity == "" {
				t.UnknownEntity = name(i)
			}
		default:
			t.NotExecuted++
		}
	}
	return t
}
