package main

import (
	"encoding/json"
	"strings"
	"testing"
)

// The tree shows every generation, each execution below the one that started it, and what each
// waits for.
func TestTree_ShowsEveryGeneration(t *testing.T) {
	ref := func(name string) map[string]any {
		return map[string]any{"package": "p", "name": name, "version": "1.0.0"}
	}
	child := func(id, step, state string, more map[string]any) map[string]any {
		c := map[string]any{"id": id, "step": step, "sequence": 1, "try": 1, "superseded": false, "workflow": ref(id), "mode": "dispatch", "state": state, "status": "RUNNING", "waiting": nil, "output": nil}
		if state == "" {
			c["state"], c["status"] = nil, nil
		}
		for k, v := range more {
			c[k] = v
		}
		return c
	}
	asks := map[string]any{"waiting": map[string]any{"kind": "INPUT", "since": "2026-01-02T03:04:05Z", "step": "ask", "reason": "How many?", "for": []any{}}}
	path := "GET /workflow-execution/id/"
	url := serveAnswers(t, map[string]any{
		path + executionID:               map[string]any{"id": executionID, "workflow": ref("top"), "state": "WAITING"},
		path + executionID + "/children": pageOf(child("a", "first", "CANCELLED_ACK", map[string]any{"superseded": true}), child("b", "first", "WAITING", nil), child("c", "never", "", nil), child("e", "each", "RUNNING", map[string]any{"item": 3, "itemText": "zrh", "started": 0, "parameters": map[string]any{"site": "zrh"}})),
		path + "a/children":              pageOf(),
		path + "b/children":              pageOf(child("d", "down", "WAITING", asks)),
		path + "d/children":              pageOf(),
	})
	got := runCommand(t, "tree", executionID, url)
	want := []string{
		executionID + "  p/top:1.0.0  WAITING",
		"  first: a  p/a:1.0.0  CANCELLED_ACK  (executed again)",
		"  first: b  p/b:1.0.0  WAITING",
		"    down: d  p/d:1.0.0  WAITING  has waited since ",
		"  never: c  p/c:1.0.0  never began, or was removed",
		"  each 3 (zrh): e  p/e:1.0.0  RUNNING",
	}
	lines := strings.Split(strings.TrimRight(got.stdout, "\n"), "\n")
	if got.code != 0 || len(lines) != len(want) {
		t.Fatalf("%d %s\n%s", got.code, got.stderr, got.stdout)
	}
	for i := range want {
		if !strings.HasPrefix(lines[i], want[i]) {
			t.Errorf("%q, want %q", lines[i], want[i])
		}
	}
	if !strings.Contains(lines[3], "How many?") {
		t.Errorf("%q", lines[3])
	}
	var root treeNode
	got = runCommand(t, "tree", executionID, "--output", "json", url)
	if err := json.Unmarshal([]byte(got.stdout), &root); err != nil || len(root.Children) != 4 || string(root.Children[3].Parameters) == "" || *root.Children[3].Item != 3 || root.Children[1].Children[0].ID != "d" || root.Children[2].State != nil {
		t.Errorf("%v\n%s", err, got.stdout)
	}
}

// What the end of the execution has started follows it, with what that has started in turn.
func TestTree_ShowsWhatTheEndHasStarted(t *testing.T) {
	ref := map[string]any{"package": "p", "name": "w", "version": "1.0.0"}
	path := "GET /workflow-execution/id/"
	next, last := "00000000-0000-7000-8000-00000000000a", "00000000-0000-7000-8000-00000000000b"
	url := serveAnswers(t, map[string]any{
		path + executionID:               map[string]any{"id": executionID, "workflow": ref, "state": "COMPLETED_ACK", "followUp": next},
		path + executionID + "/children": pageOf(map[string]any{"id": "c", "step": "one", "sequence": 1, "try": 1, "superseded": false, "workflow": ref, "mode": "dispatch", "state": "COMPLETED_ACK", "status": "COMPLETED", "waiting": nil, "output": nil, "started": 0}),
		path + next:                      map[string]any{"id": next, "workflow": ref, "state": "FAILED_SAFE_ACK", "followUpOf": executionID, "followUp": last},
		path + next + "/children":        pageOf(),
		path + last:                      map[string]any{"id": last, "workflow": ref, "state": "RUNNING", "followUpOf": next},
		path + last + "/children":        pageOf(),
	})
	got := runCommand(t, "tree", executionID, url)
	want := executionID + "  p/w:1.0.0  COMPLETED_ACK\n  one: c  p/w:1.0.0  COMPLETED_ACK\nat its end: " + next + "  p/w:1.0.0  FAILED_SAFE_ACK\nat its end: " + last + "  p/w:1.0.0  RUNNING\n"
	if got.code != 0 || got.stdout != want {
		t.Errorf("%d %s\n%s", got.code, got.stderr, got.stdout)
	}
	var root treeNode
	got = runCommand(t, "tree", executionID, "--output", "json", url)
	if err := json.Unmarshal([]byte(got.stdout), &root); err != nil || root.FollowUp == nil || root.FollowUp.FollowUp == nil || root.FollowUp.FollowUp.ID != last {
		t.Errorf("%v\n%s", err, got.stdout)
	}
	got = runCommand(t, "status", next, url)
	for _, line := range []string{"started by an event of: " + executionID, "started at its end: " + last} {
		if !strings.Contains(got.stdout, line+"\n") {
			t.Errorf("no %q in %s", line, got.stdout)
		}
	}
}
