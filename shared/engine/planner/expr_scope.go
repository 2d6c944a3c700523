package planner

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/lockstep-run/lockstep/shared/engine/definitions"
	"github.com/lockstep-run/lockstep/shared/lifecycle"
	"github.com/lockstep-run/lockstep/shared/lifecycle/plan"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// exprScope is what the expressions of a step run see of the earlier step runs. That of a
// step run of a pipeline is without the other step runs of the pipeline, and so the same
// for all lanes; laneScope adds what differs.
type exprScope struct {
	bindings    definitions.Bindings
	expressions *definitions.Expressions // bound to the bindings
	request     plan.Request
	entities    []workflow.ScopeEntity              // of the step's type, with the updates that earlier step runs have requested
	owned       bool                                // entities is a copy and may be changed
	excluded    map[int]map[workflow.EntityKey]bool // by the node they failed at
	index       func() map[workflow.EntityKey]int   // positions in entities
	resultBytes int                                 // of the results that the expressions read
}

// resultsTooLargeError rejects a plan whose expressions would read too many bytes.
type resultsTooLargeError struct{ failure *workflow.Failure }

func (e *resultsTooLargeError) Error() string { return e.failure.Message }

// scopeOf returns what a step run sees. That of a step run of a pipeline is built once
// for all lanes: the step runs before a pipeline have ended, so it cannot change.
func (p *Planner) scopeOf(ctx context.Context, x *workflow.Execution, r *workflow.StepRun) (*exprScope, error) {
	need := lifecycle.NeedForPlan(r)
	if known, ok := p.scopes[need]; ok {
		return known, nil
	}
	s, err := p.buildExprScope(ctx, x, r)
	if err == nil && r.Pipeline > 0 {
		if p.scopes == nil {
			p.scopes = map[lifecycle.Need]*exprScope{}
		}
		p.scopes[need] = s
	}
	return s, err
}

// buildExprScope collects what a step run sees: the results that its expressions read,
// the status of steps, the entities with the updates that earlier step runs have
// requested, and the entities that are left out.
func (p *Planner) buildExprScope(ctx context.Context, x *workflow.Execution, r *workflow.StepRun) (*exprScope, error) {
	node := p.Program.Node(r.StepIndex)
	var held []workflow.ScopeEntity
	if node.Rollout != nil || node.OnEntities() {
		var err error
		if held, err = p.Entities(ctx, x.ScopeOf(r)); err != nil {
			return nil, err
		}
		if node.Rollout == nil { // a rollout divides the entities of all types
			if held, err = p.inWave(ctx, x, r, entitiesOfType(held, node.EntityType())); err != nil {
				return nil, err
			}
		}
	}
	return p.exprScopeOver(ctx, x, r, held)
}

