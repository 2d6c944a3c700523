package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// sendPlain sends a request without a body or headers, like plain curl.
func (s *localStack) sendPlain(t testing.TB, method, path string) (int, string) {
	t.Helper()
	return s.sendRaw(method, path, "", "")
}

// parseStates returns the states of the executions in a list, by id.
func parseStates(t testing.TB, body string) map[string]string {
	t.Helper()
	var page struct {
		Items []struct {
			ID    string `json:"id"`
			State string `json:"state"`
		} `json:"items"`
	}
	if err := json.Unmarshal([]byte(body), &page); err != nil || page.Items == nil {
		t.Fatalf("no list (%v): %.300s", err, body)
	}
	states := map[string]string{}
	for _, item := range page.Items {
		states[item.ID] = item.State
	}
	return states
}

// curlRequests sends the plain requests that operators use to list, read and cancel
// executions.
func curlRequests(c *fixture) {
	ids := c.importEntities(c.entityType(), 1)
	g := newBlockGate()
	c.registerBlock("work", workflow.Block{Idempotent: true, Timeout: workflow.Duration(waitTimeout)}, g.wait)
	c.publishWorkflow("", "label: work, block: work, runOn: KIND")
	id := c.startWorkflow("{}", ids...)
	<-g.entered

	for _, path := range []string{"/workflow-execution/active", "/workflow-execution/state/RUNNING"} {
		code, body := c.sendPlain(c.t, "GET", path)
		if code != http.StatusOK || parseStates(c.t, body)[id] != "RUNNING" {
			c.t.Errorf("GET %s: %d %.300s", path, code, body)
		}
	}
	code, body := c.sendPlain(c.t, "GET", "/workflow-execution/id/"+id)
	var x map[string]any
	if err := json.Unmarshal([]byte(body), &x); err != nil || code != http.StatusOK || x["id"] != id || x["state"] != "RUNNING" {
		c.t.Errorf("%d %.300s", code, body)
	}
	for _, field := range []string{
		"id", "workflow", "state", "status", "cause", "reason", "rolledBack", "parameters", "labels", "tenant", "createdBy", "createdAt",
		"startedAt", "endedAt", "currentStep", "entities", "progress", "waiting", "error", "parent", "children", "version",
	} {
		if _, there := x[field]; !there {
			c.t.Errorf("the execution has no field %q, which must be present or null", field)
		}
	}
	if code, body := c.sendPlain(c.t, "DELETE", "/workflow-execution/"+id); code != http.StatusAccepted || !strings.Contains(body, `"CANCELLING"`) {
		c.t.Errorf("DELETE: %d %.300s", code, body)
	}
	close(g.open)
	c.waitForState(id, sm.ExecutionCancelled) // its block is not reversible, so it keeps its lock until it is acknowledged
	if code, body := c.sendPlain(c.t, "DELETE", "/workflow-execution/"+id); code != http.StatusConflict || !strings.Contains(body, `"illegal_transition"`) || !strings.Contains(body, "CANCELLED") {
		c.t.Errorf("DELETE of an ended execution: %d %.300s", code, body)
	}
	if _, err := c.Acknowledge(c.t.Context(), id, "checked"); err != nil {
		c.t.Error(err)
	}
	c.waitEnded(id, sm.ExecutionCancelledAck)
	if _, body := c.sendPlain(c.t, "GET", "/workflow-execution/active"); parseStates(c.t, body)[id] != "" {
		c.t.Error("an ended execution is listed as active")
	}
}

