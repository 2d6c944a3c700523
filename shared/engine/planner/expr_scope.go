package planner

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/lockstep-run/lockstep/shared/engine/definitions"
	"github.com/lockstep-run/lockstep/shared/lifecycle/plan"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

// exprScope is what the expressions of a step run see of the earlier step runs.
type exprScope struct {
	bindings definitions.Bindings
	request  plan.Request
	entities []workflow.ScopeEntity
	excluded map[int]map[workflow.EntityKey]bool // by the node they failed at
}

// resultsTooLargeError rejects a plan whose expressions would read too many bytes.
type resultsTooLargeError struct{ failure *workflow.Failure }

func (e *resultsTooLargeError) Error() string { return e.failure.Message }

// buildExprScope collects what a step run sees: the results that its expressions read,
// the status of steps, the entities with the updates that earlier step runs have
// requested, and the entities that are left out. lane is the lane of a pipeline, or -1.
func (p *Planner) buildExprScope(ctx context.Context, x *workflow.Execution, r *workflow.StepRun, lane int) (*exprScope, error) {
	node := &p.Program.Nodes[r.StepIndex]
	s := &exprScope{
		excluded: map[int]map[workflow.EntityKey]bool{},
		bindings: definitions.Bindings{Results: map[int]map[string]json.RawMessage{}, Statuses: map[int]string{}},
		request:  plan.Request{NodeIndex: r.StepIndex, Node: node, IndexByPosition: r.Pipeline > 0, Excluded: map[workflow.EntityKey]bool{}, AlreadyOK: map[workflow.EntityKey]bool{}},
	}
	held, err := p.Entities(ctx, x.ScopeOf(r))
	if err != nil {
		return nil, err
	}
	s.entities = slices.Clone(held)
	if s.bindings.Parameters, err = p.parameters(ctx, x, r, node.Origin); err != nil {
		return nil, err
	}
	reads := p.Program.Reads(r.StepIndex)
	index := map[workflow.EntityKey]int{}
	for i := range s.entities {
		index[s.entities[i].Key] = i
	}
	positions := p.entityPositions(node, s.entities, r)
	redoneEntities := map[workflow.EntityKey]bool{} // for which this try has executed an earlier step
	resultBytes := 0
	for i := range x.StepRuns {
		o := &x.StepRuns[i]
		if !r.CanReadResultsOf(o) || encloses(p.Program, o.StepIndex, r.StepIndex) {
			continue
		}
		s.bindings.Statuses[o.StepIndex] = string(o.Status)
		samePipeline := r.Pipeline > 0 && o.Pipeline == r.Pipeline
		previousRepeat := r.Iteration > 1 && o.StepIndex == r.StepIndex && o.Try == r.Try && o.Iteration == r.Iteration-1
		alreadyOK := r.OnlyFailed && o.StepIndex == r.StepIndex
		redone := r.OnlyFailed && o.StepIndex < r.StepIndex && o.Try == r.Try
		read := slices.Contains(reads, o.StepIndex)
		lost := o.Counts.Failed+o.Counts.Unknown > 0 || samePipeline || s.excluded[o.StepIndex] != nil
		if !o.HasJobs() {
			if previousRepeat {
				s.request.Previous = map[workflow.EntityKey]bool{{}: true}
			}
			if o.Child != nil && read {
				if s.bindings.Results[o.StepIndex], err = childResult(o.Child); err != nil {
					return nil, err
				}
			}
			continue
		}
		if !read && !lost && !o.HasUpdates && !previousRepeat && !alreadyOK && !redone {
			continue
		}
		onlyLane := -1
		if samePipeline {
			onlyLane = lane
		}
		got, err := p.effectiveOutcome(ctx, x, r.Try, o, onlyLane)
		if err != nil {
			return nil, err
		}
		if alreadyOK {
			maps.Copy(s.request.AlreadyOK, got.ok)
			for key := range got.failed {
				delete(s.request.AlreadyOK, key) // in a later iteration of the step, or a later try
			}
		} else {
			s.exclude(p.Program, o, got)
		}
		if previousRepeat {
			s.request.Previous = got.participants()
		}
		if redone {
			maps.Copy(redoneEntities, got.participants())
		}
		if read {
			if resultBytes += got.size(); resultBytes > p.MaxResultBytes {
				return nil, &resultsTooLargeError{&workflow.Failure{
					Code: string(workflow.CodeLimit), Step: node.Label,
					Message: fmt.Sprintf("the results of step %q that the expressions refer to exceed %d bytes", o.Label, p.MaxResultBytes),
				}}
			}
			if err := p.loadResults(ctx, got); err != nil {
				return nil, err
			}
			s.addResults(o.StepIndex, got)
		}
		for _, u := range got.updates {
			if position, known := positions[u.update.Entity]; samePipeline && (!known || position/max(1, r.PackSize) != u.lane) {
				continue // of another lane of the pipeline, which may be earlier or later
			}
			if i, ok := index[u.update.Entity]; ok {
				s.entities[i].Attributes = u.update.Apply(s.entities[i].Attributes)
			}
		}
	}
	for _, lost := range s.excluded {
		maps.Copy(s.request.Excluded, lost)
	}
	// If this try has executed an earlier step for an entity again, this step has to run
	// again too: its old result depends on the step before.
	maps.DeleteFunc(s.request.AlreadyOK, func(key workflow.EntityKey, _ bool) bool { return redoneEntities[key] })
	return s, nil
}

