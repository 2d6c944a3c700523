package e2e

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// R16: a failure whose code the step lists is retried as often, and after as long, as it says. One
// with another code is not retried.
func codesAreRetried(c *fixture) {
	c.registerBlock("busy", workflow.Block{Pure: true}, func(k call) blockAnswer {
		return errorAnswer(fmt.Sprint(k.Parameters["code"]), k.Parameters["code"] != "BUSY")
	})
	c.publishWorkflow("",
		`label: listed, block: busy, runOn: global, parameters: {code: BUSY}, retry: {maxRetries: 3, delay: 100ms, backoff: 2, on: [BUSY]}, continueOnError: true`,
		`label: other, block: busy, runOn: global, parameters: {code: OTHER}, retry: {maxRetries: 3, delay: 100ms, backoff: 2, on: [BUSY]}, continueOnError: true`)
	id := c.startWorkflow(`{}`)
	c.waitEnded(id, sm.ExecutionCompletedAck)
	attempts := c.listJobs(id, views.JobFilter{Step: "listed"})
	if other := c.listJobs(id, views.JobFilter{Step: "other"}); len(attempts) != 4 || len(other) != 1 {
		c.t.Fatalf("%d and %d attempts, want 4 and 1", len(attempts), len(other))
	}
	for i, pause := range []time.Duration{100 * time.Millisecond, 200 * time.Millisecond, 400 * time.Millisecond} {
		if waited := attempts[i+1].StartedAt.Sub(*attempts[i].EndedAt); waited < pause {
			c.t.Errorf("attempt %d began %s after the one before, want at least %s", i+2, waited, pause)
		}
	}
}

// R46: two steps have done something and the third fails: what they did is undone by the blocks
// that their compensations name, the newest first, and nothing is left.
func sagaIsUndone(c *fixture) {
	c.registerBlock("book", workflow.Block{}, func(k call) blockAnswer {
		if k.Parameters["what"] == "card" {
			return errorAnswer("DECLINED", false)
		}
		return okAnswer(map[string]any{"id": fmt.Sprint(k.Parameters["what"], "-1")})
	})
	c.registerBlock("cancel", workflow.Block{Idempotent: true}, func(k call) blockAnswer { return okAnswer(k.Parameters) })
	c.publishWorkflow("",
		`label: flight, block: book, runOn: global, parameters: {what: flight}, compensate: {block: cancel, parameters: {id: "${flight.result.id}"}}`,
		`label: hotel, block: book, runOn: global, parameters: {what: hotel}, compensate: {block: cancel, parameters: {id: "${hotel.result.id}", after: "${flight.result.id}"}}`,
		`label: card, block: book, runOn: global, parameters: {what: card}, compensate: {block: cancel, parameters: {id: "${has(card.result) ? card.result.id : 'none'}"}}`)
	id := c.startWorkflow(`{}`)
	if x := c.waitEnded(id, sm.ExecutionFailedSafeAck); !x.RolledBack || x.Error.Code != "DECLINED" {
		c.t.Errorf("rolled back %v, %+v", x.RolledBack, x.Error)
	}
	var undone []string
	for j, err := range c.Compensations(c.t.Context(), id) {
		if err != nil {
			c.t.Fatal(err)
		}
		undone = append(undone, fmt.Sprintf("%d %s %s %s", *j.Wave, j.Step, j.State, strings.ReplaceAll(string(j.Result), `"`, "")))
	}
	if want := []string{"1 card COMPLETED {id:none}", "2 hotel COMPLETED {after:flight-1,id:hotel-1}", "3 flight COMPLETED {id:flight-1}"}; !slices.Equal(undone, want) {
		c.t.Errorf("%q, want %q", undone, want)
	}
}

// sagaOfWorkflows: what an execution has done that a step has started is undone by one of the workflow that
// the step names, with what came of the first.
func sagaOfWorkflows(c *fixture) {
	var undone []string
	var mu sync.Mutex
	c.registerBlock("book", workflow.Block{}, func(call) blockAnswer { return okAnswer(map[string]any{"room": "7"}) })
	c.registerBlock("leave", workflow.Block{Idempotent: true}, func(k call) blockAnswer {
		mu.Lock()
		defer mu.Unlock()
		undone = append(undone, fmt.Sprint(k.Parameters["room"]))
		return okAnswer(nil)
	})
	c.registerBlock("pay", workflow.Block{Pure: true}, func(call) blockAnswer { return errorAnswer("DECLINED", false) })
	hotel := c.publishExtra("hotel", "output: {room: '${book.result.room}'}\n", `label: book, block: book, runOn: global`)
	leave := c.publishExtra("leave", "", `label: leave, block: leave, runOn: global, parameters: {room: "${parameters.room}"}`)
	c.publishWorkflow("",
		fmt.Sprintf(`label: hotel, workflowReference: {workflow: "%s", mode: dispatch}, compensate: {workflow: "%s", parameters: {room: "${hotel.result.output.room}"}}`, hotel, leave),
		`label: pay, block: pay, runOn: global`)
	id := c.startWorkflow(`{}`)
	if x := c.waitEnded(id, sm.ExecutionFailedSafeAck); !x.RolledBack || len(x.Children) != 2 {
		c.t.Errorf("rolled back %v, children %v", x.RolledBack, x.Children)
	}
	mu.Lock()
	defer mu.Unlock()
	if !slices.Equal(undone, []string{"7"}) {
		c.t.Errorf("undone %q", undone)
	}
}
