package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// commandResult is the result of one command line.
type commandResult struct {
	code           int
	stdout, stderr string
}

func runCommand(t *testing.T, args ...string) commandResult {
	t.Helper()
	var out, err bytes.Buffer
	code := execute(t.Context(), args, &out, &err)
	return commandResult{code, out.String(), err.String()}
}

const executionID = "01890000-0000-7000-8000-000000000000"

// serveAnswers starts a service that answers by method and path, else 404. It returns
// the --url flag.
func serveAnswers(t *testing.T, answers map[string]any) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v, ok := answers[r.Method+" "+r.URL.Path]
		status := http.StatusOK
		if !ok {
			v = &workflow.Error{Code: workflow.CodeNotFound, Message: "not found"}
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

// Wrong usage is explained in words before anything is sent, with exit code 2.
func TestExecute_ExplainsWrongUsage(t *testing.T) {
	empty := writeFile(t, "empty.yaml", " \n")
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"cancle"}, "did you mean cancel?"},
		{[]string{"entities", "imprt"}, `there is no verb "entities imprt"; did you mean import?`},
		{[]string{"entities", "frobnicate"}, `there is no verb "entities frobnicate"; there are delete, export, history, import, list, patch, show, sync`},
		{[]string{"list", "--since", "week"}, "--since wants a duration such as 7d"},
		{[]string{"definitions", "p/w", "--label", "a=b"}, "--label is for the list of all workflows"},
		{[]string{"definitions", "--label", "a"}, `--label wants NAME=VALUE, not "a"`},
		{[]string{"run"}, "WORKFLOW is missing: lockstep run WORKFLOW"},
		{[]string{"status"}, "ID is missing"},
		{[]string{"publish"}, "FILE is missing"},
		{[]string{"status", ""}, "ID is empty"},
		{[]string{"status", "a", "b"}, `unexpected argument "b"`},
		{[]string{"list", "--limit", "x"}, `--limit wants a whole number, not "x"`},
		{[]string{"list", "--limit", "-3"}, "--limit is a number, 0 for all, not -3"},
		{[]string{"list", "--limt", "3"}, "there is no flag --limt; did you mean --limit?"},
		{[]string{"entities", "list", "device", "--outptu=json"}, "there is no flag --outptu; did you mean --output?"},
		{[]string{"retry", executionID, "--set", "a=1"}, "a retry keeps the parameters"},
		{[]string{"list", "--colour"}, `there is no flag --colour; "lockstep list --help" lists the flags`},
		{[]string{"list", "-o", "xml"}, `--output is table or json, not "xml"`},
		{[]string{"list", "--state", "SLEEPING"}, "--state is NEW"},
		{[]string{"list", "--status", "SLEEPING"}, "--status is PENDING"},
		{[]string{"list", "--sort", "updatedAt:desc"}, `--sort is createdAt:desc or createdAt:asc, not "updatedAt:desc"`},
		{[]string{"list", "--sort", "createdAt:asc", "--since", "7d"}, "leave out --sort"},
		{[]string{"list", "--active", "--state", "RUNNING"}, "--active cannot be combined with --state"},
		{[]string{"list", "--active", "--region", "eu"}, "--active cannot be combined with --region"},
		{[]string{"list", "--active", "--key", "k"}, "--active cannot be combined with --key"},
		{[]string{"list", "--idempotency-key", ""}, "--idempotency-key is empty"},
		{[]string{"jobs", executionID, "--kind", "UNDO"}, "--kind is ACQUIRE, EXECUTE or ROLLBACK"},
		{[]string{"jobs", executionID, "--state", "ISSUED"}, "--state is PENDING"},
		{[]string{"cancel", executionID, "--rollback", "maybe"}, "--rollback is auto or never"},
		{[]string{"run", "nonsense"}, "want package/name"},
		{[]string{"failures", "--since", "week"}, "--since wants a duration such as 7d"},
		{[]string{"failures", "--since", "-7d"}, "--since wants a duration such as 7d"},
		{[]string{"rerun", executionID}, "say which entities: --failed, --unsafe, --skipped, --unfinished, --all or --entity"},
		{[]string{"rerun", executionID, "--failed", "--all"}, "one of these"},
		{[]string{"rerun", executionID, "--entity", "sw-1"}, "want type/id"},
		{[]string{"run", "p/w", "-p", "[1]"}, "--parameters wants a JSON object such as"},
		{[]string{"run", "p/w", "-p", "{"}, "is not JSON"},
		{[]string{"run", "p/w", "-p", "null"}, "not null"},
		{[]string{"run", "p/w", "--metadata", "{"}, "--metadata wants a JSON object such as"},
		{[]string{"dev", "--port", "70000"}, "--port is 1 to 65535"},
		{[]string{"dev", "--config", "/nowhere.yaml"}, "there is no file /nowhere.yaml"},
		{[]string{"dev", "--quiet", "--worker", "/no/such", "--port", "70000"}, "--worker /no/such: there is no file /no/such"},
		{[]string{"publish", empty}, "empty.yaml: it is empty"},
		{[]string{"publish", "/nowhere.yaml"}, "there is no file /nowhere.yaml"},
		{[]string{"entities", "import", empty}, "it is empty"},
		{[]string{"blocks", "register", writeFile(t, "none.json", "[]")}, "it holds no block"},
		{[]string{"blocks", "register", writeFile(t, "bad.json", `{"package":7}`)}, "package: want a string, not a number"},
	} {
		got := runCommand(t, append(c.args, "--tenant=t")...)
		if got.code != exitUsage || !strings.Contains(got.stderr, c.want) {
			t.Errorf("%q: exit %d\n%swant %q", c.args, got.code, got.stderr, c.want)
		}
		for _, internal := range []string{"strconv", "unmarshal", "cobra", "arg(s)", "^["} {
			if strings.Contains(got.stderr, internal) {
				t.Errorf("%q prints internal text %q: %s", c.args, internal, got.stderr)
			}
		}
	}
	if help := runCommand(t, "--help"); !strings.Contains(help.stdout, "4 the service is unreachable") {
		t.Errorf("the help does not list the exit codes:\n%s", help.stdout)
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

// The words of flags are read in any case, and mean the same in any case.
func TestExecute_ReadsFlagWordsInAnyCase(t *testing.T) {
	var query string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		query = r.URL.RawQuery
		fmt.Fprint(w, `{"items":[],"nextPageToken":null}`)
	}))
	defer s.Close()
	got := runCommand(t, "list", "-o", "JSON", "--state", "running", "--url="+s.URL)
	if got.code != 0 || strings.TrimSpace(got.stdout) != "[]" || !strings.Contains(query, "state=RUNNING") {
		t.Errorf("exit %d, query %s\n%s%s", got.code, query, got.stdout, got.stderr)
	}
	got = runCommand(t, "definitions", "--label", "team=network", "-l", "tier=1", "--url="+s.URL)
	if want := "label=team%3Dnetwork&label=tier%3D1"; got.code != 0 || !strings.Contains(query, want) {
		t.Errorf("exit %d, query %s\n%s%s", got.code, query, got.stdout, got.stderr)
	}
}

