package engine_test

import (
	"context"
	"testing"

	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

// What a start reads ahead for the version that was started before is not what it executes, if there
// is a newer one.
func TestStart_TakesTheNewestVersionThoughItHasReadAheadForAnother(t *testing.T) {
	s := harness.New(t, 1, harness.Options())
	s.RegisterBlocks()
	s.ImportDevices("a")
	ctx := context.Background()
	publish := func(version, config, block string) {
		if _, _, err := s.Catalog.Publish(ctx, harness.Caller, []byte("package: p\nname: w\nversion: "+version+"\nseedEntity: device\n"+config+"steps: [{label: one, functionBlock: p/"+block+":1, runOn: device}]\n"), false); err != nil {
			t.Fatal(err)
		}
	}
	archive := func(version string) {
		if err := s.Catalog.Archive(ctx, harness.Caller, workflow.Ref{Package: "p", Name: "w", Version: version}); err != nil {
			t.Fatal(err)
		}
	}
	start := func(version, block string) {
		t.Helper()
		id := s.Start("w", "a")
		settle(s)
		x := s.ExpectState(id, sm.ExecutionCompletedAck)
		if want := (workflow.Ref{Package: "p", Name: "w", Version: version}); x.Workflow != want || x.Blocks["p/"+block+":1"] == "" || len(x.Blocks) != 1 {
			t.Errorf("started %s with blocks %v, want %s with %s", x.Workflow, x.Blocks, want, block)
		}
	}
	publish("1.0.0", "", "pure")
	start("1.0.0", "pure")
	start("1.0.0", "pure")
	publish("1.1.0", "config: {startWhen: {condition: 'true'}}\n", "again")
	start("1.1.0", "again")
	start("1.1.0", "again")
	archive("1.1.0")
	start("1.0.0", "pure")
}
