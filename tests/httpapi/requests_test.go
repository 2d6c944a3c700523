package httpapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/lockstep-run/lockstep/shared/definition"
)

// requestGenerator makes requests about a world, and learns from its answers what exists.
type requestGenerator struct {
	*fixture
	*valueGenerator
	definitionSchema map[string]any // of definitions
	executions       []string
	awaitingOperator []string            // runs that an operator can do something with
	pageTokens       map[string][]string // tokens, by path
	polledPacks      []polledPack
}

// polledPack is a pack that a worker was given.
type polledPack struct {
	Pack  string
	Token int
	Jobs  []struct{ Job struct{ ID string } }
}

func newRequestGenerator(w *fixture, seed uint64) *requestGenerator {
	a := &requestGenerator{fixture: w, valueGenerator: &valueGenerator{Rand: rand.New(rand.NewPCG(seed, 1)), root: openAPI()}, pageTokens: map[string][]string{}}
	if err := json.Unmarshal(definition.Schema(), &a.definitionSchema); err != nil {
		panic(err)
	}
	return a
}

// Everything that expressions can be, good and bad.
var expressions = []string{
	"true", "false", "parameters.n > 1", `entity.name == "d001"`, "one.result.attempt == 1", "size(one.results) > 0", "steps.one.status", "1 +", "nobody.result",
	`now > timestamp("2026-01-01T00:00:00Z")`, `entity("device", "d001").name != ""`, `parameters.list.all(x, x > 1)`, `"a" * 3`, "execution.id",
}

// fillWords fills in what exists, as the route names it.
func (a *requestGenerator) fillWords(r route) {
	devices := []string{"d001", "d002", "d003", "d004"}
	a.words = map[string][]string{
		"package": {"p"}, "name": {"one", "two", "pure", "again", "unsafe"}, "version": {"1", "1.0", "1.0.0", "2.0.0"}, "type": {"device"}, "group": {"all"},
		"workflow": {"p/one", "p/two:1", "p/two:1.0.0", "p/unsafe:1"}, "step": {"one", "two"}, "entity": {"device/d001", "d002"},
		"query": expressions, "from": {"one", "two"}, "worker": {"w1", "w2"}, "blocks": {"p/pure:1", "p/again:1"},
		"wait": {"0s", "1s"}, "pageToken": a.pageTokens[r.path], "parent": a.executions, "url": {"http://127.0.0.1:9/x"},
		// Of definitions.
		"functionBlock": {"p/pure:1", "p/again:1", "p/once:1", "p/forever", "p/harmless:1.0.0"}, "runOn": {"device", "device", "global"}, "seedEntity": {"device"},
		"condition": expressions, "while": expressions, "when": expressions, "startWhen": expressions, "assert": expressions,
		"delay": {"1s", "0s", "1h"}, "timeout": {"1m", "10s"}, "stepTimeout": {"1h"}, "notBefore": {"2026-01-01T00:00:00Z", "${parameters.at}"}, "schedule": {"0 0 * * *", "*/5 * * * *"},
		"zone": {"UTC", "Europe/Zurich"}, "timezone": {"UTC", "Europe/Zurich"},
	}
	switch {
	case strings.HasPrefix(r.path, "/workflow-execution"), strings.HasPrefix(r.path, "/executions"):
		a.words["id"] = append(slices.Clone(a.executions[max(0, len(a.executions)-10):]), a.awaitingOperator...)
	case strings.HasPrefix(r.path, "/workers"):
		a.words["id"] = a.words["worker"]
	default:
		a.words["id"] = devices
	}
}

// generatedRequest is a request, and what is known of it.
type generatedRequest struct {
	*http.Request
	text          string
	valid         bool // made as the document says, and nothing spoilt
	ambiguousPath bool // its path may not lead to the route
}

