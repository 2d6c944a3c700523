package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/cmd/lockstep/render"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// Show prints what the verbs for the parts of an execution print, and one object for programs.
func TestShow_PrintsEveryPart(t *testing.T) {
	at := "/workflow-execution/id/" + executionID
	answers := map[string]any{
		"GET " + at:              map[string]any{"id": executionID, "workflow": map[string]any{"package": "fleet", "name": "upgrade", "version": "1.0.0"}, "state": "FAILED_UNSAFE", "status": "FAILED", "createdAt": time.Now()},
		"GET " + at + "/steps":   pageOf(map[string]any{"step": "upgrade", "status": "FAILED", "enteredAt": time.Now()}),
		"GET " + at + "/jobs":    pageOf(map[string]any{"id": "j1", "step": "upgrade", "state": "FAILED", "entity": map[string]any{"type": "device", "id": "sw-7"}, "createdAt": time.Now()}),
		"GET " + at + "/history": pageOf(map[string]any{"sequence": 1, "type": "execution.created", "at": time.Now()}),
		"GET " + at + "/result":  map[string]any{},
		"GET " + at + "/cost":    map[string]any{"execution": executionID, "pricesAsOf": "2026-11-21"},
	}
	url := serveAnswers(t, answers)
	got := runCommand(t, "show", executionID, url)
	from := 0
	for _, want := range []string{"FAILED_UNSAFE (FAILED)", "\nSteps\n", "upgrade", "\nFailed jobs\n", "sw-7", "\nHistory\n", "execution.created", "\nCost\n", "at prices of 2026-11-21"} {
		i := strings.Index(got.stdout[from:], want)
		if i < 0 {
			t.Fatalf("exit %d: no %q behind what comes before it\n%s%s", got.code, want, got.stdout, got.stderr)
		}
		from += i
	}
	if got.code != 0 {
		t.Errorf("exit %d\n%s", got.code, got.stderr)
	}
	var all shownExecution
	got = runCommand(t, "show", executionID, "-o", "json", url)
	if err := json.Unmarshal([]byte(got.stdout), &all); err != nil || got.code != 0 || all.Execution.ID != executionID || len(all.Steps) != 1 || len(all.FailedJobs) != 1 || len(all.History) != 1 || all.Cost.PricesAsOf == "" {
		t.Errorf("exit %d, %v\n%s%s", got.code, err, got.stdout, got.stderr)
	}
	for _, part := range []string{"/steps", "/jobs", "/history", "/cost"} { // no part is left out in silence
		answers["GET "+at+part] = workflow.Errorf(workflow.CodeForbidden, "not you")
		for _, output := range []string{"table", "json"} {
			if got := runCommand(t, "show", executionID, "-o", output, serveAnswers(t, answers)); got.code != exitRefused || !strings.Contains(got.stderr, "not you") {
				t.Errorf("%s as %s: exit %d\n%s", part, output, got.code, got.stderr)
			}
		}
		answers["GET "+at+part] = pageOf()
	}
	if got := runCommand(t, "show", executionID, serveAnswers(t, nil)); got.code != exitRefused || !strings.Contains(got.stderr, `"lockstep list" lists`) {
		t.Errorf("exit %d\n%s", got.code, got.stderr)
	}
}

// The description of where the execution went after a step names the conditions that had no value.
func TestSteps_NamesConditionsWithoutAValue(t *testing.T) {
	got := runCommand(t, "steps", executionID, serveAnswers(t, map[string]any{
		"GET /workflow-execution/id/" + executionID + "/steps": pageOf(map[string]any{
			"step": "route", "status": "COMPLETED", "enteredAt": time.Now(), "route": map[string]any{"case": 3},
			"caseErrors": []any{map[string]any{"step": "route", "case": 1, "message": "no such key: totl"}, map[string]any{"step": "outer", "case": 2}},
		}),
	}))
	if want := "case 3 (always), case 1 had no value: no such key: totl, case 2 of outer had no value"; got.code != 0 || !strings.Contains(got.stdout, want) {
		t.Errorf("exit %d: no %q\n%s%s", got.code, want, got.stdout, got.stderr)
	}
}

