package e2e

import (
	"strings"
	"testing"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// With roles in the configuration, the command does what its caller may do, and says which role
// it lacks otherwise.
func TestAccess_RolesDecideWhoMayDoWhat(t *testing.T) {
	t.Parallel()
	s := startStack(t, stackOptions{config: fastConfig + "access: {viewer: [noc], operator: [oncall], admin: [platform, 'actor:pipeline']}\n"})
	for _, c := range []struct {
		roles, actor string
		line         string
		code         int
		want         string
	}{
		{"", "", "list", 3, "this needs the role viewer"},
		{"noc", "", "list", 0, "WORKFLOW"},
		{"noc", "", "entities patch device/a --set x=1", 3, "this needs the role operator"},
		{"oncall", "", "entities patch device/a --set x=1", 3, "(not_found)"},
		{"noc", "", "cancel 01890000-0000-7000-8000-000000000000", 3, "this needs the role operator"},
		{"oncall", "", "archive test/none:1.0.0", 3, "this needs the role admin"},
		{"platform", "", "archive test/none:1.0.0", 3, "(not_found)"},
		{"", "pipeline", "archive test/none:1.0.0", 3, "(not_found)"},
	} {
		args := []string{"--url=" + s.url, "--roles=" + c.roles}
		if c.actor != "" {
			args = append(args, "--actor="+c.actor)
		}
		code, out, err := runLockstep(t, "", append(args, strings.Fields(c.line)...)...)
		if code != c.code || !strings.Contains(out+err, c.want) {
			t.Errorf("%s with roles %q: exit %d, want %d with %q\n%s%s", c.line, c.roles, code, c.code, c.want, out, err)
		}
	}
	_, err := s.Entity(t.Context(), workflow.EntityKey{Type: "device", ID: "a"})
	if !workflow.Is(err, workflow.CodeForbidden) {
		t.Errorf("without roles: %v", err)
	}
}

// What operators do is listed, with the reason and the answer.
func TestAudit_ListsWhatOperatorsDo(t *testing.T) {
	t.Parallel()
	s := startStack(t, stackOptions{})
	url := "--url=" + s.url
	runLockstep(t, `{"type":"device","id":"a"}`+"\n", url, "--actor=ann", "entities", "import", "-")
	runLockstep(t, "", url, "--actor=bob", "cancel", "01890000-0000-7000-8000-000000000000", "--reason=too-late")
	code, out, err := runLockstep(t, "", url, "audit")
	for _, want := range []string{"ann", "importEntities", "200", "bob", "cancelExecution", "404", "too-late"} {
		if code != 0 || !strings.Contains(out, want) {
			t.Errorf("exit %d, want %q\n%s%s", code, want, out, err)
		}
	}
	if code, out, _ := runLockstep(t, "", url, "audit", "--by=ann", "-o", "json"); code != 0 || strings.Contains(out, "bob") || !strings.Contains(out, `"verb": "importEntities"`) {
		t.Errorf("exit %d\n%s", code, out)
	}
}
