package plan

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/lockstep-run/lockstep/shared/lifecycle"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

// Expressions are a program's compiled expressions and parameter templates, bound
// to everything that all jobs of one visit see alike. The entity is nil in a step
// that has none.
type Expressions interface {
	// Condition is true where the step has none. An error says that it cannot be
	// evaluated for the entity.
	Condition(node int, entity *workflow.Held) (bool, error)
	// Assertion returns the source of the first assertion that is not true, "" if
	// all are. An error says that one cannot be evaluated.
	Assertion(node int, entity *workflow.Held) (string, error)
	// Parameters are the step's resolved parameters, a JSON object.
	Parameters(node int, entity *workflow.Held) (json.RawMessage, error)
	// Check validates resolved parameters against the schema of the step's block or
	// definition.
	Check(node int, parameters json.RawMessage) error
	// Again is true if the step is to be visited once more.
	Again(node int, entity *workflow.Held) (bool, error)
}

// Planned is a plan together with the jobs it counts, in their fixed order.
type Planned struct {
	Plan lifecycle.Plan
	Jobs []workflow.JobInput
}

// Visit says which visit of a step is planned.
type Visit struct {
	Index int
	Node  *spec.Node

	// Without names the entities that take no part: they have failed in an earlier
	// step and were tolerated. Kept names those with which an earlier try has come
	// to OK, which stands.
	Without map[workflow.EntityKey]bool
	Kept    map[workflow.EntityKey]bool
	// Took names, of a repetition, those that took part in the visit before. nil
	// for a first visit.
	Took map[workflow.EntityKey]bool
	// Sparse numbers jobs by the entity's place instead of one after the other, so
	// that the visits of a stretch share their lanes.
	Sparse bool
	// From and To bound the places that are planned; all if To is 0.
	From, To int
}

// Step says on which entities a step runs and with which parameters. Its order
// is: condition (false or not evaluable: the entity is skipped), then assertions
// (one that is not true fails the step, and no job exists), then parameters (one
// that has no value fails the step too). Everything it reads is immutable once
// the step is entered, so a plan can be made again at any time.
func Step(v Visit, ex Expressions, entities []workflow.Held) Planned {
	if v.Node.RunOn == "" || v.Node.RunOn == workflow.RunOnGlobal {
		if v.Took != nil && !v.Took[workflow.EntityKey{}] {
			return Planned{}
		}
		return v.jobs(ex, []place{{}})
	}
	var on []place
	excluded, kept, at := 0, 0, 0
	for i := range entities {
		e := &entities[i]
		if e.Key.Type != v.Node.RunOn {
			continue
		}
		here := at
		at++
		switch {
		case v.To > 0 && (here < v.From || here >= v.To), v.Took != nil && !v.Took[e.Key]:
		case v.Without[e.Key]:
			excluded++
		case v.Kept[e.Key]:
			kept++
		default:
			on = append(on, place{here, e})
		}
	}
	p := v.jobs(ex, on)
	p.Plan.Skipped += excluded
	p.Plan.Kept, p.Plan.Entities = kept, at
	return p
}

// place is an entity with its place among those of its type.
type place struct {
	at     int
	entity *workflow.Held
}

func (v Visit) jobs(ex Expressions, on []place) Planned {
	var p Planned
	var taking []place
	for _, e := range on {
		if v.Took != nil {
			if ok, err := ex.Again(v.Index, e.entity); err != nil {
				return v.stopped(e.entity, workflow.CauseStepFailed, "REPEAT", fmt.Sprintf("repeat.while cannot be evaluated: %v", err))
			} else if !ok {
				continue
			}
		} else if ok, err := ex.Condition(v.Index, e.entity); err != nil || !ok {
			p.Plan.Skipped++
			continue
		}
		taking = append(taking, e)
	}
	for _, e := range taking {
		failed, err := ex.Assertion(v.Index, e.entity)
		if err != nil {
			return v.stopped(e.entity, workflow.CauseAssertion, "ASSERTION", fmt.Sprintf("an assertion cannot be evaluated: %v", err))
		}
		if failed != "" {
			return v.stopped(e.entity, workflow.CauseAssertion, "ASSERTION", "assertion is not true: "+failed)
		}
	}
	for i, e := range taking {
		params, err := ex.Parameters(v.Index, e.entity)
		if err == nil {
			err = ex.Check(v.Index, params)
		}
		if err != nil {
			return v.stopped(e.entity, workflow.CauseStepFailed, "PARAMETERS", Sentence(err))
		}
		j := workflow.JobInput{Index: i, Parameters: params}
		if v.Sparse {
			j.Index = e.at
		}
		if e.entity != nil {
			key := e.entity.Key
			j.Entity, j.Attributes, j.Token = &key, e.entity.Attributes, e.entity.Token
		}
		p.Jobs = append(p.Jobs, j)
	}
	p.Plan.Jobs = len(p.Jobs)
	return p
}

// Sentence is an error's text for people, with its issues but without its code.
func Sentence(err error) string {
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

func (v Visit) stopped(e *workflow.Held, cause workflow.Cause, code, message string) Planned {
	why := &workflow.Failure{Code: code, Message: message, Step: v.Node.Label}
	if e != nil {
		why.Entity = e.Key.String()
	}
	return Planned{Plan: lifecycle.Plan{Cause: cause, Problem: why}}
}
