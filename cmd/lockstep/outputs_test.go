package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/lockstep-run/lockstep/shared/api/openapi"
)

// verbOutput is what a verb prints with --output json, how to call it so that it does, and how so that it fails.
type verbOutput struct {
	line  string // arguments; FILE.yaml, BLOCK.json … are files of writeSamples
	shape shape
	fails string // arguments of a call that fails before it reaches a service; by default the service refuses line
	code  int    // exit code of the failure; 3 by default
	exit  int    // exit code of line
}

// shape is JSON in short: the name of a schema of the API document, "[Name]" for a list of them, "Name+field" for one
// with more fields, "{a b c?}" for an object of these fields, "[{a b}]" for a list of them, "lines X" for one X on each
// line, and "(text)" for what is no JSON, with why.
type shape string

// verbOutputs has a row for every verb.
var verbOutputs = map[string]verbOutput{
	"acknowledge":              {line: "acknowledge X --reason r", shape: "Execution"},
	"answer":                   {line: "answer X --set a=1", shape: "Execution"},
	"archive":                  {line: "archive fleet/upgrade:1.0.0", shape: "Definition"},
	"audit":                    {line: "audit", shape: "[AuditEntry]"},
	"batch":                    {line: "batch STARTS.ndjson", shape: "[BatchResult.items]"},
	"blocks":                   {line: "blocks", shape: "[Block]"},
	"blocks list":              {line: "blocks list", shape: "[Block]"},
	"blocks register":          {line: "blocks register BLOCK.json", shape: "[Block]"},
	"bulk":                     {line: "bulk retry --state FAILED_UNSAFE --yes", shape: "[BulkList.items]"},
	"cancel":                   {line: "cancel X", shape: "Execution"},
	"compensations":            {line: "compensations X", shape: "[Job]"},
	"completion":               {shape: "(a script of a shell)", fails: "completion bash more", code: 2},
	"config":                   {shape: "(help: it has verbs of its own)", fails: "config none", code: 2},
	"config list":              {line: "config list", shape: "[{name inUse url tenant auth}]", fails: "config list more", code: 2},
	"config path":              {line: "config path", shape: "{path}", fails: "config path more", code: 2},
	"config set":               {line: "config set --profile lab url http://lab.example", shape: "{profile}", fails: "config set --profile lab colour red", code: 2},
	"config show":              {line: "config show", shape: "{profile url tenant actor roles region auth}", fails: "config show --profile none", code: 2},
	"config use":               {line: "config use lab", shape: "{profile}", fails: "config use none", code: 2},
	"cost":                     {line: "cost X", shape: "Cost"},
	"definitions":              {line: "definitions", shape: "[Definition]"},
	"dev":                      {shape: "(it serves until Ctrl-C, and prints one line: ready http://localhost:PORT)", fails: "dev --port 70000", code: 2},
	"doctor":                   {line: "doctor", shape: "{ok findings unchecked}", exit: 1, fails: "doctor more", code: 2},
	"entities":                 {shape: "(help: it has verbs of its own)", fails: "entities none", code: 2},
	"entities delete":          {line: "entities delete device/sw-1", shape: "{deleted}"},
	"entities export":          {line: "entities export device", shape: "lines Entity"},
	"entities history":         {line: "entities history device/sw-1", shape: "[EntityExecution]"},
	"entities import":          {line: "entities import ENTITIES.ndjson", shape: "{imported}"},
	"entities list":            {line: "entities list device", shape: "[Entity]"},
	"entities patch":           {line: "entities patch device/sw-1 --set a=1", shape: "Entity"},
	"entities show":            {line: "entities show device/sw-1", shape: "Entity"},
	"entities sync":            {line: "entities sync --type device --yes -- cat ENTITIES.ndjson", shape: "{new changed missing unchanged applied written deleted notDeleted}"},
	"export":                   {line: "export OUT.ndjson", shape: "{blocks definitions entities}"},
	"failures":                 {line: "failures", shape: "[FailedEntity]"},
	"functions":                {shape: "{version architecture functions}", fails: "functions --out OUT --architecture none", code: 2},
	"graph":                    {line: "graph FILE.yaml", shape: "{format graph}", fails: "graph /nowhere.yaml", code: 2},
	"history":                  {line: "history X", shape: "[Event]"},
	"import":                   {line: "import BUNDLE.ndjson --dry-run", shape: "{dryRun blocks definitions entities}"},
	"init":                     {line: "init OUT/greeter", shape: "{files}", fails: "init OUT/9", code: 2},
	"inputs":                   {line: "inputs", shape: "[Input]"},
	"jobs":                     {line: "jobs X", shape: "[Job]"},
	"lint":                     {line: "lint FILE.yaml", shape: "{files}", fails: "lint /nowhere.yaml", code: 2},
	"list":                     {line: "list", shape: "[Execution]"},
	"locks":                    {line: "locks", shape: "[Lock]"},
	"logs":                     {line: "logs X", shape: "lines {at level text job step visit kind entity item attempt}"},
	"metrics":                  {line: "metrics", shape: "MetricsSummary"},
	"next":                     {line: "next X", shape: "Next"},
	"page":                     {shape: "(it serves until Ctrl-C)", fails: "page --port 70000 --url=http://127.0.0.1:1", code: 4},
	"plan":                     {line: "plan fleet/upgrade", shape: "Plan"},
	"publish":                  {line: "publish FILE.yaml", shape: "Definition"},
	"redrive":                  {line: "redrive --limit 1", shape: "Redrive"},
	"rerun":                    {line: "rerun X --all", shape: "Execution"},
	"restore":                  {line: "restore fleet/upgrade:1.0.0", shape: "Definition"},
	"result":                   {line: "result X", shape: "Result"},
	"resume":                   {line: "resume X", shape: "Execution"},
	"retry":                    {line: "retry X", shape: "Execution"},
	"rewind":                   {line: "rewind X --to a", shape: "Execution"},
	"run":                      {line: "run fleet/upgrade", shape: "Execution"},
	"schedules":                {line: "schedules", shape: "[Schedule]"},
	"schedules fire":           {line: "schedules fire fleet/upgrade", shape: "Execution"},
	"schedules pause":          {line: "schedules pause fleet/upgrade", shape: "Schedule"},
	"schedules remove":         {line: "schedules remove fleet/upgrade", shape: "Schedule"},
	"schedules resume":         {line: "schedules resume fleet/upgrade", shape: "Schedule"},
	"secrets":                  {line: "secrets", shape: "Secrets"},
	"show":                     {line: "show X", shape: "{execution steps failedJobs result history cost}"},
	"signal":                   {line: "signal X paid", shape: "Execution"},
	"status":                   {line: "status X", shape: "Execution"},
	"steps":                    {line: "steps X", shape: "[StepRun]"},
	"subscriptions":            {line: "subscriptions", shape: "[Subscription]"},
	"subscriptions deliveries": {line: "subscriptions deliveries s", shape: "[DeliveryAttempt]"},
	"subscriptions put":        {line: "subscriptions put s --webhook https://a.example", shape: "Subscription"},
	"subscriptions remove":     {line: "subscriptions remove s", shape: "Subscription"},
	"subscriptions resume":     {line: "subscriptions resume s", shape: "Subscription"},
	"subscriptions test":       {line: "subscriptions test s", shape: "DeliveryAttempt", exit: 1},
	"sweep":                    {line: "sweep", shape: "Sweep"},
	"tables":                   {line: "tables", shape: "[Table]"},
	"tables deliveries":        {line: "tables deliveries t", shape: "[DeliveryAttempt]"},
	"tables export":            {line: "tables export t", shape: "lines Row"},
	"tables put":               {line: "tables put TABLE.yaml", shape: "Table"},
	"tables retry":             {line: "tables retry t", shape: "RowsRetry"},
	"tables rows":              {line: "tables rows t", shape: "[Row]"},
	"test":                     {line: "test OUT.test.yaml", shape: "{passed failed tests}", fails: "test /nowhere.yaml", code: 2},
	"token":                    {line: "token X --for ann", shape: "Token"},
	"tokens":                   {line: "tokens X", shape: "[TokenState]"},
	"tree":                     {line: "tree X", shape: "{id workflow state outcome waiting children}"},
	"triggers":                 {line: "triggers", shape: "[Trigger]"},
	"triggers fire":            {line: "triggers fire push", shape: "TriggerReceipt"},
	"triggers pause":           {line: "triggers pause push", shape: "Trigger"},
	"triggers resume":          {line: "triggers resume push", shape: "Trigger"},
	"triggers stats":           {line: "triggers stats push", shape: "TriggerStats"},
	"triggers send":            {line: "triggers send --source shop --type placed", shape: "EventReceipt", exit: 5},
	"try":                      {shape: "Execution", fails: "try /nowhere.yaml", code: 2},
	"unlock":                   {line: "unlock X", shape: "Execution"},
	"version":                  {line: "version", shape: "{client service}", fails: "version more", code: 2},
	"watch":                    {line: "watch X", shape: "Execution"},
	"whoami":                   {line: "whoami", shape: "Caller"},
	"workers":                  {line: "workers", shape: "[Worker]"},
	"workers drain":            {line: "workers drain w1", shape: "Worker"},
}

