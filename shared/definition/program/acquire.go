package program

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/lockstep-run/lockstep/shared/expr"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// compileAcquires compiles what the definition acquires: expressions over
// parameters, and for the entities that are in the scope already, over each.
func (c *compiler) compileAcquires() {
	paths := AcquirePaths(c.definition)
	for i, a := range c.definition.Acquisitions() {
		into, path := &c.acquires[i], paths[i]
		if !blank(a.Query) {
			if _, err := expr.CompileQuery(a.Query); err != nil {
				c.reportError(path+".query", err)
			}
		}
		into.ids = a.IDs
		into.idsOf = c.compileOutsideSteps(expr.ParameterLanguage, a.IDsExpr, path+".ids", false)
		if a.Expand != nil {
			into.expand = c.compileOutsideSteps(expr.ExpandLanguage, a.Expand.IDsExpr, path+".expand.ids", false)
		}
		into.parameters, into.rawParameters = c.compileParameterTemplate(a.Parameters, path+".parameters"), a.RawParameters
	}
}

// AcquireIDs are the ids that an acquire entry names itself, as a list or by an
// expression over the parameters.
func (c *Compiled) AcquireIDs(i int, parameters json.RawMessage) ([]string, error) {
	a := &c.acquires[i]
	if a.idsOf == nil {
		return slices.Clone(a.ids), nil
	}
	return evalIDs(a.idsOf, expr.ParameterScope(parameters))
}

// ExpandIDs are the ids that one entity of the scope names; none where the entry
// expands nothing.
func (c *Compiled) ExpandIDs(i int, parameters json.RawMessage, from expr.Entity) ([]string, error) {
	p := c.acquires[i].expand
	if p == nil {
		return nil, nil
	}
	s := expr.ParameterScope(parameters)
	s.Entity = &from
	return evalIDs(p, s)
}

// AcquireParameters are the parameters of the entry's block.
func (c *Compiled) AcquireParameters(i int, parameters json.RawMessage) (json.RawMessage, error) {
	return mergeParameters(c.acquires[i].parameters, c.acquires[i].rawParameters, expr.ParameterScope(parameters))
}

// evalIDs is a list of ids; anything else is an error that names the expression.
func evalIDs(p *expr.Program, s expr.Scope) ([]string, error) {
	v, err := p.Eval(s)
	if err != nil {
		return nil, err
	}
	list, ok := v.([]any)
	if !ok {
		return nil, &expr.Error{Source: p.Source(), Message: fmt.Sprintf("want a list of ids, not %T", v)}
	}
	ids := make([]string, len(list))
	for n, item := range list {
		id, ok := item.(string)
		if !ok || !workflow.ValidID(id) {
			return nil, &expr.Error{Source: p.Source(), Message: fmt.Sprintf("item %d is no id: %v", n, item)}
		}
		ids[n] = id
	}
	return ids, nil
}
