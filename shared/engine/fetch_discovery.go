package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/lockstep-run/lockstep/shared/engine/definitions"
	"github.com/lockstep-run/lockstep/shared/engine/dispatch"
	"github.com/lockstep-run/lockstep/shared/engine/port"
	"github.com/lockstep-run/lockstep/shared/expr"
	"github.com/lockstep-run/lockstep/shared/lifecycle"
	"github.com/lockstep-run/lockstep/shared/lifecycle/plan"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// fetchDiscovery answers NeedDiscovery: the execution's entities in the fixed order of their keys,
// or the acquisition whose block must be called first. It uses the draft because the loaded state
// may still show an acquire call as open that has ended.
func (w *workspace) fetchDiscovery(ctx context.Context, draft *workflow.Execution) error {
	in, err := w.startInput(ctx)
	if err != nil {
		return err
	}
	if w.facts.Resolution == nil {
		if err := w.fetchResolution(ctx); err != nil {
			return err
		}
	}
	if w.facts.Resolution.Problem != nil {
		w.facts.Discovery = &lifecycle.Discovery{AcquireIndex: -1, Problem: w.facts.Resolution.Problem}
		return nil
	}
	acquired, err := w.readAcquired(ctx, draft)
	if err != nil {
		return err
	}
	w.facts.Discovery, err = w.discover(ctx, w.program, in, acquired)
	return err
}

// errLargeSearch means that a search for entities would take a request too long.
var errLargeSearch = errors.New("the entities of the execution are selected by a wake-up")

// leaveSearch leaves an execution whose entities a request does not search to the handler of a wake-up.
// One that is new is stored before, and is then what is stored: it may have been there already.
func (w *workspace) leaveSearch(ctx context.Context) error {
	if w.execution.Version == 0 {
		created := w.execution.Clone()
		if err := w.createOnly(ctx, created); err != nil {
			return err
		}
		if err := w.load(ctx); err != nil {
			w.execution = created // the start has succeeded, whatever else fails
		}
	}
	return w.sendWithCost(ctx, wakeup(w.execution, "search"))
}

