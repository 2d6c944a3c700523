package main

import (
	"strings"
	"testing"
)

func TestWhoami_SaysWhoAndWhat(t *testing.T) {
	me := map[string]any{"tenant": "acme", "actor": "ann", "roleNames": []string{"netops", "dns"}, "roles": []string{"viewer", "operator"}, "operations": []string{"cancelExecution", "getCaller"}}
	url := serveAnswers(t, map[string]any{"GET /caller": me})
	got := runCommand(t, "whoami", url)
	want := "ann in tenant acme at " + strings.TrimPrefix(url, "--url=") + "\nknown as: netops, dns\nroles: viewer, operator\n"
	if got.code != 0 || got.stdout != want {
		t.Errorf("exit %d\n%s%swant %s", got.code, got.stdout, got.stderr, want)
	}
	if got = runCommand(t, "whoami", "--operations", url); got.stdout != "cancelExecution\ngetCaller\n" {
		t.Errorf("exit %d\n%s%s", got.code, got.stdout, got.stderr)
	}
	if got = runCommand(t, "whoami", "-o", "json", url); got.code != 0 || !strings.Contains(got.stdout, `"roleNames": [`) {
		t.Errorf("exit %d\n%s%s", got.code, got.stdout, got.stderr)
	}
	me["roles"], me["roleNames"] = []string{}, []string{}
	if got = runCommand(t, "whoami", serveAnswers(t, map[string]any{"GET /caller": me})); !strings.Contains(got.stdout, "roles: none") || strings.Contains(got.stdout, "known as") {
		t.Errorf("exit %d\n%s%s", got.code, got.stdout, got.stderr)
	}
	if got = runCommand(t, "whoami", serveAnswers(t, nil)); got.code != exitRefused {
		t.Errorf("exit %d\n%s", got.code, got.stderr)
	}
}
