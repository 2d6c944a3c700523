package planner

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/lockstep-run/lockstep/shared/engine/library"
	"github.com/lockstep-run/lockstep/shared/lifecycle/plan"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

// sight is what a visit sees of those before it.
type sight struct {
	view     library.View
	visit    plan.Visit
	entities []workflow.Held
	lost     map[int]map[workflow.EntityKey]bool // by the node they were lost at
}

// tooMuch is the refusal of a plan whose expressions would read too much.
type tooMuch struct{ failure *workflow.Failure }

func (t *tooMuch) Error() string { return t.failure.Message }

// sight gathers what a visit sees: the results that its expressions read, the
// status of steps, the entities with the updates that earlier visits have asked
// for, and who takes no part. lane is that of a run of a stretch, or -1.
func (p *Planner) sight(ctx context.Context, x *workflow.Execution, r *workflow.StepRun, lane int) (*sight, error) {
	node := &p.Program.Nodes[r.Step]
	s := &sight{
		lost:  map[int]map[workflow.EntityKey]bool{},
		view:  library.View{Results: map[int]map[string]json.RawMessage{}, Statuses: map[int]string{}},
		visit: plan.Visit{Index: r.Step, Node: node, Sparse: r.Stretch > 0, Without: map[workflow.EntityKey]bool{}, Kept: map[workflow.EntityKey]bool{}},
	}
	held, err := p.Entities(ctx, x.ScopeOf(r))
	if err != nil {
		return nil, err
	}
	s.entities = slices.Clone(held)
	if s.view.Parameters, err = p.parameters(ctx, x, r, node.Space); err != nil {
		return nil, err
	}
	reads := p.Program.Reads(r.Step)
	at := map[workflow.EntityKey]int{}
	for i := range s.entities {
		at[s.entities[i].Key] = i
	}
	places := p.places(node, s.entities, r)
	anew := map[workflow.EntityKey]bool{} // with which this try has done something already
	total := 0
	for i := range x.Runs {
		o := &x.Runs[i]
		if !r.Sees(o) || encloses(p.Program, o.Step, r.Step) {
			continue
		}
		s.view.Statuses[o.Step] = string(o.Status)
		mate := r.Stretch > 0 && o.Stretch == r.Stretch
		again := r.Repeat > 1 && o.Step == r.Step && o.Try == r.Try && o.Repeat == r.Repeat-1
		kept := r.OnlyFailed && o.Step == r.Step
		redone := r.OnlyFailed && o.Step < r.Step && o.Try == r.Try
		read := slices.Contains(reads, o.Step)
		lost := o.Tally.Failed+o.Tally.Unknown > 0 || mate || s.lost[o.Step] != nil
		if !o.HasJobs() {
			if again {
				s.visit.Took = map[workflow.EntityKey]bool{{}: true}
			}
			if o.Child != nil && read {
				if s.view.Results[o.Step], err = started(o.Child); err != nil {
					return nil, err
				}
			}
			continue
		}
		if !read && !lost && !o.Updates && !again && !kept && !redone {
			continue
		}
		limit := -1
		if mate {
			limit = lane
		}
		got, err := p.standing(ctx, x, r.Try, o, limit)
		if err != nil {
			return nil, err
		}
		if kept {
			maps.Copy(s.visit.Kept, got.ok)
			for key := range got.failed {
				delete(s.visit.Kept, key) // a later round of the step, or a later try
			}
		} else {
			s.exclude(p.Program, o, got)
		}
		if again {
			s.visit.Took = got.took()
		}
		if redone {
			maps.Copy(anew, got.took())
		}
		if read {
			if total += got.size(); total > p.MaxResults {
				return nil, &tooMuch{&workflow.Failure{
					Code: string(workflow.CodeLimit), Step: node.Label,
					Message: fmt.Sprintf("the results of step %q that the expressions refer to exceed %d bytes", o.Label, p.MaxResults),
				}}
			}
			if err := p.load(ctx, got); err != nil {
				return nil, err
			}
			s.read(o.Step, got)
		}
		for _, u := range got.updates {
			if place, known := places[u.update.Entity]; mate && (!known || place/max(1, r.PackSize) != u.lane) {
				continue // of another lane of the stretch, which may come earlier or later
			}
			if i, ok := at[u.update.Entity]; ok {
				s.entities[i].Attributes = u.update.Apply(s.entities[i].Attributes)
			}
		}
	}
	for _, lost := range s.lost {
		maps.Copy(s.visit.Without, lost)
	}
	// What was done with an entity before stands on what is done with it anew.
	maps.DeleteFunc(s.visit.Kept, func(key workflow.EntityKey, _ bool) bool { return anew[key] })
	return s, nil
}