// A list of what was created since a time ends at the first execution that is older, and reads no further page.
func TestExecute_ListsSince(t *testing.T) {
	requests := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		requests++
		fmt.Fprintf(w, `{"items":[{"id":"new","createdAt":%q},{"id":"old","createdAt":"2020-01-01T00:00:00Z"}],"nextPageToken":"more"}`, time.Now().Format(time.RFC3339))
	}))
	defer s.Close()
	got := runCommand(t, "list", "--since", "7d", "--url="+s.URL)
	if got.code != 0 || !strings.Contains(got.stdout, "new") || strings.Contains(got.stdout, "old") || requests != 1 {
		t.Errorf("exit %d, %d requests\n%s%s", got.code, requests, got.stdout, got.stderr)
	}
}

// A list reports what it leaves out, apart from its output.
func TestExecute_NotesWhatAListLeavesOut(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"items":[],"nextPageToken":null,"skipped":["x1"]}`)
	}))
	defer s.Close()
	for _, verb := range []string{"list", "locks", "failures"} {
		got := runCommand(t, verb, "-o", "json", "--url="+s.URL)
		if got.code != 0 || strings.TrimSpace(got.stdout) != "[]" || !strings.Contains(got.stderr, "note: left out or incomplete, because a newer release of the service has written them or their outcomes are lost: x1") {
			t.Errorf("%s: exit %d\n%s%s", verb, got.code, got.stdout, got.stderr)
		}
	}
}

// A misspelled variable is refused by every verb before anything is sent.
func TestExecute_RefusesMisspelledVariables(t *testing.T) {
	t.Setenv("LOCKSTEP_URLL", "http://localhost:1")
	if got := runCommand(t, "list"); got.code != exitUsage || !strings.Contains(got.stderr, "LOCKSTEP_URLL: there is no such variable; did you mean LOCKSTEP_URL?") {
		t.Errorf("exit %d\n%s", got.code, got.stderr)
	}
}

// The version is printed without asking a service.
func TestExecute_PrintsItsVersion(t *testing.T) {
	if got := runCommand(t, "--version", "--url=http://127.0.0.1:1"); got.code != 0 || got.stdout != "lockstep "+version+"\n" {
		t.Errorf("exit %d\n%s%s", got.code, got.stdout, got.stderr)
	}
}

// The hint of a service that does not answer fits its address.
func TestUnreachableHint_FitsTheAddress(t *testing.T) {
	for address, want := range map[string]string{
		"http://localhost:3030": `"lockstep dev" starts one`, "http://127.0.0.1:4000": `"lockstep dev --port 4000" starts one`,
		"https://abc.execute-api.eu-central-1.amazonaws.com": `"lockstep doctor" checks`,
	} {
		if got := unreachableHint(address); !strings.Contains(got, want) {
			t.Errorf("%s: %s", address, got)
		}
	}
}

// For an unknown workflow, the error suggests the most similar published one.
func TestRun_SuggestsAWorkflow(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/workflow-definition" {
			fmt.Fprint(w, `{"items":[{"package":"fleet","name":"report","version":"1.0.0"},{"package":"fleet","name":"upgrade_firmware","version":"1.0.0"}],"nextPageToken":null}`)
			return
		}
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, `{"code":"not_found","detail":"there is no workflow"}`)
	}))
	defer s.Close()
	if got := runCommand(t, "run", "fleet/upgrade_fimware:1", "--url="+s.URL); got.code != exitRefused || !strings.Contains(got.stderr, "did you mean fleet/upgrade_firmware?") {
		t.Errorf("exit %d\n%s", got.code, got.stderr)
	}
	for _, other := range []string{"fleet/upgrade_firmware:7", "crm/move"} {
		if got := runCommand(t, "run", other, "--url="+s.URL); strings.Contains(got.stderr, "did you mean") {
			t.Errorf("%s\n%s", other, got.stderr)
		}
	}
}

// A partially failed import says how to continue it, and --from-line continues it.
func TestEntitiesImport_SaysHowToContinue(t *testing.T) {
	var lines strings.Builder
	for i := range 2500 {
		fmt.Fprintf(&lines, "{\"type\":\"device\",\"id\":\"d-%d\"}\n", i)
	}
	requests := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if requests++; requests == 2 {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		fmt.Fprintf(w, `{"imported":%d}`, strings.Count(string(body), "\n"))
	}))
	defer s.Close()
	file := writeFile(t, "fleet.jsonl", lines.String())
	got := runCommand(t, "entities", "import", file, "--url="+s.URL)
	if want := "lockstep entities import " + file + " --from-line 2001"; got.code != exitRefused || !strings.Contains(got.stderr, want) {
		t.Errorf("exit %d\n%swant %q", got.code, got.stderr, want)
	}
	if got = runCommand(t, "entities", "import", file, "--from-line=2001", "--url="+s.URL); got.code != 0 || got.stdout != "imported 500 entities\n" {
		t.Errorf("exit %d\n%s%s", got.code, got.stdout, got.stderr)
	}
	for _, line := range []string{"0", "2501"} {
		if got = runCommand(t, "entities", "import", file, "--from-line="+line, "--url="+s.URL); got.code == 0 || !strings.Contains(got.stderr, "line") || requests != 3 {
			t.Errorf("from line %s: exit %d\n%s", line, got.code, got.stderr)
		}
	}
}

// publish checks every file, gives file and line of each issue, and prints one
// document for each file.
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
			t.Errorf("missing %q in\n%s", want, got.stderr)
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

// A not_found answer comes with a hint on how to list what exists, and with --output
// json every error is a document.
func TestExecute_PrintsHints(t *testing.T) {
	url := serveAnswers(t, map[string]any{
		"GET /workflow-execution/id/" + executionID + "/jobs":          pageOf(),
		"GET /workflow-execution/id/" + executionID + "/compensations": pageOf(),
		"GET /workflow-execution/id/y/compensations":                   pageOf(map[string]any{"id": "j", "step": "hotel", "visit": 1, "kind": "ROLLBACK", "wave": 2, "state": "FAILED", "attempt": 1, "error": map[string]any{"code": "GONE", "message": "no such booking"}}),
		"GET /workflow-execution/id/" + executionID + "/steps":         pageOf(map[string]any{"step": "upgrade"}),
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
		{[]string{"run", "p/none:1"}, exitRefused, `"lockstep definitions p/none" lists its versions`},
		{[]string{"definitions"}, 0, "p/w:1.0.0"},
		{[]string{"definitions", "p/none"}, exitRefused, "lists what is published"},
		{[]string{"entities", "show", "device/a"}, exitRefused, "lockstep entities list device"},
		{[]string{"entities", "list", "nope"}, 0, `no entity of type "nope"`},
		{[]string{"jobs", executionID, "--all", "--step", "nope"}, 0, `has not started a step "nope"`},
		{[]string{"jobs", executionID, "--all", "--step", "upgrade"}, 0, `no job of step "upgrade" matches`},
		{[]string{"jobs", executionID, "--entity", "device/z"}, 0, `matches entity "device/z"`},
		{[]string{"compensations", executionID}, 0, "no block has undone anything of this execution"},
		{[]string{"compensations", "y"}, 0, "GONE: no such booking"},
		{[]string{"cancel", "x"}, exitRefused, "it is already being cancelled"},
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
			t.Errorf("%q: no error document in %s", c.args, got.stdout)
		}
	}
}

// A follower says that it lost the connection, and how to follow again.
func TestFollow_ReportsLostConnection(t *testing.T) {
	t.Parallel() // it waits for the client's attempts
	var s *httptest.Server
	s = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_ = s.Listener.Close() // no further connection
		w.Header().Set("Connection", "close")
		fmt.Fprintf(w, `{"id":%q,"state":"RUNNING","status":"RUNNING"}`, executionID)
	}))
	defer s.Close()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	out := &stopWriter{trigger: "lost the connection", stop: stop}
	execute(ctx, []string{"watch", executionID, "--url", s.URL}, &bytes.Buffer{}, out)
	if !strings.Contains(out.String(), "lost the connection") || !strings.Contains(out.String(), "lockstep watch "+executionID) {
		t.Errorf("got\n%s", out)
	}
}

// stopWriter calls stop once the trigger has been written.
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

// A signal that ends a follower is no success, so that a shell does not continue with
// next in "lockstep run ... && next".
func TestExecute_ReturnsSignalExitCode(t *testing.T) {
	for _, c := range []struct {
		signal syscall.Signal
		args   []string
		code   int
	}{
		{syscall.SIGINT, []string{"watch", executionID}, 130},
		{syscall.SIGTERM, []string{"watch", executionID, "-o", "json"}, 143},
		{syscall.SIGINT, []string{"run", "p/w", "-o", "json"}, 130},
		{syscall.SIGTERM, []string{"run", "p/w"}, 143},
	} {
		ctx, stop := context.WithCancelCause(t.Context())
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodGet {
				stop(&interruptError{c.signal})
			}
			fmt.Fprintf(w, `{"id":%q,"state":"RUNNING","status":"RUNNING"}`, executionID)
		}))
		var out, errs bytes.Buffer
		code := execute(ctx, append(c.args, "--url", s.URL), &out, &errs)
		s.Close()
		if code != c.code || out.Len() > 0 || !strings.Contains(errs.String(), `the execution continues; "lockstep watch `+executionID) {
			t.Errorf("%v of %q: exit %d\n%s%s", c.signal, c.args, code, out.String(), errs.String())
		}
	}
	ctx, stop := context.WithCancelCause(t.Context())
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { stop(&interruptError{syscall.SIGINT}) }))
	defer s.Close()
	var out, errs bytes.Buffer
	if code := execute(ctx, []string{"list", "--url", s.URL}, &out, &errs); code != 130 || !strings.Contains(errs.String(), "interrupted") {
		t.Errorf("list: exit %d\n%s", code, errs.String())
	}
	for _, verb := range []string{"", "run", "watch"} {
		if help := runCommand(t, verb, "--help"); !strings.Contains(help.stdout, "143") {
			t.Errorf("the help of %q does not list the exit code for SIGTERM:\n%s", verb, help.stdout)
		}
	}
}

