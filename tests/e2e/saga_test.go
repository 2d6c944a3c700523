package e2e

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

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
