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

// ran is what one command line came to.
type ran struct {
	code     int
	out, err string
}

func lockstep(t *testing.T, args ...string) ran {
	t.Helper()
	var out, err bytes.Buffer
	code := execute(context.Background(), args, &out, &err)
	return ran{code, out.String(), err.String()}
}

const id = "01890000-0000-7000-8000-000000000000"

// service answers by method and path; what it does not know is 404.
func service(t *testing.T, answers map[string]any) string {
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

func list(items ...any) map[string]any { return map[string]any{"items": items, "nextPageToken": nil} }

// Wrong calls are told in words, before anything is sent, with exit code 2.
func TestUsage(t *testing.T) {
	empty := file(t, "empty.yaml", " \n")
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
		{[]string{"jobs", id, "--kind", "UNDO"}, "--kind is ACQUIRE, EXECUTE or ROLLBACK"},
		{[]string{"jobs", id, "--state", "ISSUED"}, "--state is PENDING"},
		{[]string{"cancel", id, "--rollback", "maybe"}, "--rollback is auto or never"},
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
		{[]string{"blocks", "register", file(t, "none.json", "[]")}, "it holds no block"},
		{[]string{"blocks", "register", file(t, "bad.json", `{"package":7}`)}, "package cannot be a number"},
	} {
		got := lockstep(t, append(c.args, "--tenant=t")...)
		if got.code != exitUsage || !strings.Contains(got.err, c.want) {
			t.Errorf("%q: exit %d\n%swant %q", c.args, got.code, got.err, c.want)
		}
		for _, inside := range []string{"strconv", "unmarshal", "cobra", "arg(s)", "^["} {
			if strings.Contains(got.err, inside) {
				t.Errorf("%q tells %q: %s", c.args, inside, got.err)
			}
		}
	}
	if help := lockstep(t, "--help"); !strings.Contains(help.out, "4 the service is unreachable") {
		t.Errorf("the help does not say the exit codes:\n%s", help.out)
	}
}

func file(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Every file is checked, each mistake at its file and line, and each answer is a
// document of its own.
func TestPublishMany(t *testing.T) {
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
	a, b, none := file(t, "a.yaml", "a: b"), file(t, "b.yaml", "a: b"), filepath.Join(t.TempDir(), "none.yaml")
	got := lockstep(t, "publish", a, none, b, "--url", s.URL)
	if got.code != exitRefused || got.out != "published p/w:1.0.0\n" {
		t.Errorf("exit %d: %s", got.code, got.out)
	}
	for _, want := range []string{a + ": the definition is not valid (invalid)", a + ":6:5 steps[0].runsOn: no such field", "there is no file " + none, b + ":5:9 steps[0].functionBlock: no registered block"} {
		if !strings.Contains(got.err, want) {
			t.Errorf("it does not say %q:\n%s", want, got.err)
		}
	}
	got = lockstep(t, "publish", a, b, "--url", s.URL, "-o", "json")
	documents := json.NewDecoder(strings.NewReader(got.out))
	var first struct{ Error problem }
	var second struct{ Name string }
	if err := documents.Decode(&first); err != nil || first.Error.Code != "invalid" || first.Error.File != a || len(first.Error.Errors) != 1 {
		t.Errorf("first %+v, %v\n%s", first, err, got.out)
	}
	if err := documents.Decode(&second); err != nil || second.Name != "w" || documents.More() {
		t.Errorf("second %+v, %v\n%s", second, err, got.out)
	}
}

// What there is not comes with how to find what there is, and programs get a
// document whatever happens.
func TestHints(t *testing.T) {
	url := service(t, map[string]any{
		"GET /workflow-execution/id/" + id + "/jobs":  list(),
		"GET /workflow-execution/id/" + id + "/steps": list(map[string]any{"step": "upgrade"}),
		"GET /entities":                     list(),
		"GET /workflow-definition":          list(map[string]any{"package": "p", "name": "w", "version": "1.0.0"}),
		"GET /workflow-execution/id/x":      map[string]any{"id": "x", "state": "CANCELLING"},
		"POST /workflow-execution/x/cancel": &workflow.Error{Code: workflow.CodeIllegalTransition, Message: "cannot cancel"},
		"DELETE /workflow-execution/x":      &workflow.Error{Code: workflow.CodeIllegalTransition, Message: "cannot cancel"},
	})
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"status", id}, exitRefused, "only with --data"},
		{[]string{"run", "p/none:1"}, exitRefused, `"lockstep definitions p/none" its versions`},
		{[]string{"definitions"}, 0, "p/w:1.0.0"},
		{[]string{"definitions", "p/none"}, exitRefused, "lists those that there are"},
		{[]string{"entities", "show", "device/a"}, exitRefused, "lockstep entities list device"},
		{[]string{"entities", "list", "nope"}, 0, `no entity of type "nope"`},
		{[]string{"jobs", id, "--step", "nope"}, 0, `no step "nope" in this run`},
		{[]string{"jobs", id, "--step", "upgrade"}, 0, `no job of step "upgrade" matches`},
		{[]string{"jobs", id, "--entity", "device/z"}, 0, `for entity "device/z"`},
		{[]string{"cancel", "x"}, exitRefused, "it is being cancelled already"},
		{[]string{"version"}, exitUnreachable, "cannot reach"},
	} {
		at := url
		if c.code == exitUnreachable {
			at = "--url=http://127.0.0.1:1"
		}
		got := lockstep(t, append(c.args, at)...)
		if got.code != c.code || !strings.Contains(got.out+got.err, c.want) {
			t.Errorf("%q: exit %d\n%s%swant %d with %q", c.args, got.code, got.out, got.err, c.code, c.want)
		}
		if c.code != exitRefused {
			continue
		}
		got = lockstep(t, append(c.args, at, "-o", "json")...)
		dec := json.NewDecoder(strings.NewReader(got.out))
		var doc struct{ Error *problem }
		for dec.More() {
			if err := dec.Decode(&doc); err != nil {
				t.Fatalf("%q: %v\n%s", c.args, err, got.out)
			}
		}
		if doc.Error == nil || doc.Error.Code == "" || doc.Error.Detail == "" {
			t.Errorf("%q: no problem in %s", c.args, got.out)
		}
	}
}

// A follower says that it has lost the service, and how to go on.
func TestFollowerLosesTheService(t *testing.T) {
	var s *httptest.Server
	s = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_ = s.Listener.Close() // nobody connects any more
		w.Header().Set("Connection", "close")
		fmt.Fprintf(w, `{"id":%q,"state":"RUNNING","status":"RUNNING"}`, id)
	}))
	defer s.Close()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	out := &stopper{on: "lost the connection", stop: stop}
	execute(ctx, []string{"watch", id, "--url", s.URL}, &bytes.Buffer{}, out)
	if !strings.Contains(out.String(), "lost the connection") || !strings.Contains(out.String(), "lockstep watch "+id) {
		t.Errorf("it says\n%s", out)
	}
}

// stopper stops when it has been told something.
type stopper struct {
	bytes.Buffer
	on   string
	stop func()
}

func (s *stopper) Write(p []byte) (int, error) {
	n, err := s.Buffer.Write(p)
	if strings.Contains(s.String(), s.on) {
		s.stop()
	}
	return n, err
}
