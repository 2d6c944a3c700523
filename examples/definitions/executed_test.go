package definitions_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/lockstep-run/lockstep/examples/fleet/worker"
	"github.com/lockstep-run/lockstep/shared/definition"
	"github.com/lockstep-run/lockstep/shared/views"
	sdk "github.com/lockstep-run/lockstep/shared/worker"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

// statedRE is the outcome of an execution, as an example states it at its top: parameters,
// status, outcome, and the steps that were entered.
var statedRE = regexp.MustCompile(`(?m)^# (\{.*\}) => (\w+) (\w+): (.*)$`)

// givesRE is what the first of these gives.
var givesRE = regexp.MustCompile(`(?m)^# gives (.*)$`)

// devices are what the blocks of the example fleet see, with versions in memory instead of
// devices: the blocks do what examples/fleet/worker does.
type devices map[string]string

func (d devices) call(t *testing.T, c harness.BlockCall) *harness.Outcome {
	var p struct{ Target, Former, To, URL, Endpoint string }
	if err := json.Unmarshal(c.Parameters, &p); err != nil {
		t.Fatal(err)
	}
	shown := func() json.RawMessage {
		return json.RawMessage(fmt.Sprintf(`{"version":%q,"bootCount":1}`, d[c.Entity]))
	}
	switch {
	case p.URL+p.Endpoint != "": // an http step
		status := 200
		if strings.HasSuffix(p.URL, "/404") {
			status = 404
		}
		return &harness.Outcome{Result: json.RawMessage(fmt.Sprintf(`{"status":%d,"body":{"id":7}}`, status))}
	case c.Kind == workflow.JobRollback:
		d[c.Entity] = p.Former
	case p.To != "" && c.Step == "send" && c.Resume == nil: // mail/send at night
		return &harness.Outcome{Wait: &workflow.AskedWait{Until: time.Date(2026, 1, 1, 6, 0, 0, 0, time.UTC), Reason: "the morning"}}
	case p.To != "": // mail/send
		return &harness.Outcome{Result: json.RawMessage(`{"sent":true}`)}
	case c.Entity == "": // fleet/report
		return &harness.Outcome{Result: c.Parameters}
	case p.Former != "": // fleet/upgrade
		d[c.Entity] = p.Target
	case p.Target != "" && d[c.Entity] != p.Target: // fleet/verify
		return &harness.Outcome{FailCode: "WRONG_VERSION", FailMessage: "another version"}
	}
	return &harness.Outcome{Result: shown()}
}

// mailSchema are the parameters of a block that sends a mail.
const mailSchema = `{"type":"object","additionalProperties":false,"required":["to","text"],"properties":{"to":{"type":"string"},"text":{"type":"string"},"token":{"type":"string"},"link":{"type":"string"}}}`

// What a step has sent is answered with the token of the link in it.
func TestExamples_CallbackIsAnswered(t *testing.T) {
	s, _ := publishExamples(t)
	fleet := devices{}
	s.Script = func(c harness.BlockCall) *harness.Outcome { return fleet.call(t, c) }
	id := s.StartWith(views.StartRequest{Workflow: "fleet/ask", Parameters: json.RawMessage(`{"owner":"ann@example.com"}`)})
	s.Drain()
	var mail struct{ To, Link string }
	if err := json.Unmarshal(s.BlockCalls[0].Parameters, &mail); err != nil || mail.To != "ann@example.com" {
		t.Fatalf("%s, %v", s.BlockCalls[0].Parameters, err)
	}
	_, token, _ := strings.Cut(mail.Link, "/answer#")
	if _, err := s.Engine.AnswerByToken(t.Context(), token, views.TokenAnswer{Input: json.RawMessage(`{"ok":true}`)}); err != nil {
		t.Fatal(err)
	}
	s.RunUntilIdle(24 * time.Hour)
	if r, err := s.Query.Result(t.Context(), harness.Caller, id); err != nil || string(r.Output) != `{"answer":{"ok":true}}` || string(r.Steps["ask"].Result) != `{"ok":true}` {
		t.Errorf("%s, %+v, %v", r.Output, r.Steps, err)
	}
}

