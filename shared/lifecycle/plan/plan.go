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
	Condition(node int, entity *workflow.ScopeEntity) (bool, error)
	// FailedAssertion returns the source of the first assertion that is not true, "" if
	// all are. An error says that one cannot be evaluated.
	FailedAssertion(node int, entity *workflow.ScopeEntity) (string, error)
	// Parameters are the step's resolved parameters, a JSON object.
	Parameters(node int, entity *workflow.ScopeEntity) (json.RawMessage, error)
	// ValidateParameters validates resolved parameters against the schema of the step's block or
	// definition.
	ValidateParameters(node int, parameters json.RawMessage) error
	// ShouldRepeat is true if the step is to be visited once more.
	ShouldRepeat(node int, entity *workflow.ScopeEntity) (bool, error)
}

// JobPlan is a plan together with the jobs it counts, in their fixed order.
type JobPlan struct {
	Plan lifecycle.Plan
	Jobs []workflow.JobInput
}

// Request says which visit of a step is planned.
type Request struct {
	NodeIndex int
	Node      *spec.Node

	// Excluded names the entities that take no part: they have failed in an earlier
	// step and were tolerated. Kept names those with which an earlier try has come
	// to OK, which stands.
	Excluded  map[workflow.EntityKey]bool
	AlreadyOK map[workflow.EntityKey]bool
	// Previous names, of a repetition, those that took part in the visit before. nil
	// for a first visit.
	Previous map[workflow.EntityKey]bool
	// IndexByPosition numbers jobs by the entity's place instead of one after the other, so
	// that the visits of a stretch share their lanes.
	IndexByPosition bool
	// From and To bound the places that are planned; all if To is 0.
	From, To int
}

// ForStep says on which entities a step runs and with which parameters. Its order
// is: condition (false or not evaluable: the entity is skipped), then assertions
// (one that is not true fails the step, and no job exists), then parameters (one
// that has no value fails the step too). Everything it reads is immutable once
// the step is entered, so a plan can be made again at any time.
func ForStep(v Request, ex Expressions, entities []workflow.ScopeEntity) JobPlan {
	if v.Node.RunOn == "" || v.Node.RunOn == workflow.RunOnGlobal {
		if v.Previous != nil && !v.Previous[workflow.EntityKey{}] {
			return JobPlan{}
		}
		return v.planJobs(ex, []position{{}})
	}
	var on []position
	excluded, kept, at := 0, 0, 0
	for i := range entities {
		e := &entities[i]
		if e.Key.Type != v.Node.RunOn {
			continue
		}
		index := at
		at++
		switch {
		case v.To > 0 && (index < v.From || index >= v.To), v.Previous != nil && !v.Previous[e.Key]:
		case v.Excluded[e.Key]:
			excluded++
		case v.AlreadyOK[e.Key]:
			kept++
		default:
			on = append(on, position{index, e})
		}
	}
	p := v.planJobs(ex, on)
	p.Plan.Skipped += excluded
	p.Plan.AlreadyOK, p.Plan.Entities = kept, at
	return p
}

// position is an entity with its place among those of its type.
type position struct {
	index  int
	entity *workflow.ScopeEntity
}

func (v Request) planJobs(ex Expressions, on []position) JobPlan {
	var p JobPlan
	var participants []position
	for _, e := range on {
		if v.Previous != nil {
			if ok, err := ex.ShouldRepeat(v.NodeIndex, e.entity); err != nil {
				return v.failedPlan(e.entity, workflow.CauseStepFailed, "REPEAT", fmt.Sprintf("repeat.while cannot be evaluated: %v", err))
			} else if !ok {
				continue
			}
		} else if ok, err := ex.Condition(v.NodeIndex, e.entity); err != nil || !ok {
			p.Plan.Skipped++
			continue
		}
		participants = append(participants, e)
	}
	for _, e := range participants {
		failed, err := ex.FailedAssertion(v.NodeIndex, e.entity)
		if err != nil {
			return v.failedPlan(e.entity, workflow.CauseAssertion, "ASSERTION", fmt.Sprintf("an assertion cannot be evaluated: %v", err))
		}
		if failed != "" {
			return v.failedPlan(e.entity, workflow.CauseAssertion, "ASSERTION", "assertion is not true: "+failed)
		}
	}
	for i, e := range participants {
		params, err := ex.Parameters(v.NodeIndex, e.entity)
		if err == nil {
			err = ex.ValidateParameters(v.NodeIndex, params)
		}
		if err != nil {
			return v.failedPlan(e.entity, workflow.CauseStepFailed, "PARAMETERS", ErrorText(err))
		}
		j := workflow.JobInput{Index: i, Parameters: params}
		if v.IndexByPosition {
			j.Index = e.index
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

// ErrorText is an error's text for people, with its issues but without its code.
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

func (v Request) failedPlan(e *workflow.ScopeEntity, cause workflow.Cause, code, message string) JobPlan {
	why := &workflow.Failure{Code: code, Message: message, Step: v.Node.Label}
	if e != nil {
		why.Entity = e.Key.String()
	}
	return JobPlan{Plan: lifecycle.Plan{Cause: cause, Problem: why}}
}
