package discovery

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/lockstep-run/lockstep/shared/engine/library"
	"github.com/lockstep-run/lockstep/shared/engine/port"
	"github.com/lockstep-run/lockstep/shared/expr"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Search is what is asked for, and what has been found so far.
type Search struct {
	Tenant      string
	Registry    port.Registry
	Program     *library.Program
	Parameters  json.RawMessage
	MaxEntities int

	found map[workflow.EntityKey]bool
}

// Answer is the set of entities in its fixed order; or the index of an
// acquisition whose block has to be asked first; or why there is no set.
type Answer struct {
	Entities []workflow.Held
	Ask      int // -1 for none
	Problem  *workflow.Failure
}

// Run finds everything. asked has what blocks have answered, by acquisition.
func (s *Search) Run(ctx context.Context, start *workflow.Selector, asked map[int][]workflow.EntityKey) (Answer, error) {
	s.found = map[workflow.EntityKey]bool{}
	a := Answer{Ask: -1}
	var err error
	if !start.Empty() {
		if a.Problem, err = s.find(ctx, *start, true); a.Problem != nil || err != nil {
			return a, err
		}
	}
	for i := range s.Program.Acquisitions {
		acq := &s.Program.Acquisitions[i]
		if acq.Block != "" {
			keys, ok := asked[i]
			if !ok {
				a.Ask = i
				return a, nil
			}
			a.Problem, err = s.known(ctx, keys)
		} else {
			a.Problem, err = s.acquire(ctx, i)
		}
		if a.Problem != nil || err != nil {
			return a, err
		}
		if acq.AssertNotEmpty && !s.has(acq.Type) {
			a.Problem = empty(fmt.Sprintf("step %q acquires no %s, and asserts that it does", s.Program.Label(acq.Space, acq.Step), acq.Type))
			return a, nil
		}
		if len(s.found) > s.MaxEntities {
			break
		}
	}
	switch {
	case len(s.found) == 0 && s.Program.AssertNotEmpty:
		a.Problem = empty("no entity matches, and the definition asserts that some do")
	case len(s.found) > s.MaxEntities:
		a.Problem = &workflow.Failure{Code: string(workflow.CodeLimit),
			Message: fmt.Sprintf("the run is about %d entities or more, the limit is %d", len(s.found), s.MaxEntities)}
	}
	for key := range s.found {
		a.Entities = append(a.Entities, workflow.Held{Key: key})
	}
	slices.SortFunc(a.Entities, func(a, b workflow.Held) int { return a.Key.Compare(b.Key) })
	return a, nil
}

func empty(message string) *workflow.Failure {
	return &workflow.Failure{Code: "EMPTY", Message: message}
}

func (s *Search) has(entityType string) bool {
	for key := range s.found {
		if key.Type == entityType {
			return true
		}
	}
	return false
}

// acquire adds what an acquisition without a block names.
func (s *Search) acquire(ctx context.Context, i int) (*workflow.Failure, error) {
	a := &s.Program.Acquisitions[i]
	sel := workflow.Selector{Type: a.Type, IDs: a.IDs, Groups: a.Groups, Query: a.Query}
	switch {
	case a.Expand != nil:
		return s.expand(ctx, i)
	case a.IDsOf != "":
		ids, err := s.Program.AcquireIDs(i, s.Parameters)
		if err != nil {
			return invalid("the ids to acquire have no value: ", err), nil
		}
		sel.IDs = append(slices.Clone(sel.IDs), ids...)
		if len(ids) == 0 && sel.Empty() {
			return nil, nil // no ids are none, not all
		}
	}
	return s.find(ctx, sel, false)
}

// expand adds what entities of another type name.
func (s *Search) expand(ctx context.Context, i int) (*workflow.Failure, error) {
	a := &s.Program.Acquisitions[i]
	var from []workflow.EntityKey
	for key := range s.found {
		if key.Type == a.Expand.From {
			from = append(from, key)
		}
	}
	if len(from) == 0 {
		return nil, nil
	}
	slices.SortFunc(from, workflow.EntityKey.Compare)
	entities, err := s.Registry.Entities(ctx, s.Tenant, from, true)
	if err != nil {
		return nil, err
	}
	var keys []workflow.EntityKey
	for _, key := range from {
		ids, err := s.Program.ExpandIDs(i, s.Parameters, entities[key])
		if err != nil {
			why := invalid("the expansion has no value: ", err)
			why.Entity = key.String()
			return why, nil
		}
		for _, id := range ids {
			keys = append(keys, workflow.EntityKey{Type: a.Type, ID: id})
		}
	}
	return s.known(ctx, keys)
}

func invalid(what string, err error) *workflow.Failure {
	return &workflow.Failure{Code: "ACQUIRE", Message: what + err.Error()}
}

// known adds entities by key. One that the inventory does not know is a problem
// that names it.
func (s *Search) known(ctx context.Context, keys []workflow.EntityKey) (*workflow.Failure, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	known, err := s.Registry.Entities(ctx, s.Tenant, slices.Compact(slices.SortedFunc(slices.Values(keys), workflow.EntityKey.Compare)), true)
	if err != nil {
		return nil, err
	}
	for _, key := range keys {
		if _, ok := known[key]; !ok {
			return &workflow.Failure{Code: "ENTITY_NOT_FOUND", Entity: key.String(),
				Message: fmt.Sprintf("the inventory has no entity %s", key)}, nil
		}
		s.found[key] = true
	}
	return nil, nil
}

// find adds the entities that a selector names; one that names only a type, all
// of it. asked says that somebody has just written the selector: a query that has
// a value for no entity is then a problem, for it is hardly what was meant.
func (s *Search) find(ctx context.Context, sel workflow.Selector, asked bool) (*workflow.Failure, error) {
	keys := make([]workflow.EntityKey, 0, len(sel.IDs))
	for _, id := range sel.IDs {
		keys = append(keys, workflow.EntityKey{Type: sel.Type, ID: id})
	}
	if problem, err := s.known(ctx, keys); problem != nil || err != nil {
		return problem, err
	}
	all := len(sel.IDs) == 0 && len(sel.Groups) == 0 && sel.Query == ""
	if len(sel.Groups) == 0 && sel.Query == "" && !all {
		return nil, nil
	}
	var query *expr.Selection
	if sel.Query != "" {
		compiled, err := expr.CompileQuery(sel.Query)
		if err != nil {
			return &workflow.Failure{Code: "QUERY", Message: err.Error()}, nil //nolint:nilerr // it is the run's problem, not the engine's
		}
		query = compiled.Select()
	}
	page := workflow.Page{Limit: workflow.MaxPage}
	for {
		list, err := s.Registry.EntitiesOf(ctx, s.Tenant, sel.Type, page)
		if err != nil {
			return nil, err
		}
		for _, e := range list.Items {
			if all || inGroups(e, sel.Groups) || (query != nil && query.Match(e)) {
				s.found[e.Key()] = true
			}
			if err := ctx.Err(); err != nil { // many costly queries take their time
				return nil, err
			}
		}
		if list.Next == "" && asked && query != nil && query.Err() != nil {
			return &workflow.Failure{Code: "QUERY", Message: "the query has no value for any entity: " + query.Err().Error()}, nil //nolint:nilerr // it is the run's problem
		}
		if list.Next == "" || len(s.found) > s.MaxEntities {
			return nil, nil
		}
		page.Token = list.Next
	}
}

func inGroups(e workflow.Entity, groups []string) bool {
	return slices.ContainsFunc(e.Groups, func(g string) bool { return slices.Contains(groups, g) })
}
