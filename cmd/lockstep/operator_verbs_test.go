package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// stubService answers every request with one answer and keeps what it was asked.
type stubService struct {
	status      int
	body        string
	lastRequest string
}

func (s *stubService) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	s.lastRequest = strings.TrimSpace(r.Method + " " + r.URL.RequestURI() + " " + string(body))
	w.WriteHeader(s.status)
	_, _ = io.WriteString(w, s.body)
}

func executeCommand(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, err bytes.Buffer
	code = execute(t.Context(), args, &out, &err)
	return code, out.String(), err.String()
}

const (
	executionJSON  = `{"id":"X","state":"RUNNING","status":"RUNNING","try":2}`
	definitionJSON = `{"package":"a","name":"b","version":"1.0.0","digest":"d","archived":true}`
	conflictJSON   = `{"status":409,"code":"illegal_transition","detail":"cannot do it in state COMPLETED_ACK"}`
)

// Every operator's verb sends what its flags say, prints the run for people and
// for programs, and ends with the code that its outcome has.
func TestOperatorVerbs_PrintResultOrRefusal(t *testing.T) {
	for _, c := range []struct {
		line, asked, answer, says string
	}{
		{"retry X", "POST /workflow-execution/X/retry {}", executionJSON, "RUNNING"},
		{"retry X --reason r --from a.b --entities failed", `POST /workflow-execution/X/retry {"reason":"r","from":"a.b","entities":"failed"}`, executionJSON, "RUNNING"},
		{"resume X --reason r", `POST /workflow-execution/X/resume {"reason":"r"}`, executionJSON, "RUNNING"},
		{"unlock X --reason r", `POST /workflow-execution/X/unlock {"reason":"r"}`, executionJSON, "RUNNING"},
		{"acknowledge X", "POST /workflow-execution/X/acknowledge {}", executionJSON, "RUNNING"},
		{"cancel X --reason r", `POST /workflow-execution/X/cancel {"reason":"r","rollback":"auto"}`, executionJSON, "RUNNING"},
		{"cancel X --rollback never --no-cascade", `POST /workflow-execution/X/cancel {"rollback":"never","cascade":false}`, executionJSON, "RUNNING"},
		{"cancel X --cascade=false", `POST /workflow-execution/X/cancel {"rollback":"auto","cascade":false}`, executionJSON, "RUNNING"},
		{"archive a/b:1.0.0", "DELETE /workflow-definition/a/b/1.0.0", definitionJSON, "archived a/b:1.0.0"},
		{"restore a/b:1.0.0", "POST /workflow-definition/a/b/1.0.0/restore", definitionJSON, "restored a/b:1.0.0"},
	} {
		t.Run(c.line, func(t *testing.T) {
			s := &stubService{status: http.StatusAccepted, body: c.answer}
			server := httptest.NewServer(s)
			defer server.Close()
			args := append(strings.Fields(c.line), "--url", server.URL)
			if code, out, errs := executeCommand(t, args...); code != 0 || !strings.Contains(out, c.says) || s.lastRequest != c.asked {
				t.Errorf("exit %d, asked %s\n%s%s", code, s.lastRequest, out, errs)
			}
			code, out, errs := executeCommand(t, append(args, "--output", "json")...)
			var v map[string]any
			if err := json.Unmarshal([]byte(out), &v); code != 0 || err != nil || errs != "" {
				t.Errorf("as JSON: exit %d, %v\n%s%s", code, err, out, errs)
			}
			s.status, s.body = http.StatusConflict, conflictJSON
			if code, out, errs := executeCommand(t, args...); code != 3 || out != "" || !strings.Contains(errs, "illegal_transition") || !strings.Contains(errs, "COMPLETED_ACK") {
				t.Errorf("refused: exit %d\n%s%s", code, out, errs)
			}
			server.Close()
			verb, _, _ := strings.Cut(c.line, " ")
			if code, out, errs := executeCommand(t, args...); code != 4 || out != "" || !strings.Contains(errs, "cannot reach") {
				t.Errorf("%s of a service that is gone: exit %d\n%s%s", verb, code, out, errs)
			}
		})
	}
}

// A wrong use is told before anything is sent.
func TestOperatorVerbs_RefuseWrongUsage(t *testing.T) {
	s := &stubService{status: http.StatusAccepted, body: executionJSON}
	server := httptest.NewServer(s)
	defer server.Close()
	for line, want := range map[string]string{
		"retry":                           "ID",
		"retry X Y":                       "Y",
		"retry X --entities some":         "--entities",
		"retry X --step a":                "--step",
		"resume":                          "ID",
		"unlock X --force":                "--force",
		"archive a/b":                     "a/b",
		"archive a/b:1":                   "MAJOR.MINOR.PATCH",
		"restore nothing":                 "nothing",
		"run a/b --not-before tomorrow":   "--not-before",
		"retry X --output xml":            "--output",
		"cancel X --rollback auto --deep": "--deep",
	} {
		args := append(strings.Fields(line), "--url", server.URL)
		if code, out, errs := executeCommand(t, args...); code != 2 || out != "" || !strings.Contains(errs, want) || s.lastRequest != "" {
			t.Errorf("%s: exit %d, asked %q\n%s%s", line, code, s.lastRequest, out, errs)
		}
		s.lastRequest = ""
	}
}

// A run may be asked to wait, and lists say for what each waits.
func TestList_ShowsWhatExecutionsWaitFor(t *testing.T) {
	s := &stubService{status: http.StatusAccepted, body: `{"id":"X","state":"BLOCKED_WAITING","status":"PENDING"}`}
	server := httptest.NewServer(s)
	defer server.Close()
	code, _, errs := executeCommand(t, "run", "a/b", "--detach", "--not-before", "2030-01-31T08:00:00Z", "--url", server.URL)
	if want := `POST /workflow-execution {"workflow":"a/b","notBefore":"2030-01-31T08:00:00Z"}`; code != 0 || s.lastRequest != want {
		t.Errorf("exit %d, asked %s, want %s\n%s", code, s.lastRequest, want, errs)
	}
	s.body = fmt.Sprintf(`{"items":[%s,{"id":"Y","workflow":{"package":"a","name":"b","version":"1.0.0"},"state":"WAITING","waiting":{"kind":"CHILD","since":"2026-01-02T03:04:05Z","child":"Z","step":"visit"}}],"nextPageToken":null}`, executionJSON)
	code, out, errs := executeCommand(t, "list", "--parent", "P", "--url", server.URL)
	if code != 0 || s.lastRequest != "GET /workflow-execution?parent=P" || !strings.Contains(out, `for the run Z of step "visit"`) {
		t.Errorf("exit %d, asked %s\n%s%s", code, s.lastRequest, out, errs)
	}
}