// A command that does not do what the caller expects says so, and what to do next.
func TestExecute_PrintsNextSteps(t *testing.T) {
	ended := map[string]any{"id": executionID, "workflow": map[string]any{"package": "p", "name": "w", "version": "1.0.0"}, "state": "COMPLETED_ACK", "status": "COMPLETED"}
	url := serveAnswers(t, map[string]any{
		"POST /workflow-execution":                            map[string]any{"id": executionID, "state": "NEW"},
		"GET /workflow-execution/id/" + executionID:           ended,
		"GET /workflow-definition/p/w/1.0.0":                  map[string]any{"package": "p", "name": "w", "version": "1.0.0", "definition": map[string]any{"steps": []any{map[string]any{"runOn": "device"}}}},
		"POST /workflow-execution/" + executionID + "/retry":  &workflow.Error{Code: workflow.CodeIllegalTransition, Message: "cannot retry"},
		"POST /workflow-execution/" + executionID + "/cancel": &workflow.Error{Code: workflow.CodeIllegalTransition, Message: "cannot cancel"},
		"POST /workflow-execution/F/retry":                    &workflow.Error{Code: workflow.CodeInvalid, Message: "the request is not valid"},
		"POST /workflow-execution/H/retry": &workflow.Error{Code: workflow.CodeConflict, Message: "execution X has held device/a exclusively",
			Issues: []workflow.Issue{{Path: "entities", Code: "outdated", Message: "device/a: execution X has held it since"}}},
		"GET /workflow-execution/id/F/steps": pageOf(map[string]any{"step": "inventory", "try": 1, "visit": 1}, map[string]any{"step": "upgrade", "try": 2, "visit": 1}),
		"GET /locks":                         pageOf(),
		"GET /workers":                       pageOf(),
		"GET /schedules":                     pageOf(),
		"GET /function-blocks":               pageOf(),
		"POST /workflow-definition/publish":  map[string]any{"package": "p", "name": "w", "version": "1.0.0", "archived": true},
	})
	comments := writeFile(t, "comments.yaml", "# nothing\n\n  # here\n")
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"run", "p/w"}, 0, "warning: the execution had no entities: nothing was selected"},
		{[]string{"run", "p/w", "--group", "nogroup"}, 0, `0 entities matched --group "nogroup". With "assertNotEmpty: true"`},
		{[]string{"run", "p/w", "--query", "false"}, 0, `0 entities matched --query "false"`},
		{[]string{"run", "p/w", "--type", "device"}, 0, `0 entities matched --type "device"`},
		{[]string{"run", "p/w", "--idempotency-key", ""}, exitUsage, "--idempotency-key is empty"},
		{[]string{"run", "p/w", "--idempotency-life", "1h"}, exitUsage, "--idempotency-life needs --idempotency-key"},
		{[]string{"run", "p/w", "--idempotency-key", "k", "--idempotency-life", "169h"}, exitUsage, "--idempotency-life is from 1s to 168h"},
		{[]string{"retry", executionID}, exitRefused, "retry is for executions in FAILED"},
		{[]string{"cancel", executionID}, exitRefused, "it has already ended. It completed."},
		{[]string{"retry", "F", "--from", "nostep"}, exitRefused, "it has reached these steps: inventory, upgrade"},
		{[]string{"retry", "H"}, exitRefused, "device/a: execution X has held it since"},
		{[]string{"steps", "F"}, 0, "STEP       TRY  VISIT"},
		{[]string{"workers"}, 0, "note: no worker is polling"},
		{[]string{"schedules"}, 0, "note: no published workflow"},
		{[]string{"blocks", "list"}, 0, "BLOCK"},
		{[]string{"blocks", "register", writeFile(t, "b.json", `[{"package":"p","name":"b","version":"1.0.0"},{"package":"p","name":"b","version":"one"}]`)}, exitUsage, "want a version such as"},
		{[]string{"help", "nope"}, exitUsage, `there is no verb "nope"`},
		{[]string{"help", "run"}, 0, "lockstep run WORKFLOW"},
		{[]string{"publish", comments}, exitUsage, "it is empty"},
		{[]string{"publish", writeFile(t, "w.yaml", "a: b")}, 0, "it is archived and starts no executions"},
	} {
		got := runCommand(t, append(c.args, url)...)
		if got.code != c.code || !strings.Contains(got.stdout+got.stderr, c.want) {
			t.Errorf("%q: exit %d\n%s%swant %d with %q", c.args, got.code, got.stdout, got.stderr, c.code, c.want)
		}
	}
}

