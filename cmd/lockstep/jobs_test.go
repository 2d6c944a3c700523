package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Which jobs are asked for depends on how the execution ended, and on what the caller named.
func TestJobs_AsksForWhatFailedOfAFailedExecution(t *testing.T) {
	outcome := ""
	var query string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/jobs") {
			_ = json.NewEncoder(w).Encode(map[string]any{"id": executionID, "state": "RUNNING", "outcome": nonEmpty(outcome)})
			return
		}
		query = r.URL.RawQuery
		_ = json.NewEncoder(w).Encode(pageOf(map[string]any{"id": "j", "step": "upgrade", "state": "FAILED", "attempt": 2, "error": map[string]any{"code": "REFUSED", "message": "no"}}))
	}))
	defer s.Close()
	for _, c := range []struct {
		outcome string
		args    []string
		want    string
		note    string
	}{
		{"", nil, "attempts=last", ""},
		{"SUCCEEDED", nil, "attempts=last", ""},
		{"CANCELLED", nil, "attempts=last", ""},
		{"PARTIAL", nil, "attempts=last&failed=true", `"lockstep jobs ` + executionID + ` --all" lists all`},
		{"FAILED_SAFE", []string{"--step", "upgrade"}, "attempts=last&failed=true&step=upgrade", "these have failed"},
		{"FAILED_UNSAFE", nil, "attempts=last&failed=true", "these have failed"},
		{"FAILED_UNSAFE", []string{"--all"}, "attempts=last", ""},
		{"FAILED_UNSAFE", []string{"--attempts"}, "", ""},
		{"FAILED_UNSAFE", []string{"--state", "FAILED"}, "attempts=last&state=FAILED", ""},
		{"FAILED_UNSAFE", []string{"--entity", "device/sw-7"}, "attempts=last&entity=device%2Fsw-7", ""},
	} {
		outcome = c.outcome
		for _, output := range []string{"table", "json"} {
			got := runCommand(t, append([]string{"jobs", executionID, "-o", output, "--url=" + s.URL}, c.args...)...)
			if got.code != 0 || query != c.want || !strings.Contains(got.stdout, "REFUSED") || !strings.Contains(got.stderr, c.note) || c.note == "" && got.stderr != "" {
				t.Errorf("%s %v as %s: exit %d, query %s, want %s\n%s%s", c.outcome, c.args, output, got.code, query, c.want, got.stdout, got.stderr)
			}
		}
	}
}

func nonEmpty(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// Where nothing failed in a job, such as an execution that got no locks, the list says how to see all.
func TestJobs_SaysThatNoJobHasFailed(t *testing.T) {
	for _, c := range []struct {
		want string
		all  any
		args []string
	}{
		{`note: no job is left that has failed; "lockstep jobs ` + executionID + ` --all" lists all`, pageOf(map[string]any{"id": "j", "state": "COMPLETED"}), nil},
		{`note: no job of step "change" is left that has failed; "lockstep jobs ` + executionID + ` --all" lists all`, pageOf(map[string]any{"id": "j", "state": "COMPLETED"}), []string{"--step", "change"}},
		{`note: this execution has not started a step "chnge"`, pageOf(), []string{"--step", "chnge"}},
		{`note: this execution has no jobs`, pageOf(), nil},
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			var v any = map[string]any{"id": executionID, "outcome": "FAILED_SAFE"}
			if strings.HasSuffix(r.URL.Path, "/jobs") {
				if v = c.all; r.URL.Query().Has("failed") {
					v = pageOf()
				}
			}
			if strings.HasSuffix(r.URL.Path, "/steps") {
				v = pageOf(map[string]any{"step": "change"})
			}
			_ = json.NewEncoder(w).Encode(v)
		}))
		defer s.Close()
		if got := runCommand(t, append([]string{"jobs", executionID, "--url=" + s.URL}, c.args...)...); got.code != 0 || !strings.Contains(got.stderr, c.want) {
			t.Errorf("exit %d, want %s\n%s%s", got.code, c.want, got.stdout, got.stderr)
		}
	}
	if got := runCommand(t, "jobs", executionID, serveAnswers(t, map[string]any{
		"GET /workflow-execution/id/" + executionID: workflow.Errorf(workflow.CodeForbidden, "not you"),
	})); got.code != exitRefused || !strings.Contains(got.stderr, "not you") {
		t.Errorf("exit %d\n%s%s", got.code, got.stdout, got.stderr)
	}
}

// Jobs that cannot be read are not none.
func TestJobs_FailIfTheyCannotBeRead(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case !strings.HasSuffix(r.URL.Path, "/jobs"):
			fmt.Fprintf(w, `{"id":%q,"outcome":"FAILED_SAFE"}`, executionID)
		case r.URL.Query().Has("failed"):
			fmt.Fprint(w, `{"items":[]}`)
		default:
			http.Error(w, `{"code":"forbidden","detail":"not you"}`, http.StatusForbidden)
		}
	}))
	defer s.Close()
	if got := runCommand(t, "jobs", executionID, "--url="+s.URL); got.code != exitRefused || !strings.Contains(got.stderr, "not you") || strings.Contains(got.stderr, "no job is left") {
		t.Errorf("exit %d\n%s%s", got.code, got.stdout, got.stderr)
	}
}

