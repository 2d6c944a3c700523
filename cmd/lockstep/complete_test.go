package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// completions returns what a shell gets for the last word of a command line.
func completions(t *testing.T, args ...string) (values []string, directive string) {
	t.Helper()
	got := runCommand(t, append([]string{"__complete"}, args...)...)
	lines := strings.Split(strings.TrimSuffix(got.stdout, "\n"), "\n")
	if got.code != 0 || !strings.HasPrefix(lines[len(lines)-1], ":") {
		t.Fatalf("%q: exit %d\n%s%s", args, got.code, got.stdout, got.stderr)
	}
	return lines[:len(lines)-1], lines[len(lines)-1]
}

// A shell completes arguments and flags with what the service knows.
func TestCompletion_AsksTheService(t *testing.T) {
	x := map[string]any{"id": executionID, "workflow": map[string]any{"package": "fleet", "name": "upgrade", "version": "1.0.0"}, "state": "RUNNING", "createdAt": time.Now().Add(-time.Hour)}
	definition := func(name, version string, archived bool) map[string]any {
		return map[string]any{"package": "fleet", "name": name, "version": version, "archived": archived, "definition": map[string]any{"seedEntity": "device"}}
	}
	entity := func(id string, groups ...string) map[string]any {
		return map[string]any{"type": "device", "id": id, "groups": groups}
	}
	url := serveAnswers(t, map[string]any{
		"GET /workflow-execution":                              pageOf(x),
		"GET /workflow-execution/id/" + executionID + "/steps": pageOf(map[string]any{"step": "upgrade"}, map[string]any{"step": "verify"}, map[string]any{"step": "upgrade"}),
		"GET /workflow-definition":                             pageOf(definition("upgrade", "2.0.0", false), definition("upgrade", "1.0.0", false), definition("scan", "1.0.0", false)),
		"GET /workflow-definition/fleet/upgrade":               pageOf(definition("upgrade", "2.0.0", false), definition("upgrade", "1.0.0", true)),
		"GET /workflow-definition/fleet/upgrade/2.0.0":         definition("upgrade", "2.0.0", false),
		"GET /entities/types":                                  pageOf("customer", "device"),
		"GET /entities":                                        pageOf(entity("sw-1", "core", "zrh"), entity("sw-2", "core")),
		"GET /workers":                                         pageOf(map[string]any{"id": "w-1", "pool": "default", "state": "READY"}),
		"GET /triggers":                                        pageOf(map[string]any{"name": "alarm", "workflow": map[string]any{"package": "fleet", "name": "scan", "version": "1.0.0"}}),
		"GET /subscriptions":                                   pageOf(map[string]any{"name": "chat"}),
		"GET /schedules":                                       pageOf(map[string]any{"schedule": "fleet/scan", "cron": "0 3 * * *"}),
		"GET /function-blocks":                                 pageOf(map[string]any{"package": "fleet", "name": "show", "version": "1.0.0"}),
	})
	useProfiles(t, "profiles:\n  prod: {url: https://prod.example}\n  lab: {tenant: acme}\n")
	const noFiles, inOrder, noSpace = ":4", ":36", ":38"
	for _, c := range []struct {
		args      string
		want      string
		directive string
	}{
		{"status ", executionID + "\tfleet/upgrade:1.0.0 RUNNING, 1h ago", inOrder},
		{"status 0189", executionID + "\tfleet/upgrade:1.0.0 RUNNING, 1h ago", inOrder},
		{"status 7", "", inOrder},
		{"status " + executionID + " ", "", noFiles},
		{"run fleet/", "fleet/upgrade,fleet/scan", inOrder},
		{"archive fleet/u", "fleet/upgrade:", noSpace},
		{"cancel ", executionID + "\tfleet/upgrade:1.0.0 RUNNING, 1h ago", inOrder},
		{"acknowledge ", "", inOrder},
		{"archive fleet/upgrade:", "fleet/upgrade:2.0.0,fleet/upgrade:1.0.0\tarchived", inOrder},
		{"list --workflow fleet/s", "fleet/scan", inOrder},
		{"entities show ", "customer/,device/", noSpace},
		{"entities show device/sw-", "device/sw-1\tcore zrh,device/sw-2\tcore", inOrder},
		{"entities show device sw-", "sw-1\tcore zrh,sw-2\tcore", inOrder},
		{"entities delete device/x device/sw-1", "device/sw-1\tcore zrh", inOrder},
		{"entities list d", "device", inOrder},
		{"entities list device --group ", "core,zrh", inOrder},
		{"run fleet/upgrade --id ", "sw-1\tcore zrh,sw-2\tcore", inOrder},
		{"run fleet/upgrade --group z", "zrh", inOrder},
		{"run fleet/upgrade --type ", "customer,device", inOrder},
		{"jobs " + executionID + " --step ", "upgrade,verify", inOrder},
		{"jobs --kind ", "ACQUIRE,EXECUTE,ROLLBACK", noFiles},
		{"jobs --kind ex", "execute", noFiles},
		{"jobs --kind EX", "EXECUTE", noFiles},
		{"list --status fa", "failed", noFiles},
		{"plan --rollback N", "NEVER", noFiles},
		{"workers drain ", "w-1\tdefault READY", inOrder},
		{"triggers pause a", "alarm\tfleet/scan:1.0.0", inOrder},
		{"subscriptions remove ", "chat", inOrder},
		{"schedules fire ", "fleet/scan\t0 3 * * *", inOrder},
		{"blocks f", "fleet/show", inOrder},
		{"bulk res", "resume", noFiles},
		{"list --profile p", "prod\thttps://prod.example", inOrder},
		{"config use ", "lab,prod\thttps://prod.example", inOrder},
		{"config set au", "auth", inOrder},
		{"publish ", "", ":0"},
	} {
		values, directive := completions(t, append([]string{url}, strings.Split(c.args, " ")...)...)
		want := strings.Split(c.want, ",")
		if strings.HasPrefix(c.args, "status") || strings.HasPrefix(c.args, "cancel") { // its description has a comma
			want = []string{c.want}
		}
		if c.want == "" {
			want = nil
		}
		if !slices.Equal(values, want) || directive != c.directive {
			t.Errorf("%q: %q %s, want %q %s", c.args, values, directive, want, c.directive)
		}
	}
}