// A block is called with the value of a secret, of which nothing is stored.
func TestExamples_SecretIsFilledIn(t *testing.T) {
	s, _ := publishExamples(t)
	fleet := devices{}
	s.Script = func(c harness.BlockCall) *harness.Outcome { return fleet.call(t, c) }
	s.StartWith(views.StartRequest{Workflow: "fleet/keyed", Parameters: json.RawMessage(`{"owner":"ann@example.com"}`)})
	s.RunUntilIdle(24 * time.Hour)
	if len(s.BlockCalls) != 1 || string(s.BlockCalls[0].Parameters) != `{"text":"The upgrade is done","to":"ann@example.com","token":"Bearer hunter22"}` {
		t.Errorf("called with %+v", s.BlockCalls)
	}
	if where := s.Storing("hunter22"); len(where) > 0 {
		t.Errorf("it is stored in %v", where)
	}
}

// The end of an execution starts what its definition names for it, with what it knows then.
func TestExamples_EndStartsAWorkflow(t *testing.T) {
	for _, c := range []struct{ target, step, want string }{
		{"1.0.0", "report", `{"target":"1.0.0","upgraded":1}`},
		{"9.0.0", "send", `{"text":"fleet/followed:1.0.0 has ended FAILED_SAFE: another version","to":"ann@example.com"}`},
	} {
		s, _ := publishExamples(t)
		s.Engine.SubscriptionsAge = time.Minute
		fleet := devices{}
		for _, id := range harness.DeviceIDs(1) {
			fleet[id] = "1.0.0"
		}
		s.Script = func(c harness.BlockCall) *harness.Outcome { return fleet.call(t, c) }
		id := s.StartWith(views.StartRequest{Workflow: "fleet/followed", ExecuteOnParameters: &workflow.Selector{Type: "device", IDs: harness.DeviceIDs(1)},
			Parameters: json.RawMessage(fmt.Sprintf(`{"target":%q,"owner":"ann@example.com"}`, c.target))})
		s.RunFor(time.Hour)
		last := s.BlockCalls[len(s.BlockCalls)-1]
		if x, err := s.Query.Execution(t.Context(), harness.Caller, id); err != nil || x.FollowUp == nil || *x.FollowUp != last.Execution || last.Step != c.step || string(last.Parameters) != c.want {
			t.Errorf("%s: the last call is %s of %s with %s, %v, %v", c.target, last.Step, last.Execution, last.Parameters, x.FollowUp, err)
		}
	}
}

// putTables makes the tables of the examples.
func putTables(t *testing.T, s *harness.Harness) {
	files, err := filepath.Glob("tables/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var table struct {
			Name string
			views.TableRequest
		}
		raw, err := yaml.YAMLToJSON(source)
		if err == nil {
			err = json.Unmarshal(raw, &table)
		}
		if err == nil {
			_, err = s.Catalog.PutTable(t.Context(), harness.Caller, table.Name, table.TableRequest)
		}
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
	}
}

// publishExamples makes a world with the blocks of the example fleet, in which all examples
// are published that need no other blocks.
func publishExamples(t *testing.T) (s *harness.Harness, published map[string]bool) {
	s = harness.New(t, 1, harness.Options())
	w := sdk.New(sdk.Options{Name: "w", Pool: "fleet", Sequential: true, Now: s.World.Now, NewNonce: s.Nonce})
	worker.Add(w, "http://localhost")
	blocks := map[string]bool{}
	for _, b := range w.Blocks() {
		b.Pool = "" // that of the harness
		s.RegisterBlock(b)
		blocks[b.Package+"/"+b.Name+":1"] = true
	}
	s.RegisterBlock(workflow.Block{Package: "mail", Name: "send", ParameterSchema: json.RawMessage(mailSchema)})
	blocks["mail/send:1"] = true
	s.Secrets = map[string]string{"mail/key": "hunter22", "tickets/key": "hunter33", "tickets/signing": "hunter44", "inventory/key": "hunter55"}
	s.Endpoints = workflow.Endpoints{"inventory": "https://inventory.test"}
	s.Engine.Endpoints = s.Endpoints
	s.AddHTTPStep()
	s.ImportDevices(harness.DeviceIDs(3)...)
	putTables(t, s)
	published = map[string]bool{}
	for file, text := range readExamples(t) {
		d, err := definition.Parse([]byte(text))
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if slices.ContainsFunc(d.FlatSteps(), func(step *spec.Step) bool {
			return step.FunctionBlock != "" && step.HTTP == nil && !blocks[step.FunctionBlock]
		}) {
			continue
		}
		p, _, err := s.Catalog.Publish(t.Context(), harness.Caller, []byte(text), false)
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		for _, w := range p.Warnings {
			if strings.Contains(w.Message, "no step goes on with") {
				t.Errorf("%s: %s: %s", file, w.Path, w.Message)
			}
		}
		published[file] = true
	}
	return s, published
}

