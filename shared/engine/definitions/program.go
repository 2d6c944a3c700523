package definitions

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/lockstep-run/lockstep/shared/catalog"
	"github.com/lockstep-run/lockstep/shared/definition"
	"github.com/lockstep-run/lockstep/shared/engine/port"
	"github.com/lockstep-run/lockstep/shared/expr"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

// maxNodes bounds a program, embedded definitions included.
const maxNodes = 1000

// Program is an execution's program, with the definitions that it consists of, by origin.
type Program struct {
	spec.Program
	Definitions []*Definition
	Workflows   map[string]string // versions of the definitions referred to, by reference as written

	end spec.Node // follows the last node: the output of the definition is evaluated there
}

// Node returns a node of the program. The index after the last node stands for the end of the
// program, where the output of the definition is evaluated.
func (p *Program) Node(at int) *spec.Node {
	if at == len(p.Nodes) {
		return &p.end
	}
	return &p.Nodes[at]
}

// Program resolves a definition's references and inserts embedded definitions in their places. pins
// are the versions that the execution is pinned to, by reference as written. Anything that is not
// pinned yet resolves to the newest version that matches and is not archived. A reference that
// cannot be resolved is a failure of the execution, not an error.
func (c *Cache) Program(ctx context.Context, r port.Registry, tenant string, root workflow.Ref, pins map[string]string) (*Program, *workflow.Failure, error) {
	b := &builder{ctx: ctx, cache: c, registry: r, tenant: tenant, pins: pins, program: &Program{}}
	problem, err := b.addDefinition(root, -1, "")
	if err != nil || problem != nil {
		return nil, problem, err
	}
	rootDefinition := b.program.Definitions[0]
	b.program.Config, b.program.HasOutput = rootDefinition.Config, len(rootDefinition.Output) > 0
	b.program.end = spec.Node{Step: &spec.Step{Label: "output"}, Label: "output", Parent: -1, LocalIndex: len(rootDefinition.FlatSteps())}
	if assert := rootDefinition.AssertNotEmpty; assert != nil {
		b.program.AssertNotEmpty, b.program.AllowsEmpty = *assert, !*assert
	}
	b.program.markCrossEntityReads()
	handles := map[int]int{}
	for _, h := range b.handlers {
		handles[b.program.Nodes[h.from].Group] = h.node
	}
	b.program.SetAfter(handles)
	b.program.markTargets()
	b.markAfterHandlers()
	return b.program, nil, nil
}

type builder struct {
	ctx       context.Context
	cache     *Cache
	registry  port.Registry
	tenant    string
	pins      map[string]string
	program   *Program
	embedding []workflow.Ref // the definitions around the current one, to detect a cycle
	groups    int            // number of step lists so far
	handlers  []handler      // step lists that handle a failure

	// Config of the definitions embedded around the current step; the innermost one wins.
	maxInFlight int
	tolerance   *spec.Tolerance
}

// addDefinition appends a definition as a further origin of nodes.
func (b *builder) addDefinition(ref workflow.Ref, parent int, prefix string) (*workflow.Failure, error) {
	if slices.Contains(b.embedding, ref) {
		return &workflow.Failure{Code: "CYCLE", Message: fmt.Sprintf("definition %s embeds itself", ref)}, nil
	}
	d, err := b.cache.Definition(b.ctx, b.registry, b.tenant, ref)
	if err != nil {
		return nil, err
	}
	p, origin := b.program, len(b.program.Origins)
	p.Origins = append(p.Origins, spec.Origin{Definition: ref, NodeIndex: parent})
	p.Definitions = append(p.Definitions, d)
	for i, a := range d.Acquisitions() {
		p.Acquisitions = append(p.Acquisitions, spec.ProgramAcquisition{Acquisition: a, Origin: origin, LocalIndex: i})
	}
	b.embedding = append(b.embedding, ref)
	maxInFlight, tolerance := b.maxInFlight, b.tolerance
	defer func() {
		b.embedding, b.maxInFlight, b.tolerance = b.embedding[:len(b.embedding)-1], maxInFlight, tolerance
	}()
	if parent >= 0 {
		b.applyConfig(d.Config)
	}
	return b.addSteps(d.Steps, place{origin: origin, parent: parent}, prefix, new(int))
}

// handler is a step list that handles the failure of a node. It begins at from.
type handler struct{ node, from int }

// place is the position of a step list in the program.
type place struct {
	origin int
	parent int // the node that is open while the steps are executed
}

// applyConfig applies those parts of an embedded definition's config that hold for its steps. Its
// failure tolerance replaces the surrounding one; its maxInFlight can only lower the surrounding
// one.
func (b *builder) applyConfig(c spec.Config) {
	if c.FailureTolerance != nil {
		own := *c.FailureTolerance // each place where it is embedded has one of its own
		b.tolerance = &own
	}
	outer := b.maxInFlight
	if outer == 0 {
		outer = b.program.Definitions[0].Config.MaxInFlight
	}
	if inner := c.MaxInFlight; inner > 0 && (outer == 0 || inner < outer) {
		b.maxInFlight = inner
	}
}