// exclude leaves out the entities that failed in an earlier step and were
// tolerated, unless a later visit of it came to OK with them. After a step that
// goes on after errors they take part again. Who has not come to it yet, in a
// stretch, does not take part either.
func (s *sight) exclude(program *library.Program, o *workflow.StepRun, got *outcome) {
	lost := s.lost[o.Step]
	if lost == nil {
		lost = map[workflow.EntityKey]bool{}
		s.lost[o.Step] = lost
	}
	for key := range got.ok {
		delete(lost, key)
	}
	for key := range got.pending {
		lost[key] = true
	}
	if program.Handler(o.Step) >= 0 {
		return
	}
	for key := range got.failed {
		lost[key] = true
	}
}

// read adds an earlier visit's results, of which a later one's replace those of
// an earlier one.
func (s *sight) read(node int, got *outcome) {
	all := s.view.Results[node]
	if all == nil {
		all = map[string]json.RawMessage{}
		s.view.Results[node] = all
	}
	for key, result := range got.results {
		all[key.ID] = result
	}
}

// started is what later steps see of a step that started a run: its id, and the
// state it ended in.
func started(c *workflow.Child) (map[string]json.RawMessage, error) {
	raw, err := json.Marshal(map[string]any{"id": c.ID, "state": c.State})
	return map[string]json.RawMessage{"": raw}, err
}

// places numbers the entities of the node's type.
func (p *Planner) places(n *spec.Node, entities []workflow.Held, r *workflow.StepRun) map[workflow.EntityKey]int {
	if r.Stretch == 0 {
		return nil
	}
	places := map[workflow.EntityKey]int{}
	for i := range entities {
		if entities[i].Key.Type == n.RunOn {
			places[entities[i].Key] = len(places)
		}
	}
	return places
}

// encloses reports whether a node is nested in another.
func encloses(p *library.Program, outer, inner int) bool {
	return outer < inner && inner < p.Nodes[outer].End
}

// parameters are those of the definition in which a visit's step stands: the
// run's own, or what the step that embeds it gives.
func (p *Planner) parameters(ctx context.Context, x *workflow.Execution, r *workflow.StepRun, space int) (json.RawMessage, error) {
	node := p.Program.Spaces[space].Node
	if node < 0 {
		in, err := p.Input(ctx)
		if err != nil {
			return nil, err
		}
		return in.Parameters, nil
	}
	for i := len(x.Runs) - 1; i >= 0; i-- {
		o := &x.Runs[i]
		if o.Step != node || !o.Forward() || o.RunSeq >= r.RunSeq || o.Try > r.Try {
			continue
		}
		outer, err := p.Plan(ctx, x, o)
		if err != nil {
			return nil, err
		}
		if len(outer.Jobs) == 0 {
			return nil, workflow.Errorf(workflow.CodeInternal, "step %q embeds a workflow and has no parameters for it", o.Label)
		}
		return outer.Jobs[0].Parameters, nil
	}
	return nil, workflow.Errorf(workflow.CodeInternal, "the step that embeds %s has not been visited", p.Program.Spaces[space].Definition)
}
