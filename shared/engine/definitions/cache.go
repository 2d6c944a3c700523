package definitions

import (
	"context"
	"fmt"
	"sync"

	"github.com/lockstep-run/lockstep/shared/definition"
	"github.com/lockstep-run/lockstep/shared/engine/port"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

// Cache caches definitions and blocks. It is safe for concurrent use.
type Cache struct {
	definitions boundedMap[*Definition]
	blocks      boundedMap[workflow.Block]
}

// boundedMap is a bounded map that is emptied when it is full.
type boundedMap[T any] struct {
	mu    sync.Mutex
	items map[string]T
}

const maxCacheEntries = 256

func (s *boundedMap[T]) get(key string) (T, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, ok := s.items[key]
	return v, ok
}

func (s *boundedMap[T]) put(key string, v T) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.items == nil || len(s.items) >= maxCacheEntries {
		s.items = map[string]T{}
	}
	s.items[key] = v
}

// Definition is a published definition, parsed and compiled.
type Definition struct {
	*spec.Definition
	compiled *definition.Compiled
}

// Definition reads the definition under an exact reference.
func (l *Cache) Definition(ctx context.Context, r port.Registry, tenant string, ref workflow.Ref) (*Definition, error) {
	key := tenant + "#" + ref.String()
	if d, ok := l.definitions.get(key); ok {
		return d, nil
	}
	stored, err := r.Definition(ctx, tenant, ref)
	if err != nil {
		return nil, err
	}
	def, err := definition.Parse(stored.Source)
	if err != nil {
		return nil, workflow.Errorf(workflow.CodeInternal, "the stored definition %s cannot be read: %w", ref, err)
	}
	compiled, err := definition.Compile(def)
	if err != nil {
		return nil, workflow.Errorf(workflow.CodeInternal, "the stored definition %s cannot be compiled: %w", ref, err)
	}
	d := &Definition{def, compiled}
	l.definitions.put(key, d)
	return d, nil
}

// Block resolves a block as a step names it: at the pinned version, or, where none
// is pinned yet, at the newest that matches. A block that is not registered is a
// problem of the run.
func (l *Cache) Block(ctx context.Context, r port.Registry, tenant, blockRef, step, pinned string) (workflow.Block, *workflow.Failure, error) {
	ref, err := workflow.ParseRef(blockRef)
	if err != nil {
		return workflow.Block{}, &workflow.Failure{Code: "BLOCK_NOT_FOUND", Message: err.Error(), Step: step}, nil //nolint:nilerr // it is the run's problem, not the engine's
	}
	if pinned != "" {
		ref.Version = pinned
		if b, ok := l.blocks.get(tenant + "#" + ref.String()); ok {
			return b, nil, nil
		}
	}
	versions, err := r.BlockVersions(ctx, tenant, ref.FullName())
	if err != nil {
		return workflow.Block{}, nil, err
	}
	numbers := make([]string, len(versions))
	for i, b := range versions {
		numbers[i] = b.Version
	}
	newest := ref.Newest(numbers)
	for _, b := range versions {
		if b.Version == newest {
			l.blocks.put(tenant+"#"+b.Ref().String(), b)
			return b, nil, nil
		}
	}
	return workflow.Block{}, &workflow.Failure{Code: "BLOCK_NOT_FOUND", Step: step,
		Message: fmt.Sprintf("step %q names block %s, and no registered version matches", step, blockRef)}, nil
}
