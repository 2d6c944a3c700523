package transfer

import (
	"context"
	"errors"
	"fmt"

	"github.com/lockstep-run/lockstep/shared/client"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// count says what is to become, or has become, of the things of one kind.
type count struct {
	New       int `json:"new"`
	Replaced  int `json:"replaced"`
	Unchanged int `json:"unchanged"`
}

// plan is what a file has that a stage has not.
type plan struct {
	blocks      []placed[workflow.Block]
	definitions []placed[published]
	entities    []placed[workflow.Entity]
	counts      map[string]*count

	scheduled int      // new definitions that start runs by themselves
	notes     []string // what is left as it is
	conflicts []workflow.Issue
}

// planner compares a file with a stage.
type planner struct {
	*stage
	made    plan
	replace bool // entities that differ
}

func (s *stage) plan(ctx context.Context, c content, replace bool) (plan, error) {
	p := &planner{stage: s, replace: replace}
	p.made.counts = map[string]*count{kindBlocks: {}, kindDefinitions: {}, kindEntities: {}}
	for _, step := range []func(context.Context, content) error{p.planBlocks, p.planDefinitions, p.planEntities} {
		if err := step(ctx, c); err != nil {
			return p.made, refused{err}
		}
	}
	return p.made, nil
}

func (p *planner) conflict(line int, code, format string, args ...any) {
	p.made.conflicts = append(p.made.conflicts, workflow.Issue{Line: line, Code: code, Message: fmt.Sprintf(format, args...)})
}

func (p *planner) planBlocks(ctx context.Context, c content) error {
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
	n := p.made.counts[kindBlocks]
	for _, b := range c.blocks {
		ref := b.value.Ref()
		existing, exists := known[ref]
		if !exists {
			for _, name := range b.withheld {
				p.conflict(b.line, "withheld", "block %s: %s, and take %q out of \"withheld\"", ref, wanted(name), name)
			}
			if len(b.withheld) > 0 {
				continue
			}
			n.New++
			p.made.blocks = append(p.made.blocks, b)
			continue
		}
		x, err := marshal(without(existing, b.withheld)) // what was not exported cannot differ
		if err != nil {
			return err
		}
		y, err := marshal(plain(b.value))
		if err != nil {
			return err
		}
		if all := differences(x, y); len(all) > 0 {
			p.conflict(b.line, "conflict", "block %s is another one there: %s", ref, sentence(all))
			continue
		}
		n.Unchanged++
	}
	return nil
}

func (p *planner) planDefinitions(ctx context.Context, c content) error {
	if len(c.definitions) == 0 {
		return nil
	}
	heads, err := p.heads(ctx)
	if err != nil {
		return err
	}
	known := map[workflow.Ref]client.Definition{}
	for _, d := range heads {
		known[refOf(d)] = d
	}
	n := p.made.counts[kindDefinitions]
	for i, d := range c.definitions {
		p.progress.tell("definitions compared", i)
		existing, exists := known[d.value.ref]
		switch {
		case !exists:
			if err := p.tryOut(ctx, d); err != nil {
				return err
			}
		case existing.Digest != d.value.digest:
			whole, err := p.Definition(ctx, d.value.ref)
			if err != nil {
				return err
			}
			differs := "its content"
			if whole.Definition != nil {
				differs = sentence(differences(*whole.Definition, d.value.source))
			}
			p.conflict(d.line, "conflict", "definition %s is another one there: %s", d.value.ref, differs)
		default:
			n.Unchanged++
			if existing.Archived != d.value.archived {
				p.made.notes = append(p.made.notes, fmt.Sprintf("%s is %s there, and stays so", d.value.ref, map[bool]string{true: "archived", false: "not archived"}[existing.Archived]))
			}
		}
	}
	return nil
}

// tryOut asks the service whether it would take a definition.
func (p *planner) tryOut(ctx context.Context, d placed[published]) error {
	_, _, err := p.Publish(ctx, d.value.source, true)
	if workflow.Is(err, workflow.CodeInvalid) || workflow.Is(err, workflow.CodeNotImplemented) || workflow.Is(err, workflow.CodeTooLarge) {
		p.conflict(d.line, "refused", "definition %s is refused: %s", d.value.ref, sentence(reasons(err)))
		return nil
	}
	if err != nil {
		return err
	}
	if d.value.cron && !d.value.archived {
		p.made.scheduled++
	}
	p.made.counts[kindDefinitions].New++
	p.made.definitions = append(p.made.definitions, d)
	return nil
}

// reasons are all that an error says.
func reasons(err error) []string {
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

func (p *planner) planEntities(ctx context.Context, c content) error {
	known := map[string]map[string]workflow.Entity{} // by type and id
	n, read := p.made.counts[kindEntities], 0
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
				p.progress.tell("entities read for comparison", read)
			}
		}
		existing, exists := known[kind][e.value.ID]
		if !exists {
			n.New++
			p.made.entities = append(p.made.entities, e)
			continue
		}
		x, err := marshal(entityOf(existing))
		if err != nil {
			return err
		}
		y, err := marshal(entityOf(e.value))
		if err != nil {
			return err
		}
		all := differences(x, y)
		switch {
		case len(all) == 0:
			n.Unchanged++
		case p.replace:
			n.Replaced++
			p.made.entities = append(p.made.entities, e)
		default:
			p.conflict(e.line, "conflict", "entity %s is another one there: %s", e.value.Key(), sentence(all))
		}
	}
	return nil
}