// exprScopeOver is what a step run sees, with some of its entities.
func (p *Planner) exprScopeOver(ctx context.Context, x *workflow.Execution, r *workflow.StepRun, held []workflow.ScopeEntity) (_ *exprScope, err error) {
	node := p.Program.Node(r.StepIndex)
	s := &exprScope{
		excluded: map[int]map[workflow.EntityKey]bool{},
		bindings: definitions.Bindings{Results: map[int]map[string]json.RawMessage{}, Statuses: map[int]string{}, Fields: map[int]json.RawMessage{}},
		request:  plan.Request{NodeIndex: r.StepIndex, Node: node, IndexByPosition: r.Pipeline > 0, FailAtUnmet: r.Pipeline > 0 && !p.Program.ToleratesAny(r.StepIndex), Excluded: map[workflow.EntityKey]bool{}, AlreadyOK: map[workflow.EntityKey]bool{}},
	}
	s.setEntities(held)
	if s.bindings.Parameters, err = p.parameters(ctx, x, r, node.Origin); err != nil {
		return nil, err
	}
	reads := p.Program.Reads(r.StepIndex, p.references(r))
	if err := p.readResults(ctx, x, r, reads, s); err != nil {
		return nil, err
	}
	if err := p.readValues(ctx, x, r, s); err != nil {
		return nil, err
	}
	var previous *workflow.StepRun
	if r.Iteration > 1 {
		previous = previousRepetition(x, r)
	}
	kept := map[workflow.EntityKey]int{}       // those that keep their result of an earlier try, with its number
	keptBefore := map[workflow.EntityKey]int{} // those that keep their result of the previous iteration
	for i := range x.StepRuns {
		o := &x.StepRuns[i]
		if !p.seesStepRun(x, r, o) {
			continue
		}
		s.bindings.Statuses[o.StepIndex] = string(o.Status)
		previousRepeat := o == previous
		ofItems := o.HasJobs() && p.Program.Nodes[o.StepIndex].Foreach != nil // items are nobody's entities
		if ofItems && !o.HasUpdates {
			continue
		}
		alreadyOK := r.OnlyFailed && o.StepIndex == r.StepIndex && o.Try < r.Try && p.placeOf(x, o) == p.placeOf(x, r)
		if !o.HasUpdates && o.HasJobs() && p.Program.Nodes[o.StepIndex].OnEntities() && otherWave(x, r, o) {
			continue // it is about none of the same entities
		}
		redone := r.OnlyFailed && (o.Try == r.Try || o.Try > 1 && o.StepIndex < r.StepIndex)
		// A step run of the same try has no job for entities that are excluded, unless it was
		// planned by a retry of those: it changes nothing about them unless one fails in it.
		readmits := s.excluded[o.StepIndex] != nil && (o.Try != r.Try || o.OnlyFailed || o.Counts.NotExecuted > 0)
		lost := o.Handled == 0 && o.Counts.Failed+o.Counts.Unknown+o.Unmet > 0 || readmits || o.Counts.NotExecuted > 0 && slices.Contains(reads, o.StepIndex)
		if !o.HasJobs() {
			if previousRepeat {
				s.request.Previous = map[workflow.EntityKey]bool{{}: true}
			}
			continue
		}
		if !lost && !o.HasUpdates && !previousRepeat && !alreadyOK && !redone {
			continue
		}
		got, err := p.effectiveOutcome(ctx, x, r.Try, o)
		if err != nil {
			return nil, err
		}
		switch {
		case ofItems:
		case !alreadyOK:
			s.exclude(p.Program, o, got)
		case p.sameRepetition(x, r, o, 0):
			err = p.keepOK(ctx, x, o, got, kept)
		case p.sameRepetition(x, r, o, 1):
			err = p.keepOK(ctx, x, o, got, keptBefore)
			maps.DeleteFunc(keptBefore, func(key workflow.EntityKey, _ int) bool { return got.broke[key] })
		}
		if err != nil {
			return nil, err
		}
		if previousRepeat {
			s.request.Previous = got.participants()
			maps.DeleteFunc(s.request.Previous, func(key workflow.EntityKey, _ bool) bool { return got.broke[key] })
		}
		if redone && !ofItems {
			// A later try has executed an earlier step, or an earlier repetition: what came after
			// it depends on it, and has to be executed again.
			for key := range got.participants() {
				for _, old := range []map[workflow.EntityKey]int{kept, keptBefore} {
					if old[key] < o.Try {
						delete(old, key)
					}
				}
			}
		}
		s.apply(got.requestedUpdates())
	}
	switch all, err := p.leaveRepeats(ctx, x, r, s); {
	case err != nil:
		return nil, err
	case all && s.request.Previous != nil:
		s.request.Previous = map[workflow.EntityKey]bool{}
	}
	s.mergeExcluded()
	for key := range kept {
		s.request.AlreadyOK[key] = true
	}
	if s.request.Previous != nil { // who keeps the result of the iteration before takes part in this one
		for key := range keptBefore {
			s.request.Previous[key] = true
		}
	}
	s.expressions = p.Program.Bind(r.StepIndex, p.Blocks, s.bindings, x)
	return s, nil
}

// keepOK adds to kept the entities whose job in an earlier try ended with OK and still stands,
// and removes the others that took part.
func (p *Planner) keepOK(ctx context.Context, x *workflow.Execution, o *workflow.StepRun, standing *outcome, kept map[workflow.EntityKey]int) error {
	all, err := p.loadOutcome(ctx, x, o)
	if err != nil {
		return err
	}
	for key := range all.participants() {
		if kept[key] = o.Try; !standing.ok[key] {
			delete(kept, key)
		}
	}
	return nil
}

// sameRepetition reports whether two step runs of a step are the same repetition of it, or o is
// the one so many before, within the same repetition of each step around it.
func (p *Planner) sameRepetition(x *workflow.Execution, r, o *workflow.StepRun, before int) bool {
	return o.Iteration == r.Iteration-before && p.placeOf(x, o) == p.placeOf(x, r)
}