// The description distinguishes the step runs of a loop and of branches, and names what each has
// waited for.
func TestSteps_TellsStepRunsApart(t *testing.T) {
	ask := func(w map[string]any) map[string]any {
		w["kind"], w["since"], w["until"] = "INPUT", time.Now(), time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
		return w
	}
	got := runCommand(t, "steps", executionID, serveAnswers(t, map[string]any{
		"GET /workflow-execution/id/" + executionID + "/steps": pageOf(
			map[string]any{"step": "a", "status": "RUNNING", "enteredAt": time.Now(), "branch": "left", "index": 0, "item": "zrh", "wait": ask(map[string]any{"open": true, "reason": "Go on?"})},
			map[string]any{"step": "a", "status": "COMPLETED", "enteredAt": time.Now(), "branch": "left", "index": 1, "wait": ask(map[string]any{"answers": []any{map[string]any{"by": "ann"}, map[string]any{"by": "bob"}}})},
			map[string]any{"step": "a", "status": "FAILED", "enteredAt": time.Now(), "branch": "right", "wait": ask(map[string]any{"lapsed": true})},
		),
	}))
	for _, want := range []string{`branch left, index 0 (zrh), waits for INPUT "Go on?" until 2030-01-02T03:04:05Z`, "branch left, index 1, waited for INPUT, answered by ann, bob", "branch right, waited for INPUT until its deadline"} {
		if got.code != 0 || !strings.Contains(got.stdout, want) {
			t.Errorf("exit %d: no %q\n%s%s", got.code, want, got.stdout, got.stderr)
		}
	}
}

// A rollback that was tried again counts what was undone in all, and what failed in the end.
func TestStatus_CountsTheRollbackOfTheLastTry(t *testing.T) {
	const at = "/workflow-execution/id/x-1"
	wave := func(try, ok, failed int) map[string]any {
		return map[string]any{"step": "install", "kind": "ROLLBACK", "try": try, "jobs": map[string]any{"total": ok + failed, "completed": ok, "failed": failed}}
	}
	for _, c := range []struct {
		waves []any
		want  string
	}{
		{[]any{wave(1, 14, 6), wave(2, 6, 0)}, "Rollback jobs: 20 completed.\n"},
		{[]any{wave(1, 14, 6), wave(2, 5, 1)}, "Rollback jobs: 19 completed, 1 failed.\n"},
		{[]any{wave(1, 14, 1), wave(1, 4, 1)}, "Rollback jobs: 18 completed, 2 failed.\n"},
	} {
		url := serveAnswers(t, map[string]any{
			"GET " + at:            map[string]any{"id": "x-1", "workflow": map[string]any{"package": "p", "name": "w", "version": "1.0.0"}, "state": "FAILED_SAFE_ACK", "status": "FAILED", "outcome": "FAILED_SAFE", "rolledBack": true, "createdAt": time.Now()},
			"GET " + at + "/steps": pageOf(c.waves...),
		})
		if got := runCommand(t, "status", "x-1", url); !strings.Contains(got.stdout, c.want) {
			t.Errorf("exit %d\n%s%s", got.code, got.stdout, got.stderr)
		}
	}
}

// A person reads in the status and in the list when something has last happened to an execution.
func TestExecute_SaysWhenAnExecutionWasUpdated(t *testing.T) {
	now := time.Now()
	x := views.ExecutionView{ID: "x", State: sm.ExecutionRunning, Status: sm.StatusRunning, CreatedAt: now.Add(-3*time.Hour - time.Minute), UpdatedAt: now.Add(-7*time.Minute - 30*time.Second)}
	url := serveAnswers(t, map[string]any{"GET /workflow-execution/id/x": x, "GET /workflow-execution": pageOf(x)})
	if got := runCommand(t, "status", "x", url); got.code != 0 || !strings.Contains(got.stdout, "created: 3h ago, updated: 7m ago\n") {
		t.Errorf("exit %d\n%s%s", got.code, got.stdout, got.stderr)
	}
	if got := runCommand(t, "list", url); got.code != 0 || !strings.Contains(got.stdout, "UPDATED") || !strings.Contains(got.stdout, "7m ago") {
		t.Errorf("exit %d\n%s%s", got.code, got.stdout, got.stderr)
	}
}

