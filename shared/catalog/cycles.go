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

// maxEmbeddedDefinitions bounds how many definitions one may embed, by way of others.
const maxEmbeddedDefinitions = 100

// checkCycles refuses a definition that would embed itself by way of others. Only
// what is published is followed: a reference to what is not there yet is allowed,
// and closes a cycle when that is published, which is refused then. Runs of their
// own are no part of this: they may call each other, within a depth.
//
// Two definitions published at the same moment can close a cycle unseen, so a run
// bounds the depth of what it embeds as well.
func (c *Catalog) checkCycles(ctx context.Context, caller workflow.Caller, d *spec.Definition, source []byte) error {
	w := cycleFinder{c.openPorts().Registry, caller.Tenant, d, map[string]bool{}}
	var issues []workflow.Issue
	paths := program.Paths(d)
	for i, s := range d.FlatSteps() {
		ref, ok := definition.EmbeddedRef(s)
		if !ok {
			continue
		}
		cycle, err := w.findCycle(ctx, ref, nil)
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

// cycleFinder looks for the way back to a definition that is to be published.
type cycleFinder struct {
	registry Registry
	tenant   string
	target   *spec.Definition
	seen     map[string]bool // exact references that do not lead back
}

// findCycle is the way from a reference to the definition, both included; none if
// there is no such way.
func (w *cycleFinder) findCycle(ctx context.Context, ref workflow.Ref, path []string) ([]string, error) {
	exact, found, err := w.resolve(ctx, ref)
	if err != nil || !found || w.seen[exact.String()] {
		return nil, err
	}
	path = append(slices.Clip(path), exact.String())
	if exact == w.target.Ref() {
		return path, nil
	}
	if w.seen[exact.String()] = true; len(w.seen) > maxEmbeddedDefinitions {
		return nil, workflow.Invalid("the definition is not valid", []workflow.Issue{{
			Path: "steps", Code: "limit", Message: fmt.Sprintf("it embeds more than %d other workflows", maxEmbeddedDefinitions),
		}})
	}
	p, err := w.registry.Definition(ctx, w.tenant, exact)
	if err != nil {
		return nil, err
	}
	d, err := definition.Parse(p.Source)
	if err != nil {
		return nil, fmt.Errorf("the published workflow %s: %w", exact, err)
	}
	for _, s := range d.FlatSteps() {
		if ref, ok := definition.EmbeddedRef(s); ok {
			if found, err := w.findCycle(ctx, ref, path); err != nil || len(found) > 0 {
				delete(w.seen, exact.String()) // it does lead back, for another step too
				return found, err
			}
		}
	}
	return nil, nil
}

// resolve finds the version that a reference would mean, once the definition is
// published.
func (w *cycleFinder) resolve(ctx context.Context, ref workflow.Ref) (exact workflow.Ref, found bool, err error) {
	list, err := listVersions(ctx, w.registry, w.tenant, ref)
	if err != nil {
		return ref, false, err
	}
	var all []string
	for _, d := range list {
		if !d.Archived {
			all = append(all, d.Ref.Version)
		}
	}
	if w.target.Ref().FullName() == ref.FullName() {
		all = append(all, w.target.Version)
	}
	ref.Version = ref.Newest(all)
	return ref, ref.Version != "", nil
}
