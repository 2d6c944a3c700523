package workflow_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// TestRecentHolders_AreTheLastTen: each execution is named once, where it took the lock last,
// and the text of ten fits into a small item and is read back.
func TestRecentHolders_AreTheLastTen(t *testing.T) {
	id := func(i int) string {
		return "019aa3a1-6a7e-7c3e-9d07-0a1b2c3d4e" + string(rune('a'+i/26)) + string(rune('a'+i%26))
	}
	var r workflow.RecentHolders
	for i := range 12 {
		r = r.With(workflow.RecentHolder{Execution: id(i), Place: workflow.MaxPlace, Token: 1 << 40, Shared: i%2 == 0})
	}
	before := slices.Clone(r)
	r = r.With(workflow.RecentHolder{Execution: id(5), Place: 7, Token: 1<<40 + 1})
	if len(r) != workflow.MaxRecentHolders || r[0].Execution != id(2) || r[9] != (workflow.RecentHolder{Execution: id(5), Place: 7, Token: 1<<40 + 1}) || r[3].Execution != id(6) {
		t.Errorf("named %v", r)
	}
	if before[3].Execution != id(5) {
		t.Error("With changed what it was called on")
	}
	if text := r.String(); len(text) > 640 || !slices.Equal(workflow.ParseRecentHolders(text, 0), r) {
		t.Errorf("%d bytes: %s", len(text), text)
	}
	got := workflow.ParseRecentHolders(" x:1 y z:q a:1:b c:2:3 d:2:4:s "+strings.Repeat(" ", 3), 9)
	want := workflow.RecentHolders{{Execution: "x", Place: 1, Token: 9}, {Execution: "c", Place: 2, Token: 3}, {Execution: "d", Place: 2, Token: 4, Shared: true}}
	if !slices.Equal(got, want) {
		t.Errorf("read %v", got)
	}
}

// TestRecentHolders_Since: sharing a lock changes nothing, own takes hide nobody, and the result
// says if others may have been forgotten.
func TestRecentHolders_Since(t *testing.T) {
	for name, test := range map[string]struct {
		text  string
		since []string
		all   bool
	}{
		"nobody":                        {"", nil, true},
		"only itself":                   {"a:1:2 me:1:5", nil, true},
		"another one after it":          {"a:1:2 me:1:5 b:1:6", []string{"b"}, true},
		"another one, and itself again": {"b:1:6 me:1:9", []string{"b"}, true},
		"who shares it":                 {"me:1:5 b:1:6:s", nil, true},
		"ten, the first before it":      {"a:1:5 b:1:6:s c:1:7:s d:1:8:s e:1:9:s f:1:10:s g:1:11:s h:1:12:s i:1:13:s j:1:14:s", nil, true},
		"ten after it":                  {"a:1:6:s b:1:7:s c:1:8:s d:1:9:s e:1:10:s f:1:11:s g:1:12:s h:1:13:s i:1:14:s j:1:15:s", nil, false},
		"one of an older release":       {"me:1 b:1", []string{"b"}, true},
	} {
		since, all := workflow.ParseRecentHolders(test.text, 7).Since("me", 5)
		if !slices.Equal(since, test.since) || all != test.all {
			t.Errorf("%s: %v, %v", name, since, all)
		}
	}
}
