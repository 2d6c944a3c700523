package plan

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

// BranchResult is the result of one branch.
type BranchResult struct {
	Label string
	Value json.RawMessage
}

// ConflictError says that two branches have different values for one key.
type ConflictError struct {
	Key           string // path with dots
	Before, Later string // labels of the branches
}

func (e *ConflictError) Error() string {
	return fmt.Sprintf("branches %q and %q give different values for %q", e.Before, e.Later, e.Key)
}

// Merge combines the results of branches, in their order, into one value. The error is a
// [*ConflictError].
func Merge(m spec.Merge, results []BranchResult) (json.RawMessage, error) {
	switch m.Strategy {
	case spec.MergeReplace:
		if len(results) == 0 {
			return json.RawMessage("null"), nil
		}
		return results[len(results)-1].Value, nil
	case spec.MergeAppend:
		all := []json.RawMessage{}
		for _, r := range results {
			var items []json.RawMessage
			if json.Unmarshal(r.Value, &items) != nil || items == nil {
				items = []json.RawMessage{r.Value}
			}
			all = append(all, items...)
		}
		return workflow.EncodeJSON(all)
	}
	into := merged{keys: map[string]*merged{}}
	for _, r := range results {
		keys, ok := objectOf(r.Value)
		if !ok {
			keys = map[string]json.RawMessage{r.Label: r.Value}
		}
		if err := into.add(m, keys, r.Label, ""); err != nil {
			return nil, err
		}
	}
	return workflow.EncodeJSON(&into)
}

// merged is a value with the branch that it came from: an object that is merged key by key, or any
// other value.
type merged struct {
	keys   map[string]*merged // for an object
	value  json.RawMessage    // for any other value, and for every value of a shallow merge
	branch string
}

// MarshalJSON encodes the value.
func (v *merged) MarshalJSON() ([]byte, error) {
	if v.keys == nil {
		return v.value, nil
	}
	return workflow.EncodeJSON(v.keys)
}

func (v *merged) add(m spec.Merge, keys map[string]json.RawMessage, branch, path string) error {
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		value, at := keys[key], path+key
		inner, isObject := map[string]json.RawMessage(nil), false
		if m.Strategy == spec.MergeDeep {
			inner, isObject = objectOf(value)
		}
		old := v.keys[key]
		switch {
		case isObject && (old == nil || old.keys != nil):
			if old == nil {
				old = &merged{keys: map[string]*merged{}, branch: branch}
				v.keys[key] = old
			}
			if err := old.add(m, inner, branch, at+"."); err != nil {
				return err
			}
			continue
		case old == nil:
		case equalJSON(old, value) || m.OnConflict == spec.PreferExisting:
			continue
		case m.OnConflict == spec.ConflictFails:
			return &ConflictError{at, old.branch, branch}
		}
		replacement := &merged{value: value, branch: branch}
		if isObject {
			replacement = &merged{keys: map[string]*merged{}, branch: branch}
			if err := replacement.add(m, inner, branch, at+"."); err != nil {
				return err
			}
		}
		v.keys[key] = replacement
	}
	return nil
}

// objectOf returns the keys of a JSON object; ok is false for any other value.
func objectOf(raw json.RawMessage) (keys map[string]json.RawMessage, ok bool) {
	ok = json.Unmarshal(raw, &keys) == nil && keys != nil
	return keys, ok
}

// equalJSON reports whether a value equals an earlier one, however it is written.
func equalJSON(before *merged, value json.RawMessage) bool {
	a, errA := workflow.EncodeJSON(before)
	var v any
	d := json.NewDecoder(bytes.NewReader(value))
	d.UseNumber()
	if errA != nil || d.Decode(&v) != nil {
		return false
	}
	b, err := workflow.EncodeJSON(v)
	var w any
	d = json.NewDecoder(bytes.NewReader(a))
	d.UseNumber()
	if err != nil || d.Decode(&w) != nil {
		return false
	}
	a, err = workflow.EncodeJSON(w)
	return err == nil && bytes.Equal(a, b)
}