func (b *builder) addSteps(steps []spec.Step, at place, prefix string, local *int) (*workflow.Failure, error) {
	group := b.groups
	b.groups++
	for i := range steps {
		s, node := &steps[i], len(b.program.Nodes)
		if node >= maxNodes {
			return &workflow.Failure{Code: workflow.FailureLimit, Message: fmt.Sprintf("the definition has more than %d steps, embedded ones included", maxNodes)}, nil
		}
		b.program.Nodes = append(b.program.Nodes, spec.Node{Step: s, Label: prefix + s.Label, Parent: at.parent, Group: group, Origin: at.origin, LocalIndex: *local,
			MaxInFlight: b.maxInFlight, DefinitionTolerance: b.tolerance, Pipes: b.program.Definitions[at.origin].PipesOf(s.Label)})
		*local++
		problem, err := b.addNested(s, node, at, prefix, local)
		if problem != nil || err != nil {
			return problem, err
		}
		b.program.Nodes[node].End = len(b.program.Nodes)
	}
	return nil, nil
}

// addNested adds the steps inside a step: those of the definition that it embeds, and those of its
// groups. Steps that handle a failure come after all others.
func (b *builder) addNested(s *spec.Step, node int, at place, prefix string, local *int) (*workflow.Failure, error) {
	if s.Reference != nil {
		if problem, err := b.addReference(s, node); problem != nil || err != nil {
			return problem, err
		}
	}
	if c := s.Compensate; c != nil && c.Workflow != "" {
		if _, problem, err := b.pin(s, c.Workflow); problem != nil || err != nil {
			return problem, err
		}
	}
	first := map[string]int{}
	for _, g := range s.Groups() {
		first[g.Path] = len(b.program.Nodes)
		inner := place{origin: at.origin, parent: node}
		if g.Handler {
			inner = place{origin: at.origin, parent: at.parent}
		}
		from := len(b.program.Nodes)
		if problem, err := b.addSteps(g.Steps, inner, prefix, local); problem != nil || err != nil {
			return problem, err
		}
		if g.Handler {
			b.handlers = append(b.handlers, handler{node, from})
		}
	}
	n := &b.program.Nodes[node]
	if s.Parallel != nil {
		for i := range s.Parallel.Branches {
			n.Branches = append(n.Branches, first[fmt.Sprintf("parallel.branches[%d].steps", i)])
		}
	}
	if s.Workflow != nil {
		n.First, n.Between = first["workflow.steps"], first["rollout.between"]
	}
	n.Cases, n.Handlers = ways(s.Switch, "switch", first), ways(s.OnFailure, "onFailure", first)
	return nil, nil
}

func ways(cases []spec.Case, field string, first map[string]int) []spec.Way {
	var all []spec.Way
	for i := range cases {
		at, ok := first[fmt.Sprintf("%s[%d].steps", field, i)]
		if !ok {
			at = -1
		}
		all = append(all, spec.Way{First: at})
	}
	return all
}

// addReference pins the definitions of which a step starts one, or embeds the one that it refers to.
func (b *builder) addReference(s *spec.Step, node int) (*workflow.Failure, error) {
	var ref workflow.Ref
	for _, name := range s.Reference.Names() {
		var problem *workflow.Failure
		var err error
		if ref, problem, err = b.pin(s, name); problem != nil || err != nil {
			return problem, err
		}
	}
	if n := &b.program.Nodes[node]; n.Embeds() {
		n.First = len(b.program.Nodes)
		return b.addDefinition(ref, node, n.Label+".")
	}
	return nil, nil
}

// pin resolves a step's reference to a workflow: to the version that the execution is pinned to, or
// else to the newest published version.
func (b *builder) pin(s *spec.Step, workflowRef string) (ref workflow.Ref, problem *workflow.Failure, err error) {
	if ref, err = workflow.ParseRef(workflowRef); err != nil {
		return ref, &workflow.Failure{Code: "WORKFLOW_NOT_FOUND", Step: s.Label, Message: err.Error()}, nil //nolint:nilerr // the mistake is the definition's: it fails the execution
	}
	version := b.pins[workflowRef]
	if version == "" {
		if version, err = NewestVersion(b.ctx, b.registry, b.tenant, ref); err != nil {
			return ref, nil, err
		}
	}
	if version == "" {
		return ref, &workflow.Failure{Code: "WORKFLOW_NOT_FOUND", Step: s.Label,
			Message: fmt.Sprintf("step %q refers to workflow %s, but no published version matches", s.Label, workflowRef)}, nil
	}
	if b.program.Workflows == nil {
		b.program.Workflows = map[string]string{}
	}
	ref.Version, b.program.Workflows[workflowRef] = version, version
	return ref, nil, nil
}

