package query_test

import (
	"context"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

// Children are listed as they are now, page by page, those of one step alone if it is named, with
// what they have given and what they wait for.
func TestChildren_AreListedAsTheyAre(t *testing.T) {
	s := harness.New(t, 1, harness.Options())
	s.RegisterBlocks()
	s.Publish("leaf", "steps: [{label: go, set: {x: 1}}]\noutput: {n: 7}\n")
	s.Publish("ask", "steps: [{label: ask, wait: {input: {title: How many?, deadline: 24h}}}]\n")
	s.Publish("w", `steps:
  - {label: one, workflowReference: {workflow: p/leaf:1, mode: dispatch}}
  - {label: two, workflowReference: {workflow: p/leaf:1, mode: fireAndForget}}
  - {label: three, workflowReference: {workflow: p/ask:1, mode: dispatch}}
`)
	id := s.Start("w")
	s.RunFor(5 * time.Minute)
	read := func(step string) (all []views.ChildExecutionView) {
		page := workflow.Page{Limit: 2}
		for {
			list, err := s.Query.Children(context.Background(), harness.Caller, id, step, page)
			if err != nil || len(list.Items) > 2 {
				t.Fatalf("%d items, %v", len(list.Items), err)
			}
			all = append(all, list.Items...)
			if page.Token = list.NextToken; page.Token == "" {
				return all
			}
		}
	}
	all := read("")
	if len(all) != 3 {
		t.Fatalf("%+v", all)
	}
	one, two, three := all[0], all[1], all[2]
	if one.Step != "one" || *one.State != sm.ExecutionCompletedAck || *one.Status != sm.StatusCompleted || string(one.Output) != `{"n":7}` || one.Workflow.Name != "leaf" {
		t.Errorf("%+v", one)
	}
	if two.Mode != workflow.ModeFireAndForget || *two.State != sm.ExecutionCompletedAck || two.Output != nil {
		t.Errorf("%+v", two)
	}
	if three.Waiting == nil || three.Waiting.Kind != workflow.WaitInput || *three.Waiting.Reason != "How many?" || three.Output != nil {
		t.Errorf("%+v", three)
	}
	if some := read("three"); len(some) != 1 || some[0].ID != three.ID {
		t.Errorf("%+v", some)
	}
	if x, err := s.Query.Execution(context.Background(), harness.Caller, id); err != nil || x.Waiting.Kind != workflow.WaitChildInput || *x.Waiting.Reason != "How many?" {
		t.Errorf("%+v, %v", x.Waiting, err)
	}
	if _, err := s.Query.Children(context.Background(), workflow.Caller{Tenant: "other"}, id, "", workflow.Page{}); !workflow.Is(err, workflow.CodeNotFound) {
		t.Errorf("of another tenant: %v", err)
	}
}