// A failed execution says how many of its jobs were not executed, and how to list them.
func TestJobs_CountsWhatWasNotExecuted(t *testing.T) {
	answers := serveAnswers(t, map[string]any{
		"GET /workflow-execution/id/" + executionID:           map[string]any{"id": executionID, "state": "FAILED_SAFE_ACK", "status": "FAILED", "outcome": "FAILED_SAFE", "progress": map[string]any{"jobs": map[string]any{"cancelled": 2}}},
		"GET /workflow-execution/" + executionID + "/jobs":    pageOf(map[string]any{"id": "j", "state": "FAILED"}),
		"GET /workflow-execution/id/" + executionID + "/jobs": pageOf(map[string]any{"id": "j", "state": "FAILED"}),
	})
	want := `never came: 2; "lockstep jobs ` + executionID + ` --state CANCELLED" lists them`
	for _, verb := range []string{"jobs", "status"} {
		if got := runCommand(t, verb, executionID, answers); got.code != 0 || !strings.Contains(got.stderr, want) {
			t.Errorf("%s: exit %d, want %s\n%s%s", verb, got.code, want, got.stdout, got.stderr)
		}
	}
}

// What undid a step is listed with its last attempt.
func TestCompensations_LeavesOutAttemptsThatWereReplaced(t *testing.T) {
	job := func(id string, attempt int, more map[string]any) map[string]any {
		j := map[string]any{"id": id, "step": "hotel", "kind": "ROLLBACK", "state": "FAILED", "attempt": attempt, "replacedBy": nil}
		for k, v := range more {
			j[k] = v
		}
		return j
	}
	got := runCommand(t, "compensations", "x", "-o", "json", serveAnswers(t, map[string]any{
		"GET /workflow-execution/id/x/compensations": pageOf(job("j1", 1, map[string]any{"replacedBy": "j2"}), job("j2", 2, nil)),
	}))
	var jobs []workflow.Job
	if err := json.Unmarshal([]byte(got.stdout), &jobs); err != nil || got.code != 0 || len(jobs) != 1 || jobs[0].ID != "j2" {
		t.Errorf("exit %d, %v\n%s%s", got.code, err, got.stdout, got.stderr)
	}
	got = runCommand(t, "compensations", "x", serveAnswers(t, map[string]any{
		"GET /workflow-execution/id/x/compensations": pageOf(job("j1", 1, nil)),
		"GET /workflow-execution/id/x/children":      pageOf(map[string]any{"id": "c1", "step": "car", "state": "COMPLETED_ACK"}, map[string]any{"id": "c2", "step": "car", "state": "FAILED_UNSAFE", "compensates": "c1"}),
	}))
	if want := "note: step car is undone by execution c2 (FAILED_UNSAFE)"; got.code != 0 || !strings.Contains(got.stderr, want) || strings.Contains(got.stderr, "c1") {
		t.Errorf("exit %d, want %s\n%s%s", got.code, want, got.stdout, got.stderr)
	}
}

// A parent shows its children with step and state, and by their ids alone where they cannot be read.
func TestStatus_ShowsChildren(t *testing.T) {
	at := "GET /workflow-execution/id/" + executionID
	ref := map[string]any{"package": "p", "name": "child", "version": "1.0.0"}
	answers := map[string]any{
		at: map[string]any{"id": executionID, "workflow": ref, "state": "RUNNING", "status": "RUNNING", "createdAt": time.Now(), "children": []string{"c1", "c2"}},
		at + "/children": pageOf(
			map[string]any{"id": "c1", "step": "prepare", "workflow": ref, "mode": "dispatch", "state": "FAILED_UNSAFE"},
			map[string]any{"id": "c2", "step": "apply", "workflow": ref, "mode": "dispatch", "state": nil},
			map[string]any{"id": "c3", "step": "each", "workflow": ref, "mode": "dispatch", "state": "RUNNING", "item": 0},
		),
	}
	got := runCommand(t, "status", executionID, serveAnswers(t, answers))
	for _, want := range []string{"started: c1  p/child:1.0.0  by step prepare  FAILED_UNSAFE\n", "started: c2  p/child:1.0.0  by step apply  -\n"} {
		if got.code != 0 || !strings.Contains(got.stdout, want) || strings.Contains(got.stdout, "c3") {
			t.Errorf("exit %d, want %q\n%s%s", got.code, want, got.stdout, got.stderr)
		}
	}
	delete(answers, at+"/children")
	if got := runCommand(t, "status", executionID, serveAnswers(t, answers)); got.code != 0 || !strings.Contains(got.stdout, "started: c1, c2\n") {
		t.Errorf("exit %d\n%s%s", got.code, got.stdout, got.stderr)
	}
}

// A list that ends at its limit says so, if there are more.
func TestPrintList_SaysThatThereAreMore(t *testing.T) {
	entity := func(id string) any { return map[string]any{"entity": "device/" + id, "outcome": "FAILED_SAFE"} }
	for _, output := range []string{"table", "json"} {
		for limit, more := range map[string]bool{"0": false, "1": true, "2": false, "3": false} {
			got := runCommand(t, "failures", "--limit", limit, "-o", output, serveAnswers(t, map[string]any{"GET /failures": pageOf(entity("a"), entity("b"))}))
			if got.code != 0 || strings.Contains(got.stderr, "note: these are the first 1; --limit 0 lists all") != more || strings.Contains(got.stdout, "device/b") == more {
				t.Errorf("--limit %s as %s: exit %d\n%s%s", limit, output, got.code, got.stdout, got.stderr)
			}
		}
	}
}
