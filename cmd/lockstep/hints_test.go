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
func TestExecute_PrintsNextSteps(t *testing.T) {
	ended := map[string]any{"id": executionID, "workflow": map[string]any{"package": "p", "name": "w", "version": "1.0.0"}, "state": "COMPLETED_ACK", "status": "COMPLETED"}
	url := serveAnswers(t, map[string]any{
		"POST /workflow-execution":                            map[string]any{"id": executionID, "state": "NEW"},
		"GET /workflow-execution/id/" + executionID:           ended,
		"GET /workflow-definition/p/w/1.0.0":                  map[string]any{"package": "p", "name": "w", "version": "1.0.0", "definition": map[string]any{"steps": []any{map[string]any{"runOn": "device"}}}},
		"POST /workflow-execution/" + executionID + "/retry":  &workflow.Error{Code: workflow.CodeIllegalTransition, Message: "cannot retry"},
		"POST /workflow-execution/" + executionID + "/cancel": &workflow.Error{Code: workflow.CodeIllegalTransition, Message: "cannot cancel"},
		"POST /workflow-execution/F/retry":                    &workflow.Error{Code: workflow.CodeInvalid, Message: "the request is not valid"},
		"GET /workflow-execution/id/F/steps":                  pageOf(map[string]any{"step": "inventory", "try": 1, "visit": 1}, map[string]any{"step": "upgrade", "try": 2, "visit": 1}),
		"GET /locks":                                          pageOf(),
		"GET /workers":                                        pageOf(),
		"GET /schedules":                                      pageOf(),
		"GET /function-blocks":                                pageOf(),
		"POST /workflow-definition/publish":                   map[string]any{"package": "p", "name": "w", "version": "1.0.0", "archived": true},
	})
	comments := writeFile(t, "comments.yaml", "# nothing\n\n  # here\n")
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
		{[]string{"retry", executionID}, exitRefused, "retry is for runs in FAILED"},
		{[]string{"cancel", executionID}, exitRefused, "it has ended already. It completed."},
		{[]string{"retry", "F", "--from", "nostep"}, exitRefused, "the steps that it came to: inventory, upgrade"},
		{[]string{"steps", "F"}, 0, "STEP       TRY  VISIT"},
		{[]string{"workers"}, 0, "note: no worker polls"},
		{[]string{"schedules"}, 0, "note: no published workflow"},
		{[]string{"blocks", "list"}, 0, "BLOCK"},
		{[]string{"blocks", "register", writeFile(t, "b.json", `[{"package":"p","name":"b","version":"1.0.0"},{"package":"p","name":"b","version":"one"}]`)}, exitUsage, "want a version such as"},
		{[]string{"help", "nope"}, exitUsage, `there is no verb "nope"`},
		{[]string{"help", "run"}, 0, "lockstep run WORKFLOW"},
		{[]string{"publish", comments}, exitUsage, "it is empty"},
		{[]string{"publish", writeFile(t, "w.yaml", "a: b")}, 0, "it is archived, and starts no runs"},
	} {
		got := runCommand(t, append(c.args, url)...)
		if got.code != c.code || !strings.Contains(got.stdout+got.stderr, c.want) {
			t.Errorf("%q: exit %d\n%s%swant %d with %q", c.args, got.code, got.stdout, got.stderr, c.code, c.want)
		}
	}
}

// An archived version is not run, and text that looks like a number is not sent
// as one without a word.
func TestRun_HintsWhenNotStarted(t *testing.T) {
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

// With --strict a file with warnings is checked and never stored.
func TestPublish_StrictRefusesWarnings(t *testing.T) {
	var asked []string
	warns := `,"warnings":[{"path":"steps[0].functionBlock","line":5,"column":9,"code":"unknown_block","message":"no registered block matches p/b"}]`
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.RawQuery)
		_, _ = w.Write([]byte(`{"package":"p","name":"w","version":"1.0.0"` + warns + `}`))
	}))
	defer s.Close()
	at := "--url=" + s.URL
	source := writeFile(t, "w.yaml", "a: b")
	if got := runCommand(t, "publish", "--strict", source, at); got.code == 0 || len(asked) != 1 || asked[0] != "dryRun=true" || !strings.Contains(got.stderr, source+":5:9 steps[0].functionBlock: no registered block") {
		t.Errorf("exit %d, asked %q\n%s", got.code, asked, got.stderr)
	}
	if got := runCommand(t, "publish", "--dry-run", source, at); got.code != 0 || !strings.Contains(got.stderr, "no registered block") {
		t.Errorf("a dry run: exit %d\n%s", got.code, got.stderr)
	}
	asked, warns = nil, ""
	if got := runCommand(t, "publish", "--strict", source, at); got.code != 0 || len(asked) != 2 || asked[1] != "" {
		t.Errorf("without warnings: exit %d, asked %q\n%s", got.code, asked, got.stderr)
	}
}
