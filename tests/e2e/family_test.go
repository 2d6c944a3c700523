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
