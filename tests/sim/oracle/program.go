package oracle

import (
	"cmp"

	"github.com/lockstep-run/lockstep/tests/sim/defgen"
)

// program has the steps of an execution, depth first, including those of embedded definitions.
type program struct {
	definition *defgen.Definition
	nodes      []node
	acquires   []*defgen.Acquisition
}

// node is one step.
type node struct {
	*defgen.Step
	label      string // as shown: OUTER.INNER in an embedded definition
	prefix     string // of the labels of its definition
	parent     int    // the node that it is nested in, -1 for none
	end        int    // the node after the last one nested in it
	embeddedBy int    // the node that embeds its definition, -1 for none
	tolerance  int    // how many entities may fail: as its definition says, or else the surrounding one
}

func newProgram(definition func(name string) *defgen.Definition, name string) program {
	p := program{definition: definition(name)}
	p.addDefinition(definition, p.definition, node{parent: -1, embeddedBy: -1})
	return p
}

// addDefinition adds the steps of a definition. in holds what they have in common.
func (p *program) addDefinition(definition func(name string) *defgen.Definition, d *defgen.Definition, in node) {
	if d.Acquire != nil {
		p.acquires = append(p.acquires, d.Acquire)
	}
	in.tolerance = cmp.Or(d.FailureTolerance, in.tolerance)
	p.addSteps(definition, d.Steps, in)
}

func (p *program) addSteps(definition func(name string) *defgen.Definition, steps []*defgen.Step, in node) {
	for _, s := range steps {
		at := len(p.nodes)
		in.Step, in.label = s, in.prefix+s.Label
		p.nodes = append(p.nodes, in)
		nested := in
		nested.parent = at
		p.addSteps(definition, s.Body.Nested(), nested)
		if r, ok := s.Body.(*defgen.Reference); ok && r.Embeds() {
			nested.prefix, nested.embeddedBy = in.label+".", at
			p.addDefinition(definition, definition(r.Definition), nested)
		}
		p.nodes[at].end = len(p.nodes)
	}
}

// find returns the index of the node with a label, -1 if there is none.
func (p *program) find(label string) int {
	for i := range p.nodes {
		if p.nodes[i].label == label {
			return i
		}
	}
	return -1
}

// contains reports whether others are nested in a node.
func (p *program) contains(n int) bool { return p.nodes[n].end > n+1 }

// handler returns the node that handles a failure of a node: itself or the innermost surrounding
// one with continueOnError; -1 for none.
func (p *program) handler(n int) int {
	for ; n >= 0; n = p.nodes[n].parent {
		if p.nodes[n].ContinueOnError {
			return n
		}
	}
	return -1
}

// block returns the body of a node that calls a block, nil for any other.
func (p *program) block(n int) *defgen.Block {
	b, _ := p.nodes[n].Body.(*defgen.Block)
	return b
}