// words is the shape as docs/cli.md says it.
func (s shape) words() string {
	text := string(s)
	if rest, ok := strings.CutPrefix(text, "lines "); ok {
		return shape(rest).words() + ", one on each line"
	}
	if inner, ok := strings.CutPrefix(text, "["); ok {
		return "a list of " + shape(strings.TrimSuffix(inner, "]")).words()
	}
	if inner, ok := strings.CutPrefix(text, "{"); ok {
		return "an object with `" + strings.Join(strings.Fields(strings.TrimSuffix(inner, "}")), "`, `") + "`"
	}
	if strings.HasPrefix(text, "(") {
		return "none: " + strings.Trim(text, "()")
	}
	return "`" + text + "`"
}

// check returns how a value differs from the shape, "" if it does not.
func (s shape) check(v any) string {
	text := string(s)
	if inner, ok := strings.CutPrefix(text, "["); ok {
		list, isList := v.([]any)
		if !isList || len(list) == 0 {
			return "no list with items"
		}
		for i, item := range list {
			if wrong := shape(strings.TrimSuffix(inner, "]")).check(item); wrong != "" {
				return fmt.Sprintf("item %d: %s", i, wrong)
			}
		}
		return ""
	}
	if inner, ok := strings.CutPrefix(text, "{"); ok {
		object, _ := v.(map[string]any)
		if got, want := slices.Sorted(maps.Keys(object)), slices.Sorted(slices.Values(strings.Fields(strings.TrimSuffix(inner, "}")))); !slices.Equal(got, want) {
			return fmt.Sprintf("fields %v, want %v", got, want)
		}
		return ""
	}
	name, inner, _ := strings.Cut(text, ".")
	at := "/components/schemas/" + name
	if inner != "" {
		at += "/properties/" + inner + "/items"
	}
	schema, err := lenientDocument().Compile(documentURL + "#" + at)
	if err == nil {
		err = schema.Validate(v)
	}
	if err != nil {
		return err.Error()
	}
	return ""
}

