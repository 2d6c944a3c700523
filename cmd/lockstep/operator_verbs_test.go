package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

// stubService gives every request the same answer and records the last request.
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

const (
	executionJSON    = `{"id":"X","state":"RUNNING","status":"RUNNING","try":2}`
	definitionJSON   = `{"package":"a","name":"b","version":"1.0.0","digest":"d","archived":true}`
	triggerJSON      = `{"name":"push","address":"/hooks/default/push","workflow":{"package":"a","name":"b","version":"1.0.0"},"verify":{"scheme":"github","secret":"hooks/gh","header":"x-hub-signature-256"},"signal":"pushed","rate":"300/1m","paused":{"by":"ann","at":"2026-11-21T05:00:00Z","reason":"freeze"},"items":[{"at":"2026-11-21T05:00:00Z","status":400,"code":"invalid","by":"ann","issues":[{"path":"body.ref","code":"type"}]}],"nextPageToken":null}`
	eventTriggerJSON = `{"name":"orders","address":null,"workflow":{"package":"a","name":"b","version":"1.0.0"},"verify":null,"pattern":{"source":["shop"]},"signal":null,"rate":"300/1m","paused":null,"items":[],"nextPageToken":null}`
	formTriggerJSON  = `{"name":"contact","address":"/hooks/default/contact","workflow":{"package":"a","name":"b","version":"1.0.0"},"verify":null,"form":"/forms/default/contact","pattern":null,"signal":null,"rate":"20/1m","paused":null,"items":[{"at":"2026-11-21T05:00:00Z","status":202,"issues":[{"path":"body.website","code":"honeypot"}]}],"nextPageToken":null}`
	subscriptionJSON = `{"name":"failures","url":"https://a.example","events":["execution.*"],"suspended":{"at":"2026-11-21T05:00:00Z","reason":"no"},"secret":"s3cr3t","items":[{"at":"2026-11-21T05:00:00Z","delivery":"s:x:7","execution":"X","attempts":3,"delivered":false,"error":"no answer"}],"nextPageToken":null}`
	scheduleJSON     = `{"schedule":"a/b","workflow":{"package":"a","name":"b","version":"1.0.0"},"cron":"0 4 * * *","zone":"UTC","nextAt":null,"last":"X","skipped":0,"paused":{"by":"ann","at":"2026-11-21T05:00:00Z","reason":"freeze"},"executions":[{"id":"X","at":"2026-11-21T05:00:00Z","by":"bob","state":"COMPLETED_ACK"}]}`
	conflictJSON     = `{"status":409,"code":"illegal_transition","detail":"cannot do it in state COMPLETED_ACK"}`
)

// withoutReason returns a response without the reason for the pause.
func withoutReason(answer string) string {
	return regexp.MustCompile(`"reason":"[^"]*"`).ReplaceAllString(answer, `"reason":""`)
}