// discover searches the entities of an execution. acquired are the entities that blocks have
// acquired.
func (w *workspace) discover(ctx context.Context, program *definitions.Program, in *workflow.Input, acquired map[int][]workflow.EntityKey) (*lifecycle.Discovery, error) {
	search := &entitySearch{
		tenant: w.tenant, registry: w.ports.Registry, program: program, parameters: in.Parameters, maxEntities: w.e.MaxEntities, maxCost: w.e.MaxPlanCost,
	}
	if w.inline && w.facts.Command == nil { // a command has to be committed with what it leads to
		search.maxBytes = w.e.InlineMaxBytes
	}
	found, err := search.findAll(ctx, in.Selector, acquired)
	if err != nil {
		return nil, err
	}
	f := &lifecycle.Discovery{AcquireIndex: found.pendingAcquisition, Problem: found.problem}
	if f.Problem == nil && f.AcquireIndex < 0 {
		if f.Scope, err = w.offloadScope(ctx, found.entities); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// readAcquired reads the entities that blocks have acquired in this try, by the index of the
// acquisition.
func (w *workspace) readAcquired(ctx context.Context, x *workflow.Execution) (map[int][]workflow.EntityKey, error) {
	acquired := map[int][]workflow.EntityKey{}
	for i := range x.StepRuns {
		r := &x.StepRuns[i]
		if r.Kind != workflow.JobAcquire || r.Try != x.Try || r.Open() {
			continue
		}
		packs, err := w.dispatcher().ReadPacks(ctx, &dispatch.StepRun{Tenant: w.tenant, Execution: w.id, Step: r})
		if err != nil {
			return nil, err
		}
		rec := plan.LatestRecords(packs)[0]
		if rec.ResultRef != nil {
			list, err := w.ports.Packs.LoadPayload(ctx, *rec.ResultRef.Pack, *rec.ResultRef)
			if err != nil {
				return nil, err
			}
			if err := json.Unmarshal(list, &rec.Entities); err != nil {
				return nil, workflow.Errorf(workflow.CodeInternal, "the entities that block %s has acquired cannot be decoded: %w", r.Block, err)
			}
		}
		acquired[r.StepIndex] = rec.Entities
	}
	return acquired, nil
}

// entitySearch collects the entities that an execution starts with and acquires.
type entitySearch struct {
	tenant      string
	registry    port.Registry
	program     *definitions.Program
	parameters  json.RawMessage
	maxEntities int
	maxCost     uint64 // for all queries and expansions together; 0 for no limit
	maxBytes    int    // of the entities that are read; 0 for no limit
	foresee     bool   // leave out acquisitions whose block must be called first, and list them in uncalled

	cost     uint64
	bytes    int
	uncalled []int // indexes of acquisitions in the program
	matches  map[workflow.EntityKey]bool
}

// searchResult holds the entities in their fixed order, or the acquisition whose block must be
// called first, or the problem that ends the execution.
type searchResult struct {
	entities           []workflow.ScopeEntity
	pendingAcquisition int // index in the program; -1 for none
	problem            *workflow.Failure
}

// tooLarge counts an entity that was read, and returns an error if the search has read more than it may.
func (s *entitySearch) tooLarge(e workflow.Entity) error {
	s.bytes += len(e.Attributes) + entityBytes
	if s.maxBytes > 0 && s.bytes > s.maxBytes {
		return errLargeSearch
	}
	return nil
}

// entityBytes is about what an entity takes besides its attributes.
const entityBytes = 200

// findAll collects the entities of the start selector and of every acquisition. acquired holds what
// blocks have returned so far, by acquisition.
func (s *entitySearch) findAll(ctx context.Context, start *workflow.Selector, acquired map[int][]workflow.EntityKey) (searchResult, error) {
	s.matches = map[workflow.EntityKey]bool{}
	found := searchResult{pendingAcquisition: -1}
	var err error
	if !start.Empty() {
		if found.problem, err = s.addSelected(ctx, *start, true); found.problem != nil || err != nil {
			return found, err
		}
	}
	if (!start.Empty() || start.None()) && len(s.matches) == 0 && !s.program.AllowsEmpty {
		found.problem = &workflow.Failure{Code: workflow.FailureNothingSelected, Message: "there is no entity of " + describeSelector(*start) + "; \"assertNotEmpty: false\" in the definition allows that"}
		return found, nil
	}
	for i := range s.program.Acquisitions {
		acq := &s.program.Acquisitions[i]
		if acq.Block != "" {
			keys, ok := acquired[i]
			if !ok && s.foresee {
				s.uncalled = append(s.uncalled, i)
				continue
			}
			if !ok {
				found.pendingAcquisition = i
				return found, nil
			}
			found.problem, err = s.addKnown(ctx, keys)
		} else {
			found.problem, err = s.addAcquired(ctx, i)
		}
		if found.problem != nil || err != nil {
			return found, err
		}
		if acq.AssertNotEmpty && len(s.uncalled) == 0 && !s.hasType(acq.Type) {
			found.problem = emptyScopeFailure(fmt.Sprintf("step %q acquires no %s, although it sets assertNotEmpty", s.program.LabelOf(acq.Origin, acq.StepIndex), acq.Type))
			return found, nil
		}
		if len(s.matches) > s.maxEntities {
			break
		}
	}
	switch {
	case len(s.matches) == 0 && len(s.uncalled) == 0 && s.program.AssertNotEmpty:
		found.problem = emptyScopeFailure("no entity matches, although the definition sets assertNotEmpty")
	case len(s.matches) > s.maxEntities:
		found.problem = &workflow.Failure{Code: workflow.FailureLimit,
			Message: fmt.Sprintf("the execution needs at least %d entities, the limit is %d", len(s.matches), s.maxEntities)}
	case s.types() > workflow.MaxEntityTypes:
		found.problem = &workflow.Failure{Code: workflow.FailureLimit,
			Message: fmt.Sprintf("the execution needs entities of %d types, the limit is %d", s.types(), workflow.MaxEntityTypes)}
	}
	for key := range s.matches {
		found.entities = append(found.entities, workflow.ScopeEntity{Key: key})
	}
	slices.SortFunc(found.entities, func(a, b workflow.ScopeEntity) int { return a.Key.Compare(b.Key) })
	return found, nil
}

// describeSelector formats a selector for people.
func describeSelector(s workflow.Selector) string {
	parts := []string{"the type " + s.Type}
	if s.None() {
		parts = append(parts, "an empty list")
	}
	if len(s.Groups) > 0 {
		parts = append(parts, "the groups "+strings.Join(s.Groups, ", "))
	}
	if s.Query != "" {
		parts = append(parts, "the query "+workflow.Truncate(s.Query, workflow.MaxShortMessage))
	}
	return strings.Join(parts, " and ")
}

func emptyScopeFailure(message string) *workflow.Failure {
	return &workflow.Failure{Code: "EMPTY", Message: message}
}

// types returns the number of entity types found.
func (s *entitySearch) types() int {
	types := map[string]bool{}
	for key := range s.matches {
		types[key.Type] = true
	}
	return len(types)
}

func (s *entitySearch) hasType(entityType string) bool {
	for key := range s.matches {
		if key.Type == entityType {
			return true
		}
	}
	return false
}

// addAcquired adds the entities of an acquisition without a block.
func (s *entitySearch) addAcquired(ctx context.Context, i int) (*workflow.Failure, error) {
	a := &s.program.Acquisitions[i]
	sel := workflow.Selector{Type: a.Type, IDs: a.IDs, Groups: a.Groups, Query: a.Query}
	switch {
	case a.Expand != nil:
		return s.addExpanded(ctx, i)
	case a.IDsExpr != "":
		ids, err := s.program.AcquireIDs(i, s.parameters)
		if err != nil {
			return acquireFailure("the ids to acquire cannot be evaluated: ", err), nil
		}
		sel.IDs = append(slices.Clone(sel.IDs), ids...)
		if len(ids) == 0 && sel.Empty() {
			return nil, nil // an empty list of ids selects no entity, not the whole type
		}
	}
	return s.addSelected(ctx, sel, false)
}

// addExpanded adds the entities that entities of another type refer to.
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
	var keys []workflow.EntityKey
	for some := range slices.Chunk(from, entitiesPerRead) {
		entities, err := s.registry.Entities(ctx, s.tenant, some, true)
		if err != nil {
			return nil, err
		}
		for _, key := range some {
			if err := s.tooLarge(entities[key]); err != nil {
				return nil, err
			}
			ids, err := s.program.ExpandIDs(i, s.parameters, entities[key], &s.cost)
			if problem := s.tooCostly(); problem != nil {
				return problem, nil
			}
			if err != nil {
				failure := acquireFailure("the expansion cannot be evaluated: ", err)
				failure.Entity = key.String()
				return failure, nil
			}
			for _, id := range ids {
				keys = append(keys, workflow.EntityKey{Type: a.Type, ID: id})
			}
		}
	}
	return s.addKnown(ctx, keys)
}

func acquireFailure(what string, err error) *workflow.Failure {
	return &workflow.Failure{Code: "ACQUIRE", Message: what + err.Error()}
}

// entitiesPerRead is how many entities a search reads at a time. It needs their attributes only
// briefly, and the attributes of a large scope would fill much of a function's memory.
const entitiesPerRead = 500

// addKnown adds entities by key. A key that is not in the inventory is a problem that names it. An
// entity found by the eventually consistent read may have been deleted since; that shows under the
// lock. An entity that is not found may have been created since, so it is read again.
func (s *entitySearch) addKnown(ctx context.Context, keys []workflow.EntityKey) (*workflow.Failure, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	for some := range slices.Chunk(slices.Compact(slices.SortedFunc(slices.Values(keys), workflow.EntityKey.Compare)), entitiesPerRead) {
		for _, strong := range []bool{false, true} {
			if len(some) == 0 {
				break
			}
			entities, err := s.registry.Entities(ctx, s.tenant, some, strong)
			if err != nil {
				return nil, err
			}
			for key, e := range entities {
				s.matches[key] = true
				if err := s.tooLarge(e); err != nil {
					return nil, err
				}
			}
			some = slices.DeleteFunc(slices.Clone(some), func(key workflow.EntityKey) bool { return s.matches[key] })
		}
	}
	for _, key := range keys {
		if !s.matches[key] {
			return &workflow.Failure{Code: workflow.FailureEntityNotFound, Entity: key.String(),
				Message: fmt.Sprintf("the inventory has no entity %s", key)}, nil
		}
	}
	return nil, nil
}

// addSelected adds the entities of a selector; a selector with only a type adds all entities of
// that type. explicit means that the selector comes from a request. If the query of a request fails
// for every entity, that is a problem, because it is hardly intended.
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
			return &workflow.Failure{Code: "QUERY", Message: err.Error()}, nil //nolint:nilerr // the mistake is the query's: it fails the execution
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
			if all || inGroups(e, sel.Groups) || (query != nil && s.match(query, e)) {
				s.matches[e.Key()] = true
			}
			if problem := s.tooCostly(); problem != nil {
				return problem, nil
			}
			if err := cmp.Or(s.tooLarge(e), ctx.Err()); err != nil { // a costly query over many entities takes long
				return nil, err
			}
		}
		if list.NextToken == "" && explicit && query != nil && query.Err() != nil {
			return &workflow.Failure{Code: "QUERY", Message: "the query fails for every entity: " + query.Err().Error()}, nil //nolint:nilerr // the mistake is the query's: it fails the execution
		}
		if list.NextToken == "" || len(s.matches) > s.maxEntities {
			return nil, nil
		}
		page.Token = list.NextToken
	}
}

// match reports whether a query matches an entity, and adds up the cost.
func (s *entitySearch) match(query *expr.Selection, e workflow.Entity) bool {
	before := query.Cost()
	ok := query.Match(e)
	s.cost += query.Cost() - before
	return ok
}

// tooCostly returns a problem if the search has cost too much, nil otherwise. Without this limit no
// wake-up would finish in its time, because a search keeps nothing that it has found.
func (s *entitySearch) tooCostly() *workflow.Failure {
	if s.maxCost == 0 || s.cost <= s.maxCost {
		return nil
	}
	return &workflow.Failure{Code: workflow.FailureLimit,
		Message: fmt.Sprintf("the queries that select entities cost more than %d for all entities together: make them simpler, or select by groups or ids", s.maxCost)}
}

func inGroups(e workflow.Entity, groups []string) bool {
	return slices.ContainsFunc(e.Groups, func(g string) bool { return slices.Contains(groups, g) })
}
