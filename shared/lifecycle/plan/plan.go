// Package plan makes the jobs of a step run and merges their results. It is as pure as the decider,
// whose need for a plan it answers. plan.go makes the jobs of a step from conditions, assertions
// and parameters. outcome.go merges the packs of a step run into one record for each job, counts
// the records, and makes the jobs that undo them.
//
// A plan is never stored. Everything that it is made from is immutable once the step is entered, so
// it is made again when it is needed.
package plan

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/lockstep-run/lockstep/shared/lifecycle"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

// Expressions are the compiled expressions and parameter templates of a program, bound
// to the values that are the same for all jobs of a step run. The entity is nil for a
// global step.
type Expressions interface {
	// Condition evaluates the condition of a step; a step without a condition returns true. An
	// error means that the condition cannot be evaluated for the entity.
	Condition(node int, entity *workflow.ScopeEntity) (bool, error)
	// FailedAssertion returns the first assertion that is false or, with an error, cannot
	// be evaluated; nil if all are true.
	FailedAssertion(node int, entity *workflow.ScopeEntity) (*Assertion, error)
	// Parameters returns the step's resolved parameters, a JSON object.
	Parameters(node int, entity *workflow.ScopeEntity) (json.RawMessage, error)
	// ValidateParameters validates resolved parameters against the schema of the step's
	// block or definition.
	ValidateParameters(node int, parameters json.RawMessage) error
	// ShouldRepeat reports whether the step has another iteration.
	ShouldRepeat(node int, entity *workflow.ScopeEntity) (bool, error)
	// Err returns an error once evaluation must stop. The plan then fails with the limit that it
	// names, whatever the last evaluation returned.
	Err() error
}

// Assertion is an assertion of a step. OfEntity means that it depends on the entity, so that it may
// be false for one entity and true for another.
type Assertion struct {
	Source   string
	OfEntity bool
}

// JobPlan is a plan with the jobs it counts, in their fixed order, and with the entities that have
// no job because they failed an assertion.
type JobPlan struct {
	Plan  lifecycle.Plan
	Jobs  []workflow.JobInput
	Unmet []UnmetEntity
}

// UnmetEntity is an entity for which an assertion is not true, and why.
type UnmetEntity struct {
	Entity  workflow.EntityKey
	Failure *workflow.Failure
}

// Request says which step run to plan.
type Request struct {
	NodeIndex int
	Node      *spec.Node

	// Excluded names the entities that take no part: their job failed in an earlier step and the
	// failure was tolerated. AlreadyOK names entities whose job ended OK in an earlier try, and
	// that keep this result.
	Excluded  map[workflow.EntityKey]bool
	AlreadyOK map[workflow.EntityKey]bool
	// Previous names the entities that took part in the previous iteration; nil for a
	// first iteration.
	Previous map[workflow.EntityKey]bool
	// FailAtUnmet fails the step at the first entity for which an assertion is not true, when only
	// one lane of the step is planned: nothing tolerates the failure.
	FailAtUnmet bool
	// IndexByPosition gives each job the index of its entity among those of the type, instead of
	// numbering jobs consecutively, so that the step runs of a pipeline share their lanes.
	IndexByPosition bool
	// From is the position of the first entity, if only the entities of one lane are given.
	From int
}

// ForStep plans on which entities a step runs and with which parameters. It evaluates three things
// in order:
//
//   - conditions: an entity is skipped if its condition is false or cannot be evaluated;
//   - assertions: a false assertion fails the entity if it depends on the entity, and
//     otherwise the step, so that no job exists;
//   - parameters: one without a value also fails the step.
//
// A plan whose expressions cost too much together fails the step as well. Everything that it reads
// is immutable once the step is entered, so the plan can be made again at any time.
func ForStep(r Request, ex Expressions, entities []workflow.ScopeEntity) JobPlan {
	if !r.Node.HasJobForEach() {
		if r.Previous != nil && !r.Previous[workflow.EntityKey{}] {
			return JobPlan{}
		}
		return r.planJobs(ex, []position{{}})
	}
	var on []position
	excluded, alreadyOK, at := 0, 0, r.From
	for i := range entities {
		e := &entities[i]
		if e.Key.Type != r.Node.EntityType() {
			continue
		}
		index := at
		at++
		switch {
		case r.Previous != nil && !r.Previous[e.Key]:
		case r.Excluded[e.Key]:
			excluded++
		case r.AlreadyOK[e.Key]:
			alreadyOK++
		default:
			on = append(on, position{index, e})
		}
	}
	p := r.planJobs(ex, on)
	p.Plan.Skipped += excluded
	p.Plan.AlreadyOK, p.Plan.Entities = alreadyOK, at-r.From
	return p
}

// position is an entity with its index among those of its type, or an item with its number.
type position struct {
	index  int
	entity *workflow.ScopeEntity
}