// Every operator's verb sends its flags, prints the execution for people and for
// programs, and exits with the code of its outcome.
func TestOperatorVerbs_PrintResultOrRefusal(t *testing.T) {
	moment := time.Date(2026, 11, 21, 5, 0, 0, 0, time.UTC)
	at := moment.Local().Format(time.DateTime)
	for _, c := range []struct {
		line, request, answer, output string
	}{
		{"retry X", "POST /workflow-execution/X/retry {}", executionJSON, "RUNNING"},
		{"retry X --reason r --force", `POST /workflow-execution/X/retry {"reason":"r","force":true}`, executionJSON, "RUNNING"},
		{"retry X --reason r --from a.b --entities failed", `POST /workflow-execution/X/retry {"reason":"r","from":"a.b","entities":"failed"}`, executionJSON, "RUNNING"},
		{"rerun X --failed --detach", `POST /workflow-execution/X/rerun {"entities":"failed"}`, executionJSON, "X"},
		{"rerun X --entity device/sw-1 --set a=1 -p {} --reason r -d", `POST /workflow-execution/X/rerun {"entities":["device/sw-1"],"parameters":{"a":1},"reason":"r"}`, executionJSON, "X"},
		{"rerun X --unfinished --detach", `POST /workflow-execution/X/rerun {"entities":"unfinished"}`, executionJSON, "X"},
		{"resume X --reason r", `POST /workflow-execution/X/resume {"reason":"r"}`, executionJSON, "RUNNING"},
		{"unlock X --reason r", `POST /workflow-execution/X/unlock {"reason":"r"}`, executionJSON, "RUNNING"},
		{"acknowledge X --entity device/sw-1 --entity device/sw-2 --reason r", `POST /workflow-execution/X/acknowledge {"reason":"r","entities":["device/sw-1","device/sw-2"]}`, executionJSON, "RUNNING"},
		{"unlock X --entity device/sw-1", `POST /workflow-execution/X/unlock {"entities":["device/sw-1"]}`, executionJSON, "RUNNING"},
		{"acknowledge X", "POST /workflow-execution/X/acknowledge {}", executionJSON, "RUNNING"},
		{"cancel X --reason r", `POST /workflow-execution/X/cancel {"reason":"r","rollback":"auto"}`, executionJSON, "RUNNING"},
		{"cancel X --rollback never --no-cascade", `POST /workflow-execution/X/cancel {"rollback":"never","cascade":false}`, executionJSON, "RUNNING"},
		{"cancel X --source system", `POST /workflow-execution/X/cancel {"rollback":"auto","source":"system"}`, executionJSON, "RUNNING"},
		{"cancel X --cascade=false", `POST /workflow-execution/X/cancel {"rollback":"auto","cascade":false}`, executionJSON, "RUNNING"},
		{"archive a/b:1.0.0", "GET /schedules/a/b", definitionJSON, "archived a/b:1.0.0"},
		{"secrets", "GET /secrets", `{"items":[{"name":"bank/key","resolves":false,"problem":"there is none","usedBy":["workflow a/b:1.0.0"]}],"complete":false}`, "bank/key  no        workflow a/b:1.0.0  there is none"},
		{"schedules a/b", "GET /schedules/a/b", scheduleJSON, "paused by ann at"},
		{"schedules pause a/b --reason r", "GET /schedules/a/b", scheduleJSON, "paused by ann at"},
		{"schedules resume a/b", "GET /schedules/a/b", scheduleJSON, "COMPLETED_ACK"},
		{"schedules remove a/b --reason r", `DELETE /schedules/a/b?reason=r`, scheduleJSON, "removed the schedule a/b;"},
		{"schedules fire a/b@late --detach", `POST /schedules/a/b@late/fire`, `{"id":"X"}`, "X"},
		{"schedules fire a/b --detach", `POST /schedules/a/b/fire`, `{"id":"X"}`, "X"},
		{"triggers push", "GET /triggers/push/history", triggerJSON, "paused by ann at"},
		{"triggers push", "GET /triggers/push/history", triggerJSON, "400  invalid  fired by ann  body.ref: type"},
		{"triggers pause push --reason r", `POST /triggers/push/pause {"reason":"r"}`, triggerJSON, "POST /hooks/default/push  starts a/b:1.0.0"},
		{"triggers resume push", `POST /triggers/push/resume {}`, triggerJSON, "github in x-hub-signature-256, with the secret hooks/gh"},
		{"triggers fire push --body {\"a\":1} --header x-event=push --query q=1 --key k", `POST /triggers/push/fire {"body":{"a":1},"headers":{"x-event":"push"},"query":{"q":"1"}}`, `{"id":"X","duplicate":false}`, "X"},
		{"triggers contact", "GET /triggers/contact/history", formTriggerJSON, "GET /forms/default/contact says"},
		{"triggers contact", "GET /triggers/contact/history", formTriggerJSON, "202  body.website: honeypot"},
		{"triggers orders", "GET /triggers/orders/history", eventTriggerJSON, `pattern  {"source":["shop"]}`},
		{"triggers push", "GET /triggers/push/history", withoutReason(triggerJSON), "paused by ann at " + localTime(moment) + "\n"},
		{"subscriptions failures", "GET /subscriptions/failures/deliveries", withoutReason(subscriptionJSON), "suspended since " + at + "\n"},
		{"tables payments", "GET /tables/payments/deliveries", tableJSON, "txn:string*"},
		{"tables retry payments --reason r", `POST /tables/payments/retry {"reason":"r"}`, `{"retried":2,"lost":1}`, "the rows of 2 step runs are tried again"},
		{"tables retry payments", `POST /tables/payments/retry {}`, `{"retried":0,"lost":1}`, "those of 1 step runs are lost"},
		{"subscriptions failures", "GET /subscriptions/failures/deliveries", subscriptionJSON, "X  3  -  not received: no answer"},
		{"subscriptions put failures --webhook https://a.example --state FAILED_UNSAFE --event execution.* --workflow a/b --label stage=prod", `PUT /subscriptions/failures {"url":"https://a.example","events":["execution.*"],"states":["FAILED_UNSAFE"],"workflows":["a/b"],"labels":{"stage":"prod"}}`, subscriptionJSON, "secret  s3cr3t"},
		{"subscriptions put people --topic arn:t --text", `PUT /subscriptions/people {"topic":"arn:t","text":true}`, subscriptionJSON, "failures"},
		{"subscriptions put bus --event-bus default", `PUT /subscriptions/bus {"eventBus":"default"}`, subscriptionJSON, "failures"},
		{"subscriptions put clean --start ops/clean --state CANCELLED", `PUT /subscriptions/clean {"workflow":"ops/clean","states":["CANCELLED"]}`, subscriptionJSON, "failures"},
		{"subscriptions test failures --reason r", `POST /subscriptions/failures/test {"reason":"r"}`, `{"at":"2026-11-21T05:00:00Z","delivery":"s:test:1","attempts":1,"delivered":true,"status":204,"test":true}`, "received, with status 204"},
		{"subscriptions remove failures", "DELETE /subscriptions/failures", subscriptionJSON, "removed the subscription failures"},
		{"subscriptions resume failures --reason r", `POST /subscriptions/failures/resume {"reason":"r"}`, subscriptionJSON, "lockstep redrive"},
		{"restore a/b:1.0.0 --reason r", `POST /workflow-definition/a/b/1.0.0/restore {"reason":"r"}`, definitionJSON, "restored a/b:1.0.0"},
	} {
		t.Run(c.line, func(t *testing.T) {
			t.Parallel() // it waits for the client's attempts
			s := &stubService{status: http.StatusAccepted, body: c.answer}
			server := httptest.NewServer(s)
			defer server.Close()
			args := append(strings.Fields(c.line), "--url", server.URL)
			if got := runCommand(t, args...); got.code != 0 || !strings.Contains(got.stdout, c.output) || s.lastRequest != c.request {
				t.Errorf("exit %d, request %s\n%s%s", got.code, s.lastRequest, got.stdout, got.stderr)
			}
			got := runCommand(t, append(args, "--output", "json")...)
			var v map[string]any
			if err := json.Unmarshal([]byte(got.stdout), &v); got.code != 0 || err != nil || got.stderr != "" {
				t.Errorf("as JSON: exit %d, %v\n%s%s", got.code, err, got.stdout, got.stderr)
			}
			s.status, s.body = http.StatusConflict, conflictJSON
			if got := runCommand(t, args...); got.code != 3 || got.stdout != "" || !strings.Contains(got.stderr, "illegal_transition") || !strings.Contains(got.stderr, "COMPLETED_ACK") {
				t.Errorf("refused: exit %d\n%s%s", got.code, got.stdout, got.stderr)
			}
			server.Close()
			verb, _, _ := strings.Cut(c.line, " ")
			if got := runCommand(t, args...); got.code != 4 || got.stdout != "" || !strings.Contains(got.stderr, "cannot reach") {
				t.Errorf("%s without a service: exit %d\n%s%s", verb, got.code, got.stdout, got.stderr)
			}
		})
	}
}

