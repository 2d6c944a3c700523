package transfer

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"regexp"
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

// quotedTypeRE finds types of entities that expressions name.
var quotedTypeRE = regexp.MustCompile(`entity\(\s*\\?["']([^"'\\]+)`)

// typesOf are the types of entities that blocks and definitions name, with those
// given. The service keeps no list of types; whatever runs can reach is named in
// one of these.
func typesOf(blocks []workflow.Block, definitions []client.Definition, given []string) []string {
	found := map[string]bool{}
	add := func(name string) {
		if workflow.ValidID(name) && name != workflow.RunOnGlobal {
			found[name] = true
		}
	}
	for _, name := range given {
		add(name)
	}
	for _, b := range blocks {
		add(b.RunOn)
	}
	for _, d := range definitions {
		if d.Definition == nil {
			continue
		}
		var source any
		if json.Unmarshal(*d.Definition, &source) == nil {
			typed(source, add)
		}
		for _, m := range quotedTypeRE.FindAllSubmatch(*d.Definition, -1) {
			add(string(m[1]))
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// typed calls found with every text that stands where a definition names a type.
func typed(v any, found func(string)) {
	switch v := v.(type) {
	case map[string]any:
		for key, inner := range v {
			if text, ok := inner.(string); ok && (key == "seedEntity" || key == "runOn" || key == "type") {
				found(text)
			}
			typed(inner, found)
		}
	case []any:
		for _, inner := range v {
			typed(inner, found)
		}
	}
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
