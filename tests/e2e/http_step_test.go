package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/testkit"
)

const httpSteps = `package: test
name: calls
version: 1.0.0
seedEntity: gadget
parameters: {type: object, required: [base], properties: {base: {type: string}}}
output: {price: "${get.result.body.price}", tag: "${get.result.headers['x-tag']}", taken: "${vars.taken}", slow: "${steps.slow.status}", closed: "${steps.closed.status}"}
steps:
  - label: get
    http: {url: "${parameters.base}/items/7", query: {q: ["a b", "${parameters.base.size()}"]}, headers: {X-Who: "${execution.workflow}"}}
    runOn: global
    retry: {maxRetries: 2, delay: 10ms}
  - label: each
    http: {method: PUT, url: "${parameters.base}/things/${entity.id}", body: {price: "${get.result.body.price}"}, include: [status], expect: [204]}
    runOn: gadget
  - label: post
    http: {method: POST, url: "${parameters.base}/orders", body: {price: "${get.result.body.price}"}, headers: {Authorization: "Bearer ${secret.shop}"}, sign: {secret: shop}}
    runOn: global
    onFailure: [{when: 'error.code == "HTTP_409" && error.details.body.by == "bob"', next: taken}]
  - {label: never, set: {taken: no}}
  - {label: taken, set: {taken: yes}}
  - {label: slow, http: {url: "${parameters.base}/slow", timeout: 200ms}, runOn: global, continueOnError: true}
  - {label: closed, http: {url: "http://192.0.2.1/"}, runOn: global, continueOnError: true}
`

