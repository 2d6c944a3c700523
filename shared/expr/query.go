package expr

import "github.com/lockstep-run/lockstep/shared/workflow"

// Query selects entities by a condition over their attributes and groups.
type Query struct{ program *Program }

// CompileQuery compiles a query.
func CompileQuery(source string) (*Query, error) {
	l, err := queryLanguage()
	if err != nil {
		return nil, err
	}
	p, err := l.CompileCondition(source)
	if err != nil {
		return nil, err
	}
	return &Query{p}, nil
}

// Match reports whether the condition is true of the entity. Where it cannot be
// evaluated, because an attribute is missing, the entity does not match.
func (q *Query) Match(e workflow.Entity) bool {
	ok, _, err := q.eval(e)
	return err == nil && ok
}

func (q *Query) eval(e workflow.Entity) (bool, uint64, error) {
	return q.program.evalBool(Scope{Entity: &Entity{Type: e.Type, ID: e.ID, Attributes: e.Attributes, Groups: append([]string{}, e.Groups...)}})
}

// Selection applies a query to many entities, and remembers whether it had a
// value for any: one that has none for a single entity is a mistake in the query
// rather than a property of the entities.
type Selection struct {
	query     *Query
	evaluated bool
	firstErr  error
	cost      uint64
}

// Select begins a selection.
func (q *Query) Select() *Selection { return &Selection{query: q} }

// Match is Query.Match.
func (s *Selection) Match(e workflow.Entity) bool {
	ok, cost, err := s.query.eval(e)
	s.cost += cost
	if err != nil && s.firstErr == nil {
		s.firstErr = err
	}
	s.evaluated = s.evaluated || err == nil
	return err == nil && ok
}

// Cost is what the selection has cost so far; ten million are a second or so. One
// evaluation takes no more than some milliseconds, so that whoever walks many
// entities can look in between whether somebody still wants to know.
func (s *Selection) Cost() uint64 { return s.cost }

// Err is why the query has had no value for any entity, if there were some.
func (s *Selection) Err() error {
	if s.evaluated {
		return nil
	}
	return s.firstErr
}
