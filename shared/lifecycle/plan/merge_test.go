package plan

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

// R29: strategies and rules of conflicts, in the order of the branches.
func TestMerge(t *testing.T) {
	for _, test := range []struct {
		strategy spec.MergeStrategy
		conflict spec.OnConflict
		a, b, c  string
		want     string
	}{
		{"", "", `{"x":1,"y":{"p":1}}`, `{"y":{"q":2}}`, `{"z":3}`, `{"x":1,"y":{"q":2},"z":3}`},
		{spec.MergeShallow, spec.PreferExisting, `{"x":1}`, `{"x":2}`, `{"x":3}`, `{"x":1}`},
		{spec.MergeShallow, spec.PreferNew, `{"x":1}`, `{"x":2}`, `{"x":3}`, `{"x":3}`},
		{spec.MergeShallow, spec.ConflictFails, `{"x":1}`, `{"y":2}`, `{"x":3}`, `"x" of a and c`},
		{spec.MergeShallow, spec.ConflictFails, `{"x":{"a":1,"b":[2]}}`, `{"x":{"b":[2], "a":1}}`, `{}`, `{"x":{"a":1,"b":[2]}}`},
		{spec.MergeShallow, "", `5`, `[1]`, `{"c":{}}`, `{"a":5,"b":[1],"c":{}}`},
		{spec.MergeDeep, "", `{"y":{"p":1,"q":[1]}}`, `{"y":{"q":[2]}}`, `{"y":{"r":{"s":3}}}`, `{"y":{"p":1,"q":[2],"r":{"s":3}}}`},
		{spec.MergeDeep, spec.PreferExisting, `{"y":{"q":[1]}}`, `{"y":{"q":[2],"n":null}}`, `{"y":7}`, `{"y":{"n":null,"q":[1]}}`},
		{spec.MergeDeep, spec.PreferNew, `{"y":7}`, `{"y":{"q":{"z":2}}}`, `{"y":{"q":{"w":1}}}`, `{"y":{"q":{"w":1,"z":2}}}`},
		{spec.MergeDeep, spec.ConflictFails, `{"y":{"q":{"z":1}}}`, `{"y":{"p":1}}`, `{"y":{"q":{"z":2}}}`, `"y.q.z" of a and c`},
		{spec.MergeDeep, spec.ConflictFails, `{"y":{"q":1}}`, `{"y":1}`, `{}`, `"y" of a and b`},
		{spec.MergeReplace, "", `{"x":1}`, `{"y":1}`, `4`, `4`},
		{spec.MergeAppend, "", `[1,2]`, `{"x":1}`, `[]`, `[1,2,{"x":1}]`},
		{spec.MergeAppend, "", `null`, `"t"`, `[[3]]`, `[null,"t",[3]]`},
	} {
		got, err := Merge(spec.Merge{Strategy: test.strategy, OnConflict: test.conflict}, []BranchResult{
			{"a", json.RawMessage(test.a)}, {"b", json.RawMessage(test.b)}, {"c", json.RawMessage(test.c)},
		})
		text := string(got)
		var conflict *ConflictError
		if errors.As(err, &conflict) {
			text = `"` + conflict.Key + `" of ` + conflict.Before + " and " + conflict.Later
		}
		if text != test.want {
			t.Errorf("%s, %s of %s, %s, %s: %s, want %s", test.strategy, test.conflict, test.a, test.b, test.c, text, test.want)
		}
	}
	if got, err := Merge(spec.Merge{}, nil); err != nil || string(got) != "{}" {
		t.Errorf("nothing: %s, %v", got, err)
	}
}
