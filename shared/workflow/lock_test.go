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
		r = r.With(id(i), workflow.MaxPlace)
	}
	before := slices.Clone(r)
	r = r.With(id(5), 7)
	if len(r) != workflow.MaxRecentHolders || r[0].Execution != id(2) || r[9] != (workflow.RecentHolder{Execution: id(5), Place: 7}) || r[3].Execution != id(6) {
		t.Errorf("named %v", r)
	}
	if before[3].Execution != id(5) {
		t.Error("With changed what it was called on")
	}
	if text := r.String(); len(text) > 500 || !slices.Equal(workflow.ParseRecentHolders(text), r) {
		t.Errorf("%d bytes: %s", len(text), text)
	}
	if got := workflow.ParseRecentHolders(" x:1 y z:q " + strings.Repeat(" ", 3)); len(got) != 1 || got[0].Execution != "x" {
		t.Errorf("read %v", got)
	}
}
