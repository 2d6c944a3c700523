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
	// maxDifferences is how many differences of one thing are named.
	maxDifferences = 3

	// maxValueLength is how much of a value is named.
	maxValueLength = 40
)

// differences words where two JSON values differ: what the stage has, then what
// the file has. It is empty if they mean the same.
func differences(there, file json.RawMessage) []string {
	var a, b any
	if decode(there, &a) != nil || decode(file, &b) != nil {
		return []string{"one of them is not JSON"}
	}
	var all []string
	appendDifferences(a, b, "", &all)
	return all
}

func decode(raw json.RawMessage, v *any) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	return d.Decode(v)
}

func appendDifferences(a, b any, path string, all *[]string) {
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
			appendDifferences(fieldOrMissing(x, key), fieldOrMissing(y, key), strings.TrimPrefix(path+"."+key, "."), all)
		}
		return
	}
	l, isList := a.([]any)
	m, areLists := b.([]any)
	if isList && areLists && len(l) == len(m) {
		for i := range l {
			appendDifferences(l[i], m[i], fmt.Sprintf("%s[%d]", path, i), all)
		}
		return
	}
	*all = append(*all, fmt.Sprintf("%s is %s there and %s in the file", path, truncateJSON(a), truncateJSON(b)))
}

// missingField stands for a field that is not there.
type missingField struct{}

func fieldOrMissing(m map[string]any, key string) any {
	if v, ok := m[key]; ok {
		return v
	}
	return missingField{}
}

func truncateJSON(v any) string {
	if _, absent := v.(missingField); absent {
		return "absent"
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	if text := []rune(string(raw)); len(text) > maxValueLength {
		return string(text[:maxValueLength]) + "..."
	}
	return string(raw)
}

// joinDifferences is the first few differences.
func joinDifferences(all []string) string {
	if len(all) > maxDifferences {
		return strings.Join(all[:maxDifferences], "; ") + fmt.Sprintf("; and %d more", len(all)-maxDifferences)
	}
	return strings.Join(all, "; ")
}