// The hints name an archived version, and text that was sent as a number.
func TestRun_HintsWhenNotStarted(t *testing.T) {
	draft := serveAnswers(t, map[string]any{"GET /workflow-definition/p/w": pageOf(map[string]any{"package": "p", "name": "w", "version": "1.0.0", "draft": true})})
	if got := runCommand(t, "run", "p/w", draft); got.code != exitRefused || !strings.Contains(got.stderr, `p/w:1.0.0 is a draft; "lockstep run --allow-draft p/w:1.0.0" starts it`) {
		t.Errorf("a draft: %+v", got)
	}
	archived := serveAnswers(t, map[string]any{"GET /workflow-definition/p/w": pageOf(map[string]any{"package": "p", "name": "w", "version": "1.0.0", "archived": true})})
	if got := runCommand(t, "run", "p/w:1", archived); got.code != exitRefused || !strings.Contains(got.stderr, `p/w:1.0.0 is archived; "lockstep restore p/w:1.0.0"`) {
		t.Errorf("exit %d\n%s", got.code, got.stderr)
	}
	typed := serveAnswers(t, map[string]any{"POST /workflow-execution": &workflow.Error{Code: workflow.CodeInvalid, Message: "the parameters are not valid",
		Issues: []workflow.Issue{{Path: "parameters.target", Code: "type", Message: "got number, want string"}}}})
	if got := runCommand(t, "run", "p/w", "--set", "target=1", typed); got.code != exitRefused || !strings.Contains(got.stderr, `--set 'target="1"'`) {
		t.Errorf("exit %d\n%s", got.code, got.stderr)
	}
}

