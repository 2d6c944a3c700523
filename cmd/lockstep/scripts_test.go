package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
	"github.com/lockstep-run/lockstep/tests/sim/simapi"
)

const scriptDir = "testdata/script"

// Each script plays one verb as a user would: its help, a normal use, what it prints as JSON and how it fails. All
// scripts share a service, each as a tenant of its own; testdata/script/README.md says what it has.
func TestScripts(t *testing.T) {
	s := newScriptService(t)
	testscript.Run(t, testscript.Params{
		Dir:                 scriptDir,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		ContinueOnError:     true,
		UpdateScripts:       *update,
		Setup:               s.setup,
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"exits": commandExits, "prints": commandPrints, "json": commandJSON, "keep": commandKeep,
		},
	})
}

// playedElsewhere are verbs that need programs which are not built here, or a table that refuses rows. Others test
// what they print: TestFunctions_AreBuiltForArchitecture, TestTry_ExecutesADefinition and TestTablesExport_WritesLines.
var playedElsewhere = []string{"functions", "try", "tables deliveries"}

// Every verb has a script that shows its help, its JSON and a failure, and every script has a verb.
func TestScripts_CoverEveryVerb(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(scriptDir, "*.txtar"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, verb := range listedVerbs() {
		name := filepath.Join(scriptDir, strings.ReplaceAll(verb, " ", "_")+".txtar")
		names = append(names, name)
		text, err := os.ReadFile(name)
		if err != nil {
			t.Errorf("%s has no script: %v", verb, err)
			continue
		}
		played := !slices.Contains(playedElsewhere, verb)
		wants := []string{"exec lockstep " + verb + " --help\n", "\nexits "}
		if shape, ok := verbOutputs[verb]; !ok {
			t.Errorf("%s has no row in verbOutputs: say what it prints with --output json", verb)
		} else if played && !strings.HasPrefix(string(shape), "(") {
			wants = append(wants, "--output json", "\nprints")
		}
		for _, want := range wants {
			if !strings.Contains(string(text), want) {
				t.Errorf("%s does not have %q", name, want)
			}
		}
	}
	for _, file := range files {
		if !slices.Contains(names, file) {
			t.Errorf("%s is the script of no verb", file)
		}
	}
	if len(verbOutputs) != len(names) {
		t.Errorf("%d rows in verbOutputs, %d verbs", len(verbOutputs), len(names))
	}
}

// scriptService is the service of all scripts: the API, the engine and a worker on simulated tables and queues. Its
// clock moves by a second with each request that only reads, so that who waits for something sees it happen.
type scriptService struct {
	*simapi.Service
	sync.Mutex
	url string
}

func newScriptService(t *testing.T) *scriptService {
	options := harness.Options()
	options.CountEnds, options.SubscriptionsAge = true, time.Second
	h := harness.New(t, 1, options)
	h.Advance(time.Since(h.Now()))
	h.Script, h.Catalog.CountsEnds = scriptedBlock, true
	s := &scriptService{Service: simapi.New(h, func(string) bool { return true })}
	for _, b := range scriptBlocks {
		h.RegisterBlock(b)
	}
	server := httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(server.Close)
	s.url = server.URL
	return s
}

func (s *scriptService) serve(w http.ResponseWriter, r *http.Request) {
	s.Lock()
	defer s.Unlock()
	s.Handler.ServeHTTP(w, r)
	if r.Method == http.MethodGet {
		s.RunFor(time.Second)
	} else {
		s.Drain()
	}
}

// scriptBlocks are the blocks of every tenant.
var scriptBlocks = []workflow.Block{
	{Package: "fleet", Name: "check", Version: "1.0.0", Pure: true},
	{Package: "fleet", Name: "install", Version: "1.0.0", Idempotent: true, Reversible: true},
	{Package: "fleet", Name: "reboot", Version: "1.0.0"},
}

// scriptedBlock does what the parameters of a step say: it fails on the devices in fail, also when it is undone if
// failUndo is true. It logs what it does.
func scriptedBlock(c harness.BlockCall) *harness.Outcome {
	var p struct {
		Fail     []string
		FailUndo bool
	}
	_ = json.Unmarshal(c.Parameters, &p)
	o := &harness.Outcome{Log: strings.ToLower(string(c.Kind)) + " " + c.Block + " on " + c.Entity, Result: json.RawMessage(`{"version":"2.0.0"}`)}
	if slices.Contains(p.Fail, c.Entity) && (c.Kind == workflow.JobExecute || p.FailUndo) {
		o.FailCode, o.FailMessage = "NO_SPACE", "the flash is full"
	}
	return o
}

// setup gives a script its tenant, with blocks, devices and the definitions of its own files.
func (s *scriptService) setup(env *testscript.Env) error {
	tenant := strings.TrimSuffix(filepath.Base(env.WorkDir), ".txtar")
	tenant = strings.TrimPrefix(strings.ReplaceAll(tenant, "_", "-"), "script-")
	caller := workflow.Caller{Tenant: tenant, Actor: "ann"}
	for name, value := range map[string]string{
		"LOCKSTEP_URL": s.url, "LOCKSTEP_TENANT": tenant, "LOCKSTEP_ACTOR": "ann", "HOME": env.WorkDir, "XDG_CONFIG_HOME": filepath.Join(env.WorkDir, ".config"),
		"NOBODY": "http://127.0.0.1:1", "UNKNOWN": executionID,
	} {
		env.Setenv(name, value)
	}
	s.Lock()
	defer s.Unlock()
	ctx := context.Background()
	for _, b := range scriptBlocks {
		if _, err := s.Catalog.RegisterBlock(ctx, caller, b); err != nil {
			return err
		}
	}
	for n := range 4 {
		e := workflow.Entity{Type: "device", ID: "sw-" + strconv.Itoa(n+1), Groups: []string{"core"}, Attributes: json.RawMessage(`{"site":"zrh","version":"1.0.0"}`)}
		if _, err := s.Catalog.PutEntity(ctx, caller, e); err != nil {
			return err
		}
	}
	register := httptest.NewRequest(http.MethodPost, "/workers/register", strings.NewReader(`{"id":"w1","blocks":["fleet/check:1"]}`))
	register.Header.Set("X-Tenant", tenant)
	answer := httptest.NewRecorder()
	if s.Handler.ServeHTTP(answer, register); answer.Code >= 300 {
		return fmt.Errorf("registering a worker: %d %s", answer.Code, answer.Body)
	}
	definitions, err := filepath.Glob(filepath.Join(scriptDir, "definitions", "*.yaml"))
	if err != nil {
		return err
	}
	for _, name := range definitions {
		source, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if _, _, err := s.Catalog.Publish(ctx, caller, source, false); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if err := os.WriteFile(filepath.Join(env.WorkDir, filepath.Base(name)), source, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// commandExits runs a command that has to end with an exit code: exits 3 lockstep status X.
func commandExits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND...")
	}
	code := 0
	var exit *exec.ExitError
	switch err := ts.Exec(args[1], args[2:]...); {
	case errors.As(err, &exit):
		code = exit.ExitCode()
	case err != nil:
		ts.Fatalf("%v", err)
	}
	if strconv.Itoa(code) != args[0] {
		ts.Fatalf("exit code %d, want %s", code, args[0])
	}
}

// commandPrints checks that the last command has printed what docs/cli.md says of the verb of this script.
func commandPrints(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) > 0 {
		ts.Fatalf("usage: prints")
	}
	verb := strings.ReplaceAll(strings.TrimPrefix(ts.Name(), "script-"), "_", " ")
	if wrong := verbOutputs[verb].differs(ts.ReadFile("stdout")); wrong != "" {
		ts.Fatalf("%s: %s", verb, wrong)
	}
}

// commandJSON compares a value of the JSON that the last command has printed: json 0.error.code NO_SPACE.
func commandJSON(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: json PATH VALUE")
	}
	if got := valueAt(ts, args[0]); (got == args[1]) == neg {
		ts.Fatalf("%s is %s", args[0], got)
	}
}

