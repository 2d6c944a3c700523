package expr

import "github.com/lockstep-run/lockstep/shared/workflow"

// Query selects entities by a condition over their attributes and groups.
type Query struct{ program *Program }

// CompileQuery compiles a query.
func CompileQuery(source string) (*Query, error) {
	l, err := queries()
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
	ok, err := q.program.EvalBool(Scope{Entity: &Entity{Type: e.Type, ID: e.ID, Attributes: e.Attributes, Groups: append([]string{}, e.Groups...)}})
	return err == nil && ok
}