// With --strict a file with warnings is checked but not stored.
func TestPublish_StrictRefusesWarnings(t *testing.T) {
	var queries []string
	warns := `,"warnings":[{"path":"steps[0].functionBlock","line":5,"column":9,"code":"unknown_block","message":"no registered block matches p/b"}]`
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		queries = append(queries, r.URL.RawQuery)
		_, _ = w.Write([]byte(`{"package":"p","name":"w","version":"1.0.0"` + warns + `}`))
	}))
	defer s.Close()
	url := "--url=" + s.URL
	source := writeFile(t, "w.yaml", "a: b")
	if got := runCommand(t, "publish", "--strict", source, url); got.code == 0 || len(queries) != 1 || queries[0] != "dryRun=true" || !strings.Contains(got.stderr, source+":5:9 steps[0].functionBlock: no registered block") {
		t.Errorf("exit %d, queries %q\n%s", got.code, queries, got.stderr)
	}
	if got := runCommand(t, "publish", "--dry-run", source, url); got.code != 0 || !strings.Contains(got.stderr, "no registered block") {
		t.Errorf("a dry run: exit %d\n%s", got.code, got.stderr)
	}
	queries, warns = nil, ""
	if got := runCommand(t, "publish", "--strict", source, url); got.code != 0 || len(queries) != 2 || queries[1] != "" {
		t.Errorf("without warnings: exit %d, queries %q\n%s", got.code, queries, got.stderr)
	}
}