// The definition with which an execution works is printed as JSON, whatever the output is.
func TestShow_PrintsTheDefinition(t *testing.T) {
	want := views.PinnedDefinition{
		Workflow: workflow.Ref{Package: "fleet", Name: "upgrade", Version: "1.0.0"}, Digest: "d", Definition: json.RawMessage(`{"steps":[]}`),
		Workflows: map[string]string{"fleet/inner:1": "1.2.0"}, Blocks: map[string]string{"fleet/load:1": "1.0.3"},
	}
	url := serveAnswers(t, map[string]any{"GET /workflow-execution/id/x/definition": want})
	for _, output := range []string{"table", "json"} {
		got := runCommand(t, "show", "x", "--definition", "--output", output, url)
		var shown views.PinnedDefinition
		if err := json.Unmarshal([]byte(got.stdout), &shown); err != nil || got.code != 0 || shown.Workflow != want.Workflow || shown.Workflows["fleet/inner:1"] != "1.2.0" || shown.Blocks["fleet/load:1"] != "1.0.3" || !strings.Contains(got.stdout, `"steps": []`) {
			t.Errorf("exit %d, %v\n%s%s", got.code, err, got.stdout, got.stderr)
		}
	}
	if got := runCommand(t, "show", "gone", "--definition", url); got.code != exitRefused || !strings.Contains(got.stderr, "not found") {
		t.Errorf("exit %d\n%s", got.code, got.stderr)
	}
}

// The list of an idempotency key says until when the key is remembered.
func TestList_FindsByIdempotencyKey(t *testing.T) {
	var query url.Values
	until := time.Now().Add(time.Hour)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		query = r.URL.Query()
		x := views.ExecutionView{ID: "x", State: sm.ExecutionRunning, IdempotencyExpiresAt: &until}
		if err := json.NewEncoder(w).Encode(pageOf(x)); err != nil {
			t.Error(err)
		}
	}))
	defer s.Close()
	got := runCommand(t, "list", "--idempotency-key", "change-7#0", "--url", s.URL)
	if got.code != 0 || query.Get("idempotencyKey") != "change-7#0" || !strings.Contains(got.stderr, "the idempotency key is remembered until "+render.Time(&until)) {
		t.Errorf("exit %d, query %v\n%s%s", got.code, query, got.stdout, got.stderr)
	}
}

// The status says who or what has cancelled an execution, what its limits are, and why its end has started nothing.
func TestStatus_TellsOfCancelLimitsAndWhatItsEndCouldNotStart(t *testing.T) {
	url := serveAnswers(t, map[string]any{
		"GET /workflow-execution/id/x-1": map[string]any{
			"id": "x-1", "workflow": map[string]any{"package": "p", "name": "w", "version": "1.0.0"}, "state": "CANCELLED_ACK", "status": "CANCELLED", "outcome": "CANCELLED", "createdAt": time.Now(),
			"cancellation":    map[string]any{"source": "timeout", "reason": "it took\ntoo long", "at": time.Now()},
			"limits":          map[string]any{"steps": 50, "stepRuns": 7, "wall": "1h30m0s"},
			"followUpFailure": map[string]any{"at": time.Now(), "attempts": 3, "error": "there is no p/clean", "retryAt": time.Now().Add(3 * time.Minute), "deadLetter": false},
		},
	})
	for f, want := range map[*views.FollowUpFailure]string{
		{DeadLetter: true}: "it is a dead letter now: \"lockstep redrive --queue hooks-out\" tries it again", {}: "",
	} {
		if got := followUpNext(f); got != "" && want == "" || !strings.Contains(got, want) {
			t.Errorf("%+v: %q", f, got)
		}
	}
	got := runCommand(t, "status", "x-1", url)
	for _, want := range []string{"\ncancellation: source timeout, ", `: it took\ntoo long`, "\nlimits: 50 step runs, of which it has had 7; 1h30m0s since it was created, until ", "\nnot started at its end, after 3 attempts, the last ", ": there is no p/clean; it is tried again about 20"} {
		if !strings.Contains(got.stdout, want) {
			t.Errorf("no %q: exit %d\n%s%s", want, got.code, got.stdout, got.stderr)
		}
	}
}