// BeforeItems evaluates those parts of the condition and the assertions of a step over items that
// do not depend on an item. It reports whether the step is entered: there is then one job, and a
// list.
func BeforeItems(r Request, ex Expressions) (p JobPlan, entered bool) {
	met, p := r.participants(ex, []position{{}})
	p.Plan.Jobs = len(met)
	return p, p.Plan.Problem == nil && len(met) > 0
}

func (r Request) planJobs(ex Expressions, on []position) JobPlan {
	met, p := r.participants(ex, on)
	if p.Plan.Problem != nil {
		return p
	}
	return r.planParameters(ex, met, p)
}

// participants returns the entities for which the condition and the assertions are true. The plan
// says what happened to the others.
func (r Request) participants(ex Expressions, on []position) (met []position, p JobPlan) {
	var participants []position
	for _, e := range on {
		if r.Previous != nil {
			if ok, err := ex.ShouldRepeat(r.NodeIndex, e.entity); ex.Err() != nil {
				return nil, r.overLimit(ex)
			} else if err != nil {
				return nil, r.failedPlan(e.entity, workflow.CauseStepFailed, workflow.FailureRepeat, fmt.Sprintf("repeat.while cannot be evaluated: %v", err))
			} else if !ok {
				continue
			}
		} else if ok, err := ex.Condition(r.NodeIndex, e.entity); ex.Err() != nil {
			return nil, r.overLimit(ex)
		} else if err != nil || !ok {
			p.Plan.Skipped++
			continue
		}
		participants = append(participants, e)
	}
	met = participants[:0]
	for _, e := range participants {
		failed, err := ex.FailedAssertion(r.NodeIndex, e.entity)
		if ex.Err() != nil {
			return nil, r.overLimit(ex)
		}
		if failed == nil && err == nil {
			met = append(met, e)
			continue
		}
		var message string
		if err != nil {
			message = fmt.Sprintf("an assertion cannot be evaluated: %v", err)
		} else {
			message = "assertion is not true: " + failed.Source
		}
		if failed == nil || !failed.OfEntity || e.entity == nil || r.FailAtUnmet {
			named := e.entity
			if failed != nil && !failed.OfEntity {
				named = nil // it is not true of any entity
			}
			return nil, r.failedPlan(named, workflow.CauseAssertion, workflow.FailureAssertion, message)
		}
		p.Unmet = append(p.Unmet, UnmetEntity{e.entity.Key, r.failure(e.entity, workflow.FailureAssertion, message)})
	}
	if p.Plan.Unmet = len(p.Unmet); p.Plan.Unmet > 0 {
		p.Plan.UnmetFailure = p.Unmet[0].Failure
	}
	return met, p
}

// planParameters adds the jobs of the participants.
func (r Request) planParameters(ex Expressions, met []position, p JobPlan) JobPlan {
	for i, e := range met {
		params, err := ex.Parameters(r.NodeIndex, e.entity)
		if ex.Err() != nil {
			return r.overLimit(ex)
		}
		if err != nil && r.Node.FromInput {
			return r.failedPlan(e.entity, workflow.CauseStepFailed, workflow.FailureInput, ErrorText(err))
		}
		if err == nil {
			err = ex.ValidateParameters(r.NodeIndex, params)
		}
		if err != nil {
			return r.failedPlan(e.entity, workflow.CauseStepFailed, workflow.FailureParameters, ErrorText(err))
		}
		j := workflow.JobInput{Index: i, Parameters: params}
		if r.IndexByPosition {
			j.Index = e.index
		}
		switch {
		case e.entity != nil && r.Node.Foreach != nil:
			j.Item = &workflow.Item{Number: e.index, Value: e.entity.Attributes}
		case e.entity != nil:
			key := e.entity.Key
			j.Entity, j.Attributes, j.Token = &key, e.entity.Attributes, e.entity.Token
		}
		p.Jobs = append(p.Jobs, j)
	}
	p.Plan.Jobs = len(p.Jobs)
	return p
}

// ErrorText returns the text of an error for people: with its issues, without its code.
func ErrorText(err error) string {
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

func (r Request) overLimit(ex Expressions) JobPlan {
	return r.failedPlan(nil, workflow.CauseLimit, workflow.FailureLimit, ex.Err().Error())
}

func (r Request) failedPlan(e *workflow.ScopeEntity, cause workflow.Cause, code, message string) JobPlan {
	return JobPlan{Plan: lifecycle.Plan{Cause: cause, Problem: r.failure(e, code, message)}}
}

func (r Request) failure(e *workflow.ScopeEntity, code, message string) *workflow.Failure {
	why := &workflow.Failure{Code: code, Message: message, Step: r.Node.Label}
	if e != nil {
		why.Entity = e.Key.Name()
	}
	return why
}