// A history is followed to the end of its execution, from any event on, one event a line.
func TestHistory_Follow(t *testing.T) {
	reads := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/workflow-execution/id/gone/history" || r.URL.Path == "/workflow-execution/id/gone":
			w.WriteHeader(http.StatusNotFound)
			_, _ = w.Write([]byte(`{"code":"not_found","detail":"there is no such execution"}`))
		case r.URL.Path == "/workflow-execution/id/x" && reads < 2:
			_, _ = w.Write([]byte(`{"id":"x","state":"RUNNING"}`))
		case r.URL.Path == "/workflow-execution/id/x":
			_, _ = w.Write([]byte(`{"id":"x","state":"FAILED_UNSAFE"}`))
		case r.URL.Query().Get("after") == "4":
			reads++
			_, _ = w.Write([]byte(`{"items":[{"sequence":5,"at":"2026-11-01T10:00:00Z","layer":"step","type":"step.entered","step":"load","data":{"jobs":3}}]}`))
		case r.URL.Query().Get("after") == "5":
			reads++
			_, _ = w.Write([]byte(`{"items":[{"sequence":6,"at":"2026-11-01T10:00:01Z","layer":"execution","type":"execution.failed","from":"RUNNING","to":"ERROR"}]}`))
		default:
			_, _ = w.Write([]byte(`{"items":[]}`))
		}
	}))
	defer s.Close()
	url := "--url=" + s.URL
	got := runCommand(t, "history", "x", "--follow", "--after", "4", "--output", "json", url)
	var sequences []int64
	for line := range strings.Lines(got.stdout) {
		var e workflow.Event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Errorf("%q: %v", line, err)
		}
		sequences = append(sequences, e.Sequence)
	}
	if got.code != 0 || !slices.Equal(sequences, []int64{5, 6}) {
		t.Errorf("exit %d, events %v\n%s", got.code, sequences, got.stderr)
	}
	reads = 0
	if got := runCommand(t, "history", "x", "-f", "--after", "4", url); got.code != 0 || strings.Count(got.stdout, "\n") != 3 || !strings.Contains(got.stdout, "step.entered") || !strings.Contains(got.stdout, `{"jobs":3}`) {
		t.Errorf("exit %d\n%s%s", got.code, got.stdout, got.stderr)
	}
	if got := runCommand(t, "history", "gone", "-f", url); got.code == 0 || !strings.Contains(got.stderr, "there is no such execution") {
		t.Errorf("exit %d\n%s", got.code, got.stderr)
	}
}

