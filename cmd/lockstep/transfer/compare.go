package transfer

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

const (
	// named is how many differences of one thing are named.
	named = 3

	// legible is how much of a value is named.
	legible = 40
)

// differences words where two JSON values differ: what the stage has, then what
// the file has. It is empty if they mean the same.
func differences(there, file json.RawMessage) []string {
	var a, b any
	if decode(there, &a) != nil || decode(file, &b) != nil {
		return []string{"one of them is not JSON"}
	}
	var all []string
	differ(a, b, "", &all)
	return all
}

func decode(raw json.RawMessage, v *any) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	return d.Decode(v)
}

func differ(a, b any, path string, all *[]string) {
	if reflect.DeepEqual(a, b) {
		return
	}
	x, isObject := a.(map[string]any)
	y, areObjects := b.(map[string]any)
	if isObject && areObjects {
		keys := map[string]bool{}
		for key := range x {
			keys[key] = true
		}
		for key := range y {
			keys[key] = true
		}
		for _, key := range slices.Sorted(maps.Keys(keys)) {
			differ(orNothing(x, key), orNothing(y, key), strings.TrimPrefix(path+"."+key, "."), all)
		}
		return
	}
	l, isList := a.([]any)
	m, areLists := b.([]any)
	if isList && areLists && len(l) == len(m) {
		for i := range l {
			differ(l[i], m[i], fmt.Sprintf("%s[%d]", path, i), all)
		}
		return
	}
	*all = append(*all, fmt.Sprintf("%s is %s there and %s in the file", path, shortened(a), shortened(b)))
}

// nothing stands for a field that is not there.
type nothing struct{}

func orNothing(m map[string]any, key string) any {
	if v, ok := m[key]; ok {
		return v
	}
	return nothing{}
}

func shortened(v any) string {
	if _, absent := v.(nothing); absent {
		return "absent"
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	if text := []rune(string(raw)); len(text) > legible {
		return string(text[:legible]) + "..."
	}
	return string(raw)
}

// sentence is the first few differences.
func sentence(all []string) string {
	if len(all) > named {
		return strings.Join(all[:named], "; ") + fmt.Sprintf("; and %d more", len(all)-named)
	}
	return strings.Join(all, "; ")
}
