package expr

import (
	"cmp"
	"fmt"
	"slices"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
	"cel.dev/cel-go/interpreter"
)

// The engine evaluates an expression again rather than store its value, so the
// same inputs have to give the same value, on any machine. The one thing in CEL
// that varies is the order in which macros walk a map; here maps are walked by
// key.

// orderedAdapter adapts what JSON decodes to, with maps in order at every depth.
type orderedAdapter struct{ types.Adapter }

// celAdapter turns what JSON decodes to into values of CEL.
var celAdapter types.Adapter = orderedAdapter{types.DefaultTypeAdapter}

// NativeToValue adapts one value.
func (o orderedAdapter) NativeToValue(v any) ref.Val {
	switch v := v.(type) {
	case map[string]any:
		return &orderedMap{types.NewStringInterfaceMap(o, v)}
	case []any:
		return types.NewDynamicList(o, v)
	case []ref.Val:
		return types.NewRefValList(o, v)
	}
	return o.Adapter.NativeToValue(v)
}

// adaptValue adapts a value with everything in it. What is adapted when it is asked
// for is adapted anew each time, and so measured anew for the size limit, which
// takes as long as walking it.
func adaptValue(v any) ref.Val {
	switch v := v.(type) {
	case map[string]any:
		all := make(map[string]any, len(v))
		for k := range v {
			all[k] = adaptValue(v[k])
		}
		return celAdapter.NativeToValue(all)
	case []any:
		list := make([]ref.Val, len(v))
		for i := range v {
			list[i] = adaptValue(v[i])
		}
		return types.NewRefValList(celAdapter, list)
	}
	return celAdapter.NativeToValue(v)
}

// orderedMap is a map that is walked by key. It hides the map's own way to fold.
type orderedMap struct{ traits.Mapper }

// Iterator walks the keys in order.
func (m *orderedMap) Iterator() traits.Iterator {
	var keys []ref.Val
	for it := m.Mapper.Iterator(); it.HasNext() == types.True; {
		keys = append(keys, it.Next())
	}
	slices.SortFunc(keys, compareKeys)
	return types.NewRefValList(types.DefaultTypeAdapter, keys).Iterator()
}

// AggregateSize measures the map; the measure is kept with it.
func (m *orderedMap) AggregateSize(s types.AggregateSizer) uint32 { return s.AggregateSize(m.Mapper) }

func compareKeys(a, b ref.Val) int {
	if a, ok := a.(types.String); ok {
		if b, ok := b.(types.String); ok {
			return cmp.Compare(a, b)
		}
	}
	if c := cmp.Compare(a.Type().TypeName(), b.Type().TypeName()); c != 0 {
		return c
	}
	switch a := a.(type) {
	case types.Int:
		return cmp.Compare(a, b.(types.Int))
	case types.Uint:
		return cmp.Compare(a, b.(types.Uint))
	}
	return cmp.Compare(fmt.Sprint(a.Value()), fmt.Sprint(b.Value()))
}

// orderMapLiterals puts the maps in order that an expression writes out.
func orderMapLiterals(i interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
	if c, ok := i.(interpreter.InterpretableConstructor); ok && c.Type() == types.MapType {
		return &mapLiteral{c}, nil
	}
	return i, nil
}

type mapLiteral struct {
	interpreter.InterpretableConstructor
}

// Exec evaluates the literal.
func (l *mapLiteral) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	return orderMap(l.InterpretableConstructor.Exec(frame))
}

// Eval evaluates the literal where there is no frame.
func (l *mapLiteral) Eval(vars interpreter.Activation) ref.Val {
	return orderMap(l.InterpretableConstructor.Eval(vars))
}

func orderMap(v ref.Val) ref.Val {
	if m, ok := v.(traits.Mapper); ok {
		return &orderedMap{m}
	}
	return v
}
