package engine_test

import (
	"context"
	"reflect"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

// An older release refuses an execution that a newer one has written, with
// CodeUnavailable, for messages and for commands: nothing changes, the message is
// delivered again, and the newer release continues.
func TestEngine_RefusesNewerSchema(t *testing.T) {
	s := newHarness(t, 1)
	s.Publish("w", `
steps:
  - {label: one, functionBlock: p/once:1, runOn: device}
  - {label: two, delay: 1m, functionBlock: p/once:1, runOn: device}
`)
	release := workflow.SchemaVersion + 1
	s.ProgramVersion = func() int { return release }
	id := s.Start("w", "d000")
	s.Drain()
	before := s.Load(id)
	if before.Schema != release || before.State != sm.ExecutionWaiting {
		t.Fatalf("schema %d, %s", before.Schema, before.State)
	}

	release = workflow.SchemaVersion // the older program is still running
	s.Advance(2 * time.Minute)
	ctx := context.Background()
	for name, do := range map[string]func() error{
		"a message": func() error {
			return s.Engine.Advance(ctx, workflow.Wakeup{Tenant: harness.Caller.Tenant, Execution: id})
		},
		"a cancel": func() error {
			_, err := s.Engine.Cancel(ctx, harness.Caller, id, views.CancelRequest{})
			return err
		},
		"a resume": func() error { _, err := s.Engine.Resume(ctx, harness.Caller, id, ""); return err },
		"a view":   func() error { _, err := s.Query.Execution(ctx, harness.Caller, id); return err },
	} {
		if err := do(); !workflow.Is(err, workflow.CodeUnavailable) {
			t.Errorf("%s: %v", name, err)
		}
	}
	s.Drain() // its messages are delivered again
	release++
	if x := s.Load(id); !reflect.DeepEqual(x, before) {
		t.Errorf("the execution has changed: %+v", x)
	}
	s.RunUntilIdle(time.Hour)
	s.ExpectState(id, sm.ExecutionCompletedAck)
}

// Every commit writes the current schema and engine version, whatever was there before.
func TestCommit_WritesSchemaAndEngineVersion(t *testing.T) {
	s := newHarness(t, 1)
	s.Publish("w", `
steps:
  - {label: one, delay: 1m, functionBlock: p/once:1, runOn: device}
`)
	id := s.Start("w", "d000")
	x := s.Load(id)
	old := x.Version
	x.Schema, x.EngineVersion, x.Version, x.Commit = 0, "0.0.1", x.Version+1, "by hand"
	if _, ok, err := s.Open().Store.Commit(context.Background(), old, x, workflow.CommitOptions{}); !ok || err != nil {
		t.Fatal(ok, err)
	}
	s.RunUntilIdle(time.Hour)
	if x := s.ExpectState(id, sm.ExecutionCompletedAck); x.Schema != x.Needs() || x.EngineVersion != "test" {
		t.Errorf("schema %d, engine %q", x.Schema, x.EngineVersion)
	}
	v, err := s.Query.Execution(context.Background(), harness.Caller, id)
	if err != nil || v.EngineVersion != "test" {
		t.Errorf("the view has engine %q, %v", v.EngineVersion, err)
	}
}