// The receiver of the documentation accepts what an http step signs, and nothing else.
func TestHTTPStep_SignatureIsCheckedByTheExample(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("python3", "../../examples/signed/receiver.py", "0")
	cmd.Env = append(os.Environ(), "SECRET=hunter2-shop")
	receiver, err := testkit.StartProgram(cmd, &testkit.Buffer{}, waitTimeout)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(receiver.Kill)
	file := filepath.Join(t.TempDir(), "secrets.json")
	if err := os.WriteFile(file, []byte(`{"shop":"hunter2-shop","other":"another-key"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	s := startStack(t, stackOptions{args: []string{"--secrets", file}})
	for name, secret := range map[string]string{"signed": "shop", "other": "other"} {
		if _, err := s.RegisterBlock(t.Context(), workflow.Block{Package: "test", Name: name, Version: "1.0.0", HTTP: &workflow.Endpoint{URL: receiver.URL, Sign: &workflow.Signing{Secret: secret}}}); err != nil {
			t.Fatal(err)
		}
	}
	s.publish(`package: test
name: signed
version: 1.0.0
parameters: {type: object}
output: {block: "${steps.block.status}", wrong: "${steps.wrong.status}", ok: "${ok.result.status}", other: "${other.result.status}", none: "${none.result.status}", empty: "${empty.result.status}"}
steps:
  - {label: ok, http: {method: POST, url: "${parameters.to}", body: {a: "ä <&>"}, sign: {secret: shop}}, runOn: global}
  - {label: block, functionBlock: "test/signed:1", runOn: global, parameters: {a: "ä <&>"}}
  - {label: wrong, functionBlock: "test/other:1", runOn: global, continueOnError: true}
  - {label: empty, http: {method: POST, url: "${parameters.to}", sign: {secret: shop}}, runOn: global}
  - {label: other, http: {method: POST, url: "${parameters.to}", body: {a: 1}, sign: {secret: other}, expect: [401]}, runOn: global}
  - {label: none, http: {method: POST, url: "${parameters.to}", body: {a: 1}, headers: {Lockstep-Signature: "t=1,v1=00"}, expect: [401]}, runOn: global}
`)
	id := s.startExecution("test/signed", fmt.Sprintf(`{"to":%q}`, receiver.URL))
	s.waitForState(id, sm.ExecutionCompletedAck)
	if r, err := s.Result(t.Context(), id); err != nil || string(r.Output) != `{"block":"COMPLETED","empty":200,"none":401,"ok":200,"other":401,"wrong":"FAILED"}` {
		t.Errorf("%s, %v", r.Output, err)
	}
	for header, want := range map[string]int{
		workflow.Sign([]byte("hunter2-shop"), time.Now(), []byte("body")): 200, workflow.Sign([]byte("hunter2-shop"), time.Now().Add(-10*time.Minute), []byte("body")): 401,
		workflow.Sign([]byte("hunter2-shop"), time.Now(), []byte("other")): 401, "": 401, "t=x,v1=": 401,
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, receiver.URL, strings.NewReader("body"))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set(workflow.SignatureHeader, header)
		reply, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if _ = reply.Body.Close(); reply.StatusCode != want {
			t.Errorf("%q: %d, want %d", header, reply.StatusCode, want)
		}
	}
}

// A definition and a block name an endpoint; the configuration of each stage says which address that is.
// An export of one stage is imported into another without any change, and calls that one's servers.
func TestEndpoints_BelongToTheStage(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	called := map[string]int{}
	stage := func(name string) *localStack {
		server, address := serveReachable(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			called[name+" "+r.Method+" "+r.URL.Path]++
			mu.Unlock()
			fmt.Fprint(w, `{"outcome":"OK"}`)
		}))
		t.Cleanup(server.Close)
		return startStack(t, stackOptions{config: fastConfig + "worker: {allowHosts: [nobody.test]}\nendpoints: [\"inventory=" + address + "/api\"]\n"})
	}
	from, to, bare := stage("acceptance"), stage("production"), startStack(t, stackOptions{})
	if _, err := from.RegisterBlock(t.Context(), workflow.Block{Package: "test", Name: "set", Version: "1.0.0", HTTP: &workflow.Endpoint{Endpoint: "inventory", Path: "/set"}}); err != nil {
		t.Fatal(err)
	}
	const source = `package: test
name: named
version: 1.0.0
parameters: {type: object}
steps:
  - {label: read, http: {endpoint: inventory, path: "/devices/${parameters.id}"}, runOn: global}
  - {label: set, functionBlock: "test/set:1", runOn: global}
`
	from.publish(source)
	file := filepath.Join(t.TempDir(), "export.jsonl")
	for _, line := range [][]string{{"--url=" + from.url, "export", file}, {"--url=" + to.url, "import", file}} {
		if code, out, errors := runLockstep(t, "", line...); code != 0 {
			t.Fatalf("%v: exit %d\n%s%s", line, code, out, errors)
		}
	}
	if text := readFile(t, file); strings.Contains(text, "127.0.0.1") || !strings.Contains(text, `"endpoint":"inventory"`) {
		t.Errorf("the export has an address of the stage: %s", text)
	}
	for _, s := range []*localStack{from, to} {
		s.waitForState(s.startExecution("test/named", `{"id":"sw-1"}`), sm.ExecutionCompletedAck)
	}
	if code, out, errors := runLockstep(t, "", "--url="+bare.url, "import", file); code == 0 || !strings.Contains(out+errors, `this stage has no endpoint "inventory"`) {
		t.Errorf("a stage without the endpoint imports it: exit %d %s%s", code, out, errors)
	}
	if _, _, err := bare.Publish(t.Context(), []byte(source), true); !workflow.Is(err, workflow.CodeInvalid) || !strings.Contains(err.Error(), `no endpoint "inventory"`) {
		t.Errorf("a stage without the endpoint publishes it: %v", err)
	}
	x := to.waitForState(to.startExecution("test/named", `{"id":"../../admin"}`), sm.ExecutionFailedSafeAck)
	if x.Error == nil || x.Error.Code != workflow.FailureEndpoint {
		t.Errorf("a path leads out of the endpoint: %+v", x.Error)
	}
	mu.Lock()
	defer mu.Unlock()
	if got := fmt.Sprint(called); got != "map[acceptance GET /api/devices/sw-1:1 acceptance POST /api/set:1 production GET /api/devices/sw-1:1 production POST /api/set:1]" {
		t.Errorf("called %s", got)
	}
}

// R33: an http step calls an address with what the expressions give, tries again when the server
// asks for that, and follows its status.
func TestHTTPStep_CallsAndFollowsTheStatus(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	seen := map[string][]*http.Request{}
	bodies := map[string]string{}
	var retried time.Duration
	var first time.Time
	server, base := serveReachable(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		mu.Lock()
		seen[r.URL.Path] = append(seen[r.URL.Path], r)
		bodies[r.URL.Path] = string(raw)
		n := len(seen[r.URL.Path])
		mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		switch r.URL.Path {
		case "/items/7":
			if n == 1 {
				first = time.Now()
				w.Header().Set("Retry-After", "1")
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			retried = time.Since(first)
			w.Header().Set("X-Tag", "v7")
			fmt.Fprint(w, `{"price": 12.5}`)
		case "/things/e-0001", "/things/e-0002":
			w.WriteHeader(http.StatusNoContent)
		case "/orders":
			w.WriteHeader(http.StatusConflict)
			fmt.Fprint(w, `{"by": "bob"}`)
		case "/slow":
			<-r.Context().Done()
		}
	}))
	defer server.Close()
	file := filepath.Join(t.TempDir(), "secrets.json")
	if err := os.WriteFile(file, []byte(`{"shop":"hunter2-shop"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	s := startStack(t, stackOptions{args: []string{"--secrets", file}})
	s.importEntities("gadget", 2)
	p, _, err := s.Publish(t.Context(), []byte(httpSteps), false)
	if err != nil || len(p.Warnings) != 1 || p.Warnings[0].Code != "http_forbidden" || p.Warnings[0].Path != "steps[6].http.url" {
		t.Fatalf("only the host that workers may not call is warned of: %v, %v", p.Warnings, err)
	}
	misspelt, _, err := s.Publish(t.Context(), []byte(strings.NewReplacer("1.0.0", "1.0.1", "price: \"${get.result.body.price}\", tag", "price: \"${get.result.boddy}\", tag").Replace(httpSteps)), true)
	if err != nil || !slices.ContainsFunc(misspelt.Warnings, func(w workflow.Issue) bool { return strings.Contains(w.Message, `"body"`) }) {
		t.Errorf("a misspelt field of the result: %v, %v", misspelt.Warnings, err)
	}
	if _, err := s.RegisterBlock(t.Context(), workflow.Block{Package: "lockstep", Name: "http_send", Version: "1.0.1"}); !workflow.Is(err, workflow.CodeInvalid) {
		t.Errorf("a block of the product is registered: %v", err)
	}
	x, _, err := s.Start(t.Context(), views.StartRequest{Workflow: "test/calls", Parameters: fmt.Appendf(nil, `{"base":%q}`, base), ExecuteOnParameters: &workflow.Selector{IDs: []string{"e-0001", "e-0002"}}})
	if err != nil {
		t.Fatal(err)
	}
	s.waitForState(x.ID, sm.ExecutionCompletedAck)
	r, err := s.Result(t.Context(), x.ID)
	if err != nil || string(r.Output) != `{"closed":"FAILED","price":12.5,"slow":"FAILED","tag":"v7","taken":"yes"}` {
		t.Errorf("%s, %v", r.Output, err)
	}
	codes, keys := map[string]string{}, map[string]string{}
	for j, err := range s.Jobs(t.Context(), x.ID, views.JobFilter{}) {
		if err != nil {
			t.Fatal(err)
		}
		keys[strings.TrimSuffix(j.ID, "."+fmt.Sprint(j.Attempt))] = j.Step
		if j.Error != nil {
			codes[fmt.Sprint(j.Step, j.Attempt)] = j.Error.Code
		}
	}
	if got := fmt.Sprint(codes); got != "map[closed1:HTTP_FORBIDDEN get1:HTTP_503 post1:HTTP_409 slow1:HTTP_TIMEOUT]" {
		t.Errorf("failures %s", got)
	}
	mu.Lock()
	defer mu.Unlock()
	if retried < time.Second {
		t.Errorf("tried again after %s, though the server asked for a second", retried)
	}
	for path, want := range map[string]string{
		"/items/7": "GET /items/7?q=a+b&q=" + fmt.Sprint(len(base)) + " get", "/things/e-0002": "PUT /things/e-0002 each", "/orders": "POST /orders post",
	} {
		last := seen[path][len(seen[path])-1]
		if got := last.Method + " " + last.URL.RequestURI() + " " + keys[last.Header.Get("Idempotency-Key")]; got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
	if calls := seen["/items/7"]; len(calls) != 2 || calls[0].Header.Get("Idempotency-Key") != calls[1].Header.Get("Idempotency-Key") || calls[1].Header.Get("X-Who") != "test/calls:1.0.0" {
		t.Errorf("%d calls", len(calls))
	}
	if bodies["/things/e-0001"] != `{"price":12.5}` || len(seen["/slow"]) != 1 {
		t.Errorf("bodies %v, %d slow calls", bodies, len(seen["/slow"]))
	}
	order := seen["/orders"][0]
	var at int64
	if _, err := fmt.Sscanf(order.Header.Get("Lockstep-Signature"), "t=%d,", &at); err != nil || order.Header.Get("Lockstep-Signature") != workflow.Sign([]byte("hunter2-shop"), time.Unix(at, 0), []byte(bodies["/orders"])) || order.Header.Get("Authorization") != "Bearer hunter2-shop" {
		t.Errorf("signed %v, %v", order.Header, err)
	}
	var plan map[string]any
	if code, out, errors := runLockstep(t, "", "--url="+s.url, "plan", "test/calls", "--set", "base="+base, "--type", "gadget", "--id", "e-0001", "-o", "json"); json.Unmarshal([]byte(out), &plan) != nil || !strings.Contains(out, "lockstep/http_read:1.0.0") {
		t.Errorf("plan: exit %d %s %s", code, out, errors)
	}
}