// Wrong usage is refused before anything is sent.
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
		"schedules pause":                 "SCHEDULE",
		"bulk cancel":                     "say which executions",
		"bulk destroy --state RUNNING":    "destroy",
		"schedules fire a/b:1":            "newest version",
		"archive a/b:1":                   "MAJOR.MINOR.PATCH",
		"restore nothing":                 "nothing",
		"run a/b --not-before tomorrow":   "--not-before",
		"retry X --output xml":            "--output",
		"cancel X --rollback auto --deep": "--deep",
	} {
		args := append(strings.Fields(line), "--url", server.URL)
		if got := runCommand(t, args...); got.code != 2 || got.stdout != "" || !strings.Contains(got.stderr, want) || s.lastRequest != "" {
			t.Errorf("%s: exit %d, request %q\n%s%s", line, got.code, s.lastRequest, got.stdout, got.stderr)
		}
		s.lastRequest = ""
	}
}

// A list can be filtered by what is waited for, in any case of letters.
func TestList_FiltersByWait(t *testing.T) {
	var queries []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		queries = append(queries, r.URL.Query().Get("waiting"))
		_, _ = w.Write([]byte(`{"items":[],"nextPageToken":null}`))
	}))
	defer server.Close()
	if got := runCommand(t, "list", "--waiting", "child_input", "--url="+server.URL); got.code != 0 || !slices.Equal(queries, []string{"CHILD_INPUT"}) {
		t.Errorf("exit %d, %q\n%s", got.code, queries, got.stderr)
	}
	if got := runCommand(t, "list", "--waiting", "key", "--url="+server.URL); got.code != exitUsage || !strings.Contains(got.stderr, "--waiting is one of [INPUT") || len(queries) > 1 {
		t.Errorf("exit %d, %q\n%s", got.code, queries, got.stderr)
	}
}

// run can delay an execution, and list says what each execution waits for.
func TestList_ShowsWhatExecutionsWaitFor(t *testing.T) {
	s := &stubService{status: http.StatusAccepted, body: `{"id":"X","state":"BLOCKED_WAITING","status":"PENDING"}`}
	server := httptest.NewServer(s)
	defer server.Close()
	got := runCommand(t, "run", "a/b", "--detach", "--not-before", "2030-01-31T08:00:00Z", "--url", server.URL)
	if want := `POST /workflow-execution {"workflow":"a/b","notBefore":"2030-01-31T08:00:00Z"}`; got.code != 0 || s.lastRequest != want {
		t.Errorf("exit %d, request %s, want %s\n%s", got.code, s.lastRequest, want, got.stderr)
	}
	s.body = fmt.Sprintf(`{"items":[%s,{"id":"Y","workflow":{"package":"a","name":"b","version":"1.0.0"},"state":"WAITING","waiting":{"kind":"CHILD","since":"2026-01-02T03:04:05Z","child":"Z","step":"reboot"}}],"nextPageToken":null}`, executionJSON)
	got = runCommand(t, "list", "--parent", "P", "--region", "eu", "--url", server.URL)
	if got.code != 0 || s.lastRequest != "GET /workflow-execution?parent=P&region=eu" || !strings.Contains(got.stdout, `for execution Z of step "reboot"`) {
		t.Errorf("exit %d, request %s\n%s%s", got.code, s.lastRequest, got.stdout, got.stderr)
	}
}