// generate makes a request to a route. One in three is spoilt in one place.
func (a *requestGenerator) generate(r route) generatedRequest {
	a.fillWords(r)
	spoilt := a.oneIn(3)
	places := 2 + len(r.parameters)
	where := -1
	if spoilt {
		where = a.IntN(places)
	}
	q := generatedRequest{valid: !spoilt}
	path, query, header := r.path, url.Values{}, http.Header{}
	for i, p := range r.parameters {
		if !p.required && where != i && !a.oneIn(3) {
			continue
		}
		v := a.value(p.schema, p.name, 0)
		if where == i {
			v = a.corrupt(v)
		}
		list, ok := v.([]any)
		if !ok {
			list = []any{v}
		}
		for n, v := range list {
			text := fmt.Sprint(v)
			if f, ok := v.(float64); ok && f == float64(int64(f)) {
				text = fmt.Sprint(int64(f))
			}
			switch {
			case p.in == "query":
				query.Add(p.name, text)
			case p.in == "path" && n == 0:
				q.ambiguousPath = q.ambiguousPath || text == "" || text == "." || text == ".." || strings.Contains(text, "/")
				path = strings.Replace(path, "{"+p.name+"}", url.PathEscape(text), 1)
			case p.in == "header" && n == 0:
				header.Set(p.name, text)
			}
		}
	}
	for _, p := range r.parameters { // a list that was spoilt to nothing
		if strings.Contains(path, "{"+p.name+"}") {
			path, q.ambiguousPath = strings.Replace(path, "{"+p.name+"}", "", 1), true
		}
	}
	body := a.requestBody(r, where == places-1)
	target := path
	if len(query) > 0 {
		target += "?" + query.Encode()
	}
	if where == places-2 {
		target += pick(a.Rand, "?", "&") + pick(a.Rand, "unknown=1", "limit=", "%zz", "limit=1&limit=2", ";", "state=%00", "pageToken=x", strings.Repeat("a=1&", 500))
		header.Set(pick(a.Rand, "X-Tenant", "X-Actor", "X-Request-Id", "Content-Type", "Idempotency-Key", "Origin", "Accept", "If-Match", "If-None-Match", "Range"), pick(a.Rand, append([]string{"*", "bytes=1-2"}, oddStrings...)...))
	}
	req, err := http.NewRequest(r.method, "http://test"+path, bytes.NewReader(body))
	if err != nil {
		a.Fatalf("%s %q: %v", r.method, path, err)
	}
	if _, raw, found := strings.Cut(target, "?"); found {
		req.URL.RawQuery = raw
	}
	req.Header = header
	if req.Header.Get("X-Tenant") == "" {
		req.Header.Set("X-Tenant", a.tenant)
	}
	q.Request, q.text = req, fmt.Sprintf("%s %.600s %v\n%.2000s", r.method, target, header, body)
	return q
}

// requestBody is a body.
func (a *requestGenerator) requestBody(r route, spoilt bool) []byte {
	switch {
	case r.anyBody && strings.Contains(r.path, "publish"):
		return a.definition(spoilt)
	case r.anyBody:
		return a.entityLines(spoilt)
	case r.body == nil || (!r.needsBody && a.oneIn(3)):
		if spoilt {
			return []byte(pick(a.Rand, oddStrings...))
		}
		return nil
	}
	v := a.value(r.body, "", 0)
	// An entity in a body is named as in its path, or not at all.
	if m := asObject(v); m != nil && strings.HasPrefix(r.path, "/entities/{type}") {
		delete(m, "type")
		delete(m, "id")
	}
	if list, ok := asObject(v)["blocks"].([]any); ok {
		for i := range list {
			list[i] = pick(a.Rand, a.words["blocks"]...)
		}
	}
	if len(a.polledPacks) > 0 && strings.HasPrefix(r.path, "/blackboard/job/") && !a.oneIn(3) {
		o := a.polledPacks[max(0, len(a.polledPacks)-1-a.IntN(3))]
		asObject(v)["pack"], asObject(v)["token"] = o.Pack, o.Token
		if list, ok := asObject(v)["results"].([]any); ok {
			list = list[:min(len(list), len(o.Jobs))]
			for i := range list {
				asObject(list[i])["job"] = o.Jobs[i].Job.ID
			}
			asObject(v)["results"] = list
			delete(asObject(v), "notBegun")
		}
	}
	return a.encode(v, spoilt)
}

// encode is a value as JSON, or what is left of it.
func (a *requestGenerator) encode(v any, spoilt bool) []byte {
	if spoilt && !a.oneIn(4) {
		v, spoilt = a.corrupt(v), false
	}
	text, err := json.Marshal(v)
	if err != nil {
		a.Fatal(err)
	}
	if !spoilt || len(text) == 0 {
		return text
	}
	i := a.IntN(len(text))
	switch a.IntN(4) {
	case 0:
		return text[:i]
	case 1:
		return append(text, text...)
	case 2:
		return bytes.Repeat([]byte("["), 20_000)
	}
	text[i] = byte(a.IntN(256))
	return text
}

