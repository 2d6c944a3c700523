package engine_test

import (
	"context"
	"testing"

	"github.com/lockstep-run/lockstep/shared/sim/stage"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// halfUndone lets step two fail, and then the rollback of step one.
func halfUndone(c stage.Call) *stage.Outcome {
	if c.Step == "two" || c.Kind == workflow.JobRollback {
		return &stage.Outcome{Fail: "REFUSED"}
	}
	return nil
}

const twoSteps = "steps: [{label: one, functionBlock: p/once:1, runOn: device}, {label: two, functionBlock: p/pure:1, runOn: device}]\n"

// A rollback that failed has not undone anything: a retry that fails before it has
// done anything else ends unsafely too.
func TestFailedRollbackStaysUnsafe(t *testing.T) {
	s := open(t, 1)
	s.Publish("w", twoSteps)
	s.Script = halfUndone
	id := s.Start("w", "d000")
	settle(s)
	s.Ends(id, sm.ExecutionFailedUnsafe)
	verb(s, func(ctx context.Context) (*workflow.Execution, error) {
		return s.Engine.Retry(ctx, stage.Caller, id, views.RetryRequest{Reason: "once more", From: "two"})
	})
	settle(s)
	s.Ends(id, sm.ExecutionFailedUnsafe)
}

// What a child has not undone stands, and its parent is not safe.
func TestFailedRollbackOfAChild(t *testing.T) {
	s := open(t, 1)
	s.Publish("sub", twoSteps)
	s.Publish("w", "steps: [{label: go, workflowReference: {workflow: p/sub, mode: dispatch, executeOnParameters: {ids: [d000]}}}]\n")
	s.Script = halfUndone
	id := s.Start("w")
	settle(s)
	s.Ends(id, sm.ExecutionFailedUnsafe)
}

// Two starts under one key meet two versions: the run is driven with the one that
// it was written with, whoever drives it.
func TestPinnedVersionOnly(t *testing.T) {
	for seed := range uint64(40) {
		s := open(t, 0)
		s.Sequel(seed)
		s.Publish("w", "steps: [{label: one, functionBlock: p/pure:1, runOn: global}]\n")
		start := func() {
			req := stage.Request("w")
			req.IdempotencyKey = "k"
			_, _, _ = s.Engine.Start(context.Background(), stage.Caller, req)
		}
		first := s.Task("first", start)
		first.Past("registry.reserve")
		s.Without(func() {
			_, _, err := s.Catalog.Publish(context.Background(), stage.Caller,
				[]byte("package: p\nname: w\nversion: 2.0.0\nsteps: [{label: one, functionBlock: p/pure:1, runOn: global}, {label: two, functionBlock: p/pure:1, runOn: global}]\n"), false)
			if err != nil {
				s.Fatal(err)
			}
		})
		s.Interleave(first, s.Task("second", start))
		settle(s)
		for id := range s.States(stage.Caller.Tenant) {
			x := s.Ends(id, sm.ExecutionCompletedAck)
			if want := map[string]int{"1.0.0": 1, "2.0.0": 2}[x.Workflow.Version]; len(s.CallsOf(id)) != want || len(x.Runs) != want {
				t.Fatalf("seed %d: %s ran %v", seed, x.Workflow, s.CallsOf(id))
			}
		}
	}
}