// seesStepRun reports whether a step run sees another one that is not of its pipeline. Those
// around it have not ended; earlier ones of the same steps have.
func (p *Planner) seesStepRun(x *workflow.Execution, r, o *workflow.StepRun) bool {
	if r.StepIndex < len(p.Program.Nodes) && p.wasEnteredIn(x, r, o) {
		return false
	}
	if p.compareBranches(x, r, o) != 0 {
		return false // before and after the branches are joined
	}
	if o.Try < r.Try && (x.InEarlierTime(r, o, false) || p.isStillToCome(x, r, o)) {
		return false // what an earlier try has done then stands, and is still to come
	}
	return r.CanReadResultsOf(o) && (r.Pipeline == 0 || o.Pipeline != r.Pipeline)
}

// readResults binds the results of earlier step runs that the expressions read. It begins
// with the latest step run, and leaves out those whose results later ones of the same
// node all replace: an execution may have repeated a step a thousand times.
func (p *Planner) readResults(ctx context.Context, x *workflow.Execution, r *workflow.StepRun, reads []int, s *exprScope) error {
	repeats := map[int]*repeatResults{}      // by node
	lockedOf := map[string]map[string]bool{} // by type
	for i := len(x.StepRuns) - 1; i >= 0 && len(reads) > 0; i-- {
		o := &x.StepRuns[i]
		if !slices.Contains(reads, o.StepIndex) || !p.seesStepRun(x, r, o) || p.asked(o) {
			continue
		}
		if r.Undoes > 0 && o.StepIndex == r.StepIndex && o.Seq != r.Undoes {
			continue // what is undone is this run of the step, and its result no other's
		}
		if o.HasJobs() && p.Program.Nodes[o.StepIndex].OnEntities() && r.Undoes == 0 && !slices.Contains(p.Program.Node(r.StepIndex).CrossEntityReads, o.StepIndex) && otherWave(x, r, o) {
			continue // it has none of the same entities
		}
		newer := s.bindings.Results[o.StepIndex]
		if n := &p.Program.Nodes[o.StepIndex]; n.Foreach != nil && n.StartsChild() {
			if s.bindings.Fields[o.StepIndex] == nil {
				if err := p.bindItemResults(ctx, x, r, o, s); err != nil {
					return err
				}
			}
			continue
		}
		if !o.HasJobs() || o.Wait != nil {
			if o.Value != nil && o.Wait == nil && o.Child == nil && o.Status == sm.StepCompleted && s.bindings.Fields[o.StepIndex] == nil && len(p.Program.Nodes[o.StepIndex].Set) == 0 {
				fields, err := p.loadValue(ctx, o)
				if err != nil {
					return err
				}
				s.bindings.Fields[o.StepIndex] = fields
			}
			if o.Child != nil && newer == nil {
				result, err := p.childResult(ctx, o)
				if err != nil {
					return err
				}
				if s.resultBytes += len(result); s.resultBytes > p.MaxResultBytes {
					return p.resultsTooLarge(s, o)
				}
				s.bindings.Results[o.StepIndex] = map[string]json.RawMessage{"": result}
			}
			if o.Wait != nil && newer == nil {
				result, err := p.waitResult(ctx, o)
				if err != nil {
					return err
				}
				if s.resultBytes += len(result); s.resultBytes > p.MaxResultBytes {
					return p.resultsTooLarge(s, o)
				}
				if result != nil {
					s.bindings.Results[o.StepIndex] = map[string]json.RawMessage{"": result}
				}
			}
			continue
		}
		if p.Program.Nodes[o.StepIndex].Foreach != nil {
			if s.bindings.Fields[o.StepIndex] == nil {
				if err := p.bindItemResults(ctx, x, r, o, s); err != nil {
					return err
				}
			}
			continue
		}
		runOn := p.Program.Nodes[o.StepIndex].RunOn
		if p.Program.Nodes[o.StepIndex].OnEntities() && lockedOf[runOn] == nil {
			var err error
			if lockedOf[runOn], err = p.lockedIDs(ctx, x, r, runOn); err != nil {
				return err
			}
		}
		locked := lockedOf[runOn]
		later := repeats[o.StepIndex]
		if later == nil || later.first.Try != o.Try || later.first.Iteration != o.Iteration+1 {
			later = &repeatResults{of: map[workflow.EntityKey]bool{}}
			repeats[o.StepIndex] = later
		}
		later.first = o
		if len(newer) >= max(1, len(locked)) || !o.OnlyFailed && len(later.of) > 0 && len(later.of) >= o.Jobs+o.Unmet {
			continue
		}
		got, err := p.effectiveOutcome(ctx, x, r.Try, o)
		if err == nil {
			err = p.addResults(ctx, s, o, got)
		}
		if locked != nil { // an earlier try may have had others
			maps.DeleteFunc(s.bindings.Results[o.StepIndex], func(id string, _ json.RawMessage) bool { return !locked[id] })
		}
		if err != nil {
			return err
		}
		for key := range got.results {
			later.of[key] = true
		}
	}
	return nil
}

