package e2e

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

const (
	sealedPassword = `open "sesame" <7ä>`
	sealedWorkflow = `package: test
name: sealed
version: 1.0.0
seedEntity: gadget
parameters:
  type: object
  required: [password]
  properties:
    password: {type: string, minLength: 8, x-sealed: true}
    mark: {type: string}
steps:
  - label: login
    functionBlock: test/login:1
    runOn: gadget
    parameters: {password: "${parameters.password}", mark: "${parameters.mark}"}
    retry: {maxRetries: 1}
  - {label: after, functionBlock: test/other:1, runOn: gadget, parameters: {echo: "${login.result}"}}
`
)

// F40: a sealed parameter reaches the block for which it is, and nothing else: no table, no queue, no log, no span, no answer of
// the API, no output of the command and no file of the data directory, whatever the block answers, and also when the execution is repeated.
func TestSealed_IsStoredNowhere(t *testing.T) {
	t.Parallel()
	suiteScan.add(sealedPassword)
	queues, tables, spans := serveQueues(t), serveTables(t), newSpanCollector(t)
	var mu sync.Mutex
	var seen strings.Builder // everything that may not hold the value
	note := func(parts ...string) {
		mu.Lock()
		defer mu.Unlock()
		for _, p := range parts {
			seen.WriteString(p + "\n")
		}
	}
	plain := decompressor(t)
	queues.onRequest(func(_, body string) <-chan struct{} { note(body); return nil })
	tables.onRequest(func(_, body string) <-chan struct{} { note(body, plain(body)); return nil })
	var got []string
	server, url := serveReachable(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var k call
		if err := json.NewDecoder(r.Body).Decode(&k); err != nil {
			t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		got = append(got, fmt.Sprintf("%s %s", k.Job.Step, k.Parameters["password"]))
		a := okAnswer(map[string]any{"got": k.Parameters})
		if k.Job.Step == "login" {
			a = okAnswer(map[string]any{"got": k.Parameters, "token": base64.StdEncoding.EncodeToString([]byte(sealedPassword))})
		}
		if k.Job.Step == "login" && k.Job.Attempt == 1 {
			a = blockAnswer{"outcome": "ERROR", "error": map[string]any{"code": "BUSY", "message": "not with " + sealedPassword, "retryable": true}}
		}
		if k.Job.Step == "login" {
			a["logs"] = []any{map[string]any{"level": "INFO", "text": "logged in with " + sealedPassword}}
		}
		_ = json.NewEncoder(w).Encode(a)
	}))
	defer server.Close()

	dir := t.TempDir()
	s := startStack(t, stackOptions{
		config: strings.Replace(fastConfig, "level: info", "level: debug", 1), data: dir,
		env: []string{queues.env(), "AWS_ENDPOINT_URL_DYNAMODB=" + tables.http.URL, "OTEL_EXPORTER_OTLP_ENDPOINT=" + spans.URL},
	})
	for name, schema := range map[string]string{"login": `{"type":"object","properties":{"password":{"type":"string","minLength":8,"x-sealed":true}}}`, "other": ""} {
		block := workflow.Block{Package: "test", Name: name, Version: "1.0.0", Idempotent: true, HTTP: &workflow.Endpoint{URL: url}}
		if schema != "" {
			block.ParameterSchema = json.RawMessage(schema)
		}
		if _, err := s.RegisterBlock(t.Context(), block); err != nil {
			t.Fatal(err)
		}
	}
	s.importEntities("gadget", 1)
	if published, _, err := s.Publish(t.Context(), []byte(sealedWorkflow), false); err != nil || len(published.Warnings) > 0 {
		t.Fatalf("%+v, %v", published.Warnings, err)
	}
	parameters, _ := json.Marshal(map[string]string{"password": sealedPassword, "mark": marker})
	request := views.StartRequest{Workflow: "test/sealed", Parameters: parameters, IdempotencyKey: "once", ExecuteOnParameters: &workflow.Selector{IDs: []string{"e-0001"}}}
	x, _, err := s.Start(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	s.waitForState(x.ID, sm.ExecutionCompletedAck)
	if again, _, err := s.Start(t.Context(), request); err != nil || again.ID != x.ID {
		t.Errorf("repeated: %s, %v", again.ID, err)
	}
	request.Parameters = json.RawMessage(strings.Replace(string(parameters), "sesame", "barley", 1))
	if _, _, err := s.Start(t.Context(), request); !workflow.Is(err, workflow.CodeIdempotencyMismatch) {
		t.Errorf("the key with another value: %v", err)
	}
	again, _, err := s.Rerun(t.Context(), x.ID, views.RerunRequest{Reason: "r", Entities: views.RerunEntities{Keys: []workflow.EntityKey{{Type: "gadget", ID: "e-0001"}}}})
	if err != nil {
		t.Fatal(err)
	}
	s.waitForState(again.ID, sm.ExecutionCompletedAck)

	for _, path := range []string{"", "/history", "/jobs", "/steps", "/result", "/cost", "/definition"} {
		status, body := s.sendRaw("GET", "/workflow-execution/id/"+x.ID+path, "", "")
		if note(body); status != http.StatusOK {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
	for _, path := range []string{"/workflow-execution", "/audit", "/dead-letters", "/entities/gadget/e-0001", "/entities/gadget/e-0001/executions"} {
		_, body := s.sendRaw("GET", path, "", "")
		note(body)
	}
	for _, args := range [][]string{{"status", x.ID, "--output", "json"}, {"show", x.ID}, {"logs", x.ID}, {"jobs", x.ID, "--output", "json"}, {"export", "-"}} {
		code, out, errors := runLockstep(t, "", append([]string{"--url=" + s.url}, args...)...)
		if note(out, errors); code != 0 {
			t.Errorf("%v: exit %d\n%s%s", args, code, out, errors)
		}
		if args[0] == "logs" && !strings.Contains(out, "logged in with sealed") || args[0] == "status" && !strings.Contains(out, `"password": "sealed"`) {
			t.Errorf("%v prints %s", args, out)
		}
	}
	if info, err := os.Stat(filepath.Join(dir, "sealed.key")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the key: %v, %v", info, err)
	}
	s.stopProcess()
	err = filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			raw, err := os.ReadFile(path)
			note(string(raw))
			return err
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	spans.mu.Lock()
	defer spans.mu.Unlock()
	all := seen.String() + s.log.Tail(1<<20) + spans.text.String()
	if n := strings.Count(all, marker); n < 5 {
		t.Errorf("the marker is found %d times: what is stored is not seen", n)
	}
	for _, form := range []string{sealedPassword, "sesame", base64.StdEncoding.EncodeToString([]byte(sealedPassword))} {
		if at := strings.Index(all, form); at >= 0 {
			t.Errorf("the value is found in %q", all[max(0, at-200):min(len(all), at+100)])
		}
	}
	if want := "login " + sealedPassword; len(got) < 6 || got[0] != want || got[1] != want || got[3] != want || strings.Contains(strings.Join(got, "\n"), "after "+sealedPassword) {
		t.Errorf("called with %q", got)
	}
}
