package transfer

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/lockstep-run/lockstep/shared/client"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// stage is what a service has of what can be moved.
type stage struct {
	*client.Client
	progress *progress
}

func (s *stage) blocks(ctx context.Context) ([]workflow.Block, error) {
	var all []workflow.Block
	for b, err := range s.Blocks(ctx) {
		if err != nil {
			return nil, err
		}
		all = append(all, plain(b))
		s.progress.tell("blocks read", len(all))
	}
	slices.SortFunc(all, func(a, b workflow.Block) int { return compareRefs(a.Ref(), b.Ref()) })
	return all, nil
}

// heads are the definitions without their sources.
func (s *stage) heads(ctx context.Context) ([]client.Definition, error) {
	var all []client.Definition
	for d, err := range s.Definitions(ctx) {
		if err != nil {
			return nil, err
		}
		all = append(all, d)
	}
	slices.SortFunc(all, func(a, b client.Definition) int { return compareRefs(refOf(a), refOf(b)) })
	return all, nil
}

// sources are the definitions, whole.
func (s *stage) sources(ctx context.Context) ([]client.Definition, error) {
	all, err := s.heads(ctx)
	for i := range all {
		if err != nil {
			return nil, err
		}
		all[i], err = s.Definition(ctx, refOf(all[i]))
		s.progress.tell("definitions read", i+1)
	}
	return all, err
}

func refOf(d client.Definition) workflow.Ref {
	return workflow.Ref{Package: d.Package, Name: d.Name, Version: d.Version}
}

// compareRefs puts versions of one name in the order in which they were meant.
func compareRefs(a, b workflow.Ref) int {
	v, _ := workflow.ParseSemver(a.Version) // what is stored has been parsed
	w, _ := workflow.ParseSemver(b.Version)
	return cmp.Or(cmp.Compare(a.Package, b.Package), cmp.Compare(a.Name, b.Name), v.Compare(w))
}

// types are those of which there are entities, as far as they are asked for.
func (s *stage) types(ctx context.Context, only []string) ([]string, error) {
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
