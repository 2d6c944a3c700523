package api_test

import (
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-run/lockstep/shared/api/openapi"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/statemachines"
)

// The served document equals openapi.yaml, but for the examples of answers.
func TestOpenAPI_ServedMatchesSource(t *testing.T) {
	source, err := os.ReadFile("openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var written any
	if err := yaml.Unmarshal(source, &written); err != nil {
		t.Fatal(err)
	}
	text, _ := json.Marshal(written)
	var want, got map[string]any
	if err := errors.Join(json.Unmarshal(text, &want), json.Unmarshal(sendRequest(newHandler(newFake()), "GET /openapi.json", "").Body.Bytes(), &got)); err != nil {
		t.Fatal(err)
	}
	delete(got, "x-generated")
	for pattern, e := range recordExamples(t) {
		method, path, _ := strings.Cut(pattern, " ")
		operation := asObject(asObject(asObject(got["paths"])[path])[strings.ToLower(method)])
		delete(asObject(asObject(asObject(asObject(operation["responses"])[e.Status])["content"])[e.Media]), "example")
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("run go generate ./shared/api: %s", d)
	}
}

// The document lists all names of the state machines, and no others.
func TestOpenAPI_NamesMatchStateMachines(t *testing.T) {
	enum := func(schema string) (names []string) {
		for _, v := range asObject(asObject(asObject(openAPI()["components"])["schemas"])[schema])["enum"].([]any) {
			names = append(names, v.(string))
		}
		return names
	}
	if got, want := enum("ExecutionState"), toStrings(statemachines.ExecutionStates()); !slices.Equal(got, want) {
		t.Errorf("states %v, want %v", got, want)
	}
	if got, want := enum("Status"), toStrings(statemachines.Statuses()); !slices.Equal(got, want) {
		t.Errorf("statuses %v, want %v", got, want)
	}
	if got, want := enum("ListedWait"), toStrings(workflow.ListedWaits()); !slices.Equal(got, want) {
		t.Errorf("kinds of waits in lists %v, want %v", got, want)
	}
	var events []string
	for _, s := range statemachines.ExecutionStates() {
		if e := string(statemachines.TerminalEvent(s)); e != "" && !slices.Contains(events, e) {
			events = append(events, e)
		}
	}
	var promised []string
	status := asObject(asObject(asObject(asObject(openAPI()["components"])["schemas"])["ExecutionStatus"])["properties"])
	for _, v := range asObject(status["terminal_event"])["enum"].([]any) {
		if s, ok := v.(string); ok {
			promised = append(promised, s)
		}
	}
	if slices.Sort(events); !slices.Equal(events, slices.Sorted(slices.Values(promised))) {
		t.Errorf("terminal events %v, want %v", promised, events)
	}
	for _, code := range enumOf(t, "Problem", "code") {
		if code != "internal" && workflow.Code(code).HTTPStatus() == 500 {
			t.Errorf("the code %s does not exist", code)
		}
	}
}

func enumOf(t *testing.T, schema, property string) (names []string) {
	t.Helper()
	s := asObject(asObject(asObject(openAPI()["components"])["schemas"])[schema])
	for _, v := range asObject(asObject(s["properties"])[property])["enum"].([]any) {
		names = append(names, v.(string))
	}
	return names
}

func toStrings[S ~string](list []S) (out []string) {
	for _, s := range list {
		out = append(out, string(s))
	}
	return out
}

// The document has every route of the contract.
func TestOpenAPI_ContainsContractRoutes(t *testing.T) {
	for _, pattern := range strings.Fields(strings.ReplaceAll(`
POST_/workflow-definition/publish GET_/workflow-definition GET_/workflow-definition/{package}/{name} GET_/workflow-definition/{package}/{name}/{version}
DELETE_/workflow-definition/{package}/{name}/{version} POST_/workflow-definition/{package}/{name}/{version}/restore
POST_/function-blocks/register GET_/function-blocks GET_/function-blocks/{package}/{name}/{version}/workers
PUT_/entities/{type}/{id} GET_/entities/{type}/{id} GET_/entities POST_/entities/import
POST_/workflow-execution POST_/workflow-execution/plan GET_/workflow-execution GET_/workflow-execution/active GET_/workflow-execution/state/{state} GET_/workflow-execution/id/{id}
GET_/workflow-execution/id/{id}/history GET_/workflow-execution/id/{id}/jobs GET_/workflow-execution/id/{id}/steps GET_/workflow-execution/id/{id}/result GET_/workflow-execution/id/{id}/cost GET_/workflow-execution/id/{id}/definition GET_/workflow-execution/id/{id}/next
DELETE_/workflow-execution/{id} POST_/workflow-execution/{id}/cancel POST_/workflow-execution/{id}/acknowledge POST_/workflow-execution/{id}/retry
POST_/workflow-execution/{id}/resume POST_/workflow-execution/{id}/unlock POST_/workflow-execution/{id}/signal/{name} POST_/signals/{package}/{name}/{key}/{signal} GET_/executions/{id}/status
GET_/locks GET_/locks/{type}/{id} GET_/workers GET_/workers/{id} POST_/workers/register POST_/workers/{id}/heartbeat POST_/workers/{id}/drain POST_/workers/{id}/unregister
POST_/blackboard/job POST_/blackboard/job/heartbeat POST_/blackboard/job/result GET_/blackboard/jobs GET_/health GET_/version GET_/openapi.json GET_/
`, "\n", " ")) {
		if openapi.Load().Operations[strings.Replace(pattern, "_", " ", 1)] == nil {
			t.Errorf("%s is missing", pattern)
		}
	}
}

// docs/api.md names every kind of wait and every command of the document, and docs/codes.md every
// code of a problem.
func TestAPIDocs_NameCodesAndCommands(t *testing.T) {
	text, err := os.ReadFile("../../docs/api.md")
	if err != nil {
		t.Fatal(err)
	}
	codes, err := os.ReadFile("../../docs/codes.md")
	if err != nil {
		t.Fatal(err)
	}
	schemas := asObject(asObject(openAPI()["components"])["schemas"])
	names := map[string]string{}
	for schema, field := range map[string]string{"Problem": "code", "Waiting": "kind"} {
		words, ok := asObject(asObject(asObject(schemas[schema])["properties"])[field])["enum"].([]any)
		if !ok {
			t.Fatalf("%s.%s has no enum", schema, field)
		}
		for _, w := range words {
			names[w.(string)] = schema
		}
	}
	for pattern := range openapi.Load().Operations {
		if verb, ok := strings.CutPrefix(pattern, "POST /workflow-execution/{id}/"); ok {
			names["/"+verb+"`"] = "commands"
		}
	}
	stuck, err := os.ReadFile("../../docs/runbooks/stuck.md")
	if err != nil {
		t.Fatal(err)
	}
	if len(names) < 25 {
		t.Fatalf("found only %d names", len(names))
	}
	for name, source := range names {
		page := text
		if source == "Problem" {
			page = codes
		}
		if !strings.Contains(string(page), name) {
			t.Errorf("the page does not name %s of %s", name, source)
		}
		if source == "Waiting" && !strings.Contains(string(stuck), "| `"+name+"` |") {
			t.Errorf("docs/runbooks/stuck.md has no row for who waits for %s", name)
		}
	}
}
