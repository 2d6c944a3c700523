package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/lockstep-run/lockstep/shared/engine/definitions"
	"github.com/lockstep-run/lockstep/shared/engine/port"
	"github.com/lockstep-run/lockstep/shared/expr"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// entitySearch is what is asked for, and what has been found so far.
type entitySearch struct {
	tenant      string
	registry    port.Registry
	program     *definitions.Program
	parameters  json.RawMessage
	maxEntities int

	matches map[workflow.EntityKey]bool
}

// searchResult is the set of entities in its fixed order; or the index of an
// acquisition whose block has to be asked first; or why there is no set.
type searchResult struct {
	entities           []workflow.ScopeEntity
	pendingAcquisition int // -1 for none
	problem            *workflow.Failure
}

// findAll finds everything. asked has what blocks have answered, by acquisition.
func (s *entitySearch) findAll(ctx context.Context, start *workflow.Selector, answers map[int][]workflow.EntityKey) (searchResult, error) {
	s.matches = map[workflow.EntityKey]bool{}
	a := searchResult{pendingAcquisition: -1}
	var err error
	if !start.Empty() {
		if a.problem, err = s.addSelected(ctx, *start, true); a.problem != nil || err != nil {
			return a, err
		}
	}
	for i := range s.program.Acquisitions {
		acq := &s.program.Acquisitions[i]
		if acq.Block != "" {
			keys, ok := answers[i]
			if !ok {
				a.pendingAcquisition = i
				return a, nil
			}
			a.problem, err = s.addKnown(ctx, keys)
		} else {
			a.problem, err = s.addAcquired(ctx, i)
		}
		if a.problem != nil || err != nil {
			return a, err
		}
		if acq.AssertNotEmpty && !s.hasType(acq.Type) {
			a.problem = emptyScopeFailure(fmt.Sprintf("step %q acquires no %s, and asserts that it does", s.program.LabelOf(acq.Origin, acq.StepIndex), acq.Type))
			return a, nil
		}
		if len(s.matches) > s.maxEntities {
			break
		}
	}
	switch {
	case len(s.matches) == 0 && s.program.AssertNotEmpty:
		a.problem = emptyScopeFailure("no entity matches, and the definition asserts that some do")
	case len(s.matches) > s.maxEntities:
		a.problem = &workflow.Failure{Code: string(workflow.CodeLimit),
			Message: fmt.Sprintf("the run is about %d entities or more, the limit is %d", len(s.matches), s.maxEntities)}
	}
	for key := range s.matches {
		a.entities = append(a.entities, workflow.ScopeEntity{Key: key})
	}
	slices.SortFunc(a.entities, func(a, b workflow.ScopeEntity) int { return a.Key.Compare(b.Key) })
	return a, nil
}

func emptyScopeFailure(message string) *workflow.Failure {
	return &workflow.Failure{Code: "EMPTY", Message: message}
}

func (s *entitySearch) hasType(entityType string) bool {
	for key := range s.matches {
		if key.Type == entityType {
			return true
		}
	}
	return false
}

// addAcquired adds what an acquisition without a block names.
func (s *entitySearch) addAcquired(ctx context.Context, i int) (*workflow.Failure, error) {
	a := &s.program.Acquisitions[i]
	sel := workflow.Selector{Type: a.Type, IDs: a.IDs, Groups: a.Groups, Query: a.Query}
	switch {
	case a.Expand != nil:
		return s.addExpanded(ctx, i)
	case a.IDsExpr != "":
		ids, err := s.program.AcquireIDs(i, s.parameters)
		if err != nil {
			return acquireFailure("the ids to acquire have no value: ", err), nil
		}
		sel.IDs = append(slices.Clone(sel.IDs), ids...)
		if len(ids) == 0 && sel.Empty() {
			return nil, nil // no ids are none, not all
		}
	}
	return s.addSelected(ctx, sel, false)
}

// addExpanded adds what entities of another type name.
func (s *entitySearch) addExpanded(ctx context.Context, i int) (*workflow.Failure, error) {
	a := &s.program.Acquisitions[i]
	var from []workflow.EntityKey
	for key := range s.matches {
		if key.Type == a.Expand.From {
			from = append(from, key)
		}
	}
	if len(from) == 0 {
		return nil, nil
	}
	slices.SortFunc(from, workflow.EntityKey.Compare)
	entities, err := s.registry.Entities(ctx, s.tenant, from, true)
	if err != nil {
		return nil, err
	}
	var keys []workflow.EntityKey
	for _, key := range from {
		ids, err := s.program.ExpandIDs(i, s.parameters, entities[key])
		if err != nil {
			failure := acquireFailure("the expansion has no value: ", err)
			failure.Entity = key.String()
			return failure, nil
		}
		for _, id := range ids {
			keys = append(keys, workflow.EntityKey{Type: a.Type, ID: id})
		}
	}
	return s.addKnown(ctx, keys)
}

func acquireFailure(what string, err error) *workflow.Failure {
	return &workflow.Failure{Code: "ACQUIRE", Message: what + err.Error()}
}

// addKnown adds entities by key. One that the inventory does not know is a problem
// that names it.
func (s *entitySearch) addKnown(ctx context.Context, keys []workflow.EntityKey) (*workflow.Failure, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	entities, err := s.registry.Entities(ctx, s.tenant, slices.Compact(slices.SortedFunc(slices.Values(keys), workflow.EntityKey.Compare)), true)
	if err != nil {
		return nil, err
	}
	for _, key := range keys {
		if _, ok := entities[key]; !ok {
			return &workflow.Failure{Code: "ENTITY_NOT_FOUND", Entity: key.String(),
				Message: fmt.Sprintf("the inventory has no entity %s", key)}, nil
		}
		s.matches[key] = true
	}
	return nil, nil
}

// addSelected adds the entities that a selector names; one that names only a type, all
// of it. asked says that somebody has just written the selector: a query that has
// a value for no entity is then a problem, for it is hardly what was meant.
func (s *entitySearch) addSelected(ctx context.Context, sel workflow.Selector, explicit bool) (*workflow.Failure, error) {
	keys := make([]workflow.EntityKey, 0, len(sel.IDs))
	for _, id := range sel.IDs {
		keys = append(keys, workflow.EntityKey{Type: sel.Type, ID: id})
	}
	if problem, err := s.addKnown(ctx, keys); problem != nil || err != nil {
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
	page := workflow.Page{Limit: workflow.MaxPageSize}
	for {
		list, err := s.registry.EntitiesOf(ctx, s.tenant, sel.Type, page)
		if err != nil {
			return nil, err
		}
		for _, e := range list.Items {
			if all || inGroups(e, sel.Groups) || (query != nil && query.Match(e)) {
				s.matches[e.Key()] = true
			}
			if err := ctx.Err(); err != nil { // many costly queries take their time
				return nil, err
			}
		}
		if list.NextToken == "" && explicit && query != nil && query.Err() != nil {
			return &workflow.Failure{Code: "QUERY", Message: "the query has no value for any entity: " + query.Err().Error()}, nil //nolint:nilerr // it is the run's problem
		}
		if list.NextToken == "" || len(s.matches) > s.maxEntities {
			return nil, nil
		}
		page.Token = list.NextToken
	}
}

func inGroups(e workflow.Entity, groups []string) bool {
	return slices.ContainsFunc(e.Groups, func(g string) bool { return slices.Contains(groups, g) })
}
