package definition_test

import (
	"testing"

	"github.com/lockstep-run/lockstep/shared/definition"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// The block of a branch that is one step runs once, unless the branch says what it runs on. A step elsewhere says so.
func TestBranch_OfOneStepRunsOnce(t *testing.T) {
	const head = "package: p\nname: w\nversion: 1.0.0\nseedEntity: device\nsteps: [{label: x, parallel: {branches: ["
	d, err := definition.Parse([]byte(head + "{label: a, functionBlock: p/b}, {label: b, functionBlock: p/b, runOn: device}, {label: c, http: {url: \"http://a/\"}}, {label: d, wait: {for: 5s}}]}}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{workflow.RunOnGlobal, "device", workflow.RunOnGlobal, ""} {
		if got := d.Steps[0].Parallel.Branches[i].Steps[0].RunOn; got != want {
			t.Errorf("branch %d runs on %q, want %q", i, got, want)
		}
	}
	if _, err := definition.Parse([]byte(head + "{label: a, steps: [{label: b, functionBlock: p/b}]}]}}]\n")); err == nil {
		t.Error("a step of several in a branch need not say what it runs on")
	}
}