const documentURL = "lockstep:///lenient.json"

// lenientDocument has the schemas of the API document without the fields that they require: those that are null or
// empty may be absent.
func lenientDocument() *jsonschema.Compiler {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(openapi.JSON))
	if err != nil {
		panic(err)
	}
	var strip func(any)
	strip = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, item := range v {
				strip(item)
			}
		case map[string]any:
			if _, isList := v["required"].([]any); isList {
				delete(v, "required")
			}
			delete(v, "example")
			for _, item := range v {
				strip(item)
			}
		}
	}
	strip(doc)
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	if err := c.AddResource(documentURL, doc); err != nil {
		panic(err)
	}
	return c
}

// serveExamples starts a service that answers every operation with the example of the API document, on lists without a
// next page, and with an execution that has ended. It returns the --url flag.
func serveExamples(t *testing.T) string {
	t.Helper()
	routes := http.NewServeMux()
	for pattern, answer := range examples() {
		routes.HandleFunc(strings.Replace(pattern, " /", " /", 1), func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(answer.status)
			_, _ = w.Write(answer.body)
		})
	}
	s := httptest.NewServer(routes)
	t.Cleanup(s.Close)
	return "--url=" + s.URL
}

type exampleAnswer struct {
	status int
	body   []byte
}

// examples are the examples of the API document, by operation.
var examples = sync.OnceValue(func() map[string]exampleAnswer {
	var doc struct {
		Paths map[string]map[string]json.RawMessage
	}
	if err := json.Unmarshal(openapi.JSON, &doc); err != nil {
		panic(err)
	}
	all := map[string]exampleAnswer{}
	for path, methods := range doc.Paths {
		for method, raw := range methods {
			var operation struct {
				Responses map[string]struct {
					Content map[string]struct{ Example any }
				}
			}
			_ = json.Unmarshal(raw, &operation) // the parameters that all methods of a path share are no operation
			for status, response := range operation.Responses {
				answer, ok := response.Content["application/json"].Example.(map[string]any)
				if !ok || status >= "3" {
					continue
				}
				if _, isList := answer["nextPageToken"]; isList {
					answer["nextPageToken"] = nil
				}
				if path == "/workflow-execution/id/{id}" {
					answer["state"], answer["status"], answer["outcome"] = "COMPLETED_ACK", "COMPLETED", "SUCCEEDED"
				}
				body, err := json.Marshal(answer)
				if err != nil {
					panic(err)
				}
				code := 0
				_, _ = fmt.Sscan(status, &code)
				all[strings.ToUpper(method)+" "+path] = exampleAnswer{code, body}
			}
		}
	}
	return all
})

