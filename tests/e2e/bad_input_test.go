package e2e

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestAPI_BadInputNamesPlace: whatever is sent, the answer is a typed problem that names the
// place, never a 5xx and never a stack trace.
func TestAPI_BadInputNamesPlace(t *testing.T) {
	t.Parallel()
	s := startStack(t, stackOptions{})
	s.publish(globalWorkflow)
	const someone = "01890000-0000-7000-8000-000000000000"
	for _, c := range []struct {
		method, path, kind, body string
		status                   int
		code, place              string
	}{
		{"POST", "/workflow-definition/publish", "", "a: [", 400, "invalid", ""},
		{"POST", "/workflow-definition/publish", "", "", 400, "invalid", ""},
		{"POST", "/workflow-definition/publish", "", "colour: red\n", 400, "invalid", "colour"},
		{"POST", "/workflow-definition/publish", "", strings.Repeat("# x\n", 100_000), 413, "too_large", ""},
		{"POST", "/workflow-execution", "application/json", "{", 400, "invalid", ""},
		{"POST", "/workflow-execution", "application/json", `{"workflow":1}`, 400, "invalid", "workflow"},
		{"POST", "/workflow-execution", "application/json", `{"workflow":"test/hello","colour":"red"}`, 400, "invalid", "colour"},
		{"POST", "/workflow-execution", "application/json", `{"workflow":"test/hello","parameters":[]}`, 400, "invalid", "parameters"},
		{"POST", "/workflow-execution", "application/json", `{"workflow":"nonsense"}`, 400, "invalid", "workflow"},
		{"POST", "/workflow-execution", "application/json", `{"workflow":"test/nobody"}`, 404, "not_found", ""},
		{"POST", "/workflow-execution", "application/json", `{"workflow":"test/hello","executeOnParameters":{"ids":["a"]}}`, 400, "invalid", "executeOnParameters.type"},
		{"POST", "/workflow-execution", "application/json", `{"workflow":"test/hello","notBefore":"tomorrow"}`, 400, "invalid", "notBefore"},
		{"POST", "/workflow-execution", "application/json", `{"workflow":"` + strings.Repeat("x", 2<<20) + `"}`, 413, "too_large", ""},
		{"GET", "/workflow-execution/id/" + someone, "", "", 404, "not_found", ""},
		{"GET", "/workflow-execution/state/SLEEPING", "", "", 400, "invalid", ""},
		{"GET", "/workflow-execution?limit=0", "", "", 400, "invalid", "limit"},
		{"GET", "/workflow-execution?pageToken=garbage", "", "", 400, "invalid", "pageToken"},
		{"GET", "/executions/" + someone + "/status", "", "", 404, "not_found", ""},
		{"POST", "/workflow-execution/" + someone + "/acknowledge", "application/json", `{"reason":"x"}`, 404, "not_found", ""},
		{"DELETE", "/workflow-execution/" + someone, "", "", 404, "not_found", ""},
		{"PUT", "/entities/device/a", "application/json", `{"attributes":[]}`, 400, "invalid", "attributes"},
		{"GET", "/entities?type=device&query=1%2B", "", "", 400, "invalid", "query"},
		{"GET", "/locks/device/nobody", "", "", 404, "not_found", ""},
		{"POST", "/function-blocks/register", "application/json", `{"package":"p","name":"b","version":"one"}`, 400, "invalid", "version"},
		{"GET", "/nowhere", "", "", 404, "not_found", ""},
		{"PATCH", "/workflow-execution", "", "", 405, "method_not_allowed", ""},
		{"POST", "/workflow-execution/" + someone + "/retry", "application/json", `{}`, 404, "not_found", ""},
		{"POST", "/workflow-execution/" + someone + "/signal/go", "application/json", `{}`, 501, "not_implemented", ""},
	} {
		status, body := s.sendRaw(c.method, c.path, c.kind, c.body)
		var p struct {
			Code   string `json:"code"`
			Status int    `json:"status"`
			Errors []struct {
				Path string `json:"path"`
			} `json:"errors"`
		}
		if err := json.Unmarshal([]byte(body), &p); err != nil {
			t.Errorf("%s %s: no problem but %.200s", c.method, c.path, body)
			continue
		}
		named := c.place == ""
		for _, e := range p.Errors {
			named = named || strings.Contains(e.Path, c.place)
		}
		if status != c.status || p.Status != c.status || p.Code != c.code || !named || strings.Contains(body, "goroutine") {
			t.Errorf("%s %s %.60q: %d %.300s, want %d %s naming %q", c.method, c.path, c.body, status, body, c.status, c.code, c.place)
		}
	}
	if status, body := s.sendRaw("GET", "/workflow-execution", "", ""); status != 200 || !strings.Contains(body, `"items":[]`) {
		t.Errorf("bad input has left something: %d %s", status, body)
	}
}
