package expr

import "github.com/lockstep-run/lockstep/shared/workflow"

// Query selects entities by a condition over their type, id, attributes and groups.
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

// Match reports whether the condition is true for the entity. If it cannot be evaluated,
// for example because an attribute is missing, the entity does not match.
func (q *Query) Match(e workflow.Entity) bool {
	ok, _, err := q.eval(e)
	return err == nil && ok
}

func (q *Query) eval(e workflow.Entity) (bool, uint64, error) {
	return q.program.evalBool(Scope{Entity: &Entity{Type: e.Type, ID: e.ID, Attributes: e.Attributes, Groups: append([]string{}, e.Groups...)}})
}

// Selection applies a query to many entities. It remembers whether the query could be
// evaluated for any of them: if it could not, the query is wrong, not the entities.
type Selection struct {
	query     *Query
	evaluated bool
	firstErr  error
	cost      uint64
}

// Select starts a selection.
func (q *Query) Select() *Selection { return &Selection{query: q} }

// Match is [Query.Match], and records cost and errors.
func (s *Selection) Match(e workflow.Entity) bool {
	ok, cost, err := s.query.eval(e)
	s.cost += cost
	if err != nil && s.firstErr == nil {
		s.firstErr = err
	}
	s.evaluated = s.evaluated || err == nil
	return err == nil && ok
}

// Cost returns the cost of the selection so far. Ten million take about a second. One evaluation
// takes a few milliseconds at most, so a caller with many entities can check in between whether its
// context is done.
func (s *Selection) Cost() uint64 { return s.cost }

// Err returns the first error if the query could not be evaluated for any entity. It is nil if
// there were no entities.
func (s *Selection) Err() error {
	if s.evaluated {
		return nil
	}
	return s.firstErr
}