// repeatResults are the entities for which successive repetitions of a step have a result.
// first is the earliest of these step runs. Whoever takes part in a repetition has taken
// part in those before it, so if there are as many as take part in the repetition before,
// they are the same.
type repeatResults struct {
	first *workflow.StepRun
	of    map[workflow.EntityKey]bool
}

// lockedIDs are the entities of a type of which the try of a step run had the locks: also those
// that it has released since, whose results stand.
func (p *Planner) lockedIDs(ctx context.Context, x *workflow.Execution, r *workflow.StepRun, entityType string) (map[string]bool, error) {
	scope := x.ScopeOf(r)
	scope.Only = nil
	entities, err := p.Entities(ctx, scope)
	if err != nil {
		return nil, err
	}
	locked := map[string]bool{}
	for _, e := range entitiesOfType(entities, entityType) {
		locked[e.Key.ID] = true
	}
	return locked, nil
}

// addResults adds the results of an earlier step run that no later one of the same node
// has replaced.
func (p *Planner) addResults(ctx context.Context, s *exprScope, o *workflow.StepRun, got *outcome) error {
	if s.resultBytes += got.size(); s.resultBytes > p.MaxResultBytes {
		return p.resultsTooLarge(s, o)
	}
	if err := p.loadResults(ctx, got); err != nil {
		return err
	}
	all := s.bindings.Results[o.StepIndex]
	if all == nil {
		all = make(map[string]json.RawMessage, len(got.results))
		s.bindings.Results[o.StepIndex] = all
	}
	for key, result := range got.results {
		if _, replaced := all[key.ID]; !replaced {
			all[key.ID] = result
		}
	}
	return nil
}

// resultTooLarge rejects a plan that needs all results of a step run.
func (p *Planner) resultTooLarge(o *workflow.StepRun) error {
	return &resultsTooLargeError{&workflow.Failure{
		Code: workflow.FailureLimit, Step: o.Label,
		Message: fmt.Sprintf("the results of step %q exceed %d bytes", o.Label, p.MaxResultBytes),
	}}
}

func (p *Planner) resultsTooLarge(s *exprScope, o *workflow.StepRun) error {
	return &resultsTooLargeError{&workflow.Failure{
		Code: workflow.FailureLimit, Step: s.request.Node.Label,
		Message: fmt.Sprintf("the results of step %q that the expressions refer to exceed %d bytes", o.Label, p.MaxResultBytes),
	}}
}

// laneScope is the scope of one lane of a step run of a pipeline, or of all lanes if lane
// is -1: only the entities of the lane, with what the earlier step runs of the pipeline
// have made of them.
func (p *Planner) laneScope(ctx context.Context, x *workflow.Execution, r *workflow.StepRun, lane *laneOutcomes) (*exprScope, error) {
	common, from, to, err := p.commonScope(ctx, x, r, lane)
	if err != nil {
		return nil, err
	}
	s := common.part(from-common.request.From, to-common.request.From)
	for _, o := range pipelineStepRuns(x, r.Pipeline) {
		if o.Seq >= r.Seq {
			break
		}
		got, err := p.laneOutcome(ctx, x, o, lane)
		if err != nil {
			return nil, err
		}
		s.exclude(p.Program, o, got)
		if slices.Contains(p.Program.Reads(r.StepIndex, p.references(r)), o.StepIndex) {
			// In the pipeline, this step run is the latest of its node. Results that an
			// earlier one has for the same entities stay where it has none.
			older := common.bindings.Results[o.StepIndex]
			if err := p.addResults(ctx, s, o, got); err != nil {
				return nil, err
			}
			for i := range s.entities {
				id := s.entities[i].Key.ID
				if result, ok := older[id]; ok && s.bindings.Results[o.StepIndex][id] == nil {
					s.bindings.Results[o.StepIndex][id] = result
				}
			}
		}
		var updates []workflow.Update
		for _, u := range got.updates {
			// A lane may ask to update an entity of another one, which may be earlier or
			// later.
			if at, known := s.index()[u.update.Entity]; known && (from+at)/max(1, r.PackSize) == u.lane {
				updates = append(updates, u.update)
			}
		}
		s.apply(updates)
	}
	s.mergeExcluded()
	s.expressions = common.expressions.WithResults(s.bindings.Results)
	return s, nil
}

