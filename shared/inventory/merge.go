package inventory

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Merge returns the stored entity with the changes of an import's line: the attributes of the line
// are set, all others stay, and so do the groups if the line has none. differs is false if the
// entity stays as it is.
func Merge(stored, line workflow.Entity) (merged workflow.Entity, differs bool) {
	merged = stored
	set := map[string]json.RawMessage{}
	_ = json.Unmarshal(line.Attributes, &set) // it was validated
	if changed := ChangedAttributes(stored.Attributes, set); len(changed) > 0 {
		merged.Attributes = workflow.ApplyUpdates(stored.Attributes, []workflow.Update{{Set: set}})
		differs = true
	}
	if line.Groups != nil && !SameGroups(stored.Groups, line.Groups) {
		merged.Groups, differs = line.Groups, true
	}
	return merged, differs
}

// ChangedAttributes returns the names in set that attributes has with another value, or not at all,
// in order.
func ChangedAttributes(attributes json.RawMessage, set map[string]json.RawMessage) []string {
	stored := map[string]json.RawMessage{}
	_ = json.Unmarshal(attributes, &stored) // what is stored was validated
	var changed []string
	for name, value := range set {
		if old, ok := stored[name]; !ok || !SameJSON(old, value) {
			changed = append(changed, name)
		}
	}
	slices.Sort(changed)
	return changed
}

// SameJSON reports whether two texts are the same value. The order of fields, white space and
// escapes do not count, every digit of a number does.
func SameJSON(a, b json.RawMessage) bool {
	if bytes.Equal(a, b) {
		return true
	}
	var values [2]any
	for i, text := range []json.RawMessage{a, b} {
		d := json.NewDecoder(bytes.NewReader(text))
		d.UseNumber()
		if d.Decode(&values[i]) != nil {
			return false
		}
	}
	return reflect.DeepEqual(values[0], values[1])
}

// SameGroups reports whether two lists name the same groups.
func SameGroups(a, b []string) bool {
	sorted := func(list []string) []string { return slices.Compact(slices.Sorted(slices.Values(list))) }
	return slices.Equal(sorted(a), sorted(b))
}
