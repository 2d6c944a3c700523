package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// commandResult is what one command line came to.
type commandResult struct {
	code           int
	stdout, stderr string
}

func runCommand(t *testing.T, args ...string) commandResult {
	t.Helper()
	var out, err bytes.Buffer
	code := execute(context.Background(), args, &out, &err)
	return commandResult{code, out.String(), err.String()}
}

const executionID = "01890000-0000-7000-8000-000000000000"

// serveAnswers answers by method and path; what it does not know is 404.
func serveAnswers(t *testing.T, answers map[string]any) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v, ok := answers[r.Method+" "+r.URL.Path]
		status := http.StatusOK
		if !ok {
			v = &workflow.Error{Code: workflow.CodeNotFound, Message: "there is none"}
		}
		if e, bad := v.(*workflow.Error); bad {
			status = e.Code.HTTPStatus()
			v = map[string]any{"code": e.Code, "detail": e.Message, "errors": e.Issues}
		}
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(v)
	}))
	t.Cleanup(s.Close)
	return "--url=" + s.URL
}

func pageOf(items ...any) map[string]any { return map[string]any{"items": items, "nextPageToken": nil} }

// Wrong calls are told in words, before anything is sent, with exit code 2.
func TestExecute_ExplainsWrongUsage(t *testing.T) {
	empty := writeFile(t, "empty.yaml", " \n")
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"lst"}, "did you mean cost or list?"},
		{[]string{"entities", "imprt"}, `there is no verb "entities imprt"; did you mean import?`},
		{[]string{"run"}, "WORKFLOW is missing: lockstep run WORKFLOW"},
		{[]string{"status"}, "ID is missing"},
		{[]string{"publish"}, "FILE is missing"},
		{[]string{"status", ""}, "ID is empty"},
		{[]string{"status", "a", "b"}, `"b" is one argument too many`},
		{[]string{"list", "--limit", "x"}, `--limit wants a whole number, not "x"`},
		{[]string{"list", "--limit", "-3"}, "--limit is how many, 0 for all, not -3"},
		{[]string{"list", "-o", "xml"}, `--output is table or json, not "xml"`},
		{[]string{"list", "--state", "SLEEPING"}, "--state is NEW"},
		{[]string{"list", "--status", "SLEEPING"}, "--status is PENDING"},
		{[]string{"list", "--active", "--state", "RUNNING"}, "--active stands alone"},
		{[]string{"jobs", executionID, "--kind", "UNDO"}, "--kind is ACQUIRE, EXECUTE or ROLLBACK"},
		{[]string{"jobs", executionID, "--state", "ISSUED"}, "--state is PENDING"},
		{[]string{"cancel", executionID, "--rollback", "maybe"}, "--rollback is auto or never"},
		{[]string{"run", "nonsense"}, "want package/name"},
		{[]string{"run", "p/w", "-p", "[1]"}, "--parameters wants a JSON object such as"},
		{[]string{"run", "p/w", "-p", "{"}, "is not JSON"},
		{[]string{"run", "p/w", "-p", "null"}, "not null"},
		{[]string{"dev", "--port", "70000"}, "--port is 1 to 65535"},
		{[]string{"dev", "--config", "/nowhere.yaml"}, "there is no file /nowhere.yaml"},
		{[]string{"dev", "--quiet", "--worker", "/no/such", "--port", "70000"}, "--worker /no/such: there is no file /no/such"},
		{[]string{"publish", empty}, "empty.yaml: it is empty"},
		{[]string{"publish", "/nowhere.yaml"}, "there is no file /nowhere.yaml"},
		{[]string{"entities", "import", empty}, "it is empty"},
		{[]string{"blocks", "register", writeFile(t, "none.json", "[]")}, "it holds no block"},
		{[]string{"blocks", "register", writeFile(t, "bad.json", `{"package":7}`)}, "package cannot be a number"},
	} {
		got := runCommand(t, append(c.args, "--tenant=t")...)
		if got.code != exitUsage || !strings.Contains(got.stderr, c.want) {
			t.Errorf("%q: exit %d\n%swant %q", c.args, got.code, got.stderr, c.want)
		}
		for _, inside := range []string{"strconv", "unmarshal", "cobra", "arg(s)", "^["} {
			if strings.Contains(got.stderr, inside) {
				t.Errorf("%q tells %q: %s", c.args, inside, got.stderr)
			}
		}
	}
	if help := runCommand(t, "--help"); !strings.Contains(help.stdout, "4 the service is unreachable") {
		t.Errorf("the help does not say the exit codes:\n%s", help.stdout)
	}
}