// An unlock warns that a failed rollback cannot be retried after it.
func TestUnlock_SaysWhatItGivesUp(t *testing.T) {
	const kept = `{"id":"X","state":"FAILED_UNSAFE","status":"FAILED","failedRollback":{"step":"a","entities":[],"obstacle":%s}}`
	url := func(obstacle string) string {
		return serveAnswers(t, map[string]any{"POST /workflow-execution/X/unlock": json.RawMessage(fmt.Sprintf(kept, obstacle))})
	}
	if got := runCommand(t, "unlock", "X", url(`"it has released its locks"`)); got.code != 0 || !strings.Contains(got.stdout, "cannot be tried again: it has released its locks. \"lockstep retry X\" goes forward.") {
		t.Errorf("exit %d\n%s%s", got.code, got.stdout, got.stderr)
	}
	if got := runCommand(t, "unlock", "X", "--entity", "device/sw-1", url("null")); got.code != 0 || strings.Contains(got.stdout, "cannot be tried again") {
		t.Errorf("of some entities: exit %d\n%s%s", got.code, got.stdout, got.stderr)
	}
}

// If a retry is refused because of another execution, the error names the commands with which to
// continue.
func TestRetry_NamesWaysOutOfAConflict(t *testing.T) {
	for code, want := range map[string]string{
		"held":     `"lockstep watch Y" follows the one that has the key; after its end, "lockstep retry X"`,
		"outdated": `"lockstep rerun X --all" starts another execution; "lockstep retry X --force" goes on regardless; where`,
	} {
		url := serveAnswers(t, map[string]any{"POST /workflow-execution/X/retry": &workflow.Error{Code: workflow.CodeConflict, Message: "no", Issues: []workflow.Issue{{Path: "key", Code: code, Message: "Y"}}}})
		if got := runCommand(t, "retry", "X", url); got.code != exitRefused || !strings.Contains(got.stderr, want) {
			t.Errorf("%s: exit %d\n%s%s", code, got.code, got.stdout, got.stderr)
		}
	}
}

// A retry warns of reruns of the same execution that have not ended, because both would do the
// same.
func TestRetry_NamesRerunsThatHaveNotEnded(t *testing.T) {
	url := serveAnswers(t, map[string]any{
		"POST /workflow-execution/X/retry": json.RawMessage(`{"id":"X","state":"RUNNING","status":"RUNNING","rerunBy":["V","W"]}`),
		"GET /workflow-execution/id/V":     json.RawMessage(`{"id":"V","state":"COMPLETED_ACK","status":"COMPLETED","endedAt":"2026-11-21T05:00:00Z"}`),
		"GET /workflow-execution/id/W":     json.RawMessage(`{"id":"W","state":"SCHEDULED","status":"PENDING"}`),
	})
	got := runCommand(t, "retry", "X", url)
	if want := "note: it is run again by W, too, which is in SCHEDULED: both would do the same; \"lockstep cancel W\" ends that one\n"; got.code != 0 || got.stderr != want {
		t.Errorf("exit %d, want %s\n%s%s", got.code, want, got.stdout, got.stderr)
	}
}