// commandKeep keeps what the last command has printed, or a value of its JSON, in a variable: keep ID id.
func commandKeep(ts *testscript.TestScript, neg bool, args []string) {
	switch {
	case neg || len(args) == 0 || len(args) > 2:
		ts.Fatalf("usage: keep VARIABLE [PATH]")
	case len(args) == 1:
		ts.Setenv(args[0], strings.TrimSpace(ts.ReadFile("stdout")))
	default:
		ts.Setenv(args[0], valueAt(ts, args[1]))
	}
}

// valueAt is a value of the JSON that the last command has printed, by the names of its fields and the indexes of its
// items, with dots between them. A text is returned as it is, anything else as JSON.
func valueAt(ts *testscript.TestScript, path string) string {
	var v any
	d := json.NewDecoder(strings.NewReader(ts.ReadFile("stdout")))
	d.UseNumber()
	ts.Check(d.Decode(&v))
	for name := range strings.SplitSeq(path, ".") {
		found := false
		switch of := v.(type) {
		case map[string]any:
			v, found = of[name]
		case []any:
			if i, err := strconv.Atoi(name); err == nil && i < len(of) {
				v, found = of[i], true
			}
		}
		if !found {
			ts.Fatalf("there is no %s in %s", name, path)
		}
	}
	if text, ok := v.(string); ok {
		return text
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	ts.Check(e.Encode(v))
	return strings.TrimSpace(b.String())
}
