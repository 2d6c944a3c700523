// Package definitions caches what is immutable once published, so that a warm process reads it
// once: compiled definitions and function blocks, by tenant and exact version. It links a
// definition and the definitions that it embeds into one program (program.go), and evaluates a
// program's expressions for the decider, which does not know the expression language
// (expressions.go).
package definitions

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/lockstep-run/lockstep/shared/catalog"
	"github.com/lockstep-run/lockstep/shared/definition"
	"github.com/lockstep-run/lockstep/shared/engine/port"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

// Cache caches definitions and blocks. It is safe for concurrent use.
type Cache struct {
	definitions boundedMap[*Definition]
	newest      boundedMap[workflow.Ref]
	blocks      boundedMap[workflow.Block]
	indexes     boundedMap[keptIndex]
	revisions   boundedMap[int64] // the last one read, by tenant
}

// boundedMap is a map of at most maxCacheEntries. With more than that in use, the more the fewer are found, and
// some always are: any one makes room for another.
type boundedMap[T any] struct {
	mu    sync.Mutex
	items map[string]T
}

const maxCacheEntries = 256

func (m *boundedMap[T]) get(key string) (T, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	v, ok := m.items[key]
	return v, ok
}

func (m *boundedMap[T]) clear() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.items = nil
}

func (m *boundedMap[T]) put(key string, v T) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.items == nil {
		m.items = map[string]T{}
	}
	if _, known := m.items[key]; !known && len(m.items) >= maxCacheEntries {
		for other := range m.items {
			delete(m.items, other)
			break
		}
	}
	m.items[key] = v
}

// Definition is a published definition, parsed and compiled.
type Definition struct {
	*spec.Definition
	compiled *definition.Compiled
}

// Definition returns the definition with an exact reference.
func (c *Cache) Definition(ctx context.Context, r port.Registry, tenant string, ref workflow.Ref) (*Definition, error) {
	key := tenant + "#" + ref.String()
	if d, ok := c.definitions.get(key); ok {
		return d, nil
	}
	stored, err := r.Definition(ctx, tenant, ref)
	if err != nil {
		return nil, err
	}
	def, compiled, err := definition.ParseAndCompile(stored.Source)
	if err != nil {
		return nil, workflow.Errorf(workflow.CodeInternal, "the stored definition %s cannot be read: %w", ref, err)
	}
	d := &Definition{def, compiled}
	c.definitions.put(key, d)
	return d, nil
}

// Remember keeps the exact version to which a reference has resolved.
func (c *Cache) Remember(tenant string, ref, exact workflow.Ref) {
	c.newest.put(tenant+"#"+ref.String(), exact)
}

// Guess returns the definition to which a reference has resolved last, nil if that is not known. There
// may be a newer version by now.
func (c *Cache) Guess(tenant string, ref workflow.Ref) *Definition {
	exact, ok := c.newest.get(tenant + "#" + ref.String())
	if !ok {
		return nil
	}
	d, _ := c.definitions.get(tenant + "#" + exact.String())
	return d
}

// Block resolves a step's reference to a block: to the pinned version or, if none is pinned yet, to
// the newest version that matches. A block that is not registered is a failure of the execution,
// not an error.
func (c *Cache) Block(ctx context.Context, r port.Registry, tenant, blockRef, step, pinned string) (workflow.Block, *workflow.Failure, error) {
	ref, err := workflow.ParseRef(blockRef)
	if err != nil {
		return workflow.Block{}, &workflow.Failure{Code: "BLOCK_NOT_FOUND", Message: err.Error(), Step: step}, nil //nolint:nilerr // the mistake is the definition's: it fails the execution
	}
	if b, ok := workflow.BuiltinBlock(ref); ok {
		return b, nil, nil
	}
	if ref.Version = cmp.Or(pinned, ref.Version); !ref.Exact() {
		newest, err := catalog.NewestVersion(ctx, r, tenant, workflow.BlockVersions, ref)
		if err != nil {
			return workflow.Block{}, nil, err
		}
		ref.Version = newest.Version
	}
	key := tenant + "#" + ref.String()
	if b, ok := c.blocks.get(key); ok {
		return b, nil, nil
	}
	var b *workflow.Block
	if ref.Exact() {
		b, err = r.Block(ctx, tenant, ref)
	}
	switch {
	case b == nil && err == nil, workflow.Is(err, workflow.CodeNotFound):
		return workflow.Block{}, &workflow.Failure{Code: "BLOCK_NOT_FOUND", Step: step,
			Message: fmt.Sprintf("step %q uses block %s, but no registered version matches", step, blockRef) + registeredBlocks(ctx, r, tenant, ref)}, nil
	case err != nil:
		return workflow.Block{}, nil, err
	}
	c.blocks.put(key, *b)
	return *b, nil, nil
}

// registeredBlocks is the end of a message about a block of which no version matches: the versions that there are
// or, if there are none, the block that was probably meant. It looks at the first page of blocks only, and is ""
// if that cannot be read: the failure is the same without it.
func registeredBlocks(ctx context.Context, r port.Registry, tenant string, ref workflow.Ref) string {
	list, err := r.Blocks(ctx, tenant, workflow.Page{Limit: 100})
	if err != nil {
		return ""
	}
	var names, versions []string
	for _, b := range list.Items {
		if name := b.Ref().FullName(); name == ref.FullName() {
			versions = append(versions, b.Version)
		} else if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if n := len(versions); n > 0 {
		return "; the newest that is registered is " + ref.FullName() + ":" + workflow.Ref{}.Newest(versions)
	}
	return workflow.DidYouMean(ref.FullName(), names)
}
