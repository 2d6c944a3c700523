package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// What people have met when they called a verb with something that does not do
// what it looks like is told, each with what to do about it.
func TestWhatToDoIsTold(t *testing.T) {
	ended := map[string]any{"id": id, "workflow": map[string]any{"package": "p", "name": "w", "version": "1.0.0"}, "state": "COMPLETED_ACK", "status": "COMPLETED"}
	url := service(t, map[string]any{
		"POST /workflow-execution":                   map[string]any{"id": id, "state": "NEW"},
		"GET /workflow-execution/id/" + id:           ended,
		"GET /workflow-definition/p/w/1.0.0":         map[string]any{"package": "p", "name": "w", "version": "1.0.0", "definition": map[string]any{"steps": []any{map[string]any{"runOn": "device"}}}},
		"POST /workflow-execution/" + id + "/retry":  &workflow.Error{Code: workflow.CodeIllegalTransition, Message: "cannot retry"},
		"POST /workflow-execution/" + id + "/cancel": &workflow.Error{Code: workflow.CodeIllegalTransition, Message: "cannot cancel"},
		"POST /workflow-execution/F/retry":           &workflow.Error{Code: workflow.CodeInvalid, Message: "the request is not valid"},
		"GET /workflow-execution/id/F/steps":         list(map[string]any{"step": "inventory", "try": 1, "visit": 1}, map[string]any{"step": "upgrade", "try": 2, "visit": 1}),
		"GET /locks":                                 list(),
		"GET /workers":                               list(),
		"GET /schedules":                             list(),
		"GET /function-blocks":                       list(),
		"POST /workflow-definition/publish":          map[string]any{"package": "p", "name": "w", "version": "1.0.0", "archived": true},
	})
	comments := file(t, "comments.yaml", "# nothing\n\n  # here\n")
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"run", "p/w"}, 0, "warning: the run was about no entity: nothing was selected"},
		{[]string{"run", "p/w", "--group", "nogroup"}, 0, `0 entities matched --group "nogroup". With "assertNotEmpty: true"`},
		{[]string{"run", "p/w", "--query", "false"}, 0, `0 entities matched --query "false"`},
		{[]string{"run", "p/w", "--type", "device"}, 0, `0 entities matched --type "device"`},
		{[]string{"run", "p/w", "--idempotency-key", ""}, exitUsage, "--idempotency-key is empty"},
		{[]string{"retry", id}, exitRefused, "retry is for runs in FAILED"},
		{[]string{"cancel", id}, exitRefused, "it has ended already. It completed."},
		{[]string{"retry", "F", "--from", "nostep"}, exitRefused, "the steps that it came to: inventory, upgrade"},
		{[]string{"steps", "F"}, 0, "STEP       TRY  VISIT"},
		{[]string{"workers"}, 0, "note: no worker polls"},
		{[]string{"schedules"}, 0, "note: no published workflow"},
		{[]string{"blocks", "list"}, 0, "BLOCK"},
		{[]string{"blocks", "register", file(t, "b.json", `[{"package":"p","name":"b","version":"1.0.0"},{"package":"p","name":"b","version":"one"}]`)}, exitUsage, "want a version such as"},
		{[]string{"help", "nope"}, exitUsage, `there is no verb "nope"`},
		{[]string{"help", "run"}, 0, "lockstep run WORKFLOW"},
		{[]string{"publish", comments}, exitUsage, "it is empty"},
		{[]string{"publish", file(t, "w.yaml", "a: b")}, 0, "it is archived, and starts no runs"},
	} {
		got := lockstep(t, append(c.args, url)...)
		if got.code != c.code || !strings.Contains(got.out+got.err, c.want) {
			t.Errorf("%q: exit %d\n%s%swant %d with %q", c.args, got.code, got.out, got.err, c.code, c.want)
		}
	}
}

// An archived version is not run, and text that looks like a number is not sent
// as one without a word.
func TestNotStarted(t *testing.T) {
	archived := service(t, map[string]any{"GET /workflow-definition/p/w": list(map[string]any{"package": "p", "name": "w", "version": "1.0.0", "archived": true})})
	if got := lockstep(t, "run", "p/w:1", archived); got.code != exitRefused || !strings.Contains(got.err, `p/w:1.0.0 is archived; "lockstep restore p/w:1.0.0"`) {
		t.Errorf("exit %d\n%s", got.code, got.err)
	}
	typed := service(t, map[string]any{"POST /workflow-execution": &workflow.Error{Code: workflow.CodeInvalid, Message: "the parameters are not valid",
		Issues: []workflow.Issue{{Path: "parameters.target", Code: "type", Message: "got number, want string"}}}})
	if got := lockstep(t, "run", "p/w", "--set", "target=1", typed); got.code != exitRefused || !strings.Contains(got.err, `--set 'target="1"'`) {
		t.Errorf("exit %d\n%s", got.code, got.err)
	}
}

// With --strict a file with warnings is checked and never stored.
func TestPublishStrict(t *testing.T) {
	var asked []string
	warns := `,"warnings":[{"path":"steps[0].functionBlock","line":5,"column":9,"code":"unknown_block","message":"no registered block matches p/b"}]`
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.RawQuery)
		_, _ = w.Write([]byte(`{"package":"p","name":"w","version":"1.0.0"` + warns + `}`))
	}))
	defer s.Close()
	at := "--url=" + s.URL
	source := file(t, "w.yaml", "a: b")
	if got := lockstep(t, "publish", "--strict", source, at); got.code == 0 || len(asked) != 1 || asked[0] != "dryRun=true" || !strings.Contains(got.err, source+":5:9 steps[0].functionBlock: no registered block") {
		t.Errorf("exit %d, asked %q\n%s", got.code, asked, got.err)
	}
	if got := lockstep(t, "publish", "--dry-run", source, at); got.code != 0 || !strings.Contains(got.err, "no registered block") {
		t.Errorf("a dry run: exit %d\n%s", got.code, got.err)
	}
	asked, warns = nil, ""
	if got := lockstep(t, "publish", "--strict", source, at); got.code != 0 || len(asked) != 2 || asked[1] != "" {
		t.Errorf("without warnings: exit %d, asked %q\n%s", got.code, asked, got.err)
	}
}