// NewestVersion returns the newest published version that matches a reference and is not archived;
// "" if there is none.
func NewestVersion(ctx context.Context, r port.Registry, tenant string, ref workflow.Ref) (string, error) {
	newest, err := catalog.NewestVersion(ctx, r, tenant, workflow.DefinitionVersions, ref)
	if err != nil || newest.Archived {
		return "", err
	}
	return newest.Version, nil
}

// markCrossEntityReads records for each node from which other nodes it reads more than the result
// of its own entity.
func (p *Program) markCrossEntityReads() {
	for i := range p.Nodes {
		n := &p.Nodes[i]
		refs := p.Definitions[n.Origin].compiled.References(n.LocalIndex)
		for _, labels := range [][]string{refs.AllResults, refs.Steps} {
			for _, label := range labels {
				if at := p.nodeByLabel(n.Origin, label); at >= 0 {
					n.CrossEntityReads = append(n.CrossEntityReads, at)
				}
			}
		}
	}
}

// nodeByLabel returns the index of the node with a label within a definition; -1 if there is none.
func (p *Program) nodeByLabel(origin int, label string) int {
	return slices.IndexFunc(p.Nodes, func(n spec.Node) bool { return n.Origin == origin && n.Step.Label == label })
}

// Reads lists the nodes whose results the expressions of a node read, by index.
func (p *Program) Reads(node int, refs expr.References) []int {
	var reads []int
	for _, label := range refs.Labels {
		if at := p.nodeByLabel(p.Node(node).Origin, label); at >= 0 {
			reads = append(reads, at)
		}
	}
	return reads
}

// markTargets translates the targets of each definition into nodes of the program.
func (p *Program) markTargets() {
	nodes := make([][]int, len(p.Origins)) // by origin, then by index in FlatSteps
	for i := range p.Nodes {
		nodes[p.Nodes[i].Origin] = append(nodes[p.Nodes[i].Origin], i)
	}
	for i := range p.Nodes {
		n := &p.Nodes[i]
		c := p.Definitions[n.Origin].compiled
		n.Goto = p.target(nodes[n.Origin], n.Origin, c.Next(n.LocalIndex))
		n.OnResume = p.target(nodes[n.Origin], n.Origin, c.OnResume(n.LocalIndex))
		n.OnTimeout = p.target(nodes[n.Origin], n.Origin, c.OnTimeout(n.LocalIndex))
		n.OnReject = p.target(nodes[n.Origin], n.Origin, c.OnReject(n.LocalIndex))
		cases, handlers := c.CaseTargets(n.LocalIndex)
		for k, t := range cases {
			n.Cases[k].Goto = p.target(nodes[n.Origin], n.Origin, t)
		}
		for k, t := range handlers {
			n.Handlers[k].Goto = p.target(nodes[n.Origin], n.Origin, t)
		}
	}
}

// markAfterHandlers records where an execution continues after the last step that handles a
// failure: where its case says, or else where the failed step says.
func (b *builder) markAfterHandlers() {
	nodes := b.program.Nodes
	slices.SortFunc(b.handlers, func(a, o handler) int { return a.from - o.from }) // handlers of an outer step before those of the steps inside it
	for _, h := range b.handlers {
		failed := &nodes[h.node]
		goOn := cmp.Or(failed.Goto, failed.AfterGoto)
		for _, way := range failed.Handlers {
			if way.First == h.from {
				goOn = cmp.Or(way.Goto, goOn)
			}
		}
		last := h.from
		for i := range nodes {
			if nodes[i].Group == nodes[h.from].Group {
				last = i
			}
		}
		nodes[last].AfterGoto = goOn
	}
}

// target translates a target of a definition into one of the program. nodes are the nodes of the
// definition, by index in FlatSteps.
func (p *Program) target(nodes []int, origin int, t *definition.Target) *spec.Target {
	if t == nil {
		return nil
	}
	around := p.Origins[origin].NodeIndex
	if t.Step == len(nodes) {
		end := len(p.Nodes)
		if around >= 0 {
			end = p.Nodes[around].End
		}
		return &spec.Target{Node: end, In: around}
	}
	in := around
	if t.In >= 0 {
		in = nodes[t.In]
	}
	return &spec.Target{Node: nodes[t.Step], In: in}
}

// TargetNamed returns the target that the block of a node names; nil if the node cannot go there.
func (p *Program) TargetNamed(node int, label string) *spec.Target {
	n := &p.Nodes[node]
	var nodes []int
	for i := range p.Nodes {
		if p.Nodes[i].Origin == n.Origin {
			nodes = append(nodes, i)
		}
	}
	return p.target(nodes, n.Origin, p.Definitions[n.Origin].compiled.TargetNamed(n.LocalIndex, label))
}