// exclude leaves out the entities that failed in an earlier step and were tolerated,
// unless a later step run of that step was OK for them. After a step with a failure
// handler they take part again. An entity of a pipeline that has not passed the
// earlier step yet is left out too.
func (s *exprScope) exclude(program *definitions.Program, o *workflow.StepRun, got *outcome) {
	excluded := s.excluded[o.StepIndex]
	if excluded == nil {
		excluded = map[workflow.EntityKey]bool{}
		s.excluded[o.StepIndex] = excluded
	}
	for key := range got.ok {
		delete(excluded, key)
	}
	for key := range got.pending {
		excluded[key] = true
	}
	if program.FailureHandler(o.StepIndex) >= 0 {
		return
	}
	for key := range got.failed {
		excluded[key] = true
	}
}

// addResults adds the results of an earlier step run. They replace those of a still
// earlier one of the same node.
func (s *exprScope) addResults(node int, got *outcome) {
	all := s.bindings.Results[node]
	if all == nil {
		all = map[string]json.RawMessage{}
		s.bindings.Results[node] = all
	}
	for key, result := range got.results {
		all[key.ID] = result
	}
}

// childResult is the result of a step that started a child execution: the child's id,
// and the state in which it ended.
func childResult(c *workflow.Child) (map[string]json.RawMessage, error) {
	raw, err := json.Marshal(map[string]any{"id": c.ID, "state": c.State})
	return map[string]json.RawMessage{"": raw}, err
}

// entityPositions numbers the entities of the node's type, nil if the step run is not
// in a pipeline.
func (p *Planner) entityPositions(n *spec.Node, entities []workflow.ScopeEntity, r *workflow.StepRun) map[workflow.EntityKey]int {
	if r.Pipeline == 0 {
		return nil
	}
	positions := map[workflow.EntityKey]int{}
	for i := range entities {
		if entities[i].Key.Type == n.RunOn {
			positions[entities[i].Key] = len(positions)
		}
	}
	return positions
}

// encloses reports whether a node is nested in another.
func encloses(p *definitions.Program, outer, inner int) bool {
	return outer < inner && inner < p.Nodes[outer].End
}

// parameters returns the parameters of the definition that contains the step: the
// execution's own, or those that the embedding step sets.
func (p *Planner) parameters(ctx context.Context, x *workflow.Execution, r *workflow.StepRun, origin int) (json.RawMessage, error) {
	node := p.Program.Origins[origin].NodeIndex
	if node < 0 {
		in, err := p.Input(ctx)
		if err != nil {
			return nil, err
		}
		return in.Parameters, nil
	}
	for i := len(x.StepRuns) - 1; i >= 0; i-- {
		o := &x.StepRuns[i]
		if o.StepIndex != node || !o.Forward() || o.Seq >= r.Seq || o.Try > r.Try {
			continue
		}
		outer, err := p.Plan(ctx, x, o)
		if err != nil {
			return nil, err
		}
		if len(outer.Jobs) == 0 {
			return nil, workflow.Errorf(workflow.CodeInternal, "step %q embeds a workflow but has no parameters for it", o.Label)
		}
		return outer.Jobs[0].Parameters, nil
	}
	return nil, workflow.Errorf(workflow.CodeInternal, "the step that embeds %s has no step run", p.Program.Origins[origin].Definition)
}
