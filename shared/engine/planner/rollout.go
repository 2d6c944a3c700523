package planner

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/lockstep-run/lockstep/shared/engine/definitions"
	"github.com/lockstep-run/lockstep/shared/lifecycle"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

// A rollout divides the entities into waves only once, when it is entered, because the values that
// it uses may change while it runs. A try that continues a rollout keeps its waves. Entities that
// the rollout did not have then are executed with the last wave.

// PlanWaves completes the plan of a rollout, and returns its waves. entities are those that take
// part in the execution; excluded are those that have failed before.
func PlanWaves(planned *lifecycle.Plan, n *spec.Node, at int, types map[string]bool, expressions *definitions.Expressions, entities []workflow.ScopeEntity, excluded map[workflow.EntityKey]bool) []workflow.Wave {
	if planned.Jobs == 0 || planned.Problem != nil {
		return nil
	}
	waves, numbers, why := divide(n, at, types, expressions, entities, excluded)
	if why == nil {
		raw, err := waves.Encode(numbers)
		if err == nil {
			planned.Value, planned.Items = &workflow.Value{Inline: raw}, len(waves.List)
			for _, w := range waves.List {
				planned.Waves = append(planned.Waves, w.Entities)
			}
			return waves.List
		}
		why = rolloutFailure(n, nil, err)
	}
	*planned = lifecycle.Plan{Cause: why.cause, Problem: &why.Failure}
	return nil
}

func rolloutFailure(n *spec.Node, e *workflow.ScopeEntity, err error) *planFailure {
	why := &planFailure{workflow.Failure{Code: workflow.FailureRollout, Step: n.Label, Message: err.Error()}, workflow.CauseStepFailed}
	if e != nil {
		why.Entity = e.Key.String()
	}
	return why
}

// divide divides the entities of some types into the waves of a rollout. numbers holds the wave of
// each place.
func divide(n *spec.Node, at int, types map[string]bool, expressions *definitions.Expressions, entities []workflow.ScopeEntity, excluded map[workflow.EntityKey]bool) (waves workflow.Waves, numbers []byte, why *planFailure) {
	var on []*workflow.ScopeEntity
	last := 0
	for i := range entities {
		if e := &entities[i]; types[e.Key.Type] && !excluded[e.Key] {
			on, last = append(on, e), max(last, e.Place)
		}
	}
	names, waveOf := []string(nil), []int(nil)
	if n.Rollout.By != "" {
		names, waveOf, why = divideBy(n, at, expressions, on)
	} else {
		names, waveOf = divideByShare(n.Rollout.Batches, on)
	}
	if why != nil {
		return waves, nil, why
	}
	sizes := make([]int, len(names))
	for _, w := range waveOf {
		sizes[w]++
	}
	number := make([]byte, len(names))
	for w, size := range sizes {
		if size == 0 {
			continue // nothing is left for this wave, so it does not exist
		}
		waves.List = append(waves.List, workflow.Wave{Name: names[w], Entities: size})
		number[w] = byte(len(waves.List))
	}
	numbers = make([]byte, last)
	for i, e := range on {
		numbers[e.Place-1] = number[waveOf[i]]
	}
	return waves, numbers, nil
}

// divideBy makes one wave for each value: first the values with a given order, then the others by
// name.
func divideBy(n *spec.Node, at int, expressions *definitions.Expressions, on []*workflow.ScopeEntity) (names []string, waveOf []int, why *planFailure) {
	values, found := make([]string, len(on)), map[string]bool{}
	for i, e := range on {
		name, err := expressions.RolloutBy(at, e)
		if over := expressions.Err(); over != nil {
			return nil, nil, &planFailure{workflow.Failure{Code: workflow.FailureLimit, Step: n.Label, Message: over.Error()}, workflow.CauseLimit}
		}
		if err != nil {
			return nil, nil, rolloutFailure(n, e, fmt.Errorf("rollout.by: %w", err))
		}
		values[i], found[name] = name, true
	}
	if len(found) > spec.MaxWaves {
		return nil, nil, &planFailure{workflow.Failure{Code: workflow.FailureLimit, Step: n.Label,
			Message: fmt.Sprintf("rollout.by has %d values, and a rollout at most %d waves", len(found), spec.MaxWaves)}, workflow.CauseLimit}
	}
	place := func(name string) int {
		if i := slices.Index(n.Rollout.Order, name); i >= 0 {
			return i
		}
		return len(n.Rollout.Order)
	}
	names = slices.SortedFunc(maps.Keys(found), func(a, b string) int { return cmp.Or(place(a)-place(b), cmp.Compare(a, b)) })
	number := map[string]int{}
	for i, name := range names {
		number[name] = i
	}
	waveOf = make([]int, len(on))
	for i, name := range values {
		waveOf[i] = number[name]
	}
	return names, waveOf, nil
}

// divideByShare makes one wave for each share of the entities of each type, and one for the rest.
func divideByShare(shares []spec.Share, on []*workflow.ScopeEntity) (names []string, waveOf []int) {
	total, before := map[string]int{}, map[string]int{}
	for _, e := range on {
		total[e.Key.Type]++
	}
	for _, s := range shares {
		names = append(names, s.String())
	}
	names = append(names, "100%")
	upTo := map[string][]int{} // how many entities of a type have had their turn after each wave
	for entityType, n := range total {
		for _, s := range shares {
			upTo[entityType] = append(upTo[entityType], s.Of(n))
		}
	}
	waveOf = make([]int, len(on))
	for i, e := range on {
		w := 0
		for w < len(shares) && before[e.Key.Type] >= upTo[e.Key.Type][w] {
			w++
		}
		waveOf[i] = w
		before[e.Key.Type]++
	}
	return names, waveOf
}