// If the service is unreachable, refuses or does not answer, completion offers nothing and prints
// nothing.
func TestCompletion_IsSilentOnFailure(t *testing.T) {
	stop := make(chan struct{})
	slow := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-stop:
		}
	}))
	defer slow.Close()
	defer close(stop)
	refusing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }))
	defer refusing.Close()
	for name, url := range map[string]string{"unreachable": "http://127.0.0.1:1", "refusing": refusing.URL, "slow": slow.URL, "no address": "nonsense"} {
		got := runCommand(t, "__complete", "--url="+url, "status", "")
		if got.code != 0 || got.stdout != ":36\n" || strings.Contains(got.stderr, "lockstep:") {
			t.Errorf("%s: exit %d\n%s%s", name, got.code, got.stdout, got.stderr)
		}
	}
	useProfiles(t, "profiles: [")
	if got := runCommand(t, "__complete", "status", ""); got.code != 0 || got.stdout != ":36\n" {
		t.Errorf("exit %d\n%s%s", got.code, got.stdout, got.stderr)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("stopped"))
	if got := entitiesOf(ctx, nil, "device", `x") || true || ("`, ""); got != nil {
		t.Errorf("a prefix becomes a part of the query: %q", got)
	}
}

// A shell that completes a word executes no program for a token; with a token that is there it asks the service.
func TestCompletion_ExecutesNoProgram(t *testing.T) {
	count := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		count++
		fmt.Fprint(w, `{"items":["device"],"nextPageToken":null}`)
	}))
	defer s.Close()
	trace := filepath.Join(t.TempDir(), "executed")
	useProfiles(t, "current: lab\nprofiles:\n  lab: {url: '"+s.URL+"', tokenCommand: [sh, -c, 'echo x >\"$0\"; echo token', '"+trace+"']}\n")
	if got, directive := completions(t, "entities", "list", ""); len(got) > 0 || directive != ":36" || count > 0 {
		t.Errorf("%q %s, after %d requests", got, directive, count)
	}
	if _, err := os.Stat(trace); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the program was executed: %v", err)
	}
	if got, _ := completions(t, "config", "use", ""); !slices.Equal(got, []string{"lab\t" + s.URL}) {
		t.Errorf("%q, without a service", got)
	}
	t.Setenv("LOCKSTEP_TOKEN", "mine")
	if got, _ := completions(t, "entities", "list", ""); !slices.Equal(got, []string{"device"}) || count != 1 {
		t.Errorf("%q, after %d requests", got, count)
	}
}

// Each shell has a script.
func TestCompletion_HasAScriptForEachShell(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if got := runCommand(t, "completion", shell); got.code != 0 || !strings.Contains(got.stdout, "__complete") {
			t.Errorf("%s: exit %d\n%s", shell, got.code, got.stderr)
		}
	}
}
