package spec

import (
	"slices"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Program is a definition as a run follows it: its steps depth first, with the
// steps of embedded definitions where they are referred to. It depends on nothing
// but the pinned versions, so that an index means the same step for the whole
// life of a run.
type Program struct {
	Config         Config
	AssertNotEmpty bool // of the run's own definition
	Nodes          []Node
	Acquisitions   []ProgramAcquisition
	Origins        []Origin
}

// Node is one step of a program.
type Node struct {
	*Step
	Label            string // as shown: OUTER.INNER within an embedded definition
	Parent           int    // index of the node it is nested in, -1 for none
	End              int    // index after the last node nested in it
	Origin           int    // index of the definition it stands in
	LocalIndex       int    // its index in that definition's Flat
	CrossEntityReads []int  // nodes of which its expressions read more than the same entity's result
}

// Origin is one definition of a program: the run's own, with index 0, or one that
// is embedded.
type Origin struct {
	Definition workflow.Ref
	NodeIndex  int // the node that embeds it, -1 for the run's own
}

// ProgramAcquisition is one entry of an acquire list of one of the definitions.
type ProgramAcquisition struct {
	Acquisition
	Origin     int
	LocalIndex int // index in that definition's Acquisitions
}

// IsContainer reports whether other nodes are nested in the step, so that it has
// no jobs of its own.
func (n *Node) IsContainer() bool {
	return n.Workflow != nil || n.Reference != nil && (n.Reference.Mode == workflow.ModeEmbed || n.Reference.Mode == "")
}

// StartsChild reports whether the step starts a run of its own.
func (n *Node) StartsChild() bool { return n.Reference != nil && !n.IsContainer() }

// IndexOf is the index of the node with the label, -1 if there is none.
func (p *Program) IndexOf(label string) int {
	return slices.IndexFunc(p.Nodes, func(n Node) bool { return n.Label == label })
}

// LabelOf is how the step with the index in the Flat of one of the definitions is
// shown.
func (p *Program) LabelOf(origin, localIndex int) string {
	for i := range p.Nodes {
		if n := &p.Nodes[i]; n.Origin == origin && n.LocalIndex == localIndex {
			return n.Label
		}
	}
	return ""
}

// FailureHandler is the step that goes on after a failure of the node: the node itself
// or the innermost around it with continueOnError; -1 if there is none.
func (p *Program) FailureHandler(node int) int {
	for ; node >= 0; node = p.Nodes[node].Parent {
		if p.Nodes[node].ContinueOnError {
			return node
		}
	}
	return -1
}

// PipelineEnd is the index after the last node of the stretch of per-entity pipelines
// that begins at the node: steps on the same type of entity, side by side, of
// which none needs more of another than what came of the same entity. It is
// node+1 where there is no such stretch.
func (p *Program) PipelineEnd(node int) int {
	first, end := &p.Nodes[node], node+1
	if !p.Config.Parallel || !first.canPipeline() {
		return end
	}
	for end < len(p.Nodes) {
		n := &p.Nodes[end]
		if !n.canPipeline() || n.Delay > 0 || n.RunOn != first.RunOn || n.Parent != first.Parent ||
			slices.ContainsFunc(n.CrossEntityReads, func(i int) bool { return i >= node }) {
			break
		}
		end++
	}
	return end
}

func (n *Node) canPipeline() bool {
	return n.FunctionBlock != "" && n.RunOn != workflow.RunOnGlobal && n.Repeat == nil && n.StepTimeout == 0
}
