package catalog

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-run/lockstep/shared/definition"
	"github.com/lockstep-run/lockstep/shared/definition/program"
	"github.com/lockstep-run/lockstep/shared/parallel"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

// Secrets reports which secrets exist. It shows no value.
type Secrets interface {
	// Exists is CodeInvalid if it knows that steps refuse the value.
	Exists(ctx context.Context, tenant, name string) (bool, error)
}

const (
	maxSecretUsers    = 1000             // workflows, and as many blocks, that are read for one list
	maxSecretLookups  = 200              // names that are looked up for one list
	secretLookupTime  = 10 * time.Second // time limit for that
	secretParallelism = 8                // reads at a time
)

// Secrets lists the secrets that the newest version of each workflow and of each block refers to,
// by name, and whether they exist. A workflow that cannot be read has an entry without a name.
func (c *Catalog) Secrets(ctx context.Context, caller workflow.Caller) (v views.SecretsView, err error) {
	ports := c.openPorts()
	users := map[string][]string{} // by name of the secret
	newest, complete, err := newestDefinitions(ctx, ports.Registry, caller.Tenant)
	if err != nil {
		return v, err
	}
	names, unreadable := make([][]string, len(newest)), make([]error, len(newest))
	if err := parallel.Each(ctx, secretParallelism, len(newest), func(ctx context.Context, i int) error {
		p, err := ports.Registry.Definition(ctx, caller.Tenant, newest[i])
		if err != nil || p == nil {
			return err
		}
		d, err := definition.Parse(p.Source)
		if unreadable[i] = err; err == nil {
			names[i] = append(program.SecretNames(d), triggerSecrets(d)...)
		}
		return nil
	}); err != nil {
		return v, err
	}
	v.Items = []views.SecretView{}
	for i, ref := range newest {
		if unreadable[i] != nil {
			why := "this workflow cannot be read: " + unreadable[i].Error()
			v.Items = append(v.Items, views.SecretView{Problem: &why, UsedBy: []string{"workflow " + ref.String()}})
		}
		for _, name := range names[i] {
			users[name] = append(users[name], "workflow "+ref.String())
		}
	}
	blocks, allBlocks, err := newestBlocks(ctx, ports.Registry, caller.Tenant)
	if err != nil {
		return v, err
	}
	for i := range blocks {
		for _, name := range blocks[i].HTTP.Secrets() {
			users[name] = append(users[name], "block "+blocks[i].Ref().String())
		}
	}
	first := len(v.Items)
	v.Complete = complete && allBlocks && first == 0 && len(users) <= maxSecretLookups
	for _, name := range slices.Sorted(maps.Keys(users)) {
		v.Items = append(v.Items, views.SecretView{Name: name, UsedBy: users[name]})
	}
	lookup, cancel := context.WithTimeout(ctx, secretLookupTime)
	defer cancel()
	return v, parallel.Each(ctx, secretParallelism, len(users), func(_ context.Context, i int) error {
		item := &v.Items[first+i]
		if i < maxSecretLookups {
			item.Resolves, item.Problem = secretState(lookup, ports.Secrets, caller.Tenant, item.Name)
		} else {
			why := fmt.Sprintf("only %d names are looked up", maxSecretLookups)
			item.Problem = &why
		}
		return nil
	})
}

// secretState returns whether a secret exists and can be used and, if not, why.
func secretState(ctx context.Context, secrets Secrets, tenant, name string) (resolves bool, problem *string) {
	why := "there is no secret of this name"
	if secrets == nil {
		return false, &why
	}
	found, err := secrets.Exists(ctx, tenant, name)
	if refused := (*workflow.Error)(nil); errors.As(err, &refused) {
		why = refused.Message
	} else if err != nil {
		why = err.Error()
	}
	if found && err == nil {
		return true, nil
	}
	return false, &why
}

// triggerSecrets returns the names of the secrets with which calls of the triggers are checked.
func triggerSecrets(d *spec.Definition) (names []string) {
	for _, t := range d.Triggers.All() {
		if name, _ := t.SecretName(); name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// newestDefinitions returns the newest versions of all workflows that are not archived. complete is
// false if there are too many.
func newestDefinitions(ctx context.Context, r Registry, tenant string) (newest []workflow.Ref, complete bool, err error) {
	byName := map[string]workflow.Ref{}
	for page := (workflow.Page{Limit: workflow.MaxPageSize}); ; {
		list, err := r.DefinitionVersions(ctx, tenant, "", page)
		if err != nil {
			return nil, false, err
		}
		for _, d := range list.Items {
			if !d.Archived && !d.Draft && (byName[d.Ref.FullName()].Version == "" || olderThan(byName[d.Ref.FullName()].Version, d.Ref.Version)) {
				byName[d.Ref.FullName()] = d.Ref
			}
		}
		if page.Token = list.NextToken; page.Token == "" || len(byName) >= maxSecretUsers {
			return slices.SortedFunc(maps.Values(byName), func(a, b workflow.Ref) int { return strings.Compare(a.String(), b.String()) }), page.Token == "", nil
		}
	}
}

// newestBlocks returns the newest versions of all blocks. complete is false if there are too many.
func newestBlocks(ctx context.Context, r Registry, tenant string) (newest []workflow.Block, complete bool, err error) {
	byName := map[string]workflow.Block{}
	for page := (workflow.Page{Limit: workflow.MaxPageSize}); ; {
		list, err := r.Blocks(ctx, tenant, page)
		if err != nil {
			return nil, false, err
		}
		for _, b := range list.Items {
			ref := b.Ref()
			if known, ok := byName[ref.FullName()]; !ok || olderThan(known.Version, ref.Version) {
				byName[ref.FullName()] = b
			}
		}
		if page.Token = list.NextToken; page.Token == "" || len(byName) >= maxSecretUsers {
			return slices.SortedFunc(maps.Values(byName), func(a, b workflow.Block) int { return strings.Compare(a.Ref().String(), b.Ref().String()) }), page.Token == "", nil
		}
	}
}

// checkSecrets warns about secrets that do not exist, if that can be determined.
func (c *Catalog) checkSecrets(w *warner, d *spec.Definition, paths []string) {
	secrets := c.openPorts().Secrets
	if secrets == nil {
		return
	}
	for i, t := range d.Triggers.All() {
		name, path := t.SecretName()
		if name == "" {
			continue
		}
		if found, err := secrets.Exists(w.ctx, w.tenant, name); err == nil && !found {
			w.warn(d.Triggers.Path(i)+path, "unknown_secret", "there is no secret %q; the trigger refuses all calls until there is one", name)
		}
	}
	for i, s := range d.FlatSteps() {
		for _, name := range program.SecretNames(&spec.Definition{Steps: []spec.Step{*s}}) {
			if found, err := secrets.Exists(w.ctx, w.tenant, name); err == nil && !found {
				w.warn(paths[i]+program.ParametersField(s), "unknown_secret", "there is no secret %q; the step fails until there is one", name)
			}
		}
	}
}