// A bulk verb lists what matches and asks for confirmation, applies itself to each execution, and
// reports what was refused.
func TestBulk_ListsAsksAndTells(t *testing.T) {
	item := `{"id":"X","workflow":{"package":"a","name":"b","version":"1.0.0"},"state":"RUNNING","applied":%s}`
	for _, c := range []struct {
		line, applied, request, output string
		code                           int
	}{
		{"bulk cancel --state RUNNING --label a=b --reason r --yes", `true,"error":null`, `POST /workflow-execution/bulk?label=a%3Db&state=RUNNING&verb=cancel {"reason":"r"}`, "done", 0},
		{"bulk cancel --state RUNNING --yes", `false,"error":{"code":"illegal_transition","detail":"it has ended","errors":[]}`, `POST /workflow-execution/bulk?state=RUNNING&verb=cancel {}`, "illegal_transition: it has ended", exitPartial},
		{"bulk retry --workflow a/b --dry-run", `false,"error":null`, `POST /workflow-execution/bulk?dryRun=true&verb=retry&workflow=a%2Fb {}`, "RUNNING", 0},
		{"bulk retry --workflow a/b", `false,"error":null`, `POST /workflow-execution/bulk?dryRun=true&verb=retry&workflow=a%2Fb {}`, "RUNNING", exitUsage}, // nobody says yes
		{"bulk retry --workflow a/b --dry-run", `false,"canRollback":true,"error":null`, `POST /workflow-execution/bulk?dryRun=true&verb=retry&workflow=a%2Fb {}`, "RUNNING  a rollback has failed: this goes forward and gives it up; --rollback tries it again", 0},
		{"bulk retry --workflow a/b --yes", `true,"canRollback":true,"error":null`, `POST /workflow-execution/bulk?verb=retry&workflow=a%2Fb {}`, "done; it goes forward, although a rollback had failed", 0},
		{"bulk acknowledge --workflow a/b --dry-run", `false,"canRollback":true,"error":null`, `POST /workflow-execution/bulk?dryRun=true&verb=acknowledge&workflow=a%2Fb {}`, `RUNNING  a rollback has failed: this gives up to try it again`, 0},
		{"bulk unlock --workflow a/b --yes", `true,"canRollback":true,"error":null`, `POST /workflow-execution/bulk?verb=unlock&workflow=a%2Fb {}`, "done; its rollback, which had failed, cannot be tried again", 0},
		{"bulk retry --workflow a/b --rollback --dry-run", `false,"canRollback":true,"error":null`, `POST /workflow-execution/bulk?dryRun=true&verb=retry&workflow=a%2Fb {"rollback":true}`, "RUNNING  -", 0},
		{"bulk retry --workflow a/b --rollback --dry-run", `false,"error":null`, `POST /workflow-execution/bulk?dryRun=true&verb=retry&workflow=a%2Fb {"rollback":true}`, "RUNNING  no rollback of it has failed that can be tried again: it will be refused", 0},
		{"bulk retry --workflow a/b --rollback --yes", `true,"canRollback":true,"error":null`, `POST /workflow-execution/bulk?verb=retry&workflow=a%2Fb {"rollback":true}`, "done\n", 0},
		{"bulk cancel --workflow a/b --rollback --yes", `true,"error":null`, "", "", exitUsage},
		{"bulk retry --workflow a/b --output json", `false,"error":null`, "", "", exitUsage},
	} {
		s := &stubService{status: http.StatusOK, body: `{"items":[` + fmt.Sprintf(item, c.applied) + `]}`}
		server := httptest.NewServer(s)
		got := runCommand(t, append(strings.Fields(c.line), "--url", server.URL)...)
		server.Close()
		if got.code != c.code || !strings.Contains(got.stdout, c.output) || s.lastRequest != c.request {
			t.Errorf("%s: exit %d, request %s\n%s%s", c.line, got.code, s.lastRequest, got.stdout, got.stderr)
		}
	}
}

// A batch starts one execution for each line, a hundred in a request, under keys derived from the
// given one, and reports what was refused.
func TestBatch_StartsEachLine(t *testing.T) {
	var keys []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		keys = append(keys, r.Header.Get("Idempotency-Key"))
		var req views.BatchRequest
		if err := json.NewDecoder(r.Body).Decode(&req); err != nil {
			t.Error(err)
		}
		items := make([]views.BatchItem, len(req.Items))
		for i := range items {
			if items[i].ID = &req.Items[i].Workflow; *items[i].ID == "p/150" {
				items[i] = views.BatchItem{Error: &views.ItemError{Code: workflow.CodeNotFound, Detail: "there is no such workflow", Errors: []workflow.Issue{{Path: "workflow", Message: "unknown"}}}}
			}
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"items": items})
	}))
	defer server.Close()
	lines := ""
	for n := range 151 {
		lines += fmt.Sprintf("{\"workflow\":\"p/%d\"}\n\n", n)
	}
	got := runCommand(t, "batch", writeFile(t, "starts.ndjson", lines), "--idempotency-key", "k", "--url", server.URL)
	if got.code != exitPartial || fmt.Sprint(keys) != "[k.0 k.100]" || strings.Count(got.stdout, "started") != 150 || !strings.Contains(got.stdout, "151   -      not_found: there is no such workflow; workflow: unknown\n") {
		t.Errorf("exit %d, keys %v\n%s%s", got.code, keys, got.stdout, got.stderr)
	}
	for content, want := range map[string]string{"": "it is empty", "{\"workflow\":\"p/1\"}\n{\"workflw\":1}": "line 2", "[]": "line 1"} {
		if got := runCommand(t, "batch", writeFile(t, "wrong.ndjson", content), "--url", server.URL); got.code != exitUsage || !strings.Contains(got.stderr, want) {
			t.Errorf("%q: exit %d %s", content, got.code, got.stderr)
		}
	}
}

