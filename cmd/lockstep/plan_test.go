package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
)

// With --probe, a plan without failures is followed by a probe and by what would be done next. A
// plan with a failure starts nothing. A failed probe is shown like any failed execution.
func TestPlan_Probe(t *testing.T) {
	const plan = `{"steps":[],"fails":`
	const next = `{"step":"upgrade","block":"a/upgrade:1.0.0","jobs":1,"items":[{"entity":"device/sw-1","parameters":{"from":"1.0.0"}}],"nextPageToken":null}`
	for name, c := range map[string]struct {
		plan, outcome, output string
		requests              []string // besides those that follow the probe
		code                  int
		stdout, never         string
	}{
		"a person":                   {plan + "false}", `"COMPLETED_ACK","status":"COMPLETED","outcome":"PROBED"`, "table", []string{"plan", "start", "next"}, 0, `{"from":"1.0.0"}`, ""},
		"a program":                  {plan + "false}", `"COMPLETED_ACK","status":"COMPLETED","outcome":"PROBED"`, "json", []string{"plan", "start", "next"}, 0, `"step": "upgrade"`, `"fails"`},
		"a plan that fails":          {plan + "true}", "", "table", []string{"plan"}, 1, "", "Probe"},
		"a plan that fails, in JSON": {plan + "true}", "", "json", []string{"plan"}, 1, `"fails": true`, ""},
		"a probe that fails":         {plan + "false}", `"FAILED_SAFE_ACK","status":"FAILED","outcome":"FAILED_SAFE"`, "table", []string{"plan", "start"}, 1, "FAILED_SAFE_ACK", "upgrade"},
	} {
		t.Run(name, func(t *testing.T) {
			var requests []string
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				answer := func(what, text string) {
					if what != "" {
						requests = append(requests, what)
					}
					_, _ = io.WriteString(w, text)
				}
				execution := `{"id":"X","workflow":{"package":"a","name":"b","version":"1.0.0"},"state":` + c.outcome + `,"entities":{"device":1}}`
				switch at := r.Method + " " + r.URL.Path; {
				case at == "POST /workflow-execution/plan" && strings.Contains(string(body), `"mode":"probe"`):
					answer("plan", c.plan)
				case at == "POST /workflow-execution" && strings.Contains(string(body), `"mode":"probe"`):
					w.WriteHeader(http.StatusAccepted)
					answer("start", execution)
				case at == "GET /workflow-execution/id/X/next":
					answer("next", next)
				case at == "GET /workflow-execution/id/X/steps":
					answer("", `{"items":[],"nextPageToken":null}`)
				default:
					answer("", execution)
				}
			}))
			defer s.Close()
			got := runCommand(t, "plan", "a/b", "--id", "sw-1", "--probe", "-o", c.output, "--url", s.URL)
			if got.code != c.code || !slices.Equal(requests, c.requests) || !strings.Contains(got.stdout, c.stdout) || c.never != "" && strings.Contains(got.stdout, c.never) {
				t.Errorf("exit %d, requests %v\n%s%s", got.code, requests, got.stdout, got.stderr)
			}
			if c.output == "json" && !json.Valid([]byte(got.stdout)) {
				t.Errorf("not JSON: %s", got.stdout)
			}
		})
	}
}

// A dry run of "lockstep run" asks for the plan, and starts nothing.
func TestRun_DryRunStartsNothing(t *testing.T) {
	for fails, code := range map[string]int{"false": 0, "true": 1} {
		var requests []string
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			requests = append(requests, r.Method+" "+r.URL.Path)
			_, _ = io.WriteString(w, `{"steps":[],"fails":`+fails+`}`)
		}))
		defer s.Close()
		got := runCommand(t, "run", "a/b", "--id", "sw-1", "--dry-run", "-o", "json", "--url", s.URL)
		if got.code != code || !slices.Equal(requests, []string{"POST /workflow-execution/plan"}) || !strings.Contains(got.stdout, `"fails": `+fails) {
			t.Errorf("exit %d, requests %v\n%s%s", got.code, requests, got.stdout, got.stderr)
		}
	}
}
