package transfer

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/lockstep-run/lockstep/shared/client"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// deployment is what a service has of what can be moved.
type deployment struct {
	*client.Client
	progress *progress
}

func (s *deployment) blocks(ctx context.Context) ([]workflow.Block, error) {
	var all []workflow.Block
	for b, err := range s.Blocks(ctx) {
		if err != nil {
			return nil, err
		}
		all = append(all, normalizeBlock(b))
		s.progress.report("blocks read", len(all))
	}
	slices.SortFunc(all, func(a, b workflow.Block) int { return compareRefs(a.Ref(), b.Ref()) })
	return all, nil
}

// definitionHeaders are the definitions without their sources.
func (s *deployment) definitionHeaders(ctx context.Context) ([]client.Definition, error) {
	var all []client.Definition
	for d, err := range s.Definitions(ctx) {
		if err != nil {
			return nil, err
		}
		all = append(all, d)
	}
	slices.SortFunc(all, func(a, b client.Definition) int { return compareRefs(definitionRef(a), definitionRef(b)) })
	return all, nil
}

// fullDefinitions are the definitions, whole.
func (s *deployment) fullDefinitions(ctx context.Context) ([]client.Definition, error) {
	all, err := s.definitionHeaders(ctx)
	for i := range all {
		if err != nil {
			return nil, err
		}
		all[i], err = s.Definition(ctx, definitionRef(all[i]))
		s.progress.report("definitions read", i+1)
	}
	return all, err
}

func definitionRef(d client.Definition) workflow.Ref {
	return workflow.Ref{Package: d.Package, Name: d.Name, Version: d.Version}
}

// compareRefs puts versions of one name in the order in which they were meant.
func compareRefs(a, b workflow.Ref) int {
	v, _ := workflow.ParseSemver(a.Version) // what is stored has been parsed
	w, _ := workflow.ParseSemver(b.Version)
	return cmp.Or(cmp.Compare(a.Package, b.Package), cmp.Compare(a.Name, b.Name), v.Compare(w))
}

// entityTypes are those of which there are entities, as far as they are asked for.
func (s *deployment) entityTypes(ctx context.Context, only []string) ([]string, error) {
	var all []string
	for name, err := range s.EntityTypes(ctx) {
		if err != nil {
			return nil, err
		}
		if len(only) == 0 || slices.Contains(only, name) {
			all = append(all, name)
		}
	}
	return all, nil
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
