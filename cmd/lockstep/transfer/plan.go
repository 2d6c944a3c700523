package transfer

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/lockstep-run/lockstep/cmd/lockstep/render"
	"github.com/lockstep-run/lockstep/shared/client"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// changeCounts counts the records of one kind by what the import does with them.
type changeCounts struct {
	New       int `json:"new"`
	Replaced  int `json:"replaced"`
	Unchanged int `json:"unchanged"`
}

// plan is what an import has to send.
type plan struct {
	blocks      []withLine[workflow.Block]
	definitions []withLine[parsedDefinition]
	entities    []withLine[workflow.Entity]
	counts      map[string]*changeCounts

	scheduled []string // full names of the workflows of new definitions with a schedule
	notes     []string // differences that the import does not resolve
	conflicts []workflow.Issue
}

// planner compares a file with a stage.
type planner struct {
	*deployment
	result  plan
	replace bool // replace entities that differ
}

func (s *deployment) plan(ctx context.Context, c fileContent, replace bool) (plan, error) {
	p := &planner{deployment: s, replace: replace}
	p.result.counts = map[string]*changeCounts{kindBlocks: {}, kindDefinitions: {}, kindEntities: {}}
	for _, step := range []func(context.Context, fileContent) error{p.planBlocks, p.planDefinitions, p.planEntities} {
		if err := step(ctx, c); err != nil {
			return p.result, render.AsServiceError(err)
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
	stored, err := p.blocks(ctx)
	if err != nil {
		return err
	}
	known := map[workflow.Ref]workflow.Block{}
	for _, b := range stored {
		known[b.Ref()] = b
	}
	n := p.result.counts[kindBlocks]
	for _, b := range c.blocks {
		ref := b.value.Ref()
		existing, exists := known[ref]
		if !exists {
			for _, name := range b.withheld {
				p.addConflict(b.line, "withheld", "block %s: %s, and remove %q from \"withheld\"", ref, withheldHint(name), name)
			}
			if len(b.withheld) > 0 {
				continue
			}
			n.New++
			p.result.blocks = append(p.result.blocks, b)
			continue
		}
		x, err := workflow.EncodeJSON(withholdFields(existing, b.withheld)) // ignore what was not exported
		if err != nil {
			return err
		}
		y, err := workflow.EncodeJSON(normalizeBlock(b.value))
		if err != nil {
			return err
		}
		if all := differences(x, y); len(all) > 0 {
			p.addConflict(b.line, "conflict", "block %s differs in the stage: %s", ref, joinDifferences(all))
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
	headers, err := p.definitionHeaders(ctx)
	if err != nil {
		return err
	}
	known := map[workflow.Ref]client.Definition{}
	for _, d := range headers {
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
			p.addConflict(d.line, "conflict", "definition %s differs in the stage: %s", d.value.ref, differs)
		default:
			n.Unchanged++
			if existing.Archived != d.value.archived {
				p.result.notes = append(p.result.notes, fmt.Sprintf("%s is %s in the stage, and stays so", d.value.ref, map[bool]string{true: "archived", false: "not archived"}[existing.Archived]))
			}
			if existing.Draft != d.value.draft {
				p.result.notes = append(p.result.notes, fmt.Sprintf("%s is %s in the stage, and stays so", d.value.ref, map[bool]string{true: "a draft", false: "published"}[existing.Draft]))
			}
		}
	}
	return nil
}

// dryRunDefinition asks the service whether it would accept a definition.
func (p *planner) dryRunDefinition(ctx context.Context, d withLine[parsedDefinition]) error {
	_, _, err := p.Publish(ctx, d.value.source, true)
	if workflow.Is(err, workflow.CodeInvalid) || workflow.Is(err, workflow.CodeNotImplemented) || workflow.Is(err, workflow.CodeTooLarge) {
		p.addConflict(d.line, "refused", "definition %s is refused: %s", d.value.ref, joinDifferences(issueTexts(err)))
		return nil
	}
	if err != nil {
		return err
	}
	if d.value.cron && !d.value.archived && !d.value.draft {
		p.result.scheduled = append(p.result.scheduled, d.value.ref.FullName())
	}
	p.result.counts[kindDefinitions].New++
	p.result.definitions = append(p.result.definitions, d)
	return nil
}

// issueTexts returns the issues of an error as texts, or else the error itself.
func issueTexts(err error) []string {
	var e *workflow.Error
	if !errors.As(err, &e) || len(e.Issues) == 0 {
		return []string{err.Error()}
	}
	var all []string
	for _, i := range e.Issues {
		i.Line, i.Column = 0, 0 // positions refer to the definition, which is one line of the file
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
			for entity, err := range p.Entities(ctx, workflow.Selector{Type: kind}) {
				if err != nil {
					return err
				}
				known[kind][entity.ID] = entity
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
		x, err := workflow.EncodeJSON(toEntity(existing))
		if err != nil {
			return err
		}
		y, err := workflow.EncodeJSON(toEntity(e.value))
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
			p.addConflict(e.line, "conflict", "entity %s differs in the stage: %s", e.value.Key(), joinDifferences(all))
		}
	}
	return nil
}

const (
	// maxDifferences is the number of differences that a conflict names.
	maxDifferences = 3

	// maxValueLength is the number of characters of a value that a conflict shows.
	maxValueLength = 40
)

// differences describes each field in which two JSON values differ: first the value in the stage,
// then that in the file. It returns nothing for equal values.
func differences(stage, file json.RawMessage) []string {
	var a, b any
	if decode(stage, &a) != nil || decode(file, &b) != nil {
		return []string{"one of them is not JSON"}
	}
	var all []string
	appendDifferences(a, b, "", &all)
	return all
}

func decode(raw json.RawMessage, v *any) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	return d.Decode(v)
}

func appendDifferences(a, b any, path string, all *[]string) {
	if reflect.DeepEqual(a, b) {
		return
	}
	x, isObject := a.(map[string]any)
	y, areObjects := b.(map[string]any)
	if isObject && areObjects {
		keys := map[string]bool{}
		for key := range x {
			keys[key] = true
		}
		for key := range y {
			keys[key] = true
		}
		for _, key := range slices.Sorted(maps.Keys(keys)) {
			appendDifferences(fieldOrMissing(x, key), fieldOrMissing(y, key), strings.TrimPrefix(path+"."+key, "."), all)
		}
		return
	}
	l, isList := a.([]any)
	m, areLists := b.([]any)
	if isList && areLists && len(l) == len(m) {
		for i := range l {
			appendDifferences(l[i], m[i], fmt.Sprintf("%s[%d]", path, i), all)
		}
		return
	}
	*all = append(*all, fmt.Sprintf("%s is %s in the stage and %s in the file", path, truncateJSON(a), truncateJSON(b)))
}

// missingField is the value of an absent field.
type missingField struct{}

func fieldOrMissing(m map[string]any, key string) any {
	if v, ok := m[key]; ok {
		return v
	}
	return missingField{}
}

func truncateJSON(v any) string {
	if _, absent := v.(missingField); absent {
		return "absent"
	}
	raw, err := workflow.EncodeJSON(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	if text := []rune(string(raw)); len(text) > maxValueLength {
		return string(text[:maxValueLength]) + "..."
	}
	return string(raw)
}

// joinDifferences joins the first few differences and counts the others.
func joinDifferences(all []string) string {
	if len(all) > maxDifferences {
		return strings.Join(all[:maxDifferences], "; ") + fmt.Sprintf("; and %d more", len(all)-maxDifferences)
	}
	return strings.Join(all, "; ")
}
