package query_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/sim/faults"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

// Children are listed with their present state, page by page, or only those of a given step, with
// their outputs and what they wait for.
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

// The children of a set are listed by item, page by page, with the item, the parameters and their
// outputs. The step and the execution show how many have ended.
func TestChildren_OfASet(t *testing.T) {
	s := harness.New(t, 1, harness.Options())
	s.RegisterBlocks()
	s.Publish("leaf", "steps: [{label: wait, condition: parameters.name == 'c', wait: {input: {title: May I?}}}]\noutput: {n: \"${parameters.name}\"}\n")
	s.Publish("w", `steps:
  - label: each
    foreach: {items: "${[{'name': 'a'}, {'name': 'b'}, {'name': 'c'}, {'name': 'd'}]}", as: site, maxInFlight: 1}
    condition: site.name != 'b'
    workflowReference: {workflow: p/leaf:1, mode: dispatch}
    parameters: {name: "${site.name}"}
`)
	id := s.Start("w")
	s.RunFor(time.Minute)
	read := func() (all []string) {
		page := workflow.Page{Limit: 2}
		for {
			list, err := s.Query.Children(context.Background(), harness.Caller, id, "", page)
			if err != nil || len(list.Items) > 2 {
				t.Fatalf("%d items, %v", len(list.Items), err)
			}
			for _, c := range list.Items {
				state := sm.ExecutionState("-")
				if c.State != nil {
					state = *c.State
				}
				all = append(all, fmt.Sprintf("%d %s %s %s %s", *c.Item, *c.ItemText, state, c.Parameters, c.Output))
			}
			if page.Token = list.NextToken; page.Token == "" {
				return all
			}
		}
	}
	expect := func(asking int, counts string, want ...string) {
		t.Helper()
		if got := read(); !slices.Equal(got, want) {
			t.Errorf("%q", got)
		}
		x, err := s.Query.Execution(context.Background(), harness.Caller, id)
		steps, stepsErr := s.Query.Steps(context.Background(), harness.Caller, id, workflow.Page{})
		if err != nil || stepsErr != nil || len(x.ChildSets) != 1 || len(x.Children) != 0 || steps.Items[0].Child != nil {
			t.Fatalf("%+v, %v, %v", x, err, stepsErr)
		}
		for _, set := range []views.ChildSetView{x.ChildSets[0], *steps.Items[0].Children} {
			if got := fmt.Sprintf("%d of %d, %d failed", *set.Done, set.Total, *set.Failed); got != counts || set.Asking != asking || set.AtATime != 1 {
				t.Errorf("%s, %+v", got, set)
			}
		}
	}
	expect(1, "1 of 3, 0 failed", `0 a COMPLETED_ACK {"name":"a"} `, `2 c WAITING {"name":"c"} `, `3 d -  `)
	list, err := s.Query.Children(context.Background(), harness.Caller, id, "each", workflow.Page{})
	if err != nil {
		t.Fatal(err)
	}
	child, err := s.Query.Execution(context.Background(), harness.Caller, list.Items[1].ID)
	if err != nil || child.Item == nil || *child.Item != 2 || *child.Parent != id || *list.Items[1].Started != 0 {
		t.Errorf("%+v, %v", child, err)
	}
	if _, err := s.Engine.Answer(context.Background(), harness.Caller, child.ID, views.AnswerRequest{Input: []byte(`{}`)}); err != nil {
		t.Fatal(err)
	}
	s.RunFor(5 * time.Minute)
	expect(0, "3 of 3, 0 failed", `0 a COMPLETED_ACK {"name":"a"} {"n":"a"}`, `2 c COMPLETED_ACK {"name":"c"} {"n":"c"}`, `3 d COMPLETED_ACK {"name":"d"} {"n":"d"}`)
	result, err := s.Query.Result(context.Background(), harness.Caller, id)
	if r := result.Steps["each"]; err != nil || len(r.Results) != 3 || string(r.Results["2"]) != `{"id":"`+child.ID+`","state":"COMPLETED_ACK","output":{"n":"c"}}` {
		t.Errorf("%s, %v", r.Results["2"], err)
	}
}

