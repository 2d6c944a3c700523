package engine_test

import (
	"context"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

// A draft starts only executions that name its exact version and allow it: no reference, parent or
// rerun finds it. An execution of it goes on as any other, also after the draft was published.
func TestDraft_StartsOnlyWhatAllowsIt(t *testing.T) {
	s := newHarness(t, 1)
	ctx := context.Background()
	s.Publish("w", rerunnable)
	draft := []byte("package: p\nname: w\nversion: 2.0.0\nseedEntity: device\n" + rerunnable)
	if _, _, err := s.Catalog.PublishDraft(ctx, harness.Caller, draft, false); err != nil {
		t.Fatal(err)
	}
	start := func(ref string, allow bool) (*workflow.Execution, error) {
		x, _, err := s.Engine.Start(ctx, harness.Caller, views.StartRequest{Workflow: ref, AllowDraft: allow, ExecuteOnParameters: &workflow.Selector{IDs: harness.DeviceIDs(1)}})
		return x, err
	}
	for _, ref := range []string{"p/w", "p/w:1"} {
		x, err := start(ref, true)
		if err != nil || x.Workflow.Version != "1.0.0" {
			t.Errorf("%s starts %+v, %v", ref, x, err)
		}
		s.RunUntilIdle(time.Hour)
	}
	_, err := start("p/w:2.0.0", false)
	wantRefused(t, err, workflow.CodeNotFound, "is a draft")
	_, err = start("p/w:2", true)
	wantRefused(t, err, workflow.CodeNotFound, "no published workflow matches")
	_, err = start("p/w:3.0.0", true)
	wantRefused(t, err, workflow.CodeNotFound, "no published workflow matches")
	_, err = s.Query.Plan(ctx, harness.Caller, views.StartRequest{Workflow: "p/w:2.0.0"})
	wantRefused(t, err, workflow.CodeNotFound, "is a draft")
	if p, err := s.Query.Plan(ctx, harness.Caller, views.StartRequest{Workflow: "p/w:2.0.0", AllowDraft: true}); err != nil || p.Workflow.Version != "2.0.0" {
		t.Errorf("planned as %+v, %v", p, err)
	}

	x, err := start("p/w:2.0.0", true)
	if err != nil || x.Workflow.Version != "2.0.0" {
		t.Fatalf("the draft: %+v, %v", x, err)
	}
	s.RunUntilIdle(time.Hour)
	s.ExpectState(x.ID, sm.ExecutionCompletedAck)
	_, err = rerun(s, x.ID, chosen(views.RerunAll))
	wantRefused(t, err, workflow.CodeConflict, "or a draft")

	s.Publish("parent", "steps: [{label: child, workflowReference: {workflow: 'p/w:2.0.0', mode: dispatch}}]\n")
	parent := s.Start("parent", "d000")
	s.RunUntilIdle(time.Hour)
	if y := s.ExpectState(parent, sm.ExecutionFailedSafeAck); y.Error == nil || y.Error.Code != "WORKFLOW_NOT_FOUND" {
		t.Errorf("a parent of a draft ends with %+v", y.Error)
	}

	if p, created, err := s.Catalog.Publish(ctx, harness.Caller, draft, false); err != nil || created || p.Draft {
		t.Fatalf("published as %+v, %v, %v", p, created, err)
	}
	id, err := rerun(s, x.ID, chosen(views.RerunAll))
	if err != nil {
		t.Fatal(err)
	}
	s.RunUntilIdle(time.Hour)
	s.ExpectState(id, sm.ExecutionCompletedAck)
	if x, err = start("p/w", false); err != nil || x.Workflow.Version != "2.0.0" {
		t.Errorf("afterwards: %+v, %v", x, err)
	}
}

// A draft that is archived starts nothing.
func TestDraft_ArchivedStartsNothing(t *testing.T) {
	s := newHarness(t, 1)
	ctx := context.Background()
	p, _, err := s.Catalog.PublishDraft(ctx, harness.Caller, []byte("package: p\nname: w\nversion: 2.0.0\nseedEntity: device\n"+rerunnable), false)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Catalog.Archive(ctx, harness.Caller, p.Ref); err != nil {
		t.Fatal(err)
	}
	_, _, err = s.Engine.Start(ctx, harness.Caller, views.StartRequest{Workflow: "p/w:2.0.0", AllowDraft: true})
	wantRefused(t, err, workflow.CodeNotFound, "no published workflow matches")
}
