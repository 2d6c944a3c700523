package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/lockstep-run/lockstep/shared/api/openapi"
)

// shape is JSON in short: the name of a schema of the API document, "[Name]" for a list of them, "Name+field" for one
// with more fields, "{a b c?}" for an object of these fields, "[{a b}]" for a list of them, "lines X" for one X on each
// line, and "(text)" for what is no JSON, with why.
type shape string

// verbOutputs is what each verb prints with --output json.
var verbOutputs = map[string]shape{
	"acknowledge":              "Execution",
	"answer":                   "Execution",
	"archive":                  "Definition",
	"audit":                    "[AuditEntry]",
	"batch":                    "[BatchResult.items]",
	"blocks":                   "[Block]",
	"blocks list":              "[Block]",
	"blocks register":          "[Block]",
	"bulk":                     "[BulkList.items]",
	"cancel":                   "Execution",
	"compensations":            "[Job]",
	"completion":               "(a script of a shell)",
	"config":                   "(help: it has verbs of its own)",
	"config list":              "[{name inUse url tenant auth}]",
	"config path":              "{path}",
	"config set":               "{profile}",
	"config show":              "{profile url tenant actor roles region auth}",
	"config use":               "{profile}",
	"cost":                     "Cost",
	"definitions":              "[Definition]",
	"dev":                      "(it serves until Ctrl-C, and prints one line: ready http://localhost:PORT)",
	"doctor":                   "{ok findings unchecked}",
	"entities":                 "(help: it has verbs of its own)",
	"entities delete":          "{deleted}",
	"entities export":          "lines Entity",
	"entities history":         "[EntityExecution]",
	"entities import":          "{imported}",
	"entities list":            "[Entity]",
	"entities patch":           "Entity",
	"entities show":            "Entity",
	"entities sync":            "{new changed missing unchanged applied written deleted notDeleted}",
	"export":                   "{blocks definitions entities}",
	"failures":                 "[FailedEntity]",
	"functions":                "{version architecture functions}",
	"graph":                    "{format graph}",
	"history":                  "[Event]",
	"import":                   "{dryRun blocks definitions entities}",
	"init":                     "{files}",
	"inputs":                   "[Input]",
	"jobs":                     "[Job]",
	"lint":                     "{files}",
	"list":                     "[Execution]",
	"locks":                    "[Lock]",
	"logs":                     "lines {at level text job step visit kind entity item attempt}",
	"metrics":                  "MetricsSummary",
	"next":                     "Next",
	"page":                     "(it serves until Ctrl-C)",
	"plan":                     "Plan",
	"publish":                  "Definition",
	"redrive":                  "Redrive",
	"rerun":                    "Execution",
	"restore":                  "Definition",
	"result":                   "Result",
	"resume":                   "Execution",
	"retry":                    "Execution",
	"rewind":                   "Execution",
	"run":                      "Execution",
	"schedules":                "[Schedule]",
	"schedules fire":           "Execution",
	"schedules pause":          "Schedule",
	"schedules remove":         "Schedule",
	"schedules resume":         "Schedule",
	"secrets":                  "Secrets",
	"show":                     "{execution steps failedJobs result history cost}",
	"signal":                   "Execution",
	"status":                   "Execution",
	"steps":                    "[StepRun]",
	"subscriptions":            "[Subscription]",
	"subscriptions deliveries": "[DeliveryAttempt]",
	"subscriptions put":        "Subscription",
	"subscriptions remove":     "Subscription",
	"subscriptions resume":     "Subscription",
	"subscriptions test":       "DeliveryAttempt",
	"sweep":                    "Sweep",
	"tables":                   "[Table]",
	"tables deliveries":        "[DeliveryAttempt]",
	"tables export":            "lines Row",
	"tables put":               "Table",
	"tables retry":             "RowsRetry",
	"tables rows":              "[Row]",
	"test":                     "{passed failed tests}",
	"token":                    "Token",
	"tokens":                   "[TokenState]",
	"tree":                     "{id workflow state outcome waiting children followUp}",
	"triggers":                 "[Trigger]",
	"triggers fire":            "TriggerReceipt",
	"triggers pause":           "Trigger",
	"triggers resume":          "Trigger",
	"triggers send":            "EventReceipt",
	"triggers history":         "[TriggerCall]",
	"triggers stats":           "TriggerStats",
	"try":                      "Execution",
	"unlock":                   "Execution",
	"version":                  "{client service}",
	"watch":                    "Execution",
	"whoami":                   "Caller",
	"workers":                  "[Worker]",
	"workers drain":            "Worker",
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
	compiling.Lock()
	schema, err := lenientDocument().Compile(documentURL + "#" + at)
	compiling.Unlock()
	if err == nil {
		err = schema.Validate(v)
	}
	if err != nil {
		return err.Error()
	}
	return ""
}

const documentURL = "lockstep:///lenient.json"

// compiling is held while a schema is compiled: scripts that run side by side share the compiler.
var compiling sync.Mutex

// lenientDocument has the schemas of the API document without the fields that they require: those that are null or
// empty may be absent.
var lenientDocument = sync.OnceValue(func() *jsonschema.Compiler {
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
})

// differs returns how the output of a verb differs from the shape, "" if it does not.
func (s shape) differs(stdout string) string {
	if strings.TrimSpace(stdout) == "" {
		return "it prints nothing"
	}
	d := json.NewDecoder(strings.NewReader(stdout))
	one, lines := strings.CutPrefix(string(s), "lines ")
	for n := 0; d.More(); n++ {
		var raw json.RawMessage
		if err := d.Decode(&raw); err != nil {
			return err.Error()
		}
		v, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
		if err != nil {
			return err.Error()
		}
		if wrong := shape(one).check(v); wrong != "" || n > 0 && !lines {
			return fmt.Sprintf("document %d: %s", n, wrong)
		}
	}
	return ""
}

// listedVerbs are the verbs that docs/cli.md lists.
func listedVerbs() (verbs []string) {
	for _, c := range listedCommands() {
		verbs = append(verbs, strings.TrimPrefix(c.CommandPath(), "lockstep "))
	}
	return verbs
}