// writeSamples writes the files that command lines name, and returns the line with their paths.
func writeSamples(t *testing.T) *strings.Replacer {
	t.Helper()
	entity := `{"type":"device","id":"sw-1","attributes":{},"groups":[]}` + "\n"
	definition := "package: p\nname: w\nversion: 1.0.0\nsteps: [{label: a, set: {x: 1}}]\n"
	var pairs []string
	for name, text := range map[string]string{
		"STARTS.ndjson": `{"workflow":"fleet/upgrade"}` + "\n", "BLOCK.json": `{"package":"a","name":"b","version":"1.0.0"}`, "FILE.yaml": definition,
		"ENTITIES.ndjson": entity, "TABLE.yaml": "name: t\ncolumns: [{name: txn, type: string}]\n",
	} {
		pairs = append(pairs, name, writeFile(t, name, text))
	}
	dir := t.TempDir()
	for name, text := range map[string]string{"w.yaml": definition, "out.test.yaml": "definition: w.yaml\ntests: [{name: it ends, start: {}, expect: {outcome: SUCCEEDED}}]\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got := runCommand(t, "export", "--only", "entities", filepath.Join(dir, "BUNDLE.ndjson"), serveExamples(t)); got.code != 0 {
		t.Fatalf("exit %d\n%s", got.code, got.stderr)
	}
	pairs = append(pairs, "BUNDLE.ndjson", filepath.Join(dir, "BUNDLE.ndjson"))
	return strings.NewReplacer(append(pairs, "OUT", filepath.Join(dir, "out"))...)
}

// Every verb has a row: what it prints with --output json is what docs/cli.md says, it has help, and it fails in words
// and as a document.
func TestVerbs_PrintWhatTheReferenceSays(t *testing.T) {
	useProfiles(t, "profiles:\n  lab: {url: http://lab.example}\n")
	samples := writeSamples(t)
	good := serveExamples(t)
	refuses := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusForbidden)
		_, _ = w.Write([]byte(`{"code":"role","detail":"not you","status":403}`))
	}))
	defer refuses.Close()
	for verb, c := range verbOutputs {
		t.Run(verb, func(t *testing.T) {
			if got := runCommand(t, append(strings.Fields(verb), "--help")...); got.code != 0 || !strings.Contains(got.stdout, "Usage:\n  lockstep "+verb) {
				t.Errorf("help: exit %d\n%s%s", got.code, got.stdout, got.stderr)
			}
			args := strings.Fields(samples.Replace(c.line))
			if c.line != "" {
				got := runCommand(t, append([]string{"--output=json", good}, args...)...)
				if got.code != c.exit {
					t.Errorf("%s: exit %d, want %d\n%s%s", c.line, got.code, c.exit, got.stdout, got.stderr)
				}
				c.shape.checkOutput(t, got.stdout)
			}
			code, url := 3, "--url="+refuses.URL
			if c.fails != "" {
				args, code, url = strings.Fields(samples.Replace(c.fails)), c.code, "--tenant=t"
			}
			got := runCommand(t, append([]string{"--output=json", url}, args...)...)
			at := max(strings.LastIndex(got.stdout, "\n{\n  \"error\"")+1, 0)
			var doc struct{ Error *errorDocument }
			if err := json.Unmarshal([]byte(got.stdout[at:]), &doc); got.code != code || err != nil || doc.Error == nil || !strings.Contains(got.stderr, "lockstep: ") {
				t.Errorf("failure: exit %d, want %d, %v\n%s%s", got.code, code, err, got.stdout, got.stderr)
			}
		})
	}
	for _, verb := range listedVerbs() {
		if _, ok := verbOutputs[verb]; !ok {
			t.Errorf("%s has no row: say what it prints with --output json", verb)
		}
	}
	if len(verbOutputs) != len(listedVerbs()) {
		t.Errorf("%d rows, %d verbs", len(verbOutputs), len(listedVerbs()))
	}
}

func (s shape) checkOutput(t *testing.T, stdout string) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(stdout))
	one, lines := strings.CutPrefix(string(s), "lines ")
	for n := 0; d.More(); n++ {
		var raw json.RawMessage
		if err := d.Decode(&raw); err != nil {
			t.Fatalf("%v\n%s", err, stdout)
		}
		v, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
		if err != nil {
			t.Fatal(err)
		}
		if wrong := shape(one).check(v); wrong != "" || n > 0 && !lines {
			t.Errorf("document %d: %s\n%s", n, wrong, stdout)
		}
	}
	if strings.TrimSpace(stdout) == "" {
		t.Error("it prints nothing")
	}
}

// listedVerbs are the verbs that docs/cli.md lists.
func listedVerbs() (verbs []string) {
	for _, c := range listedCommands() {
		verbs = append(verbs, strings.TrimPrefix(c.CommandPath(), "lockstep "))
	}
	return verbs
}