// statusContract is N60 in every status: seven fields with fixed names, and no parameters,
// results or errors.
func statusContract(c *fixture) {
	ids := c.importEntities(c.entityType(), 3)
	g := newBlockGate()
	c.registerBlock("work", workflow.Block{Idempotent: true, Reversible: true, Timeout: workflow.Duration(waitTimeout)}, func(k call) blockAnswer {
		if k.Operation == "EXECUTE" {
			g.wait(k)
		}
		return okAnswer(map[string]any{"secret": "hush"})
	})
	c.registerBlock("fail", workflow.Block{Pure: true}, func(call) blockAnswer { return errorAnswer("hush", false) })
	c.registerBlock("fire", workflow.Block{}, func(k call) blockAnswer {
		if k.entityID() == ids[0] {
			return errorAnswer("hush", false)
		}
		return nil
	})
	c.publishWorkflow("", "label: work, block: work, runOn: KIND")
	a := c.startWorkflow(`{"secret":"hush"}`, ids[0])
	<-g.entered
	b := c.startWorkflow(`{"secret":"hush"}`, ids[0])
	eventually(c.t, "b waits", func() bool {
		x, err := c.Execution(c.t.Context(), b)
		return err == nil && x.Waiting != nil && x.Waiting.Kind == workflow.WaitLock
	})
	cancelled := c.startWorkflow("{}", ids[1])
	<-g.entered
	for _, step := range []string{"fail", "fire"} {
		c.publish(fmt.Sprintf("package: test\nname: %s-%s\nversion: 1.0.0\nseedEntity: %s\nsteps:\n  - {label: last, functionBlock: test/%s-%s, runOn: %s}\n",
			c.name, step, c.entityType(), c.name, step, c.entityType()))
	}
	start := func(name string, on ...string) string {
		x, _, err := c.Start(c.t.Context(), views.StartRequest{Workflow: "test/" + c.name + "-" + name, ExecuteOnParameters: &workflow.Selector{IDs: on}})
		if err != nil {
			c.t.Fatal(err)
		}
		return x.ID
	}
	c.wantStatus(a, "RUNNING", "", "work")
	c.wantStatus(b, "PENDING", "", "")
	if _, err := c.Cancel(c.t.Context(), cancelled, views.CancelRequest{}); err != nil {
		c.t.Fatal(err)
	}
	c.wantStatus(cancelled, "RUNNING", "", "work") // cancelling, not yet ended
	close(g.open)
	c.waitEnded(a, sm.ExecutionCompletedAck)
	c.waitEnded(b, sm.ExecutionCompletedAck)
	c.waitEnded(cancelled, sm.ExecutionCancelledAck)
	safe := start("fail", ids[2])
	c.waitEnded(safe, sm.ExecutionFailedSafeAck)
	unsafe := start("fire", ids[0], ids[1])
	c.waitEnded(unsafe, sm.ExecutionFailedUnsafe)
	c.wantStatus(a, "COMPLETED", "execution.completed", "")
	c.wantStatus(b, "COMPLETED", "execution.completed", "")
	c.wantStatus(cancelled, "CANCELLED", "execution.cancelled", "")
	c.wantStatus(safe, "FAILED", "execution.failed_safe", "")
	c.wantStatus(unsafe, "FAILED", "execution.failed_unsafe", "")
	if _, err := c.Acknowledge(c.t.Context(), unsafe, "hush"); err != nil {
		c.t.Fatal(err)
	}
	c.waitEnded(unsafe, sm.ExecutionFailedUnsafeAck)
	c.wantStatus(unsafe, "FAILED", "execution.failed_unsafe", "")
}

// wantStatus checks every field of the status route. If step is not "", it is the current
// step.
func (c *fixture) wantStatus(id, state, terminal, step string) {
	c.t.Helper()
	code, body := c.sendPlain(c.t, "GET", "/executions/"+id+"/status")
	var got map[string]any
	if err := json.Unmarshal([]byte(body), &got); err != nil || code != http.StatusOK {
		c.t.Fatalf("%d %s", code, body)
	}
	var names []string
	for name := range got {
		names = append(names, name)
	}
	slices.Sort(names)
	if fmt.Sprint(names) != "[completion_inferred current_step ended_at execution_id started_at state terminal_event]" {
		c.t.Errorf("the fields are %v", names)
	}
	if strings.Contains(body, "hush") {
		c.t.Errorf("the status shows data of the execution: %s", body)
	}
	ended := terminal != ""
	if got["execution_id"] != id || got["state"] != state || got["completion_inferred"] != false || (got["ended_at"] != nil) != ended || (ended && got["terminal_event"] != terminal) ||
		(!ended && got["terminal_event"] != nil) || (step != "" && got["current_step"] != step) || (got["started_at"] == nil) != (state == "PENDING") {
		c.t.Errorf("status %s, want %s with terminal event %q and step %q", body, state, terminal, step)
	}
}
