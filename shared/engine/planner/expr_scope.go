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

// exprScope is what the expressions of a step run see of earlier step runs. For a step run of a
// pipeline it leaves out the other step runs of the pipeline, so that it is the same for all lanes;
// laneScope adds what differs.
type exprScope struct {
	bindings    definitions.Bindings
	expressions *definitions.Expressions // bound to the bindings
	request     plan.Request
	ofLane      bool                                             // entities are those of one lane
	entities    []workflow.ScopeEntity                           // entities of the step's type, with the updates that earlier step runs have requested
	owned       bool                                             // entities is a copy and may be changed
	excluded    map[int]map[workflow.EntityKey]bool              // by the node where they failed
	unexecuted  map[int]map[workflow.EntityKey]*workflow.StepRun // of these, those whose job was not executed, by the step run that had it
	index       func() map[workflow.EntityKey]int                // positions in entities
	resultBytes int                                              // size of the results that the expressions read
}

// resultsTooLargeError rejects a plan whose expressions would read too many bytes.
type resultsTooLargeError struct{ failure *workflow.Failure }

func (e *resultsTooLargeError) Error() string { return e.failure.Message }

// scopeOf returns what a step run sees. For a step run of a pipeline it is built once for all
// lanes: it cannot change, because the step runs before a pipeline have ended.
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

// buildExprScope collects what a step run sees: the results that its expressions read, the status
// of steps, the entities with the updates that earlier step runs have requested, and the excluded
// entities.
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
	return p.exprScopeOver(ctx, x, r, held, -1)
}

