package definitions

import (
	"encoding/json"
	"fmt"

	"github.com/lockstep-run/lockstep/shared/definition"
	"github.com/lockstep-run/lockstep/shared/definition/schema"
	"github.com/lockstep-run/lockstep/shared/expr"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Acquisitions are evaluated before any step has run: all they see are parameters.

// parametersOf are the parameters of one of the program's definitions, from those
// of the run: what the step that embeds it gives, as far as that needs no result.
func (p *Program) parametersOf(origin int, root json.RawMessage) (json.RawMessage, error) {
	node := p.Origins[origin].NodeIndex
	if node < 0 {
		return root, nil
	}
	n := &p.Nodes[node]
	outer, err := p.parametersOf(n.Origin, root)
	if err != nil {
		return nil, err
	}
	return p.Definitions[n.Origin].compiled.Parameters(n.LocalIndex, expr.Scope{Context: expr.NewStepContext(outer, nil, nil, nil)})
}

func (p *Program) acquisition(i int, root json.RawMessage) (*definition.Compiled, int, json.RawMessage, error) {
	a := &p.Acquisitions[i]
	parameters, err := p.parametersOf(a.Origin, root)
	return p.Definitions[a.Origin].compiled, a.LocalIndex, parameters, err
}

// AcquireIDs are the ids that an acquisition's expression gives.
func (p *Program) AcquireIDs(i int, root json.RawMessage) ([]string, error) {
	c, local, parameters, err := p.acquisition(i, root)
	if err != nil {
		return nil, err
	}
	return c.AcquireIDs(local, parameters)
}

// ExpandIDs are the ids to which an acquisition expands an entity.
func (p *Program) ExpandIDs(i int, root json.RawMessage, e workflow.Entity) ([]string, error) {
	c, local, parameters, err := p.acquisition(i, root)
	if err != nil {
		return nil, err
	}
	return c.ExpandIDs(local, parameters, expr.Entity{Type: e.Type, ID: e.ID, Attributes: e.Attributes})
}

// AcquireParameters are the resolved parameters of an acquisition's block.
func (p *Program) AcquireParameters(i int, root json.RawMessage) (json.RawMessage, error) {
	c, local, parameters, err := p.acquisition(i, root)
	if err != nil {
		return nil, err
	}
	return c.AcquireParameters(local, parameters)
}

// ValidateAcquireParameters validates them against the block's schema.
func (p *Program) ValidateAcquireParameters(i int, blocks map[string]workflow.Block, parameters json.RawMessage) error {
	b := blocks[p.Acquisitions[i].Block]
	if len(b.ParameterSchema) == 0 {
		return nil
	}
	issues := schema.Validate(b.ParameterSchema, parameters, "parameters")
	return workflow.Invalid(fmt.Sprintf("the parameters do not fit block %s", b.Ref()), issues)
}
