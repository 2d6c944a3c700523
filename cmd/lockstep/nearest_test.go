package main

import (
	"strings"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// For a misspelled type or group, the command suggests the one that was probably meant.
func TestSelection_SuggestsTypesAndGroups(t *testing.T) {
	ended := func(code string) map[string]any {
		return map[string]any{"id": executionID, "workflow": map[string]any{"package": "fleet", "name": "upgrade", "version": "1.0.0"}, "state": "FAILED_SAFE_ACK", "status": "FAILED", "outcome": "FAILED_SAFE",
			"createdAt": time.Now(), "error": map[string]any{"code": code, "message": "there is no such entity"}}
	}
	answers := map[string]any{
		"GET /entities/types": pageOf("customer", "device"),
		"GET /entities":       pageOf(map[string]any{"type": "device", "id": "sw-1", "groups": []string{"core", "zurich"}}),
		"GET /workflow-definition/fleet/upgrade/1.0.0": map[string]any{"package": "fleet", "name": "upgrade", "version": "1.0.0", "definition": map[string]any{"seedEntity": "device"}},
		"POST /workflow-execution":                     map[string]any{"id": executionID, "state": "NEW", "status": "PENDING"},
		"GET /workflow-execution/id/" + executionID:    ended(workflow.FailureNothingSelected),
	}
	url := serveAnswers(t, answers)
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"run", "fleet/upgrade", "--type", "devise", "--id", "sw-1"}, "nothing is selected; did you mean the type device?"},
		{[]string{"run", "fleet/upgrade", "--group", "zurch"}, "nothing is selected; did you mean the group zurich?"},
		{[]string{"run", "fleet/upgrade", "--group", "core"}, ""},
		{[]string{"entities", "show", "devise/sw-1"}, "did you mean device/sw-1?"},
		{[]string{"entities", "show", "device/sw-9"}, `"lockstep entities list device" lists`},
		{[]string{"entities", "patch", "devise/sw-1", "--set", "a=1"}, "did you mean device/sw-1?"},
	} {
		got := runCommand(t, append(c.args, url)...)
		if got.code == 0 || !strings.Contains(got.stderr, c.want) || c.want == "" && strings.Contains(got.stderr, "did you mean") {
			t.Errorf("%q: exit %d\n%s%swant %q", c.args, got.code, got.stdout, got.stderr, c.want)
		}
	}
	answers["GET /entities"] = pageOf()
	if got := runCommand(t, "entities", "list", "devise", url); got.code != 0 || !strings.Contains(got.stderr, `there is no entity of type "devise"; did you mean the type device?`) {
		t.Errorf("exit %d\n%s", got.code, got.stderr)
	}
}