// dividedWaves holds the waves of a rollout with their entities.
type dividedWaves struct {
	workflow.Waves
	types map[string]bool
	of    map[workflow.EntityKey]int // counted from 0
}

// waveOf returns the wave of an entity, counted from 0; -1 if no step in the waves has its type.
func (w *dividedWaves) waveOf(key workflow.EntityKey) int {
	if !w.types[key.Type] {
		return -1
	}
	if at, known := w.of[key]; known {
		return at
	}
	return len(w.List) - 1
}

// wavesOf returns the waves of a rollout, as divided when it was first entered.
func (p *Planner) wavesOf(ctx context.Context, x *workflow.Execution, rollout int) (*dividedWaves, error) {
	if known, ok := p.waves[rollout]; ok {
		return known, nil
	}
	c := x.StepRunBySeq(rollout)
	if c == nil || c.List == nil {
		return nil, workflow.Errorf(workflow.CodeInternal, "the step run %d has no waves", rollout)
	}
	raw, err := p.loadStored(ctx, c.List)
	if err != nil {
		return nil, err
	}
	d := &dividedWaves{types: p.Program.WaveTypes(c.StepIndex), of: map[workflow.EntityKey]int{}}
	if err := json.Unmarshal(raw, &d.Waves); err != nil {
		return nil, workflow.Errorf(workflow.CodeInternal, "the waves of step %q cannot be decoded: %w", c.Label, err)
	}
	numbers, err := d.Numbers()
	if err != nil {
		return nil, err
	}
	scope := x.ScopeOf(c)
	scope.Only = nil
	entities, err := p.Entities(ctx, scope)
	if err != nil {
		return nil, err
	}
	for i := range entities {
		if e := &entities[i]; e.Place <= len(numbers) && numbers[e.Place-1] > 0 {
			d.of[e.Key] = int(numbers[e.Place-1]) - 1
		}
	}
	if p.waves == nil {
		p.waves = map[int]*dividedWaves{}
	}
	p.waves[rollout] = d
	return d, nil
}

// otherWave reports whether a step run was entered in another wave of the reader's rollout, so that
// it has no results for the same entities.
func otherWave(x *workflow.Execution, r, o *workflow.StepRun) bool {
	rollout, wave := x.WaveOf(r)
	if rollout == nil {
		return false
	}
	other, of := x.WaveOf(o)
	return other == rollout && of != wave
}

// inWave returns the entities that are executed in the wave that a step run belongs to; all
// entities outside rollouts.
func (p *Planner) inWave(ctx context.Context, x *workflow.Execution, r *workflow.StepRun, entities []workflow.ScopeEntity) ([]workflow.ScopeEntity, error) {
	rollout, wave := x.WaveOf(r)
	if rollout == nil {
		return entities, nil
	}
	waves, err := p.wavesOf(ctx, x, rollout.Seq)
	if err != nil {
		return nil, err
	}
	var own []workflow.ScopeEntity
	for i := range entities {
		if at := waves.waveOf(entities[i].Key); at == wave || at < 0 {
			own = append(own, entities[i])
		}
	}
	return own, nil
}

// NextWave finds the wave that a rollout executes next: the next one that has entities in this try.
func (p *Planner) NextWave(ctx context.Context, x *workflow.Execution, n lifecycle.Need) (*lifecycle.Again, error) {
	waves, err := p.wavesOf(ctx, x, n.In)
	if err != nil {
		return nil, err
	}
	entities, err := p.Entities(ctx, x.Scope)
	if err != nil {
		return nil, err
	}
	next := len(waves.List)
	for i := range entities {
		if at := waves.waveOf(entities[i].Key); at >= n.Index {
			next = min(next, at)
		}
	}
	return &lifecycle.Again{More: next < len(waves.List), Wave: next + 1}, nil
}

// stoppedWaves holds the rollout of this execution that has stopped, and what it leaves.
type stoppedWaves struct {
	rollout *workflow.StepRun
	waves   *dividedWaves
}

// stopped returns the rollout that has stopped; nil if there is none.
func (p *Planner) stopped(ctx context.Context, x *workflow.Execution) (*stoppedWaves, error) {
	c := x.StoppedRollout()
	if c == nil {
		return nil, nil
	}
	waves, err := p.wavesOf(ctx, x, c.LoopSeq())
	return &stoppedWaves{c, waves}, err
}

// leaves reports whether an entity is in a wave that has failed or that never began.
func (s *stoppedWaves) leaves(key workflow.EntityKey) bool {
	return s != nil && s.waves.waveOf(key) >= s.rollout.StoppedAt-1
}

// toUndo lists the step runs without entities in the failed wave whose jobs must be undone.
func (p *Planner) toUndo(x *workflow.Execution, s *stoppedWaves) (seqs []int) {
	if s == nil || p.Program.Config.Rollback == workflow.RollbackNever {
		return nil
	}
	for i := range x.StepRuns {
		r := &x.StepRuns[i]
		rollout, wave := x.WaveOf(r)
		if rollout == nil || rollout.Seq != s.rollout.LoopSeq() || wave != s.rollout.StoppedAt-1 || r.Kind != workflow.JobExecute || p.Program.Nodes[r.StepIndex].OnEntities() || r.Pure || r.Counts.Executed() == 0 {
			continue
		}
		undone := slices.ContainsFunc(x.StepRuns, func(u workflow.StepRun) bool {
			return u.Kind == workflow.JobRollback && u.Undoes == r.Seq && u.Jobs > 0 && u.Counts.OK == u.Jobs
		})
		if !undone {
			seqs = append(seqs, r.Seq)
		}
	}
	return seqs
}
