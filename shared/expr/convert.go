package expr

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"time"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
)

// decodeJSON reads JSON with whole numbers as integers, or gives the fallback for
// text that is absent or no JSON.
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
			return types.NewErr("the number %s is too large", v) // whoever reads it gets this error
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

// maxResultSize bounds what one expression or template gives, in bytes of JSON.
const maxResultSize = 1 << 20

var errTooLarge = fmt.Errorf("the value is larger than %d bytes", maxResultSize)

// fromCEL turns a CEL value into what JSON holds, and takes its size from room.
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
			return nil, fmt.Errorf("the value %v is no number in JSON", float64(v))
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

// mapFromCEL writes keys as text, as JSON has no others.
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
			return nil, fmt.Errorf("two keys of a map are %q in JSON", text)
		}
		all[text] = item
	}
	return all, nil
}
