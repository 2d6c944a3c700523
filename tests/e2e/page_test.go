package e2e

import (
	"encoding/json"
	"os/exec"
	"strings"
	"testing"

	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// The page shows the outcome of each execution in its list, and of one execution the
// entities that failed, with step, code and message. Messages are text, whatever they hold.
func TestPage_ShowsOutcomes(t *testing.T) {
	t.Parallel()
	requireEmbedded(t, "it reads the page as a browser does, without credentials")
	s := startStack(t, stackOptions{})
	c := newFixture(t, s, "page")
	ids := c.importEntities(c.entityType(), 3)
	c.registerBlock("work", workflow.Block{Pure: true}, func(b call) blockAnswer {
		if b.Entity.ID == ids[1] {
			return blockAnswer{"outcome": "ERROR", "error": map[string]any{"code": "REFUSED", "message": "<b>no</b> & <script>"}}
		}
		return nil
	})
	c.publishWorkflow("config: {failureTolerance: 1}\n", "label: work, block: work, runOn: KIND")
	partial := c.startWorkflow("{}", ids...)
	s.waitForState(partial, sm.ExecutionCompletedAck)
	whole := c.startWorkflow("{}", ids[0])
	s.waitForState(whole, sm.ExecutionCompletedAck)

	read := func(id string) (texts map[string]string) {
		cmd := exec.CommandContext(t.Context(), "node", "testdata/page.mjs", s.url, id)
		out, err := cmd.Output()
		if err == nil {
			err = json.Unmarshal(out, &texts)
		}
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return texts
	}
	page := read(partial)
	list := strings.Split(page["executions"], "\n")
	for id, outcome := range map[string]string{partial: "PARTIAL", whole: "SUCCEEDED"} {
		found := false
		for _, row := range list {
			found = found || strings.HasPrefix(row, id+" | ") && strings.Contains(row, " | COMPLETED_ACK | "+outcome+" | ")
		}
		if !found {
			t.Errorf("the list has no row of %s with %s:\n%s", id, outcome, page["executions"])
		}
	}
	if want := c.entityType() + "/" + ids[1] + " | FAILED_SAFE | work | REFUSED | <b>no</b> & <script>"; page["failed"] != want {
		t.Errorf("failed entities %q, want %q", page["failed"], want)
	}
	for _, want := range []string{"2 SUCCEEDED", "1 FAILED_SAFE"} {
		if !strings.Contains(page["outcomes"], want) {
			t.Errorf("outcomes %q", page["outcomes"])
		}
	}
	page = read(whole)
	if _, shown := page["failed-table"]; shown || page["outcomes"] != "entities: 1 SUCCEEDED" || !strings.HasPrefix(page["note"], "as of ") {
		t.Errorf("of an execution in which nothing failed the page shows %v", page)
	}
}
