package api_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-run/lockstep/shared/api/gen"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/statemachines"
)

// A batch names its workflow once, or each item names its own.
func TestStartBatch_NamesItsWorkflowOnce(t *testing.T) {
	f := newFake()
	h := newHandler(f)
	w := sendRequest(h, "POST /workflow-execution/batch", `{"workflow":"fleet/upgrade:1","items":[{"parameters":{"a":1}}]}`)
	if w.Code != 200 || f.start.Workflow != "fleet/upgrade:1" || string(f.start.Parameters) != `{"a":1}` {
		t.Errorf("%d %s, started %+v", w.Code, w.Body, f.start)
	}
	if w := sendRequest(h, "POST /workflow-execution/batch", `{"workflow":"fleet/upgrade:1","items":[{"workflow":"fleet/scan"}]}`); w.Code != 200 || f.start.Workflow != "fleet/scan" {
		t.Errorf("%d %s, started %+v", w.Code, w.Body, f.start)
	}
	for body, want := range map[string]string{
		`{"items":[{"workflow":"fleet/scan"},{"parameters":{}}]}`:       "items[1].workflow required",
		`{"workflow":"fleet/scan","items":[{"novelty":1}]}`:             "items[0].novelty unknown_field",
		`{"workflow":"fleet/scan","items":[]}`:                          "items too_few",
		`{"workflow":"not a name","items":[{"workflow":"fleet/scan"}]}`: "workflow pattern",
	} {
		p := decodeProblem(t, sendRequest(h, "POST /workflow-execution/batch", body))
		if got := issuesOf(p.Errors); p.Status != 400 || got != want {
			t.Errorf("%s: %d %s, want %s", body, p.Status, got, want)
		}
	}
	if p := decodeProblem(t, sendRequest(h, "POST /workflow-execution", `{"parameters":{}}`)); p.Status != 400 || issuesOf(p.Errors) != "workflow required" {
		t.Errorf("a start without a workflow: %+v", p)
	}
}

func issuesOf(issues []workflow.Issue) string {
	var all []string
	for _, i := range issues {
		all = append(all, i.Path+" "+i.Code)
	}
	return strings.Join(all, ", ")
}

// The verb, the filters and the page of a bulk request stand in its body or in its query.
func TestChangeExecutions_TakesABody(t *testing.T) {
	f := newFake()
	h := newHandler(f)
	want := views.ExecutionFilter{State: statemachines.ExecutionRunning, Workflow: workflow.Ref{Package: "fleet", Name: "upgrade"}, Labels: map[string]string{"a": "b"}}
	f.next = "next"
	body := `{"verb":"acknowledge","filter":{"state":"RUNNING","workflow":"fleet/upgrade","label":["a=b"]},"reason":"r","limit":7%s}`
	var answer struct {
		Items         []views.BulkItem
		NextPageToken string
	}
	w := sendRequest(h, "POST /workflow-execution/bulk", fmt.Sprintf(body, ""))
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || w.Code != 200 || len(answer.Items) != 1 || !answer.Items[0].Applied || f.reason != "r" || f.page.Limit != 7 {
		t.Fatalf("%d %s, reason %q, page %+v", w.Code, w.Body, f.reason, f.page)
	}
	if diff := cmp.Diff(want, f.filter); diff != "" {
		t.Error(diff)
	}
	if w := sendRequest(h, "POST /workflow-execution/bulk", fmt.Sprintf(body, `,"pageToken":"`+answer.NextPageToken+`"`)); w.Code != 200 || f.page.Token != "next" {
		t.Errorf("the next page: %d %s, page %+v", w.Code, w.Body, f.page)
	}
	f.reason = ""
	if w := sendRequest(h, "POST /workflow-execution/bulk", fmt.Sprintf(body, `,"dryRun":true`)); w.Code != 200 || f.reason != "" {
		t.Errorf("a dry run: %d %s", w.Code, w.Body)
	}
	for _, c := range []struct{ query, body, want string }{
		{"", `{"filter":{"state":"RUNNING"}}`, "verb required"},
		{"", `{"verb":"cancel"}`, "filter required"},
		{"", `{"verb":"cancel","filter":{}}`, "filter required"},
		{"", `{"verb":"rerun","filter":{"state":"RUNNING"}}`, "verb enum"},
		{"?verb=cancel", `{"verb":"cancel","filter":{"state":"RUNNING"}}`, "verb conflict"},
		{"?verb=cancel&state=RUNNING", `{"filter":{"workflow":"fleet/upgrade"}}`, "filter conflict"},
		{"", `{"verb":"cancel","filter":{"state":"RUNNING"},"pageToken":"` + answer.NextPageToken + `"}`, "pageToken page_token"},
	} {
		p := decodeProblem(t, sendRequest(h, "POST /workflow-execution/bulk"+c.query, c.body))
		if got := issuesOf(p.Errors); p.Status != 400 || got != c.want {
			t.Errorf("%s %s: %d %s, want %s", c.query, c.body, p.Status, got, c.want)
		}
	}
}

// Each filter of a bulk request means the same in its body and in its query, and is refused in the
// query of a request whose body has filters.
func TestChangeExecutions_EachFilterOfABody(t *testing.T) {
	f := newFake()
	h := newHandler(f)
	filters := map[string]string{
		"state": "RUNNING", "status": "RUNNING", "outcome": "PARTIAL", "waiting": "INPUT", "workflow": "fleet/upgrade", "label": "a=b", "parent": executionID,
		"key": "order-7", "region": "eu", "createdAfter": "2026-11-01T10:00:00Z", "createdBefore": "2026-11-02T10:00:00Z",
	}
	if n := reflect.TypeFor[gen.BulkFilter]().NumField(); n != len(filters) {
		t.Fatalf("there are %d filters, %d are tested", n, len(filters))
	}
	for name, value := range filters {
		inBody, _ := json.Marshal(value)
		if name == "label" {
			inBody, _ = json.Marshal([]string{value})
		}
		body := fmt.Sprintf(`{"verb":"cancel","filter":{%q:%s}}`, name, inBody)
		query := "?" + url.Values{"verb": {"cancel"}, name: {value}}.Encode()
		var got [2]views.ExecutionFilter
		for i, r := range [2][2]string{{"", body}, {query, "{}"}} {
			f.filter = views.ExecutionFilter{}
			if w := sendRequest(h, "POST /workflow-execution/bulk"+r[0], r[1]); w.Code != 200 {
				t.Errorf("%s: %d %s", name, w.Code, w.Body)
			}
			got[i] = f.filter
		}
		if diff := cmp.Diff(got[1], got[0]); diff != "" || reflect.ValueOf(got[0]).IsZero() {
			t.Errorf("%s in the body is %+v, in the query %+v", name, got[0], got[1])
		}
		p := decodeProblem(t, sendRequest(h, "POST /workflow-execution/bulk?"+url.Values{name: {value}}.Encode(), body))
		if p.Status != 400 || issuesOf(p.Errors) != "filter conflict" {
			t.Errorf("%s in both: %d %+v", name, p.Status, p.Errors)
		}
	}
}
