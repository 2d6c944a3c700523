package catalog

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/lockstep-run/lockstep/shared/definition"
	"github.com/lockstep-run/lockstep/shared/definition/program"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

// maxEmbeddedDefinitions is how many definitions one definition may embed, directly and indirectly.
const maxEmbeddedDefinitions = 100

// checkCycles refuses a definition that would embed itself through others. It follows only
// published definitions. A reference to one that is not published yet is allowed; if publishing
// that one closes a cycle, it is refused then. Child executions do not count: they may start each
// other, up to a depth.
//
// Two definitions that are published at the same moment can close a cycle unnoticed, so an
// execution also bounds the depth of what it embeds.
func (c *Catalog) checkCycles(ctx context.Context, caller workflow.Caller, d *spec.Definition, source []byte) error {
	finder := cycleFinder{c.openPorts().Registry, caller.Tenant, d, map[string]bool{}}
	var issues []workflow.Issue
	paths := program.Paths(d)
	for i, s := range d.FlatSteps() {
		ref, ok := definition.EmbeddedRef(s)
		if !ok {
			continue
		}
		cycle, err := finder.findCycle(ctx, ref, nil)
		if err != nil {
			return err
		}
		if len(cycle) > 0 {
			issues = append(issues, workflow.Issue{
				Path: paths[i] + ".workflowReference.workflow", Code: "cycle",
				Message: "the workflow embeds itself: " + strings.Join(cycle, ", which embeds "),
			})
		}
	}
	if len(issues) == 0 {
		return nil
	}
	return workflow.Invalid("the definition is not valid", definition.LocateIssues(source, issues))
}

// cycleFinder searches for a path back to the definition that is being published.
type cycleFinder struct {
	registry Registry
	tenant   string
	target   *spec.Definition
	seen     map[string]bool // exact references without a path back
}

// findCycle returns the path from a reference to the definition, including both; nil if there is
// none.
func (f *cycleFinder) findCycle(ctx context.Context, ref workflow.Ref, path []string) ([]string, error) {
	exact, found, err := f.resolve(ctx, ref)
	if err != nil || !found || f.seen[exact.String()] {
		return nil, err
	}
	path = append(slices.Clip(path), exact.String())
	if exact == f.target.Ref() {
		return path, nil
	}
	if f.seen[exact.String()] = true; len(f.seen) > maxEmbeddedDefinitions {
		return nil, workflow.Invalid("the definition is not valid", []workflow.Issue{{
			Path: "steps", Code: "limit", Message: fmt.Sprintf("the definition embeds more than %d other workflows", maxEmbeddedDefinitions),
		}})
	}
	p, err := f.registry.Definition(ctx, f.tenant, exact)
	if err != nil {
		return nil, err
	}
	d, err := definition.Parse(p.Source)
	if err != nil {
		return nil, fmt.Errorf("the published workflow %s: %w", exact, err)
	}
	for _, s := range d.FlatSteps() {
		if ref, ok := definition.EmbeddedRef(s); ok {
			if found, err := f.findCycle(ctx, ref, path); err != nil || len(found) > 0 {
				delete(f.seen, exact.String()) // another step may have the same path back
				return found, err
			}
		}
	}
	return nil, nil
}

// resolve finds the version that a reference will mean when the definition is published.
func (f *cycleFinder) resolve(ctx context.Context, ref workflow.Ref) (exact workflow.Ref, found bool, err error) {
	newest, err := NewestVersion(ctx, f.registry, f.tenant, workflow.DefinitionVersions, ref)
	if err != nil {
		return ref, false, err
	}
	var all []string
	if !newest.Archived {
		all = append(all, newest.Version)
	}
	if f.target.Ref().FullName() == ref.FullName() {
		all = append(all, f.target.Version)
	}
	ref.Version = ref.Newest(all)
	return ref, ref.Version != "", nil
}
