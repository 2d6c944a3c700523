package spec

import (
	"cmp"
	"slices"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Program is a definition in the form that is executed: its steps depth first, with the steps of
// embedded definitions in place of the references to them. It depends only on the pinned versions,
// so that an index means the same step during the whole execution.
type Program struct {
	Config         Config
	AssertNotEmpty bool // of the definition of the execution: an empty scope fails it
	AllowsEmpty    bool // the definition allows that even a selection of the starter matches nothing
	HasOutput      bool // of the definition of the execution
	Nodes          []Node
	Acquisitions   []ProgramAcquisition
	Origins        []Origin
}

// Node is one step of a program.
type Node struct {
	*Step
	Label            string // as shown: OUTER.INNER within an embedded definition
	Parent           int    // index of the node that is open while it is executed, -1 for none
	Group            int    // number of the list of steps that contains it, unique in the program
	First            int    // index of the first node executed in it; for a switch, see Cases
	Between          int    // of a rollout: index of the node executed between two waves, 0 for none
	End              int    // index after the last node nested in it, including handlers of its failure
	After            int    // index of the node that follows in its list; for the last one of the list, End of Parent, or After of the node that the list handles
	Origin           int    // index of the definition it belongs to
	LocalIndex       int    // its index in FlatSteps of that definition
	CrossEntityReads []int  // nodes whose results for other entities its expressions read

	// From the config of the surrounding embedded definitions. If none sets it, these are zero, and
	// the config of the program applies.
	MaxInFlight         int
	DefinitionTolerance *Tolerance // failureTolerance of the innermost one that has it

	Pipes []int // indexes of its pipes in the definition it belongs to

	Goto      *Target // where it continues; nil means at After, or at AfterGoto if it has one
	AfterGoto *Target // of the last step of a list that handles a failure: where it continues instead of After
	Cases     []Way   // of a switch
	Branches  []int   // of a step with branches: index of the first step of each
	Handlers  []Way   // of onFailure

	OnTimeout *Target // of a wait: where it continues when the deadline has passed; nil if it fails or has an answer for that case
	OnResume  *Target // where it goes on after a wait that its block has asked for, nil if the step is entered again
	OnReject  *Target // of an approval: where it continues after a rejection, nil if it fails
}

// Target is where an execution continues: at a node, or where the node In has ended.
type Target struct {
	Node int // index; the End of In, or the number of nodes, for an end
	In   int // index of the node that stays open, -1 for none
}

// Way is one case of a switch, or of onFailure.
type Way struct {
	First int     // index of the first of its steps, -1 if it has none
	Goto  *Target // where it continues after its steps; nil means after the step
}

// Origin is one definition of a program: that of the execution, with index 0, or an embedded one.
type Origin struct {
	Definition workflow.Ref
	NodeIndex  int // the node that embeds it, -1 for the definition of the execution
}

// ProgramAcquisition is one entry of an acquire list of a definition of the program.
type ProgramAcquisition struct {
	Acquisition
	Origin     int
	LocalIndex int // index in Acquisitions of that definition
}

// SetAfter sets After of all nodes from their lists and ends. handles has the node whose failure
// the steps of a list handle, by the number of the list.
func (p *Program) SetAfter(handles map[int]int) {
	before := map[int]int{} // by list: its last node so far
	for i := range p.Nodes {
		n := &p.Nodes[i]
		if last, ok := before[n.Group]; ok {
			p.Nodes[last].After = i
		}
		before[n.Group], n.After = i, 0
	}
	for i := range p.Nodes {
		n := &p.Nodes[i]
		if n.After > 0 {
			continue
		}
		if failed, ok := handles[n.Group]; ok {
			n.After = p.Nodes[failed].After // which comes earlier, and is known
		} else if n.After = len(p.Nodes); n.Parent >= 0 {
			n.After = p.Nodes[n.Parent].End
		}
	}
}

// MaxInFlight returns how many jobs of a node may be outstanding at a time, 0 for no limit. An
// embedded definition can lower the limit of the surrounding one, not raise it.
func (p *Program) MaxInFlight(node int) int {
	limit := p.Config.MaxInFlight
	if n := p.Nodes[node].MaxInFlight; n > 0 {
		limit = n
	}
	if n := &p.Nodes[node]; n.Foreach != nil && n.Foreach.MaxInFlight > 0 && (limit == 0 || n.Foreach.MaxInFlight < limit) {
		limit = n.Foreach.MaxInFlight
	}
	return limit
}

// IsContainer reports whether other nodes are nested in the step. If so, it has no jobs.
func (n *Node) IsContainer() bool {
	return n.Workflow != nil || n.Embeds() || len(n.Switch) > 0 || n.Parallel != nil
}

// SeesBranchOf reports whether a node sees what another has done: for every step that has both in
// its branches, they are in the same branch.
func (p *Program) SeesBranchOf(node, other int) bool {
	for at := p.Nodes[node].Parent; at >= 0; at = p.Nodes[at].Parent {
		if n := &p.Nodes[at]; n.Parallel != nil && at < other && other < n.End && n.BranchOf(node) != n.BranchOf(other) && p.Encloses(at, other) {
			return false
		}
	}
	return true
}

// BranchOf returns the index of the branch that contains a nested node.
func (n *Node) BranchOf(node int) int {
	at := -1
	for i, first := range n.Branches {
		if node >= first {
			at = i
		}
	}
	return at
}

// OutsideBranches returns the node itself or, if it is in a branch, the outermost node that has it
// in one of its branches.
func (p *Program) OutsideBranches(node int) int {
	outermost := node
	for at := p.Nodes[node].Parent; at >= 0; at = p.Nodes[at].Parent {
		if p.Nodes[at].Parallel != nil {
			outermost = at
		}
	}
	return outermost
}

// RepeatAround is the step that a job of a node leaves that answers BREAK: the innermost around it that
// repeats its steps; -1 if that is a loop, a rollout or a step with branches, or the node itself, or if there is none.
func (p *Program) RepeatAround(node int) int {
	if p.Nodes[node].Repeat != nil {
		return -1
	}
	for at := p.Nodes[node].Parent; at >= 0; at = p.Nodes[at].Parent {
		switch n := &p.Nodes[at]; {
		case n.Loop != nil || n.Rollout != nil || n.Parallel != nil:
			return -1
		case n.Repeat != nil:
			return at
		}
	}
	return -1
}

// MostBranches returns how many branches can be open at the same time, including branches that
// contain branches, and the outermost node that contains them.
func (p *Program) MostBranches() (most, node int) {
	inside := make([]int, len(p.Nodes))           // by node: while it is open
	branches := make([]map[int]int, len(p.Nodes)) // by node with branches: inside each
	for i := len(p.Nodes) - 1; i >= 0; i-- {
		n := &p.Nodes[i]
		for _, b := range branches[i] {
			inside[i] += b
		}
		if inside[i] += len(n.Branches); len(n.Branches) > 0 && inside[i] >= most {
			most, node = inside[i], i
		}
		if n.Parent < 0 {
			continue
		}
		around := &p.Nodes[n.Parent]
		if around.Parallel == nil {
			inside[n.Parent] = max(inside[n.Parent], inside[i])
			continue
		}
		if branches[n.Parent] == nil {
			branches[n.Parent] = map[int]int{}
		}
		b := around.BranchOf(i)
		branches[n.Parent][b] = max(branches[n.Parent][b], inside[i])
	}
	return most, node
}

// RunsWorkflow reports whether the steps in the step are a workflow of their own.
func (n *Node) RunsWorkflow() bool { return n.Workflow != nil || n.Embeds() }

// Embeds reports whether the step embeds another definition.
func (n *Node) Embeds() bool {
	return n.Reference != nil && (n.Reference.Mode == workflow.ModeEmbed || n.Reference.Mode == "")
}

// StartsChild reports whether the step starts an execution of its own.
func (n *Node) StartsChild() bool { return n.Reference != nil && !n.IsContainer() }

// OnEntities reports whether the step has one job for each of its entities.
func (n *Node) OnEntities() bool {
	return n.FunctionBlock != "" && n.RunOn != "" && n.RunOn != workflow.RunOnGlobal && n.Foreach == nil
}

// EntityType returns the type of the entities for each of which the step has one job, "" if it has
// none.
func (n *Node) EntityType() string {
	if n.OnEntities() {
		return n.RunOn
	}
	return ""
}

// RunsOn reports whether a step has one job for each entity of a type, other than a step that
// handles a failure.
func (p *Program) RunsOn(entityType string) bool {
	handles := map[int]bool{} // by list of steps
	for i := range p.Nodes {
		for _, way := range p.Nodes[i].Handlers {
			if way.First >= 0 {
				handles[p.Nodes[way.First].Group] = true
			}
		}
	}
	for i := range p.Nodes {
		if p.Nodes[i].EntityType() != entityType {
			continue
		}
		at := i
		for at >= 0 && !handles[p.Nodes[at].Group] {
			at = p.Nodes[at].Parent
		}
		if at < 0 {
			return true
		}
	}
	return false
}

// HasJobForEach reports whether the step has one job for each of its entities or items.
func (n *Node) HasJobForEach() bool { return n.OnEntities() || n.Foreach != nil }

// IndexOf returns the index of the node with the label, -1 if there is none.
func (p *Program) IndexOf(label string) int {
	return slices.IndexFunc(p.Nodes, func(n Node) bool { return n.Label == label })
}

// Labels returns the labels of all steps.
func (p *Program) Labels() []string {
	labels := make([]string, len(p.Nodes))
	for i := range p.Nodes {
		labels[i] = p.Nodes[i].Label
	}
	return labels
}

// LabelOf returns the label of the step with an index in FlatSteps of one of the definitions, "" if
// there is none.
func (p *Program) LabelOf(origin, localIndex int) string {
	for i := range p.Nodes {
		if n := &p.Nodes[i]; n.Origin == origin && n.LocalIndex == localIndex {
			return n.Label
		}
	}
	return ""
}

// ToleratesAny reports whether any entity may fail in the node.
func (p *Program) ToleratesAny(node int) bool { return p.toleranceOf(node) != Tolerance{} }

// EndsWithItsLastJob reports whether failures never end a step run of the node before its
// last job has ended, however many there are: all entities may fail, or the definition
// continues after a failure of the whole step.
func (p *Program) EndsWithItsLastJob(node int) bool {
	n := &p.Nodes[node]
	h := p.FailureHandler(node)
	return h >= 0 && !p.Nodes[h].StopsAtFailure() || n.OnEntities() && p.toleranceOf(node).Percent >= 100 || n.Foreach != nil && n.Foreach.FailureTolerance.Percent >= 100
}

func (p *Program) toleranceOf(node int) Tolerance {
	n := &p.Nodes[node]
	if n.FailureTolerance != nil {
		return *n.FailureTolerance
	}
	if at := p.RolloutAround(node); at >= 0 && p.Nodes[at].Rollout.FailureTolerance != nil {
		return *p.Nodes[at].Rollout.FailureTolerance
	}
	return p.DefinitionTolerance(n)
}

// DefinitionTolerance returns the tolerance of the definition that a node is from, or that of the
// innermost definition around it that has one.
func (p *Program) DefinitionTolerance(n *Node) Tolerance {
	return *cmp.Or(n.DefinitionTolerance, p.Config.FailureTolerance, &Tolerance{})
}

// FailureHandler returns the node that handles a failure of the node: itself or its innermost
// ancestor, with continueOnError or onFailure; or the innermost rollout that executes it in a wave,
// if that stops; -1 if there is none. A node with onFailure may have no case for the failure.
func (p *Program) FailureHandler(node int) int {
	for at := node; at >= 0; at = p.Nodes[at].Parent {
		if n := &p.Nodes[at]; n.ContinueOnError || len(n.OnFailure) > 0 || at != node && n.StopsAtFailure() {
			return at
		}
	}
	return -1
}

// ContinuesOnError reports whether the definition continues after any failure of the node.
func (p *Program) ContinuesOnError(node int) bool {
	for ; node >= 0; node = p.Nodes[node].Parent {
		if p.Nodes[node].ContinueOnError {
			return true
		}
	}
	return false
}

// InBranch reports whether the node is executed in a branch, concurrently with others.
func (p *Program) InBranch(node int) bool { return p.OutsideBranches(node) != node }

// Encloses reports whether a node is open while another is executed.
func (p *Program) Encloses(outer, inner int) bool {
	for at := p.Nodes[inner].Parent; at >= 0; at = p.Nodes[at].Parent {
		if at == outer {
			return true
		}
	}
	return false
}

// PipelineEnd returns the index after the last node of the per-entity pipeline that begins at the
// node: consecutive steps on the same type of entity, none of which reads results that another has
// for other entities. It is node+1 if there is no pipeline.
func (p *Program) PipelineEnd(node int) int {
	first, end := &p.Nodes[node], node+1
	if !p.Config.Parallel || !first.canPipeline() || first.Goto != nil {
		return end
	}
	for end < len(p.Nodes) {
		n := &p.Nodes[end]
		if !n.canPipeline() || n.Delay > 0 || n.RunOn != first.RunOn || n.Group != first.Group ||
			slices.ContainsFunc(n.CrossEntityReads, func(i int) bool { return i >= node }) {
			break
		}
		if end++; n.Goto != nil {
			break
		}
	}
	return end
}

func (n *Node) canPipeline() bool {
	return n.OnEntities() && n.Repeat == nil && n.StepTimeout == 0 && len(n.OnFailure) == 0
}