// Texts of blocks and of other people do not control the terminal of the person who reads
// them, on standard output or on standard error. Programs get them as they are.
func TestExecute_PrintsNoControlCharacters(t *testing.T) {
	const hostile = "a\x1b]0;t\x07\x1b[2J\r\u202eb"
	url := serveAnswers(t, map[string]any{
		"GET /workflow-execution/id/x": views.ExecutionView{
			ID: "x", State: sm.ExecutionFailedUnsafe, Status: sm.StatusFailed, Error: &views.FailureView{Code: "C", Message: hostile},
		},
		"GET /workflow-execution/id/x/jobs":          pageOf(map[string]any{"id": "j", "state": "FAILED", "item": 3, "itemText": hostile, "error": map[string]any{"code": "C", "message": hostile}, "logs": []any{map[string]any{"at": "2026-11-01T10:00:00Z", "level": "INFO", "text": hostile}}}),
		"GET /workflow-execution/id/refused/history": &workflow.Error{Code: workflow.CodeConflict, Message: hostile},
	})
	if got := runCommand(t, "jobs", "x", "--all", url); !strings.Contains(got.stdout, `item 3: a\x1b]0;t`) {
		t.Errorf("the item is shown as %s", got.stdout)
	}
	for verb, id := range map[string]string{"status": "x", "jobs": "x", "logs": "x", "watch": "x", "history": "refused"} {
		got := runCommand(t, verb, id, url)
		if all := got.stdout + got.stderr; strings.ContainsAny(all, "\x1b\x07\r\u202e") || !strings.Contains(all, `\x1b]0;t`) {
			t.Errorf("%s prints %q", verb, all)
		}
		if got := runCommand(t, verb, id, url, "--output", "json"); !strings.Contains(got.stdout, `\u001b]0;t`) || !strings.Contains(got.stdout, "\u202eb") {
			t.Errorf("%s prints %q", verb, got.stdout)
		}
	}
}
