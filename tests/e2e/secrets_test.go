package e2e

import (
	"bytes"
	"compress/flate"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

const (
	bankKey  = `sk-live "<90ä>&/`
	userName = "hunter2-hunter2"
	marker   = "marker-4711" // stands in parameters, and is found where secrets are not
)

const secretsWorkflow = `package: test
name: secrets
version: 1.0.0
seedEntity: gadget
steps:
  - label: call
    functionBlock: test/call:1
    runOn: gadget
    parameters: {user: "${secret.user}", text: ["for ${secret.bank/key}!"], same: "${parameters.same}", mark: marker-4711}
    retry: {maxRetries: 1}
  - {label: after, functionBlock: test/call:1, runOn: gadget, parameters: {user: x, echo: "${call.result}"}}
  - {label: fails, functionBlock: test/call:1, runOn: global, parameters: {user: "${secret.nobody}"}, condition: parameters.fail}
`

// A secret reaches the block that is called, and nothing else: no table, no queue, no log, no span,
// no answer of the API, no output of the command and no export, whatever the block answers.
func TestSecrets_AreStoredNowhere(t *testing.T) {
	t.Parallel()
	queues, tables, spans := serveQueues(t), serveTables(t), newSpanCollector(t)
	var mu sync.Mutex
	var seen strings.Builder // everything that may not hold a secret
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

	var called []http.Header
	var parameters []map[string]any
	var operations []string
	server, url := serveReachable(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var k call
		if err := json.NewDecoder(r.Body).Decode(&k); err != nil {
			t.Error(err)
		}
		mu.Lock()
		called, parameters, operations = append(called, r.Header), append(parameters, k.Parameters), append(operations, k.Operation+" "+k.Job.Step)
		mu.Unlock()
		a := okAnswer(map[string]any{"got": k.Parameters, "header": r.Header.Get("Authorization")})
		if k.Job.Step == "call" {
			a = okAnswer(map[string]any{"got": k.Parameters, bankKey: userName})
			a["updates"] = []any{map[string]any{"entity": map[string]any{"type": "gadget", "id": k.entityID()}, "set": map[string]any{"note": "seen " + bankKey}}}
		}
		if k.Operation == "EXECUTE" && k.Job.Attempt == 1 && k.Job.Step == "call" {
			a = blockAnswer{"outcome": "ERROR", "error": map[string]any{"code": "BUSY", "message": "not for " + userName, "retryable": true, "details": map[string]any{"x": bankKey}}}
		}
		_ = json.NewEncoder(w).Encode(a)
	}))
	defer server.Close()

	file := filepath.Join(t.TempDir(), "secrets.json")
	raw, err := json.Marshal(map[string]string{"bank/key": bankKey, "user": userName, "unused": "never-used"})
	if err == nil {
		err = os.WriteFile(file, raw, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	s := startStack(t, stackOptions{
		config: strings.Replace(fastConfig, "level: info", "level: debug", 1), args: []string{"--secrets", file},
		env: []string{queues.env(), "AWS_ENDPOINT_URL_DYNAMODB=" + tables.http.URL, "OTEL_EXPORTER_OTLP_ENDPOINT=" + spans.URL},
	})
	block := workflow.Block{Package: "test", Name: "call", Version: "1.0.0", Idempotent: true, Reversible: true,
		HTTP: &workflow.Endpoint{URL: url, Headers: map[string]string{"Authorization": "Bearer ${secret.user}", "X-Open": "yes"}}}
	if _, err := s.RegisterBlock(t.Context(), block); err != nil {
		t.Fatal(err)
	}
	bad := block
	bad.HTTP = &workflow.Endpoint{URL: url, Headers: map[string]string{"A": "${secret.not a name}"}}
	if _, err := s.RegisterBlock(t.Context(), bad); !workflow.Is(err, workflow.CodeInvalid) {
		t.Errorf("a header with a reference that is none: %v", err)
	}
	s.importEntities("gadget", 1)
	published, _, err := s.Publish(t.Context(), []byte(secretsWorkflow), false)
	if err != nil || len(published.Warnings) != 1 || !strings.Contains(published.Warnings[0].Message, `no secret "nobody"`) {
		t.Fatalf("%+v, %v", published.Warnings, err)
	}
	start := func(fail bool) string {
		x, _, err := s.Start(t.Context(), views.StartRequest{
			Workflow: "test/secrets", Parameters: fmt.Appendf(nil, `{"fail":%v,"same":"${secret.user}"}`, fail), ExecuteOnParameters: &workflow.Selector{IDs: []string{"e-0001"}},
		})
		if err != nil {
			t.Fatal(err)
		}
		return x.ID
	}
	good := start(false)
	s.waitForState(good, sm.ExecutionCompletedAck)
	failed := start(true)
	x := s.waitForState(failed, sm.ExecutionFailedSafeAck)
	if x.Error == nil || x.Error.Code != workflow.FailureSecret || !strings.Contains(x.Error.Message, `"nobody"`) {
		t.Errorf("failed with %+v", x.Error)
	}

	for _, path := range []string{"history", "jobs", "steps", "result", "cost", "next"} {
		for _, id := range []string{good, failed} {
			_, body := s.sendRaw("GET", "/workflow-execution/id/"+id+"/"+path, "", "")
			note(body)
		}
	}
	for _, path := range []string{"/workflow-execution/id/" + good, "/workflow-execution/id/" + failed, "/secrets", "/workflow-execution", "/function-blocks", "/workflow-definition/test/secrets/1.0.0", "/entities/gadget/e-0001", "/failures", "/audit", "/dead-letters"} {
		status, body := s.sendRaw("GET", path, "", "")
		if note(body); status != http.StatusOK {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
	for _, args := range [][]string{{"export", "-"}, {"secrets"}, {"secrets", "-o", "json"}, {"history", good}, {"jobs", failed}, {"result", good}, {"status", failed}, {"steps", good}, {"plan", "test/secrets", "--type", "gadget", "--id", "e-0001", "--set", "fail=true"}} {
		code, out, errors := runLockstep(t, "", append([]string{"--url=" + s.url}, args...)...)
		if note(out, errors); code != 0 && args[0] != "plan" {
			t.Errorf("%v: exit %d\n%s%s", args, code, out, errors)
		}
		switch args[0] {
		case "export":
			if !strings.Contains(out, "Bearer ${secret.user}") {
				t.Error("the export leaves the reference to a secret out")
			}
		case "secrets":
			if len(args) == 1 && !regexp.MustCompile(`(?m)^bank/key +yes +workflow test/secrets:1.0.0 +-$[\s\S]*^nobody +no [\s\S]*^user +yes +workflow test/secrets:1.0.0, block test/call:1.0.0`).MatchString(out) {
				t.Errorf("%s", out)
			}
		}
	}
	s.stopProcess()
	mu.Lock()
	defer mu.Unlock()
	spans.mu.Lock()
	defer spans.mu.Unlock()
	logs := s.log.Tail(1 << 20)
	if !strings.Contains(logs, failed) || !strings.Contains(spans.text.String(), failed) {
		t.Error("there are no logs or no spans")
	}
	all := seen.String() + logs + spans.text.String()
	if n := strings.Count(all, marker); n < 10 || !strings.Contains(all, "for ${secret.bank/key}!") {
		t.Errorf("the marker is found %d times: what is stored is not seen", n)
	}
	quoted, _ := json.Marshal(bankKey)
	twice, _ := json.Marshal(string(quoted))
	for _, secret := range []string{bankKey, "sk-live", string(quoted[1 : len(quoted)-1]), string(twice[3 : len(twice)-3]), userName, base64.StdEncoding.EncodeToString([]byte(userName)), "never-used"} {
		if at := strings.Index(all, secret); at >= 0 {
			t.Errorf("a secret is found in %q", all[max(0, at-200):min(len(all), at+100)])
		}
	}
	want := map[string]bool{"EXECUTE call": false, "EXECUTE after": false, "ROLLBACK call": false}
	for i, h := range called {
		want[operations[i]] = true
		if h.Get("Authorization") != "Bearer "+userName {
			t.Errorf("called with %v", h)
		}
		if !strings.HasSuffix(operations[i], " call") {
			continue
		}
		if p := parameters[i]; p["user"] != userName || fmt.Sprint(p["text"]) != "[for "+bankKey+"!]" || p["same"] != "${secret.user}" {
			t.Errorf("%s with %v", operations[i], p)
		}
	}
	for operation, done := range want {
		if !done {
			t.Errorf("%s was not called: %v", operation, operations)
		}
	}
}

// decompressor returns a new decompressor of the test.
func decompressor(t *testing.T) func(body string) string {
	t.Helper()
	plain, err := newDecompressor()
	if err != nil {
		t.Fatal(err)
	}
	return plain
}

// newDecompressor returns a function that returns all that is compressed in a request to DynamoDB, or in
// an answer. It knows the dictionaries of package codec.
func newDecompressor() (func(body string) string, error) {
	files := token.NewFileSet()
	parsed, err := parser.ParseFile(files, "../../shared/dynamo/codec/dictionary.go", nil, 0)
	if err != nil {
		return nil, err
	}
	pkg, err := (&types.Config{}).Check("codec", files, []*ast.File{parsed}, nil)
	if err != nil {
		return nil, err
	}
	dictionaries := [][]byte{nil}
	for _, name := range pkg.Scope().Names() {
		if c, ok := pkg.Scope().Lookup(name).(*types.Const); ok {
			dictionaries = append(dictionaries, []byte(constant.StringVal(c.Val())))
		}
	}
	binary := regexp.MustCompile(`"B":\s*"([^"]*)"`)
	return func(body string) string {
		var found strings.Builder
		for _, m := range binary.FindAllStringSubmatch(body, -1) {
			packed, err := base64.StdEncoding.DecodeString(m[1])
			if err != nil || len(packed) == 0 {
				continue
			}
			found.Write(packed)
			for _, dictionary := range dictionaries {
				text, err := io.ReadAll(flate.NewReaderDict(bytes.NewReader(packed[1:]), dictionary))
				if err == nil {
					found.Write(text)
				}
			}
		}
		return found.String()
	}, nil
}

// compressed returns a text as it is stored in an attribute.
func compressed(t *testing.T, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	b.WriteByte(1)
	w, err := flate.NewWriter(&b, flate.BestSpeed)
	if err == nil {
		_, err = io.WriteString(w, text)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}
