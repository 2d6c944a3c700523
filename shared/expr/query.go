package expr

import (
	"slices"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Query selects entities by a condition over their attributes.
type Query struct{ program *Program }

// CompileQuery compiles a query, which sees the entity and nothing else.
func CompileQuery(source string) (*Query, error) {
	p, err := Compile(nil, source)
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

// Contains reports whether an expression reads a label's results in any way.
func (r References) Contains(label string) bool { return slices.Contains(r.Labels, label) }
