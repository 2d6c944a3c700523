package expr

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
	"cel.dev/cel-go/interpreter"
)

// decodeJSON decodes JSON with whole numbers as integers. It returns the fallback for
// text that is absent or not JSON.
func decodeJSON(raw json.RawMessage, fallback any) any {
	if len(raw) == 0 {
		return fallback
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil {
		return fallback
	}
	return convertNumbers(v)
}

// DecodeValue returns a JSON value as expressions read it from a variable of a scope.
func DecodeValue(raw json.RawMessage) any { return adaptValue(decodeJSON(raw, nil)) }

// convertNumbers replaces json.Number by int64, uint64 or float64.
func convertNumbers(v any) any {
	switch v := v.(type) {
	case json.Number:
		if n, err := strconv.ParseInt(v.String(), 10, 64); err == nil {
			return n
		}
		if n, err := strconv.ParseUint(v.String(), 10, 64); err == nil {
			return n
		}
		f, err := v.Float64()
		if err != nil {
			return types.NewErr("the number %s is too large", v) // an expression that reads the number fails with this
		}
		return f
	case []any:
		for i := range v {
			v[i] = convertNumbers(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = convertNumbers(v[k])
		}
	}
	return v
}

// maxResultSize bounds the result of one expression or template, in bytes of JSON.
const maxResultSize = 1 << 20

var errTooLarge = fmt.Errorf("the value is larger than %d bytes", maxResultSize)

// fromCEL converts a CEL value to a JSON value, and subtracts its size from remaining.
func fromCEL(v ref.Val, remaining *int) (any, error) {
	if *remaining -= 4; *remaining < 0 {
		return nil, errTooLarge
	}
	switch v := v.(type) {
	case *types.Err:
		return nil, v
	case types.Null:
		return nil, nil
	case types.Bool:
		return bool(v), nil
	case types.Int:
		return int64(v), nil
	case types.Uint:
		return uint64(v), nil
	case types.Double:
		if math.IsInf(float64(v), 0) || math.IsNaN(float64(v)) {
			return nil, fmt.Errorf("the value %v is not a JSON number", float64(v))
		}
		return float64(v), nil
	case types.String:
		return limitedText(remaining, string(v))
	case types.Bytes:
		return limitedText(remaining, base64.StdEncoding.EncodeToString(v))
	case types.Timestamp:
		return v.Time.UTC().Format(time.RFC3339Nano), nil
	case types.Duration:
		return v.String(), nil
	case traits.Lister:
		return listFromCEL(v, remaining)
	case traits.Mapper:
		return mapFromCEL(v, remaining)
	}
	return nil, fmt.Errorf("a value of type %s has no JSON form", v.Type().TypeName())
}

func limitedText(remaining *int, s string) (any, error) {
	if *remaining -= len(s); *remaining < 0 {
		return nil, errTooLarge
	}
	return s, nil
}

func listFromCEL(v traits.Lister, remaining *int) (any, error) {
	list := []any{}
	for it := v.Iterator(); it.HasNext() == types.True; {
		item, err := fromCEL(it.Next(), remaining)
		if err != nil {
			return nil, err
		}
		list = append(list, item)
	}
	return list, nil
}

// mapFromCEL converts keys to text, because JSON has no others.
func mapFromCEL(v traits.Mapper, remaining *int) (any, error) {
	all := map[string]any{}
	for it := v.Iterator(); it.HasNext() == types.True; {
		key := it.Next()
		item, err := fromCEL(v.Get(key), remaining)
		if err != nil {
			return nil, err
		}
		name, err := fromCEL(key, remaining)
		if err != nil {
			return nil, err
		}
		text := fmt.Sprint(name)
		if _, taken := all[text]; taken {
			return nil, fmt.Errorf("two keys of a map both become %q in JSON", text)
		}
		all[text] = item
	}
	return all, nil
}

// The engine evaluates an expression again instead of storing its value, so the same
// inputs must give the same value on every machine. The one thing in CEL that varies is
// the order in which macros iterate over a map. Here they iterate in the order of keys.

// orderedAdapter converts decoded JSON to CEL values whose maps are ordered, at every
// depth.
type orderedAdapter struct{ types.Adapter }

var celAdapter types.Adapter = orderedAdapter{types.DefaultTypeAdapter}

// NativeToValue converts one value.
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

// adaptValue converts a value with everything in it, at once. A value converted on access would be
// converted each time, and measured each time for the size limit, which takes as long as walking
// it. The library keeps the measured size with a value that is converted once.
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

// orderedMap is a map that is iterated in the order of keys. It hides the Fold method of
// the map, which has no order.
type orderedMap struct{ traits.Mapper }

// Iterator iterates over the keys in order.
func (m *orderedMap) Iterator() traits.Iterator {
	var keys []ref.Val
	for it := m.Mapper.Iterator(); it.HasNext() == types.True; {
		keys = append(keys, it.Next())
	}
	slices.SortFunc(keys, compareKeys)
	return types.NewRefValList(types.DefaultTypeAdapter, keys).Iterator()
}

// AggregateSize measures the map. The library keeps the size with the map.
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

// orderMapLiterals makes the map literals of an expression ordered.
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

// Eval evaluates the literal without a frame.
func (l *mapLiteral) Eval(vars interpreter.Activation) ref.Val {
	return orderMap(l.InterpretableConstructor.Eval(vars))
}

func orderMap(v ref.Val) ref.Val {
	if m, ok := v.(traits.Mapper); ok {
		return &orderedMap{m}
	}
	return v
}

// KindOf names the kind of an evaluated value, for messages to people.
func KindOf(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "true or false"
	case string:
		return "a text"
	case []any:
		return "a list"
	case map[string]any:
		return "an object"
	}
	return "a number"
}
