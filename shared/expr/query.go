package expr

import (
	"sync"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Query selects entities by a condition over their attributes.
type Query struct{ program *Program }

// queries is the language of queries, which know the entity and nothing else.
var queries = sync.OnceValues(func() (*Language, error) { return language(nil, []string{"entity"}) })

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
	ok, err := q.program.EvalBool(Scope{Entity: &Entity{Type: e.Type, ID: e.ID, Attributes: e.Attributes}})
	return err == nil && ok
}