// commonScope returns the scope of which that of a lane is a part, and the positions of the lane's
// entities. It is without the entities of other lanes if those are not read.
func (p *Planner) commonScope(ctx context.Context, x *workflow.Execution, r *workflow.StepRun, lane *laneOutcomes) (common *exprScope, from, to int, err error) {
	if lane.lane >= 0 {
		from, to = r.LaneRange(lane.lane)
	}
	if lane.lane >= 0 && p.inParts && p.scopes[lifecycle.NeedForPlan(r)] == nil {
		held, err := p.SomeEntities(ctx, x.ScopeOf(r), p.Program.Node(r.StepIndex).EntityType(), from, to)
		if err != nil {
			return nil, 0, 0, err
		}
		if common, err = p.exprScopeOver(ctx, x, r, held); err != nil {
			return nil, 0, 0, err
		}
		common.request.From = from
		return common, from, from + len(held), nil
	}
	if common, err = p.scopeOf(ctx, x, r); err != nil {
		return nil, 0, 0, err
	}
	if all := len(common.entities); lane.lane < 0 {
		to = all
	} else {
		to = min(to, all)
		from = min(from, to)
	}
	return common, from, to, nil
}

// part is the scope of some of the entities, without results of its own.
func (s *exprScope) part(from, to int) *exprScope {
	part := &exprScope{request: s.request, excluded: map[int]map[workflow.EntityKey]bool{}, resultBytes: s.resultBytes}
	part.bindings.Results = map[int]map[string]json.RawMessage{}
	part.setEntities(s.entities[from:to])
	part.request.From, part.request.Excluded = s.request.From+from, map[workflow.EntityKey]bool{}
	for node, all := range s.excluded {
		for i := range part.entities {
			if key := part.entities[i].Key; all[key] {
				if part.excluded[node] == nil {
					part.excluded[node] = map[workflow.EntityKey]bool{}
				}
				part.excluded[node][key] = true
			}
		}
	}
	return part
}

// setEntities sets the entities, which are not copied before an update changes them.
func (s *exprScope) setEntities(entities []workflow.ScopeEntity) {
	s.entities, s.owned = entities, false
	s.index = sync.OnceValue(func() map[workflow.EntityKey]int {
		index := make(map[workflow.EntityKey]int, len(entities))
		for i := range entities {
			index[entities[i].Key] = i
		}
		return index
	})
}

// apply applies updates to their entities, as far as these are among those of the scope.
func (s *exprScope) apply(updates []workflow.Update) {
	var requested EntityUpdates
	requested.add(updates)
	for _, key := range requested.Keys {
		i, ok := s.index()[key]
		if !ok {
			continue
		}
		if !s.owned {
			s.entities, s.owned = slices.Clone(s.entities), true
		}
		s.entities[i].Attributes = workflow.ApplyUpdates(s.entities[i].Attributes, requested.ByEntity[key])
	}
}

func (s *exprScope) mergeExcluded() {
	for _, lost := range s.excluded {
		maps.Copy(s.request.Excluded, lost)
	}
}

// entitiesOfType returns the entities of one type. A scope is in the order of its keys, so
// they are next to each other.
func entitiesOfType(entities []workflow.ScopeEntity, entityType string) []workflow.ScopeEntity {
	from := slices.IndexFunc(entities, func(e workflow.ScopeEntity) bool { return e.Key.Type == entityType })
	if from < 0 {
		return nil
	}
	to := from
	for to < len(entities) && entities[to].Key.Type == entityType {
		to++
	}
	return entities[from:to:to]
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
	if o.Handled > 0 || program.ContinuesOnError(o.StepIndex) {
		for key := range got.failed {
			delete(excluded, key) // it has failed in an earlier try, too, where nothing handled that
		}
		return
	}
	closed := o.Status == sm.StepCancelled && program.InBranch(o.StepIndex) // by its branch: what was not executed has not failed
	for key := range got.failed {
		if !closed || !got.notExecuted[key] {
			excluded[key] = true
		}
	}
}

// childResult is the result of a step that started a child execution: the child's id, the
// state in which it ended, and its output if it has one.
func (p *Planner) childResult(ctx context.Context, o *workflow.StepRun) (json.RawMessage, error) {
	result := map[string]any{"id": o.Child.ID, "state": o.Child.State}
	if o.Value != nil {
		output, err := p.loadValue(ctx, o)
		if err != nil {
			return nil, err
		}
		result["output"] = output
	}
	return workflow.EncodeJSON(result)
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