// A retry repeats what failed of a set. Of the earlier children, those in whose place it has started others are superseded.
func TestChildren_OfASetThatIsRetried(t *testing.T) {
	s := harness.New(t, 1, harness.Options())
	s.RegisterBlocks()
	s.Publish("leaf", "steps: [{label: go, functionBlock: p/pure:1, runOn: global, parameters: {name: \"${parameters.name}\"}}]\n")
	s.Publish("w", `steps:
  - label: each
    foreach: {items: "${['a', 'b', 'c', 'd']}", as: site}
    workflowReference: {workflow: p/leaf:1, mode: dispatch}
    parameters: {name: "${site}"}
`)
	failing := "bd"
	s.Script = func(c harness.BlockCall) *harness.Outcome {
		var p struct{ Name string }
		if err := json.Unmarshal(c.Parameters, &p); err == nil && strings.Contains(failing, p.Name) {
			return &harness.Outcome{FailCode: "NO"}
		}
		return nil
	}
	id := s.Start("w")
	s.RunFor(5 * time.Minute)
	for _, next := range []string{"d", "z"} {
		failing = next
		if _, err := s.Engine.Retry(context.Background(), harness.Caller, id, views.RetryRequest{Reason: "again"}); err != nil {
			t.Fatal(err)
		}
		s.RunFor(5 * time.Minute)
	}
	list, err := s.Query.Children(context.Background(), harness.Caller, id, "", workflow.Page{})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range list.Items {
		state := sm.ExecutionState("-")
		if c.State != nil {
			state = *c.State
		}
		got = append(got, fmt.Sprintf("%d %s %s %v", c.Try, *c.ItemText, state, c.Superseded))
	}
	want := []string{
		"1 a COMPLETED_ACK false", "1 b FAILED_SAFE_ACK true", "1 c CANCELLED_ACK true", "1 d CANCELLED_ACK true",
		"2 b COMPLETED_ACK false", "2 c COMPLETED_ACK false", "2 d FAILED_SAFE_ACK true", "3 d COMPLETED_ACK false",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

// An execution names what it has started and waits to be acknowledged, also while a retry works, but not what failed
// safely, ended well, or was acknowledged.
func TestExecution_NamesUnacknowledgedChildren(t *testing.T) {
	s := harness.New(t, 1, harness.Options())
	s.RegisterBlocks()
	s.Publish("leaf", `steps:
  - {label: go, condition: parameters.name != 'c', functionBlock: p/forever:1, runOn: global}
  - {label: check, functionBlock: p/pure:1, runOn: global, parameters: {name: "${parameters.name}"}}
`)
	s.Publish("w", `steps:
  - label: each
    foreach: {items: "${['a', 'b', 'c', 'd']}", as: site, failureTolerance: 100%}
    workflowReference: {workflow: p/leaf:1, mode: dispatch}
    parameters: {name: "${site}"}
  - {label: last, workflowReference: {workflow: p/leaf:1, mode: dispatch}, parameters: {name: e}}
`)
	failing := "bcde"
	s.Script = func(c harness.BlockCall) *harness.Outcome {
		var p struct{ Name string }
		if err := json.Unmarshal(c.Parameters, &p); err == nil && c.Step == "check" && strings.Contains(failing, p.Name) {
			return &harness.Outcome{FailCode: "NO"}
		}
		return nil
	}
	id := s.Start("w")
	s.RunFor(5 * time.Minute)
	s.ExpectState(id, sm.ExecutionFailedUnsafe)
	expect := func(want ...string) (ids []string) {
		t.Helper()
		x := must[views.ExecutionView](s)(s.Query.Execution(context.Background(), harness.Caller, id))
		var got []string
		for _, c := range x.Unacknowledged {
			ids = append(ids, c.ID)
			item := "-"
			if c.Item != nil {
				item = fmt.Sprintf("%d %s", *c.Item, *c.ItemText)
			}
			got = append(got, fmt.Sprintf("%s %s %s", c.Step, item, c.State))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
		return ids
	}
	ids := expect("last - FAILED_UNSAFE", "each 1 b FAILED_UNSAFE", "each 3 d FAILED_UNSAFE")
	for _, child := range ids[1:2] {
		if _, err := s.Engine.Acknowledge(context.Background(), harness.Caller, child, "seen"); err != nil {
			t.Fatal(err)
		}
	}
	failing = "d"
	if _, err := s.Engine.Retry(context.Background(), harness.Caller, id, views.RetryRequest{Reason: "again", From: "each"}); err != nil {
		t.Fatal(err)
	}
	expect("last - FAILED_UNSAFE", "each 3 d FAILED_UNSAFE")
	s.RunFor(5 * time.Minute)
	s.ExpectState(id, sm.ExecutionCompletedAck)
	expect("each 3 d FAILED_UNSAFE", "last - FAILED_UNSAFE", "each 3 d FAILED_UNSAFE")
}

// Who waits to be acknowledged is found behind many who do not, and the children of all step runs are read together.
func TestExecution_FindsUnacknowledgedChildrenBehindMany(t *testing.T) {
	for _, tt := range []struct {
		safe, unsafe, named, reads int
		more                       bool
	}{
		{1, 0, 1, 1, false},
		{210, 0, 1, 3, false},
		{210, 9, 10, 3, false},
		{210, 10, 10, 3, true},
		{0, 110, 10, 1, true},
		{500, 0, 0, 5, true},
	} {
		t.Run(fmt.Sprintf("%d safe and %d unsafe", tt.safe, tt.unsafe), func(t *testing.T) {
			s := harness.New(t, 1, harness.Options())
			s.Engine.MaxDescendants = 1000
			s.RegisterBlocks()
			s.Publish("leaf", `steps:
  - {label: go, condition: parameters.unsafe, functionBlock: p/forever:1, runOn: global}
  - {label: check, functionBlock: p/pure:1, runOn: global}
`)
			s.Publish("w", `steps:
  - {label: one, workflowReference: {workflow: p/leaf:1, mode: dispatch}, continueOnError: true, parameters: {unsafe: true}}
  - {label: two, workflowReference: {workflow: p/leaf:1, mode: dispatch}, continueOnError: true, parameters: {unsafe: false}}
  - label: each
    foreach: {items: "${parameters.items}", failureTolerance: 100%}
    workflowReference: {workflow: p/leaf:1, mode: dispatch}
    parameters: {unsafe: "${item}"}
`)
			s.Script = func(c harness.BlockCall) *harness.Outcome {
				if c.Step == "check" {
					return &harness.Outcome{FailCode: "NO"}
				}
				return nil
			}
			req := harness.NewStartRequest("w")
			req.Parameters = must[json.RawMessage](s)(json.Marshal(map[string]any{"items": slices.Concat(slices.Repeat([]bool{false}, tt.safe), slices.Repeat([]bool{true}, tt.unsafe))}))
			id := s.StartWith(req)
			s.RunUntilIdle(time.Hour)
			reads := 0
			s.Faults = func(c faults.Call) faults.Fault {
				if c.Name == "store.heads" {
					reads++
				}
				return faults.None
			}
			x := must[views.ExecutionView](s)(s.Query.Execution(context.Background(), harness.Caller, id))
			if len(x.Unacknowledged) != tt.named || x.UnacknowledgedMore != tt.more || reads != tt.reads {
				t.Errorf("%d named, more: %v, by %d reads, want %d, %v by %d", len(x.Unacknowledged), x.UnacknowledgedMore, reads, tt.named, tt.more, tt.reads)
			}
		})
	}
}
