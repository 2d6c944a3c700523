package e2e

import (
	"fmt"

	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// childAsks is R43: both ancestors say that somebody is asked, and end after the answer.
func childAsks(c *fixture) {
	leaf := c.publishExtra("leaf", "", `label: ask, wait: {input: {title: How many?}}`)
	middle := c.publishExtra("middle", "", fmt.Sprintf(`label: down, workflowReference: {workflow: %q, mode: dispatch}`, leaf))
	c.publishWorkflow("", fmt.Sprintf(`label: down, workflowReference: {workflow: %q, mode: dispatch}`, middle))
	id := c.startWorkflow("{}")
	x := c.waitForKind(id, workflow.WaitChildInput)
	y := c.waitForKind(*x.Waiting.Child, workflow.WaitChildInput)
	asking := *y.Waiting.Child
	z := c.waitForKind(asking, workflow.WaitInput)
	for _, w := range []string{*x.Waiting.Reason, *y.Waiting.Reason, *z.Waiting.Reason} {
		if w != "How many?" {
			c.t.Errorf("it waits for %q", w)
		}
	}
	c.mustRequest(asking, "resume", `{"input":3}`)
	c.waitEnded(id, sm.ExecutionCompletedAck)
}

// childFails is R44: a failure fails each level, and the topmost handles it.
func childFails(c *fixture) {
	leaf := c.publishExtra("leaf", "", `label: check, set: {x: 1}, assert: "false"`)
	middle := c.publishExtra("middle", "", fmt.Sprintf(`label: down, workflowReference: {workflow: %q, mode: dispatch}`, leaf))
	c.publishWorkflow("", fmt.Sprintf(`label: down, workflowReference: {workflow: %q, mode: dispatch}, onFailure: sorry, next: end`, middle), `label: sorry, set: {x: "${steps.down.error.code}"}`)
	id := c.startWorkflow("{}")
	x := c.waitEnded(id, sm.ExecutionCompletedAck)
	c.wantReached(id, "down:CASE_HANDLED sorry")
	y := c.waitEnded(x.Children[0], sm.ExecutionFailedSafeAck)
	c.wantFailure(y, workflow.CauseChildFailed, string(workflow.CauseChildFailed), "down")
	c.waitEnded(y.Children[0], sm.ExecutionFailedSafeAck)
	c.wantRefused(y.ID, "retry", "{}", 409, "")
}

// childrenOfAList is R42, R43 and R44 for executions that are started for the items of a list, and R34:
// their outputs are a list, the parent says that one asks, one may fail, and a retry starts that one again.
func childrenOfAList(c *fixture) {
	leaf := c.publishExtra("leaf", "output: {n: '${parameters.n}'}\n", `label: check, set: {x: 1}, assert: "parameters.n != 5 || parameters.ok"`,
		`label: ask, condition: parameters.n == 3, wait: {input: {title: May I?}}`)
	c.publishWorkflow("output: {all: '${sites.results.map(r, has(r.output) ? r.output.n : -1)}'}\n",
		fmt.Sprintf(`label: sites, foreach: {items: "${[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]}", maxInFlight: 4, failureTolerance: 1}, workflowReference: {workflow: %q, mode: dispatch}, parameters: {n: "${item}", ok: false}`, leaf),
		fmt.Sprintf(`label: forget, foreach: {items: "${sites.results}"}, workflowReference: {workflow: %q, mode: fireAndForget}, parameters: {n: "${index}", ok: true}`, leaf))
	id := c.startWorkflow("{}")
	x := c.waitForKind(id, workflow.WaitChildInput)
	asking := *x.Waiting.Child
	z := c.waitForKind(asking, workflow.WaitInput)
	if z.Item == nil || *z.Item != 3 || *z.Parent != id || *x.Waiting.Reason != "May I?" {
		c.t.Errorf("item %v of %v asks; %+v", z.Item, z.Parent, x.Waiting)
	}
	c.mustRequest(asking, "resume", `{"input":{}}`)
	x = c.waitEnded(id, sm.ExecutionCompletedAck)
	if x.Outcome == nil || *x.Outcome != workflow.OutcomePartial || len(x.ChildSets) != 2 || *x.ChildSets[0].Failed != 1 || *x.ChildSets[0].Done != 10 {
		c.t.Errorf("%v, %+v", x.Outcome, x.ChildSets)
	}
	if r, err := c.Result(c.t.Context(), id); err != nil || string(r.Output) != `{"all":[0,1,2,3,4,-1,6,7,8,9]}` {
		c.t.Errorf("%s, %v", r.Output, err)
	}
	n := 0
	for child, err := range c.Children(c.t.Context(), id, "sites") {
		if err != nil || *child.Item != n || string(child.Parameters) != fmt.Sprintf(`{"n":%d,"ok":false}`, n) || (*child.State == sm.ExecutionCompletedAck) != (n != 5) {
			c.t.Fatalf("%+v, %v", child, err)
		}
		n++
	}
	if n != 10 {
		c.t.Errorf("%d children", n)
	}
}
