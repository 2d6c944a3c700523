package transfer

import (
	"context"
	"errors"
	"fmt"

	"github.com/lockstep-run/lockstep/shared/client"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// changeCounts says what is to become, or has become, of the things of one kind.
type changeCounts struct {
	New       int `json:"new"`
	Replaced  int `json:"replaced"`
	Unchanged int `json:"unchanged"`
}

// plan is what a file has that a stage has not.
type plan struct {
	blocks      []withLine[workflow.Block]
	definitions []withLine[parsedDefinition]
	entities    []withLine[workflow.Entity]
	counts      map[string]*changeCounts

	scheduled int      // new definitions that start runs by themselves
	notes     []string // what is left as it is
	conflicts []workflow.Issue
}

// planner compares a file with a stage.
type planner struct {
	*deployment
	result  plan
	replace bool // entities that differ
}

func (s *deployment) plan(ctx context.Context, c fileContent, replace bool) (plan, error) {
	p := &planner{deployment: s, replace: replace}
	p.result.counts = map[string]*changeCounts{kindBlocks: {}, kindDefinitions: {}, kindEntities: {}}
	for _, step := range []func(context.Context, fileContent) error{p.planBlocks, p.planDefinitions, p.planEntities} {
		if err := step(ctx, c); err != nil {
			return p.result, serviceError{err}
		}
	}
	return p.result, nil
}

func (p *planner) addConflict(line int, code, format string, args ...any) {
	p.result.conflicts = append(p.result.conflicts, workflow.Issue{Line: line, Code: code, Message: fmt.Sprintf(format, args...)})
}

func (p *planner) planBlocks(ctx context.Context, c fileContent) error {
	if len(c.blocks) == 0 {
		return nil
	}
	there, err := p.blocks(ctx)
	if err != nil {
		return err
	}
	known := map[workflow.Ref]workflow.Block{}
	for _, b := range there {
		known[b.Ref()] = b
	}
	n := p.result.counts[kindBlocks]
	for _, b := range c.blocks {
		ref := b.value.Ref()
		existing, exists := known[ref]
		if !exists {
			for _, name := range b.withheld {
				p.addConflict(b.line, "withheld", "block %s: %s, and take %q out of \"withheld\"", ref, withheldHint(name), name)
			}
			if len(b.withheld) > 0 {
				continue
			}
			n.New++
			p.result.blocks = append(p.result.blocks, b)
			continue
		}
		x, err := marshal(withholdFields(existing, b.withheld)) // what was not exported cannot differ
		if err != nil {
			return err
		}
		y, err := marshal(normalizeBlock(b.value))
		if err != nil {
			return err
		}
		if all := differences(x, y); len(all) > 0 {
			p.addConflict(b.line, "conflict", "block %s is another one there: %s", ref, joinDifferences(all))
			continue
		}
		n.Unchanged++
	}
	return nil
}

func (p *planner) planDefinitions(ctx context.Context, c fileContent) error {
	if len(c.definitions) == 0 {
		return nil
	}
	heads, err := p.definitionHeaders(ctx)
	if err != nil {
		return err
	}
	known := map[workflow.Ref]client.Definition{}
	for _, d := range heads {
		known[definitionRef(d)] = d
	}
	n := p.result.counts[kindDefinitions]
	for i, d := range c.definitions {
		p.progress.report("definitions compared", i)
		existing, exists := known[d.value.ref]
		switch {
		case !exists:
			if err := p.dryRunDefinition(ctx, d); err != nil {
				return err
			}
		case existing.Digest != d.value.digest:
			full, err := p.Definition(ctx, d.value.ref)
			if err != nil {
				return err
			}
			differs := "its content"
			if full.Definition != nil {
				differs = joinDifferences(differences(*full.Definition, d.value.source))
			}
			p.addConflict(d.line, "conflict", "definition %s is another one there: %s", d.value.ref, differs)
		default:
			n.Unchanged++
			if existing.Archived != d.value.archived {
				p.result.notes = append(p.result.notes, fmt.Sprintf("%s is %s there, and stays so", d.value.ref, map[bool]string{true: "archived", false: "not archived"}[existing.Archived]))
			}
		}
	}
	return nil
}

// dryRunDefinition asks the service whether it would take a definition.
func (p *planner) dryRunDefinition(ctx context.Context, d withLine[parsedDefinition]) error {
	_, _, err := p.Publish(ctx, d.value.source, true)
	if workflow.Is(err, workflow.CodeInvalid) || workflow.Is(err, workflow.CodeNotImplemented) || workflow.Is(err, workflow.CodeTooLarge) {
		p.addConflict(d.line, "refused", "definition %s is refused: %s", d.value.ref, joinDifferences(issueTexts(err)))
		return nil
	}
	if err != nil {
		return err
	}
	if d.value.cron && !d.value.archived {
		p.result.scheduled++
	}
	p.result.counts[kindDefinitions].New++
	p.result.definitions = append(p.result.definitions, d)
	return nil
}

// issueTexts are all that an error says.
func issueTexts(err error) []string {
	var e *workflow.Error
	if !errors.As(err, &e) || len(e.Issues) == 0 {
		return []string{err.Error()}
	}
	var all []string
	for _, i := range e.Issues {
		i.Line, i.Column = 0, 0 // of the definition, which is one line of the file
		all = append(all, i.String())
	}
	return all
}

func (p *planner) planEntities(ctx context.Context, c fileContent) error {
	known := map[string]map[string]workflow.Entity{} // by type and id
	n, read := p.result.counts[kindEntities], 0
	for _, e := range c.entities {
		kind := e.value.Type
		if known[kind] == nil {
			known[kind] = map[string]workflow.Entity{}
			for there, err := range p.Entities(ctx, workflow.Selector{Type: kind}) {
				if err != nil {
					return err
				}
				known[kind][there.ID] = there
				read++
				p.progress.report("entities read for comparison", read)
			}
		}
		existing, exists := known[kind][e.value.ID]
		if !exists {
			n.New++
			p.result.entities = append(p.result.entities, e)
			continue
		}
		x, err := marshal(toEntity(existing))
		if err != nil {
			return err
		}
		y, err := marshal(toEntity(e.value))
		if err != nil {
			return err
		}
		all := differences(x, y)
		switch {
		case len(all) == 0:
			n.Unchanged++
		case p.replace:
			n.Replaced++
			p.result.entities = append(p.result.entities, e)
		default:
			p.addConflict(e.line, "conflict", "entity %s is another one there: %s", e.value.Key(), joinDifferences(all))
		}
	}
	return nil
}
