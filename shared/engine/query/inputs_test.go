package query_test

import (
	"context"
	"slices"
	"testing"

	"github.com/lockstep-run/lockstep/shared/engine/query"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

// The inbox lists what is asked in all executions that wait, page by page, and only what the
// caller may answer if it is theirs.
func TestService_Inbox(t *testing.T) {
	s := harness.New(t, 1, harness.Options())
	s.RegisterBlocks()
	s.Publish("cab", "steps:\n  - {label: cab, wait: {approval: {title: 'ok ${parameters.n}?', show: {n: '${parameters.n}'}, by: [cab], need: 2, who: {actors: [olga], notStarter: true}, escalate: [{after: 1h, roles: [duty]}]}}}\n")
	s.Publish("any", "steps:\n  - {label: any, wait: {input: {schema: {type: integer}}}}\n")
	s.Publish("timer", "steps:\n  - {label: pause, wait: {for: 1h}}\n")
	v := query.New(s.Engine, 1)
	ids := map[string]string{}
	for _, name := range []string{"cab", "any", "timer"} {
		req := harness.NewStartRequest(name)
		req.Parameters = []byte(`{"n":7}`)
		ids[name] = s.StartWith(req)
	}
	s.Drain()
	ctx := context.Background()
	list := func(c workflow.Caller, mine bool) (steps []string) {
		for token := ""; ; {
			page, err := v.Inbox(ctx, c, mine, workflow.Page{Limit: 1, Token: token})
			if err != nil {
				t.Fatal(err)
			}
			for _, i := range page.Items {
				steps = append(steps, i.Step)
			}
			if token = page.NextToken; token == "" {
				return steps
			}
		}
	}
	caller := func(actor, roles string) workflow.Caller {
		return workflow.Caller{Tenant: harness.Caller.Tenant, Actor: actor, Roles: roles}
	}
	expect := func(c workflow.Caller, mine bool, want ...string) {
		t.Helper()
		if got := list(c, mine); !slices.Equal(got, want) {
			t.Errorf("%+v, mine %v: %v, want %v", c, mine, got, want)
		}
	}
	expect(caller("eve", ""), false, "any", "cab")
	expect(caller("eve", ""), true, "any")
	expect(caller("eve", "other,cab"), true, "any", "cab")
	expect(caller("olga", ""), true, "any", "cab")
	expect(caller("zoe", "duty"), true, "any")
	expect(harness.Caller, true, "any")
	expect(workflow.Caller{Tenant: "another", Actor: "ann"}, false)
	items, err := v.Inputs(ctx, harness.Caller, ids["cab"], false)
	if err != nil || len(items) != 1 {
		t.Fatal(items, err)
	}
	for who, want := range map[workflow.Caller]int{caller("eve", ""): 0, caller("eve", "cab"): 1, harness.Caller: 0} {
		if mine, err := v.Inputs(ctx, who, ids["cab"], true); err != nil || len(mine) != want {
			t.Errorf("%+v: %+v, %v", who, mine, err)
		}
	}
	i := items[0]
	if i.Visit != 1 || *i.Title != "ok 7?" || string(i.Show) != `{"n":7}` || !i.Approval || i.Need != 2 || !slices.Equal(i.Who.Roles, []string{"cab"}) || len(i.Schema) == 0 || i.Execution != ids["cab"] {
		t.Errorf("%+v", i)
	}
	if _, err := s.Engine.Answer(ctx, caller("olga", ""), ids["cab"], views.AnswerRequest{Input: []byte(`{"approved":true}`)}); err != nil {
		t.Fatal(err)
	}
	expect(caller("olga", ""), true, "any")
	if items, err = v.Inputs(ctx, harness.Caller, ids["cab"], false); err != nil || len(items[0].Answers) != 1 || items[0].Answers[0].By != "olga" {
		t.Errorf("%+v, %v", items, err)
	}
	x, err := v.Execution(ctx, harness.Caller, ids["cab"])
	if err != nil || x.Waiting == nil || x.Waiting.Kind != workflow.WaitInput || *x.Waiting.Reason != "ok 7?" {
		t.Errorf("%+v, %v", x.Waiting, err)
	}
	if items, err := v.Inputs(ctx, harness.Caller, ids["timer"], false); err != nil || len(items) != 0 {
		t.Errorf("%v, %v", items, err)
	}
}