// definitionSources are good definitions, to be spoilt letter by letter.
var definitionSources = []string{
	"package: p\nname: NAME\nversion: 1.0.0\nseedEntity: device\nsteps:\n  - {label: one, functionBlock: p/pure:1, runOn: device}\n  - {label: two, functionBlock: p/again:1, runOn: device, condition: \"one.result.attempt == 1\", retry: {maxRetries: 2, delay: 1s}}\n",
	"package: p\nname: NAME\nversion: 1.0.0\nconfig: {maxInFlight: 2, timeout: 1h, startWhen: \"true\"}\nacquire:\n  - {type: device, groups: [all]}\nsteps:\n  - {label: one, workflow: {steps: [{label: in, functionBlock: p/once:1, runOn: device, parameters: {a: \"${parameters.a}\"}}]}}\n  - {label: out, workflowReference: {workflow: p/one, mode: dispatch, executeOnParameters: {type: device, ids: [d001]}}}\n",
}

func (a *requestGenerator) definition(spoilt bool) []byte {
	name := pick(a.Rand, "one", "two", fmt.Sprint("n", a.IntN(20)))
	if a.oneIn(2) {
		text := []byte(strings.ReplaceAll(pick(a.Rand, definitionSources...), "NAME", name))
		for spoilt && a.oneIn(2) {
			text[a.IntN(len(text))] = pick(a.Rand, []byte("\x00:-{}[]&*!|>'\"%@`#, \n\t0a\xff")...)
		}
		return text
	}
	in := a.root
	a.root = a.definitionSchema
	defer func() { a.root = in }()
	v := asObject(a.value(a.definitionSchema, "", 0))
	v["package"], v["name"] = "p", name
	assignLabels(v["steps"], new(int))
	return a.encode(v, spoilt)
}

// assignLabels gives every step a label of its own.
func assignLabels(v any, n *int) {
	switch v := v.(type) {
	case []any:
		for _, item := range v {
			assignLabels(item, n)
		}
	case map[string]any:
		if _, ok := v["label"]; ok {
			*n++
			v["label"] = map[int]string{1: "one", 2: "two"}[*n]
			if *n > 2 {
				v["label"] = fmt.Sprint("s", *n)
			}
		}
		for _, name := range sortedKeys(v) {
			assignLabels(v[name], n)
		}
	}
}

func (a *requestGenerator) entityLines(spoilt bool) []byte {
	var all []byte
	for i := range 1 + a.IntN(4) {
		v := a.value(map[string]any{"$ref": "#/components/schemas/EntityInput"}, "", 0)
		asObject(v)["type"], asObject(v)["id"] = "device", fmt.Sprint("d00", a.IntN(9))
		all = append(append(all, a.encode(v, spoilt && i == 0)...), '\n')
	}
	return all
}

// refreshAwaiting finds the runs that wait for an operator.
func (a *requestGenerator) refreshAwaiting() {
	a.awaitingOperator = nil
	for _, state := range []string{"FAILED_UNSAFE", "CANCELLED", "BLOCKED_WAITING"} {
		var page struct{ Items []struct{ ID string } }
		a.mustDo(&page, "GET", "/workflow-execution/state/"+state+"?limit=5", "")
		for _, x := range page.Items {
			a.awaitingOperator = append(a.awaitingOperator, x.ID)
		}
	}
}

// observe remembers what an answer names.
func (a *requestGenerator) observe(r route, status int, body []byte) {
	if status >= 300 {
		return
	}
	var v struct {
		polledPack
		ID            string
		NextPageToken *string
	}
	_ = json.Unmarshal(body, &v) // not every answer has such fields
	if r.path == "/workflow-execution" && r.method == http.MethodPost {
		a.executions = append(a.executions, v.ID)
	}
	if v.NextPageToken != nil {
		a.pageTokens[r.path] = append(a.pageTokens[r.path], *v.NextPageToken)
	}
	if r.path == "/blackboard/job" && v.Pack != "" {
		a.polledPacks = append(a.polledPacks, v.polledPack)
	}
}
