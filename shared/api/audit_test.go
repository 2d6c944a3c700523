package api_test

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/lockstep-run/lockstep/shared/api/openapi"
)

// Each request that changes something is in an entry before it is served, with its reason, and the
// entry gets the status of the answer. Reads, starts and workers cost nothing more.
func TestAudit_EveryChangeIsAudited(t *testing.T) {
	audited := map[string]bool{}
	for _, c := range servedRoutes {
		f := newFake()
		method, _, _ := strings.Cut(c.pattern, " ")
		sendRequest(newHandler(f, withMonitor), method+" "+c.target, c.body, "X-Request-Id: r-1")
		roles := rolesOf(c.pattern)
		want := method != http.MethodGet && len(roles) > 0 && roles[0] != "viewer" && !slices.Contains(roles, "worker") && c.pattern != "POST /workflow-execution" && c.pattern != "POST /workflow-execution/batch" &&
			c.pattern != "POST /workflow-execution/{id}/signal/{name}" && c.pattern != "POST /signals/{package}/{name}/{key}/{signal}"
		if !want {
			if len(f.audited) > 0 {
				t.Errorf("%s is audited", c.pattern)
			}
			continue
		}
		audited[c.pattern] = true
		if len(f.audited) != 2 {
			t.Errorf("%s has %d writes of an entry, want 2", c.pattern, len(f.audited))
			continue
		}
		before, after := f.audited[0], f.audited[1]
		if before.Status != nil || after.Status == nil || *after.Status != c.status || after.Verb != verbOf(c.pattern) || after.Target != c.target || after.RequestID != "r-1" {
			t.Errorf("%s: %+v", c.pattern, after)
		}
		if named := strings.HasPrefix(c.target, "/workflow-execution/"+executionID); named != (after.Execution != nil && *after.Execution == executionID) {
			t.Errorf("%s: execution %v", c.pattern, after.Execution)
		}
		if c.pattern == "POST /workflow-definition/publish" && !strings.Contains(c.target, "dryRun=true") && after.Subject != "p/w:1.0.0" {
			t.Errorf("%s: subject %q", c.pattern, after.Subject)
		}
		if strings.Contains(c.body, `"reason":"r"`) && after.Reason != "r" {
			t.Errorf("%s: reason %q", c.pattern, after.Reason)
		}
	}
	for _, pattern := range []string{"DELETE /workflow-definition/{package}/{name}/{version}", "POST /workflow-definition/{package}/{name}/{version}/restore", "POST /workflow-execution/{id}/cancel", "DELETE /entities/{type}/{id}"} {
		if !audited[pattern] {
			t.Errorf("%s is not audited", pattern)
		}
	}
}

// verbOf returns under which verb the requests of a route are audited: its operation, or the other
// one that does the same.
func verbOf(pattern string) string {
	switch id := openapi.Load().Operations[pattern].ID; pattern {
	case "DELETE /workflow-execution/{id}":
		return "cancelExecution"
	case "POST /schedules/{package}/{name}/remove":
		return "removeSchedule"
	default:
		return id
	}
}

// Who asks for one of two operations that do the same gets the entries of both.
func TestAudit_FindsOperationsThatDoTheSame(t *testing.T) {
	for asked, want := range map[string]string{"removeScheduleByPost": "removeSchedule", "removeSchedule": "removeSchedule", "abortExecution": "cancelExecution", "publishDefinition": "publishDefinition"} {
		f := newFake()
		if w := sendRequest(newHandler(f), "GET /audit?verb="+asked, ""); w.Code != http.StatusOK || f.auditFilter.Verb != want {
			t.Errorf("%s: status %d, asked for %s", asked, w.Code, f.auditFilter.Verb)
		}
	}
}

// What cannot be audited is not done; what is refused before is not audited.
func TestAudit_ComesFirst(t *testing.T) {
	cancel := "POST /workflow-execution/" + executionID + "/cancel"
	f := newFake()
	f.err = errors.New("a secret")
	if w := sendRequest(newHandler(f), cancel, ""); w.Code != http.StatusInternalServerError || len(f.calls) > 0 || len(f.audited) != 1 {
		t.Errorf("status %d, calls %v, entries %v", w.Code, f.calls, f.audited)
	}
	for name, send := range map[string]func(f *fake) int{
		"an invalid request": func(f *fake) int { return sendRequest(newHandler(f), cancel, `{"rollback":7}`).Code },
		"without the role":   func(f *fake) int { return sendRequest(newHandler(f, withRoles), cancel, "").Code },
	} {
		f := newFake()
		if code := send(f); code < 400 || len(f.audited) > 0 {
			t.Errorf("%s: status %d, entries %v", name, code, f.audited)
		}
	}
	f = newFake()
	f.panics = true
	if w := sendRequest(newHandler(f), cancel, ""); w.Code != http.StatusInternalServerError || len(f.audited) != 1 || f.audited[0].Status != nil {
		t.Errorf("a handler that panics: status %d, entries %v", w.Code, f.audited)
	}
}

// The entry of a bulk request says what was asked for, and whether it was only a question.
func TestAudit_TellsABulkRequestFromItsDryRun(t *testing.T) {
	for body, want := range map[string]string{
		`{"verb":"cancel","filter":{"state":"RUNNING"},"reason":"r"}`:               `cancel {"state":"RUNNING"}`,
		`{"verb":"cancel","filter":{"state":"RUNNING"},"reason":"r","dryRun":true}`: `cancel (dry run) {"state":"RUNNING"}`,
	} {
		f := newFake()
		w := sendRequest(newHandler(f), "POST /workflow-execution/bulk", body)
		if len(f.audited) == 0 || f.audited[0].Subject != want {
			t.Errorf("%s: status %d, entries %+v", body, w.Code, f.audited)
		}
	}
}
