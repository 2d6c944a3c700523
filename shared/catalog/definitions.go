package catalog

import (
	"context"
	"encoding/json"

	"github.com/lockstep-run/lockstep/shared/definition"
	"github.com/lockstep-run/lockstep/shared/definition/program"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

// Publish stores a definition. Publishing the same content under an existing version is accepted,
// and created is false; if that is a draft, it is published. Different content is CodeConflict. With
// dryRun everything is checked and nothing is stored. The warnings of p name what does not match what
// is currently registered.
func (c *Catalog) Publish(ctx context.Context, caller workflow.Caller, source []byte, dryRun bool) (p workflow.PublishedDefinition, created bool, err error) {
	return c.publish(ctx, caller, source, dryRun, false)
}

// PublishDraft stores a definition as a draft. It is not in the index of versions, so that nothing
// finds it but a start that names its exact version and allows a draft. A version that is already
// published with the same content stays published.
func (c *Catalog) PublishDraft(ctx context.Context, caller workflow.Caller, source []byte, dryRun bool) (p workflow.PublishedDefinition, created bool, err error) {
	return c.publish(ctx, caller, source, dryRun, true)
}

func (c *Catalog) publish(ctx context.Context, caller workflow.Caller, source []byte, dryRun, draft bool) (p workflow.PublishedDefinition, created bool, err error) {
	d, compiled, err := definition.ParseStrict(source)
	if err != nil {
		return p, false, err
	}
	issues, err := c.takenTriggers(ctx, caller.Tenant, d)
	if err != nil {
		return p, false, err
	}
	misfits, err := c.misfitRows(ctx, caller.Tenant, d, compiled)
	if err != nil {
		return p, false, err
	}
	if issues = append(append(issues, c.unknownEndpoints(d)...), misfits...); len(issues) > 0 {
		return p, false, workflow.Invalid("the definition is not valid", definition.LocateIssues(source, issues))
	}
	if err := c.checkCycles(ctx, caller, d, source); err != nil {
		return p, false, err
	}
	warnings, err := c.warnings(ctx, caller.Tenant, d, source)
	if err != nil {
		return p, false, err
	}
	defer func() { p.Warnings = warnings }() // they describe this moment and are not stored
	p = workflow.PublishedDefinition{
		Ref: d.Ref(), Digest: definition.Digest(d), Source: definition.Canonical(d), Schema: d.Schema(),
		PublishedAt: c.now().UTC(), PublishedBy: caller.Actor, Draft: draft,
	}
	var existing *workflow.PublishedDefinition
	if dryRun {
		existing, err = c.openPorts().Registry.Definition(ctx, caller.Tenant, p.Ref)
		if workflow.Is(err, workflow.CodeNotFound) {
			return p, true, nil
		}
	} else {
		existing, err = c.openPorts().Registry.PutDefinition(ctx, caller.Tenant, p)
	}
	same := existing == nil || err == nil && existing.Digest == p.Digest
	if err == nil && same && existing != nil && existing.Draft && !draft {
		existing.Draft, existing.PublishedAt, existing.PublishedBy = false, p.PublishedAt, p.PublishedBy
		if !dryRun {
			err = c.openPorts().Registry.PublishDraft(ctx, caller.Tenant, p)
		}
	}
	if err == nil && !dryRun && same && !draft {
		// Do this even if it was published earlier: that request may have crashed before this line.
		err = updateVersionIndex(ctx, c.openPorts().Registry, caller.Tenant, workflow.DefinitionVersions, p.Ref.FullName(), p.Ref.Version, c.now())
		if err == nil {
			err = c.syncSchedules(ctx, caller.Tenant, p.Ref.FullName(), d)
		}
		if err == nil {
			err = c.syncTriggers(ctx, caller.Tenant, p.Ref.FullName(), d)
		}
	}
	switch {
	case err != nil:
		return p, false, err
	case existing == nil:
		return p, true, nil
	case existing.Digest != p.Digest:
		return p, false, workflow.Errorf(workflow.CodeConflict, "%s is already published with other content; publish it under a new version", p.Ref)
	}
	return *existing, false, nil
}

// unknownEndpoints returns issues for the endpoints that a definition names and this stage does not
// have.
func (c *Catalog) unknownEndpoints(d *spec.Definition) (issues []workflow.Issue) {
	known := c.openPorts().Endpoints
	paths := program.Paths(d)
	for i, s := range d.FlatSteps() {
		if issue := known.Check(s.Endpoint(), paths[i]+".http.endpoint"); issue != nil {
			issues = append(issues, *issue)
		}
	}
	return issues
}

// maxListReads bounds how many batches one call reads to find definitions with the labels. The page
// may then be short; its token continues from there.
const maxListReads = 10

// Definitions lists every version of every definition, or of those that have all the labels,
// without sources. Labels exist only in the source, so a search for them reads the sources.
func (c *Catalog) Definitions(ctx context.Context, caller workflow.Caller, labels map[string]string, p workflow.Page) (list workflow.List[workflow.PublishedDefinition], err error) {
	r := c.openPorts().Registry
	p = clampPage(p)
	if len(labels) == 0 {
		return r.DefinitionVersions(ctx, caller.Tenant, "", p)
	}
	list.NextToken = p.Token
	for range maxListReads {
		batch, err := r.DefinitionSources(ctx, caller.Tenant, workflow.Page{Limit: p.Limit - len(list.Items), Token: list.NextToken})
		if err != nil {
			return list, err
		}
		for _, d := range batch.Items {
			has, err := hasLabels(d, labels)
			if err != nil {
				return list, err
			}
			if has {
				d.Source, d.Schema = nil, 0
				list.Items = append(list.Items, d)
			}
		}
		if list.NextToken = batch.NextToken; list.NextToken == "" || len(list.Items) == p.Limit {
			break
		}
	}
	return list, nil
}

// hasLabels reports whether the source of a definition has all the labels, with these values.
func hasLabels(d workflow.PublishedDefinition, labels map[string]string) (bool, error) {
	var source struct {
		Labels map[string]string `json:"labels"`
	}
	if err := json.Unmarshal(d.Source, &source); err != nil {
		return false, workflow.Errorf(workflow.CodeInternal, "definition %s cannot be decoded: %w", d.Ref, err)
	}
	for name, want := range labels {
		if got, ok := source.Labels[name]; !ok || got != want {
			return false, nil
		}
	}
	return true, nil
}

// Versions lists the versions of one definition.
func (c *Catalog) Versions(ctx context.Context, caller workflow.Caller, fullName string, p workflow.Page) (workflow.List[workflow.PublishedDefinition], error) {
	list, err := c.openPorts().Registry.DefinitionVersions(ctx, caller.Tenant, fullName, clampPage(p))
	if err == nil && len(list.Items) == 0 && p.Token == "" {
		err = workflow.Errorf(workflow.CodeNotFound, "no workflow %s is published", fullName)
	}
	return list, err
}

// Definition returns one published definition with its source. A reference without an exact version
// finds the newest match that an execution would use, and an archived version only if there is no
// other.
func (c *Catalog) Definition(ctx context.Context, caller workflow.Caller, ref workflow.Ref) (workflow.PublishedDefinition, error) {
	r := c.openPorts().Registry
	if !ref.Exact() {
		newest, err := NewestVersion(ctx, r, caller.Tenant, workflow.DefinitionVersions, ref)
		if err != nil {
			return workflow.PublishedDefinition{}, err
		}
		if newest.Version == "" {
			return workflow.PublishedDefinition{}, workflow.Errorf(workflow.CodeNotFound, "no published workflow matches %s", ref)
		}
		ref.Version = newest.Version
	}
	p, err := r.Definition(ctx, caller.Tenant, ref)
	if err != nil {
		return workflow.PublishedDefinition{}, err
	}
	return *p, nil
}

// Archive prevents new executions of an exact version. Running executions continue. Archiving a
// version again changes nothing.
func (c *Catalog) Archive(ctx context.Context, caller workflow.Caller, ref workflow.Ref) error {
	return c.setArchived(ctx, caller, ref, true)
}

// Restore allows new executions of an archived version again.
func (c *Catalog) Restore(ctx context.Context, caller workflow.Caller, ref workflow.Ref) error {
	return c.setArchived(ctx, caller, ref, false)
}

func (c *Catalog) setArchived(ctx context.Context, caller workflow.Caller, ref workflow.Ref, archived bool) error {
	if !ref.Exact() {
		return workflow.Invalid("the request is not valid", []workflow.Issue{{Path: "version", Code: "semver", Message: "name one version, such as 1.2.3"}})
	}
	r := c.openPorts().Registry
	if err := r.SetArchived(ctx, caller.Tenant, ref, archived); err != nil {
		return err
	}
	if err := updateVersionIndex(ctx, r, caller.Tenant, workflow.DefinitionVersions, ref.FullName(), "", c.now()); err != nil {
		return err
	}
	if err := c.syncSchedules(ctx, caller.Tenant, ref.FullName(), nil); err != nil {
		return err
	}
	return c.syncTriggers(ctx, caller.Tenant, ref.FullName(), nil)
}