func writeFile(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Every file is checked, each mistake at its file and line, and each answer is a
// document of its own.
func TestPublish_ReportsEveryFile(t *testing.T) {
	n := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n++; n%2 == 1 {
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprint(w, `{"code":"invalid","detail":"the definition is not valid","errors":[{"path":"steps[0].runsOn","line":6,"column":5,"code":"unknown_field","message":"no such field"}]}`)
			return
		}
		w.WriteHeader(http.StatusCreated)
		fmt.Fprint(w, `{"package":"p","name":"w","version":"1.0.0","warnings":[{"path":"steps[0].functionBlock","line":5,"column":9,"code":"unknown_block","message":"no registered block matches p/b"}]}`)
	}))
	defer s.Close()
	a, b, none := writeFile(t, "a.yaml", "a: b"), writeFile(t, "b.yaml", "a: b"), filepath.Join(t.TempDir(), "none.yaml")
	got := runCommand(t, "publish", a, none, b, "--url", s.URL)
	if got.code != exitRefused || got.stdout != "published p/w:1.0.0\n" {
		t.Errorf("exit %d: %s", got.code, got.stdout)
	}
	for _, want := range []string{a + ": the definition is not valid (invalid)", a + ":6:5 steps[0].runsOn: no such field", "there is no file " + none, b + ":5:9 steps[0].functionBlock: no registered block"} {
		if !strings.Contains(got.stderr, want) {
			t.Errorf("it does not say %q:\n%s", want, got.stderr)
		}
	}
	got = runCommand(t, "publish", a, b, "--url", s.URL, "-o", "json")
	documents := json.NewDecoder(strings.NewReader(got.stdout))
	var first struct{ Error errorDocument }
	var second struct{ Name string }
	if err := documents.Decode(&first); err != nil || first.Error.Code != "invalid" || first.Error.File != a || len(first.Error.Errors) != 1 {
		t.Errorf("first %+v, %v\n%s", first, err, got.stdout)
	}
	if err := documents.Decode(&second); err != nil || second.Name != "w" || documents.More() {
		t.Errorf("second %+v, %v\n%s", second, err, got.stdout)
	}
}

// What there is not comes with how to find what there is, and programs get a
// document whatever happens.
func TestExecute_PrintsHints(t *testing.T) {
	url := serveAnswers(t, map[string]any{
		"GET /workflow-execution/id/" + executionID + "/jobs":  pageOf(),
		"GET /workflow-execution/id/" + executionID + "/steps": pageOf(map[string]any{"step": "upgrade"}),
		"GET /entities":                     pageOf(),
		"GET /workflow-definition":          pageOf(map[string]any{"package": "p", "name": "w", "version": "1.0.0"}),
		"GET /workflow-execution/id/x":      map[string]any{"id": "x", "state": "CANCELLING"},
		"POST /workflow-execution/x/cancel": &workflow.Error{Code: workflow.CodeIllegalTransition, Message: "cannot cancel"},
		"DELETE /workflow-execution/x":      &workflow.Error{Code: workflow.CodeIllegalTransition, Message: "cannot cancel"},
	})
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"status", executionID}, exitRefused, "only with --data"},
		{[]string{"run", "p/none:1"}, exitRefused, `"lockstep definitions p/none" its versions`},
		{[]string{"definitions"}, 0, "p/w:1.0.0"},
		{[]string{"definitions", "p/none"}, exitRefused, "lists those that there are"},
		{[]string{"entities", "show", "device/a"}, exitRefused, "lockstep entities list device"},
		{[]string{"entities", "list", "nope"}, 0, `no entity of type "nope"`},
		{[]string{"jobs", executionID, "--step", "nope"}, 0, `no step "nope" in this run`},
		{[]string{"jobs", executionID, "--step", "upgrade"}, 0, `no job of step "upgrade" matches`},
		{[]string{"jobs", executionID, "--entity", "device/z"}, 0, `for entity "device/z"`},
		{[]string{"cancel", "x"}, exitRefused, "it is being cancelled already"},
		{[]string{"version"}, exitUnreachable, "cannot reach"},
	} {
		at := url
		if c.code == exitUnreachable {
			at = "--url=http://127.0.0.1:1"
		}
		got := runCommand(t, append(c.args, at)...)
		if got.code != c.code || !strings.Contains(got.stdout+got.stderr, c.want) {
			t.Errorf("%q: exit %d\n%s%swant %d with %q", c.args, got.code, got.stdout, got.stderr, c.code, c.want)
		}
		if c.code != exitRefused {
			continue
		}
		got = runCommand(t, append(c.args, at, "-o", "json")...)
		dec := json.NewDecoder(strings.NewReader(got.stdout))
		var doc struct{ Error *errorDocument }
		for dec.More() {
			if err := dec.Decode(&doc); err != nil {
				t.Fatalf("%q: %v\n%s", c.args, err, got.stdout)
			}
		}
		if doc.Error == nil || doc.Error.Code == "" || doc.Error.Detail == "" {
			t.Errorf("%q: no problem in %s", c.args, got.stdout)
		}
	}
}

// A follower says that it has lost the service, and how to go on.
func TestFollow_ReportsLostConnection(t *testing.T) {
	var s *httptest.Server
	s = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_ = s.Listener.Close() // nobody connects any more
		w.Header().Set("Connection", "close")
		fmt.Fprintf(w, `{"id":%q,"state":"RUNNING","status":"RUNNING"}`, executionID)
	}))
	defer s.Close()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	out := &stopWriter{trigger: "lost the connection", stop: stop}
	execute(ctx, []string{"watch", executionID, "--url", s.URL}, &bytes.Buffer{}, out)
	if !strings.Contains(out.String(), "lost the connection") || !strings.Contains(out.String(), "lockstep watch "+executionID) {
		t.Errorf("it says\n%s", out)
	}
}

// stopWriter stops when it has been told something.
type stopWriter struct {
	bytes.Buffer
	trigger string
	stop    func()
}

func (s *stopWriter) Write(p []byte) (int, error) {
	n, err := s.Buffer.Write(p)
	if strings.Contains(s.String(), s.trigger) {
		s.stop()
	}
	return n, err
}
