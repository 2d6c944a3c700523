package catalog

import (
	"cmp"
	"context"

	"github.com/lockstep-run/lockstep/shared/definition"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Publish stores a definition. The same content under a version that exists
// already is accepted and created is false; other content is CodeConflict. With
// dryRun everything is checked and nothing stored. Its warnings are what does not
// fit what is registered now.
func (c *Catalog) Publish(ctx context.Context, who workflow.Caller, source []byte, dryRun bool) (p workflow.Published, created bool, err error) {
	d, err := definition.ParseNew(source)
	if err != nil {
		return p, false, err
	}
	if _, err := definition.Compile(d); err != nil {
		return p, false, err
	}
	if err := c.acyclic(ctx, who, d, source); err != nil {
		return p, false, err
	}
	warnings, err := c.warnings(ctx, who.Tenant, d, source)
	if err != nil {
		return p, false, err
	}
	defer func() { p.Warnings = warnings }() // they are of this moment, and not stored
	p = workflow.Published{
		Ref: d.Ref(), Digest: definition.Digest(d), Source: definition.Canonical(d),
		PublishedAt: c.now().UTC(), PublishedBy: who.Actor,
	}
	var existing *workflow.Published
	if dryRun {
		existing, err = c.open().Registry.Definition(ctx, who.Tenant, p.Ref)
		if workflow.Is(err, workflow.CodeNotFound) {
			return p, true, nil
		}
	} else {
		existing, err = c.open().Registry.PutDefinition(ctx, who.Tenant, p)
	}
	if err == nil && !dryRun && (existing == nil || existing.Digest == p.Digest) {
		// Also for what was published before: whoever did may have died in between.
		err = c.reschedule(ctx, who.Tenant, p.Ref.FullName())
	}
	switch {
	case err != nil:
		return p, false, err
	case existing == nil:
		return p, true, nil
	case existing.Digest != p.Digest:
		return p, false, workflow.Errorf(workflow.CodeConflict, "%s is published with other content; publish it under a new version", p.Ref)
	}
	return *existing, false, nil
}

// Definitions lists every version of every definition, without sources.
func (c *Catalog) Definitions(ctx context.Context, who workflow.Caller, p workflow.Page) (workflow.List[workflow.Published], error) {
	return c.open().Registry.DefinitionVersions(ctx, who.Tenant, "", bounded(p))
}

// Versions lists the versions of one definition.
func (c *Catalog) Versions(ctx context.Context, who workflow.Caller, fullName string, p workflow.Page) (workflow.List[workflow.Published], error) {
	list, err := c.open().Registry.DefinitionVersions(ctx, who.Tenant, fullName, bounded(p))
	if err == nil && len(list.Items) == 0 && p.Token == "" {
		err = workflow.Errorf(workflow.CodeNotFound, "no workflow %s is published", fullName)
	}
	return list, err
}

// Definition is one published definition with its source; a reference by major
// or minor finds the newest match that a run would take, and an archived one only
// if there is no other.
func (c *Catalog) Definition(ctx context.Context, who workflow.Caller, ref workflow.Ref) (workflow.Published, error) {
	r := c.open().Registry
	if !ref.Exact() {
		list, err := versions(ctx, r, who.Tenant, ref)
		if err != nil {
			return workflow.Published{}, err
		}
		var all, used []string
		for _, d := range list {
			all = append(all, d.Ref.Version)
			if !d.Archived {
				used = append(used, d.Ref.Version)
			}
		}
		newest := cmp.Or(ref.Newest(used), ref.Newest(all))
		if newest == "" {
			return workflow.Published{}, workflow.Errorf(workflow.CodeNotFound, "no published workflow matches %s", ref)
		}
		ref.Version = newest
	}
	p, err := r.Definition(ctx, who.Tenant, ref)
	if err != nil {
		return workflow.Published{}, err
	}
	return *p, nil
}

// versions are all versions of the definition that a reference names.
func versions(ctx context.Context, r Registry, tenant string, ref workflow.Ref) ([]workflow.Published, error) {
	var all []workflow.Published
	for page := (workflow.Page{Limit: workflow.MaxPage}); ; {
		list, err := r.DefinitionVersions(ctx, tenant, ref.FullName(), page)
		if err != nil {
			return nil, err
		}
		all = append(all, list.Items...)
		if page.Token = list.Next; page.Token == "" {
			return all, nil
		}
	}
}

// Archive keeps an exact version from being run anew; runs that have begun go on.
// Archiving it again is no news.
func (c *Catalog) Archive(ctx context.Context, who workflow.Caller, ref workflow.Ref) error {
	return c.setArchived(ctx, who, ref, true)
}

// Restore takes an archived version back into use.
func (c *Catalog) Restore(ctx context.Context, who workflow.Caller, ref workflow.Ref) error {
	return c.setArchived(ctx, who, ref, false)
}

func (c *Catalog) setArchived(ctx context.Context, who workflow.Caller, ref workflow.Ref, archived bool) error {
	if !ref.Exact() {
		return workflow.Invalid("the request is not valid", []workflow.Issue{{Path: "version", Code: "semver", Message: "name one version, such as 1.2.3"}})
	}
	if err := c.open().Registry.SetArchived(ctx, who.Tenant, ref, archived); err != nil {
		return err
	}
	return c.reschedule(ctx, who.Tenant, ref.FullName())
}