// exprScopeOver returns what a step run sees, limited to some of its entities: those of the lane whose first
// entity has the number from, or all if from is -1.
func (p *Planner) exprScopeOver(ctx context.Context, x *workflow.Execution, r *workflow.StepRun, held []workflow.ScopeEntity, from int) (_ *exprScope, err error) {
	node := p.Program.Node(r.StepIndex)
	s := &exprScope{
		excluded: map[int]map[workflow.EntityKey]bool{}, unexecuted: map[int]map[workflow.EntityKey]*workflow.StepRun{},
		bindings: definitions.Bindings{Results: map[int]map[string]json.RawMessage{}, Statuses: map[int]string{}, Fields: map[int]json.RawMessage{}},
		request:  plan.Request{NodeIndex: r.StepIndex, Node: node, IndexByPosition: r.Pipeline > 0, FailAtUnmet: r.Pipeline > 0 && !p.Program.ToleratesAny(r.StepIndex), Excluded: map[workflow.EntityKey]bool{}, AlreadyOK: map[workflow.EntityKey]bool{}},
		ofLane:   from >= 0,
	}
	s.request.From = max(0, from)
	s.setEntities(held)
	if s.bindings.Parameters, err = p.parameters(ctx, x, r, node.Origin); err != nil {
		return nil, err
	}
	var previous *workflow.StepRun
	if r.Iteration > 1 {
		previous = previousRepetition(x, r)
	}
	left, err := p.leftBefore(ctx, x, r)
	if err != nil {
		return nil, err
	}
	others, err := p.outOfRepetition(ctx, x, r, previous, left)
	if err != nil {
		return nil, err
	}
	reads := p.Program.Reads(r.StepIndex, p.references(r))
	if err := p.readResults(ctx, x, r, reads, others, s); err != nil {
		return nil, err
	}
	if s.ofLane && r.BytesBefore > 0 {
		s.resultBytes = r.BytesBefore // those of the other lanes count too
	}
	if err := p.readValues(ctx, x, r, s); err != nil {
		return nil, err
	}
	kept := map[workflow.EntityKey]int{}       // entities that keep their result of an earlier try, with the number of that try
	keptBefore := map[workflow.EntityKey]int{} // entities that keep their result of the previous iteration
	for i := range x.StepRuns {
		o := &x.StepRuns[i]
		if !p.seesStepRun(x, r, o) {
			continue
		}
		s.bindings.Statuses[o.StepIndex] = string(o.Status)
		previousRepeat := o == previous
		ofItems := o.HasJobs() && p.Program.Nodes[o.StepIndex].Foreach != nil // items are not entities
		if ofItems && !o.HasUpdates {
			continue
		}
		alreadyOK := r.OnlyFailed && o.StepIndex == r.StepIndex && o.Try < r.Try && p.placeOf(x, o) == p.placeOf(x, r)
		if !o.HasUpdates && o.HasJobs() && p.Program.Nodes[o.StepIndex].OnEntities() && otherWave(x, r, o) {
			continue // it has none of the same entities
		}
		redone := r.OnlyFailed && (o.Try == r.Try || o.Try > 1 && o.StepIndex < r.StepIndex)
		// A step run of the same try has no jobs for excluded entities, unless a retry of these
		// entities planned it. So it changes nothing about them unless a job fails in it.
		readmits := s.excluded[o.StepIndex] != nil && (o.Try != r.Try || o.OnlyFailed || o.Counts.NotExecuted > 0)
		lost := o.Handled == 0 && o.Counts.Failed+o.Counts.Unknown+o.Unmet > 0 || readmits || o.Counts.NotExecuted > 0 && slices.Contains(reads, o.StepIndex)
		lost = lost && !p.Program.ContinuesOnError(o.StepIndex) // who fails in such a step takes part in what follows
		if !o.HasJobs() {
			if previousRepeat {
				s.request.Previous = map[workflow.EntityKey]bool{{}: true}
			}
			continue
		}
		if !lost && !o.HasUpdates && !previousRepeat && !alreadyOK && !redone {
			continue
		}
		if !readmits && !o.HasUpdates && !previousRepeat && !alreadyOK && !redone { // it only says who is left out
			got, err := p.loadPart(ctx, x, r, o, s)
			if got == nil && err == nil {
				got, err = p.loadLost(ctx, x, o)
			}
			if err != nil {
				return nil, err
			}
			s.exclude(p, x, o, got)
			continue
		}
		got, err := p.effectiveOutcome(ctx, x, r.Try, o)
		if err != nil {
			return nil, err
		}
		switch {
		case ofItems:
		case !alreadyOK:
			s.exclude(p, x, o, got)
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
			// A later try has executed an earlier step or repetition. Whatever came after it
			// depends on it, and must be executed again.
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
	switch all, err := p.leaveRepeats(ctx, x, r, left, s); {
	case err != nil:
		return nil, err
	case all && s.request.Previous != nil:
		s.request.Previous = map[workflow.EntityKey]bool{}
	}
	s.mergeExcluded()
	for key := range kept {
		s.request.AlreadyOK[key] = true
	}
	if s.request.Previous != nil { // entities that keep the result of the previous iteration take part in this one
		for key := range keptBefore {
			s.request.Previous[key] = true
		}
	}
	s.expressions = p.Program.Bind(r.StepIndex, p.Blocks, s.bindings, x)
	return s, nil
}

// keepOK adds to kept the entities whose job in an earlier try ended OK and still stands, and
// removes the other entities that took part.
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

// sameRepetition reports whether o belongs to the same repetition of a step as r, or to the one
// that is before repetitions earlier, within the same repetition of each surrounding step.
func (p *Planner) sameRepetition(x *workflow.Execution, r, o *workflow.StepRun, before int) bool {
	return o.Iteration == r.Iteration-before && p.placeOf(x, o) == p.placeOf(x, r)
}

// seesStepRun reports whether a step run sees another one outside its pipeline. Surrounding step
// runs have not ended, so it does not see those; it does see earlier runs of the same steps.
func (p *Planner) seesStepRun(x *workflow.Execution, r, o *workflow.StepRun) bool {
	if r.StepIndex < len(p.Program.Nodes) && p.wasEnteredIn(x, r, o) {
		return false
	}
	if p.compareBranches(x, r, o) != 0 {
		return false // before and after the branches are joined
	}
	if o.Try < r.Try && (x.InEarlierRound(r, o, false) || p.isPending(x, r, o)) {
		return false // a result of an earlier try that stands but is still to come
	}
	return r.CanReadResultsOf(o) && (r.Pipeline == 0 || o.Pipeline != r.Pipeline)
}

// readResults binds the results of earlier step runs that the expressions read. It starts with the
// latest step run, and skips step runs whose results are all replaced by later runs of the same
// node: an execution may have repeated a step a thousand times. others are entities that take no part in r; only
// what an expression reads of all entities includes their results.
func (p *Planner) readResults(ctx context.Context, x *workflow.Execution, r *workflow.StepRun, reads []int, others map[workflow.EntityKey]bool, s *exprScope) error {
	repeats := map[int]*repeatResults{}      // by node
	lockedOf := map[string]map[string]bool{} // by type
	takingPart := map[string]bool(nil)       // of lockedOf, for the type of r
	for i := len(x.StepRuns) - 1; i >= 0 && len(reads) > 0; i-- {
		o := &x.StepRuns[i]
		if !slices.Contains(reads, o.StepIndex) || !p.seesStepRun(x, r, o) || p.asked(o) {
			continue
		}
		if r.Undoes > 0 && o.StepIndex == r.StepIndex && o.Seq != r.Undoes {
			continue // a compensation undoes one run of the step and sees only the result of that run
		}
		if o.HasJobs() && p.Program.Nodes[o.StepIndex].OnEntities() && r.Undoes == 0 && !slices.Contains(p.Program.Node(r.StepIndex).CrossEntityReads, o.StepIndex) && otherWave(x, r, o) {
			continue // it has no results for the same entities
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
			if lockedOf[runOn], err = p.lockedIDs(ctx, x, r, runOn, s); err != nil {
				return err
			}
		}
		locked := lockedOf[runOn]
		if len(others) > 0 && locked != nil && runOn == p.Program.Node(r.StepIndex).RunOn && !slices.Contains(p.Program.Node(r.StepIndex).CrossEntityReads, o.StepIndex) {
			if takingPart == nil {
				takingPart = maps.Clone(locked)
				maps.DeleteFunc(takingPart, func(id string, _ bool) bool { return others[workflow.EntityKey{Type: runOn, ID: id}] })
			}
			locked = takingPart
		}
		later := repeats[o.StepIndex]
		if later == nil || later.first.Try != o.Try || later.first.Iteration != o.Iteration+1 {
			later = &repeatResults{of: map[workflow.EntityKey]bool{}}
			repeats[o.StepIndex] = later
		}
		later.first = o
		if len(newer) >= max(1, len(locked)) || !o.OnlyFailed && len(later.of) > 0 && len(later.of) >= o.Jobs+o.Unmet {
			continue
		}
		if c := o.Counts; !o.Open() && c.OK == 0 && c.Failed+c.Unknown+c.NotExecuted > 0 {
			if newer == nil {
				s.bindings.Results[o.StepIndex] = map[string]json.RawMessage{}
			}
			continue // it has no results
		}
		got, err := p.loadPart(ctx, x, r, o, s)
		if got == nil && err == nil {
			got, err = p.effectiveOutcome(ctx, x, r.Try, o)
		}
		if err == nil {
			err = p.addResults(ctx, s, o, got)
		}
		if locked != nil { // an earlier try may have had other entities
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

// repeatResults are the entities that have a result in successive repetitions of a step. first is
// the earliest of these step runs. An entity that takes part in a repetition has taken part in all
// repetitions before it. So if two repetitions have the same number of entities, they have the same
// entities.
type repeatResults struct {
	first *workflow.StepRun
	of    map[workflow.EntityKey]bool
}

// lockedIDs returns the entities of a type that the try of a step run has locked, of a lane those of the lane. It
// includes entities that the try has released since, because their results stand.
func (p *Planner) lockedIDs(ctx context.Context, x *workflow.Execution, r *workflow.StepRun, entityType string, s *exprScope) (_ map[string]bool, err error) {
	entities := s.entities
	if !s.ofLane {
		scope := x.ScopeOf(r)
		scope.Only = nil
		if entities, err = p.Entities(ctx, scope); err != nil {
			return nil, err
		}
	}
	locked := map[string]bool{}
	for _, e := range entitiesOfType(entities, entityType) {
		locked[e.Key.ID] = true
	}
	return locked, nil
}

// addResults adds those results of an earlier step run that no later run of the same node has
// replaced.
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

// laneScope returns the scope of one lane of a pipeline's step run, or of all lanes if lane is -1:
// only the entities of the lane, as the earlier step runs of the pipeline have left them.
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
		s.exclude(p, x, o, got)
		if slices.Contains(p.Program.Reads(r.StepIndex, p.references(r)), o.StepIndex) {
			// In the pipeline, this step run is the latest of its node. If it has no result for an
			// entity, an earlier result for the entity stays.
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
			// A lane may request an update of an entity in another lane, which may be ahead or
			// behind.
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

// commonScope returns the scope that contains the lane's scope, and the positions of the lane's
// entities. If the other lanes are not read, it lacks their entities.
func (p *Planner) commonScope(ctx context.Context, x *workflow.Execution, r *workflow.StepRun, lane *laneOutcomes) (common *exprScope, from, to int, err error) {
	if lane.lane >= 0 {
		from, to = r.LaneRange(lane.lane)
	}
	if lane.lane >= 0 && p.inParts && p.scopes[lifecycle.NeedForPlan(r)] == nil {
		held, err := p.SomeEntities(ctx, x.ScopeOf(r), p.Program.Node(r.StepIndex).EntityType(), from, to)
		if err != nil {
			return nil, 0, 0, err
		}
		if common, err = p.exprScopeOver(ctx, x, r, held, from); err != nil {
			return nil, 0, 0, err
		}
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

// part returns the scope of some of the entities, without results of its own.
func (s *exprScope) part(from, to int) *exprScope {
	part := &exprScope{request: s.request, excluded: map[int]map[workflow.EntityKey]bool{}, unexecuted: map[int]map[workflow.EntityKey]*workflow.StepRun{}, resultBytes: s.resultBytes}
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
				if closed := s.unexecuted[node][key]; closed != nil {
					part.addUnexecuted(node, key, closed)
				}
			}
		}
	}
	return part
}

// setEntities sets the entities. They are copied only when an update changes them.
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

// apply applies updates to the entities that belong to the scope.
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

// childResult returns the result of a step that started a child execution: the child's id, the
// state in which it ended, and its output if it has one.
func (p *Planner) childResult(ctx context.Context, o *workflow.StepRun) (json.RawMessage, error) {
	result := map[string]any{"id": o.Child.ID, "state": o.Child.State}
	if o.Value != nil {
		output, err := p.loadValue(ctx, o)
		if err != nil {
			return nil, err
		}
		result["output"] = output
	} else if none := o.ChildOutput(); none != nil {
		result["output"] = none.Inline
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