// A batch of one workflow names it once: a line need not, and may name another.
func TestRun_BatchOfOneWorkflow(t *testing.T) {
	s, url := serveInventory(t, device("a", ""), device("b", ""))
	s.Publish("other", "steps: [{label: one, functionBlock: p/pure:1, runOn: global}]\n")
	file := writeFile(t, "starts.ndjson", `{"executeOnParameters":{"type":"device","ids":["a"]}}`+"\n"+`{"workflow":"p/other"}`)
	got := runCommand(t, "run", "p/w", "--batch", file, "--idempotency-key", "k", "-o", "json", url, "--tenant="+harness.Caller.Tenant)
	var items []views.BatchItem
	if err := json.Unmarshal([]byte(got.stdout), &items); err != nil || got.code != 0 || len(items) != 2 {
		t.Fatalf("exit %d\n%s%s", got.code, got.stdout, got.stderr)
	}
	for i, want := range []string{"w", "other"} {
		if x := s.Load(*items[i].ID); x.Workflow.Name != want {
			t.Errorf("line %d has started %s", i+1, x.Workflow)
		}
	}
	if got := runCommand(t, "run", "p/w", "--batch", file, "--id", "b", url); got.code != exitUsage || !strings.Contains(got.stderr, "leave out --id") {
		t.Errorf("exit %d %s%s", got.code, got.stdout, got.stderr)
	}
	if got := runCommand(t, "batch", file, url, "--tenant="+harness.Caller.Tenant); got.code == 0 || !strings.Contains(got.stderr, "items[0].workflow") {
		t.Errorf("exit %d %s", got.code, got.stderr)
	}
}

// Each event has its own id and time, and the output says what each trigger has done with it.
func TestTriggersSend_HandsInAnEvent(t *testing.T) {
	s := &stubService{status: http.StatusAccepted, body: `{"id":"e1","triggers":[{"trigger":"orders","execution":"X"},{"trigger":"late","execution":"Y","duplicate":true},{"trigger":"other","code":"invalid","message":"it does not fit","issues":[{"path":"parameters.order","code":"required","message":"this is required"}]}]}`}
	server := httptest.NewServer(s)
	defer server.Close()
	send := []string{"triggers", "send", "--source", "shop", "--type", "order placed", "--resource", "a", "--url", server.URL}
	got := runCommand(t, append(send, "--detail", `{"n":1}`)...)
	var e views.Event
	_, body, _ := strings.Cut(s.lastRequest, "POST /events ")
	if err := json.Unmarshal([]byte(body), &e); err != nil || len(e.ID) != 36 || e.Time.IsZero() || e.DetailType != "order placed" || e.Source != "shop" || string(e.Detail) != `{"n":1}` || e.Resources[0] != "a" {
		t.Errorf("%v %s", err, s.lastRequest)
	}
	if want := "orders  X\nlate  Y  again\nother  refused: it does not fit\n  parameters.order: this is required\n"; got.code != exitPartial || got.stdout != want {
		t.Errorf("exit %d\n%s%s", got.code, got.stdout, got.stderr)
	}
	s.body = `{"id":"e1","triggers":[{"trigger":"other","code":"forbidden"}]}`
	if got := runCommand(t, send...); got.code != exitRefused || got.stdout != "other  refused: forbidden\n" {
		t.Errorf("nobody takes it: exit %d\n%s%s", got.code, got.stdout, got.stderr)
	}
	s.lastRequest, s.body = "", `{"id":"e1","triggers":[]}`
	if got := runCommand(t, append(send, "--id", "e1")...); got.code != 0 || got.stdout != "" || !strings.Contains(got.stderr, "no trigger takes this event") || !strings.Contains(s.lastRequest, `"id":"e1"`) {
		t.Errorf("exit %d, %s\n%s%s", got.code, s.lastRequest, got.stdout, got.stderr)
	}
	s.lastRequest = ""
	if got := runCommand(t, append(send, "--detail", `{n`)...); got.code == 0 || s.lastRequest != "" || !strings.Contains(got.stderr, "--detail wants JSON") {
		t.Errorf("exit %d, %s\n%s", got.code, s.lastRequest, got.stderr)
	}
}

// A test that the webhook has not received is a failure, for programs, too.
func TestSubscriptionsTest_FailsWhereNothingWasReceived(t *testing.T) {
	url := serveAnswers(t, map[string]any{"POST /subscriptions/failures/test": workflow.DeliveryAttempt{Status: 503, Error: "the receiver has answered with status 503", Test: true}})
	if got := runCommand(t, "subscriptions", "test", "failures", url); got.code != exitFailed || got.stderr != "" || !strings.Contains(got.stdout, "not received: the receiver has answered with status 503") {
		t.Errorf("exit %d\n%s%s", got.code, got.stdout, got.stderr)
	}
	if got := runCommand(t, "subscriptions", "test", "failures", "-o", "json", url); got.code != exitFailed || !strings.Contains(got.stdout, `"delivered": false`) {
		t.Errorf("as JSON: exit %d\n%s%s", got.code, got.stdout, got.stderr)
	}
}

