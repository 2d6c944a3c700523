package library

import (
	"context"
	"fmt"
	"slices"

	"github.com/lockstep-run/lockstep/shared/engine/port"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

// maxNodes bounds a program, embedded definitions included.
const maxNodes = 1000

// Program is a run's program with the definitions it is made of, by space.
type Program struct {
	spec.Program
	Definitions []*Definition
	Workflows   map[string]string // version of each definition referred to, by reference as written
}

// Program follows a definition's references and puts embedded definitions in
// their places. pins are the versions that the run has been pinned to; what is not
// pinned yet is resolved to the newest version that matches and is not archived.
// What keeps a run from having a program is a problem of the run.
func (l *Library) Program(ctx context.Context, r port.Registry, tenant string, root workflow.Ref, pins map[string]string) (*Program, *workflow.Failure, error) {
	b := &builder{ctx: ctx, library: l, registry: r, tenant: tenant, pins: pins, program: &Program{}}
	problem, err := b.add(root, -1, "")
	if err != nil || problem != nil {
		return nil, problem, err
	}
	own := b.program.Definitions[0]
	b.program.Config, b.program.AssertNotEmpty = own.Config, own.AssertNotEmpty
	b.program.wholes()
	return b.program, nil, nil
}

type builder struct {
	ctx      context.Context
	library  *Library
	registry port.Registry
	tenant   string
	pins     map[string]string
	program  *Program
	chain    []workflow.Ref // definitions that are being embedded, to see a cycle
}

// add appends a definition as one more space.
func (b *builder) add(ref workflow.Ref, parent int, prefix string) (*workflow.Failure, error) {
	if slices.Contains(b.chain, ref) {
		return &workflow.Failure{Code: "CYCLE", Message: fmt.Sprintf("definition %s embeds itself", ref)}, nil
	}
	d, err := b.library.Definition(b.ctx, b.registry, b.tenant, ref)
	if err != nil {
		return nil, err
	}
	p, space := b.program, len(b.program.Spaces)
	p.Spaces = append(p.Spaces, spec.Space{Definition: ref, Node: parent})
	p.Definitions = append(p.Definitions, d)
	for i, a := range d.Acquisitions() {
		p.Acquisitions = append(p.Acquisitions, spec.ProgramAcquisition{Acquisition: a, Space: space, Local: i})
	}
	b.chain = append(b.chain, ref)
	defer func() { b.chain = b.chain[:len(b.chain)-1] }()
	return b.steps(d.Steps, space, parent, prefix, new(int))
}

func (b *builder) steps(steps []spec.Step, space, parent int, prefix string, local *int) (*workflow.Failure, error) {
	for i := range steps {
		s, at := &steps[i], len(b.program.Nodes)
		if at >= maxNodes {
			return &workflow.Failure{Code: string(workflow.CodeLimit), Message: fmt.Sprintf("the definition has more than %d steps, embedded ones included", maxNodes)}, nil
		}
		b.program.Nodes = append(b.program.Nodes, spec.Node{Step: s, Label: prefix + s.Label, Parent: parent, Space: space, Local: *local})
		*local++
		var problem *workflow.Failure
		var err error
		switch {
		case s.Workflow != nil:
			problem, err = b.steps(s.Workflow.Steps, space, at, prefix, local)
		case s.Reference != nil:
			problem, err = b.reference(s, at)
		}
		if problem != nil || err != nil {
			return problem, err
		}
		b.program.Nodes[at].End = len(b.program.Nodes)
	}
	return nil, nil
}

// reference pins the definition that a step refers to, and embeds it where the
// step wants that.
func (b *builder) reference(s *spec.Step, at int) (*workflow.Failure, error) {
	written := s.Reference.Workflow
	ref, err := workflow.ParseRef(written)
	if err != nil {
		return &workflow.Failure{Code: "WORKFLOW_NOT_FOUND", Step: s.Label, Message: err.Error()}, nil //nolint:nilerr // it is the run's problem, not the engine's
	}
	version := b.pins[written]
	if version == "" {
		if version, err = Newest(b.ctx, b.registry, b.tenant, ref); err != nil {
			return nil, err
		}
	}
	if version == "" {
		return &workflow.Failure{Code: "WORKFLOW_NOT_FOUND", Step: s.Label,
			Message: fmt.Sprintf("step %q refers to workflow %s, and no published version matches", s.Label, written)}, nil
	}
	if b.program.Workflows == nil {
		b.program.Workflows = map[string]string{}
	}
	ref.Version, b.program.Workflows[written] = version, version
	if n := &b.program.Nodes[at]; n.Container() {
		return b.add(ref, at, n.Label+".")
	}
	return nil, nil
}

// Newest is the newest published version that matches a reference and is not
// archived, "" if there is none.
func Newest(ctx context.Context, r port.Registry, tenant string, ref workflow.Ref) (string, error) {
	var versions []string
	page := workflow.Page{Limit: workflow.MaxPage}
	for {
		list, err := r.DefinitionVersions(ctx, tenant, ref.FullName(), page)
		if err != nil {
			return "", err
		}
		for _, d := range list.Items {
			if !d.Archived {
				versions = append(versions, d.Ref.Version)
			}
		}
		if list.Next == "" {
			return ref.Newest(versions), nil
		}
		page.Token = list.Next
	}
}

// wholes notes of each node which others it reads more of than what came of the
// same entity.
func (p *Program) wholes() {
	for i := range p.Nodes {
		n := &p.Nodes[i]
		refs := p.Definitions[n.Space].compiled.References(n.Local)
		for _, labels := range [][]string{refs.All, refs.Steps} {
			for _, label := range labels {
				if at := p.find(n.Space, label); at >= 0 {
					n.Whole = append(n.Whole, at)
				}
			}
		}
	}
}

// find is the node with the label within a definition, -1 if there is none.
func (p *Program) find(space int, label string) int {
	return slices.IndexFunc(p.Nodes, func(n spec.Node) bool { return n.Space == space && n.Step.Label == label })
}

// Reads lists the nodes whose results a node's expressions read.
func (p *Program) Reads(node int) []int {
	n := &p.Nodes[node]
	var reads []int
	for _, label := range p.Definitions[n.Space].compiled.References(n.Local).Labels {
		if at := p.find(n.Space, label); at >= 0 {
			reads = append(reads, at)
		}
	}
	return reads
}