// Every example that states its outcome has it.
func TestExamples_EndAsTheyState(t *testing.T) {
	stated := 0
	for file, text := range readExamples(t) {
		for n, m := range statedRE.FindAllStringSubmatch(text, -1) {
			stated++
			s, published := publishExamples(t)
			if !published[file] {
				t.Fatalf("%s needs blocks that the example worker does not serve", file)
			}
			fleet := devices{}
			for _, id := range harness.DeviceIDs(3) {
				fleet[id] = "1.0.0"
			}
			s.Script = func(c harness.BlockCall) *harness.Outcome { return fleet.call(t, c) }
			req := views.StartRequest{Workflow: "fleet/" + strings.TrimSuffix(file, ".yaml"), Parameters: json.RawMessage(m[1])}
			if strings.Contains(text, "seedEntity: device") {
				req.ExecuteOnParameters = &workflow.Selector{Type: "device", IDs: harness.DeviceIDs(3)}
			}
			id := s.StartWith(req)
			s.RunUntilIdle(24 * time.Hour)
			x, err := s.Query.Execution(t.Context(), harness.Caller, id)
			if err != nil {
				t.Fatal(err)
			}
			list, err := s.Query.Steps(t.Context(), harness.Caller, id, workflow.Page{})
			if err != nil {
				t.Fatal(err)
			}
			var steps []string
			for _, r := range list.Items {
				if label := r.Step; (r.Kind == nil || *r.Kind == workflow.JobExecute) && !strings.Contains(label, ".") {
					steps = append(steps, label)
				}
			}
			outcome := ""
			if x.Outcome != nil {
				outcome = string(*x.Outcome)
			}
			if got, want := fmt.Sprint(x.Status, " ", outcome, ": ", strings.Join(steps, " ")), m[2]+" "+m[3]+": "+m[4]; got != want {
				t.Errorf("%s, %s:\n%s, stated\n%s\n%+v", file, m[1], got, want, x.Error)
			}
			if gives := givesRE.FindStringSubmatch(text); gives != nil && n == 0 {
				if r, err := s.Query.Result(t.Context(), harness.Caller, id); err != nil || string(r.Output) != gives[1] {
					t.Errorf("%s gives %s, stated %s, %v", file, r.Output, gives[1], err)
				}
			}
		}
	}
	if stated < 15 {
		t.Errorf("only %d outcomes are stated", stated)
	}
}

// whatLintLeaves are the warnings that examples may give: questions under locks, which some show, and what this test
// has not registered.
var whatLintLeaves = []string{"long_wait", "unknown_block", "unknown_workflow", "unknown_secret", "http_forbidden"}

// Nobody begins with an example of which "lockstep lint" warns.
func TestExamples_AreCleanForLint(t *testing.T) {
	s := harness.New(t, 1, harness.Options())
	s.Endpoints = workflow.Endpoints{"inventory": "https://inventory.test"}
	s.Engine.Endpoints = s.Endpoints
	putTables(t, s)
	for file, text := range readExamples(t) {
		warnings, err := s.Catalog.Lint(t.Context(), harness.Caller, []byte(text), time.Hour)
		if err != nil {
			t.Errorf("%s: %v", file, err)
		}
		for _, w := range warnings {
			if !slices.Contains(whatLintLeaves, w.Code) {
				t.Errorf("%s: %s (%s)", file, w, w.Code)
			}
		}
	}
}