// For a misspelled schedule, the error suggests the one that was probably meant.
func TestSchedules_NameTheClosest(t *testing.T) {
	url := serveAnswers(t, map[string]any{"GET /schedules": pageOf(json.RawMessage(scheduleJSON), json.RawMessage(strings.ReplaceAll(scheduleJSON, `"schedule":"a/b"`, `"schedule":"net/night"`)))})
	if got := runCommand(t, "schedules", "pause", "net/nigt", url); got.code != exitRefused || !strings.Contains(got.stderr, "did you mean net/night? ") {
		t.Errorf("exit %d\n%s%s", got.code, got.stdout, got.stderr)
	}
}

// The list shows for each delivery the number of attempts and the outcome.
func TestSubscriptionsDeliveries_ListsThem(t *testing.T) {
	s := &stubService{status: http.StatusOK, body: `{"items":[{"at":"2026-11-21T05:00:00Z","delivery":"s:test:1","attempts":1,"delivered":true,"status":204,"test":true},` +
		`{"at":"2026-11-21T05:00:00Z","delivery":"s:x:7","execution":"X","attempts":3,"delivered":false,"error":"no"}],"nextPageToken":null}`}
	server := httptest.NewServer(s)
	defer server.Close()
	list := []string{"subscriptions", "deliveries", "failures", "--url", server.URL}
	got := runCommand(t, list...)
	if got.code != 0 || s.lastRequest != "GET /subscriptions/failures/deliveries" || !strings.Contains(got.stdout, "1      204     received (a test)") || !strings.Contains(got.stdout, "X          3      -       not received: no") {
		t.Errorf("exit %d, %s\n%s%s", got.code, s.lastRequest, got.stdout, got.stderr)
	}
	var all []workflow.DeliveryAttempt
	if got := runCommand(t, append(list, "-o", "json")...); json.Unmarshal([]byte(got.stdout), &all) != nil || len(all) != 2 {
		t.Errorf("%s", got.stdout)
	}
	s.body = `{"items":[],"nextPageToken":null}`
	if got := runCommand(t, list...); got.code != 0 || !strings.Contains(got.stdout+got.stderr, "nothing was delivered") {
		t.Errorf("exit %d\n%s%s", got.code, got.stdout, got.stderr)
	}
}

// What archiving a version has paused is named: the triggers and the schedule of the workflow, and no others.
func TestArchive_NamesWhatItHasPaused(t *testing.T) {
	halt := map[string]any{"by": nil, "at": "2026-11-21T05:00:00Z", "reason": "version 1.1.0 was archived"}
	trigger := func(name, workflow string, paused any) map[string]any {
		return map[string]any{"name": name, "workflow": map[string]any{"package": "p", "name": workflow, "version": "1.0.0"}, "rate": "60/1m", "paused": paused}
	}
	byAnn := map[string]any{"by": "ann", "at": "2026-11-21T05:00:00Z", "reason": "freeze"}
	server := serveAnswers(t, map[string]any{
		"DELETE /workflow-definition/p/w/1.1.0": map[string]any{"package": "p", "name": "w", "version": "1.1.0", "archived": true},
		"GET /triggers":                         pageOf(trigger("paid", "w", halt), trigger("open", "w", nil), trigger("frozen", "w", byAnn), trigger("other", "v", halt)),
		"GET /schedules/p/w":                    map[string]any{"schedule": "p/w", "cron": "0 4 * * *", "zone": "UTC", "paused": halt, "executions": []any{}},
	})
	got := runCommand(t, "archive", "p/w:1.1.0", server)
	want := "note: its trigger paid is paused: version 1.1.0 was archived, with \"lockstep triggers resume paid\"\n" +
		"note: its schedule is paused: version 1.1.0 was archived, with \"lockstep schedules resume p/w\"\n"
	if got.code != 0 || got.stderr != want {
		t.Errorf("exit %d\n%s", got.code, got.stderr)
	}
}

// Whoever may change something without reading it changes it, and learns what is not known.
func TestVerbs_WorkForWhoMayNotRead(t *testing.T) {
	trigger := map[string]any{"name": "paid", "workflow": map[string]any{"package": "p", "name": "w", "version": "1.0.0"}, "rate": "60/1m", "paused": nil}
	schedule := map[string]any{"schedule": "p/w", "cron": "0 4 * * *", "zone": "UTC", "paused": nil, "executions": []any{}}
	forbidden := workflow.Errorf(workflow.CodeForbidden, "not you")
	for _, c := range []struct {
		args         []string
		answers      map[string]any
		stdout, note string
	}{
		{[]string{"triggers", "resume", "paid"}, map[string]any{"GET /triggers/paid": forbidden, "POST /triggers/paid/resume": trigger}, "paid", ""},
		{[]string{"schedules", "resume", "p/w"}, map[string]any{"GET /schedules/p/w": forbidden, "POST /schedules/p/w/resume": schedule}, "p/w", ""},
		{[]string{"subscriptions", "resume", "ops"}, map[string]any{"GET /subscriptions/ops": forbidden, "POST /subscriptions/ops/resume": map[string]any{"name": "ops"}}, "whether it was could not be read", ""},
		{
			[]string{"archive", "p/w:1.1.0"},
			map[string]any{"GET /triggers": pageOf(trigger), "GET /schedules/p/w": forbidden, "DELETE /workflow-definition/p/w/1.1.0": map[string]any{"package": "p", "name": "w", "version": "1.1.0", "archived": true}},
			"archived p/w:1.1.0", "note: which of its triggers, or whether its schedule, is paused now cannot be read: forbidden: not you",
		},
	} {
		got := runCommand(t, append(c.args, serveAnswers(t, c.answers))...)
		if got.code != 0 || !strings.Contains(got.stdout, c.stdout) || !strings.HasPrefix(got.stderr, c.note) || c.note == "" && got.stderr != "" {
			t.Errorf("%v: exit %d\n%s%s", c.args, got.code, got.stdout, got.stderr)
		}
	}
}

// What no version that is left has is gone with the archived one. It is named with the way back.
func TestArchive_NamesWhatIsGone(t *testing.T) {
	archived := false
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodDelete:
			archived = true
			fmt.Fprint(w, `{"package":"p","name":"w","version":"1.0.0","archived":true}`)
		case archived && r.URL.Path == "/triggers":
			fmt.Fprint(w, `{"items":[],"nextPageToken":null}`)
		case archived:
			http.Error(w, `{"code":"not_found","detail":"not found"}`, http.StatusNotFound)
		case r.URL.Path == "/triggers":
			fmt.Fprint(w, `{"items":[{"name":"paid","workflow":{"package":"p","name":"w","version":"1.0.0"},"rate":"60/1m","paused":null}],"nextPageToken":null}`)
		default:
			fmt.Fprint(w, `{"schedule":"p/w","cron":"0 4 * * *","zone":"UTC","paused":null,"executions":[]}`)
		}
	}))
	t.Cleanup(server.Close)
	got := runCommand(t, "archive", "p/w:1.0.0", "--url="+server.URL)
	for _, what := range []string{"trigger paid", "schedule"} {
		if !strings.Contains(got.stderr, "note: its "+what+` starts nothing any more: the newest version that is left has none; with "lockstep restore p/w:1.0.0" it does again`) {
			t.Errorf("exit %d, %s\n%s", got.code, what, got.stderr)
		}
	}
}

// What an execution has started and waits to be acknowledged is named by its status, with what to do next, and by a
// retry of it, since that starts others that wait for its locks.
func TestStatusAndRetry_NameUnacknowledgedChildren(t *testing.T) {
	const child = `"unacknowledged":[{"id":"C","step":"sites","item":2,"itemText":"lug","state":"FAILED_UNSAFE"}],"unacknowledgedMore":true,"childSets":[{"step":"sites","total":3}]`
	const failed = `{"id":"X","state":"FAILED_UNSAFE","status":"FAILED","outcome":"FAILED_UNSAFE","remains":"it may","kept":0,` + child + `}`
	const retried = `{"id":"X","state":"READY","status":"RUNNING",` + child + `}`
	status := runCommand(t, "status", "X", serveAnswers(t, map[string]any{"GET /workflow-execution/id/X": json.RawMessage(failed), "GET /workflow-execution/X/children": json.RawMessage(`{"items":[]}`)}))
	for _, want := range []string{
		"It failed UNSAFELY: what it has started is to be checked.", "To be acknowledged: C  FAILED_UNSAFE  by step sites, item 2 (lug)\nIt may have started others that wait to be acknowledged: \"lockstep tree X\" lists all",
		`Next: "lockstep status C" says what to check of it, and "lockstep acknowledge C" releases its locks; then "lockstep retry X"`,
	} {
		if status.code != 0 || !strings.Contains(status.stdout, want) {
			t.Errorf("exit %d, want %s\n%s%s", status.code, want, status.stdout, status.stderr)
		}
	}
	retry := runCommand(t, "retry", "X", serveAnswers(t, map[string]any{"POST /workflow-execution/X/retry": json.RawMessage(retried), "GET /workflow-execution/id/X": json.RawMessage(retried)}))
	if want := "note: execution C, which step sites has started before, is in FAILED_UNSAFE"; !strings.Contains(retry.stderr, "note: more that it has started may keep their locks") || retry.code != 0 || !strings.Contains(retry.stderr, want) || !strings.Contains(retry.stderr, `"lockstep acknowledge C"`) {
		t.Errorf("exit %d, want %s\n%s%s", retry.code, want, retry.stdout, retry.stderr)
	}
}
