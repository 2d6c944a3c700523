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
	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

// requestGenerator generates requests, and learns from the answers what exists.
type requestGenerator struct {
	*fixture
	*valueGenerator
	definitionSchema map[string]any
	executions       []string
	awaitingOperator []string            // executions that an operator can act on
	asking           []string            // executions that ask for input
	answerTokens     []string            // with which they are answered
	pageTokens       map[string][]string // by path
	polledPacks      []polledPack
}

// polledPack is a pack that a worker polled.
type polledPack struct {
	Pack  string
	Token int
	Jobs  []struct{ Job struct{ ID string } }
}

func newRequestGenerator(f *fixture, seed uint64) *requestGenerator {
	g := &requestGenerator{fixture: f, valueGenerator: &valueGenerator{Rand: rand.New(rand.NewPCG(seed, 1)), root: openAPI()}, pageTokens: map[string][]string{}}
	if err := json.Unmarshal(definition.Schema(), &g.definitionSchema); err != nil {
		panic(err)
	}
	return g
}

// expressions are valid and invalid.
var expressions = []string{
	"true", "false", "parameters.n > 1", `entity.name == "d001"`, "one.result.attempt == 1", "size(one.results) > 0", "steps.one.status", "1 +", "missing.result",
	`now > timestamp("2026-01-01T00:00:00Z")`, `entity("device", "d001").name != ""`, `parameters.list.all(x, x > 1)`, `"a" * 3`, "execution.id",
}

// setExisting sets what exists, as field values for a route.
func (g *requestGenerator) setExisting(r route) {
	devices := []string{"d001", "d002", "d003", "d004"}
	g.existing = map[string][]string{
		"package": {"p"}, "name": {"one", "two", "pure", "again", "unsafe"}, "version": {"1", "1.0", "1.0.0", "2.0.0"}, "type": {"device"}, "group": {"all"},
		"workflow": {"p/one", "p/two:1", "p/two:1.0.0", "p/unsafe:1"}, "step": {"one", "two"}, "entity": {"device/d001", "d002"},
		"query": expressions, "from": {"one", "two"}, "to": {"one", "two"}, "worker": {"w1", "w2"}, "blocks": {"p/pure:1", "p/again:1"},
		"key": {"order-7", "order-8", "order-9"}, "wait": {"0s", "1s"}, "region": {"eu"}, "pageToken": g.pageTokens[r.path], "parent": g.executions, "url": {"http://127.0.0.1:9/x"},
		// Fields of definitions.
		"functionBlock": {"p/pure:1", "p/again:1", "p/once:1", "p/forever", "p/harmless:1.0.0"}, "runOn": {"device", "device", "global"}, "seedEntity": {"device"},
		"condition": expressions, "while": expressions, "when": expressions, "startWhen": expressions, "assert": expressions,
		"delay": {"1s", "0s", "1h"}, "timeout": {"1m", "10s"}, "stepTimeout": {"1h"}, "notBefore": {"2026-01-01T00:00:00Z", "${parameters.at}"}, "schedule": {"0 0 * * *", "*/5 * * * *"},
		"zone": {"UTC", "Europe/Zurich"}, "timezone": {"UTC", "Europe/Zurich"},
	}
	if strings.HasPrefix(r.path, "/hooks/") || strings.HasPrefix(r.path, "/forms/") {
		g.existing["tenant"] = []string{g.tenant}
	}
	switch {
	case strings.Contains(r.path, "/tokens"), strings.HasSuffix(r.path, "/rewind"):
		g.existing["id"] = g.asking
	case strings.HasPrefix(r.path, "/workflow-execution"), strings.HasPrefix(r.path, "/executions"):
		g.existing["id"] = append(slices.Clone(g.executions[max(0, len(g.executions)-10):]), g.awaitingOperator...)
	case strings.HasPrefix(r.path, "/workers"):
		g.existing["id"] = g.existing["worker"]
	default:
		g.existing["id"] = devices
	}
}

// generatedRequest is a request, and what is expected of it.
type generatedRequest struct {
	*http.Request
	text          string
	valid         bool // as documented, and not corrupted
	ambiguousPath bool // its path may not match the route
}

// generate returns a request to a route. One in three is corrupted in one place.
func (g *requestGenerator) generate(r route) generatedRequest {
	g.setExisting(r)
	corrupted := g.oneIn(3)
	places := 2 + len(r.parameters)
	where := -1
	if corrupted {
		where = g.IntN(places)
	}
	q := generatedRequest{valid: !corrupted}
	path, query, header := r.path, url.Values{}, http.Header{}
	for i, p := range r.parameters {
		if !p.required && where != i && !g.oneIn(3) {
			continue
		}
		v := g.value(p.schema, p.name, 0)
		if where == i {
			v = g.corrupt(v)
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
	for _, p := range r.parameters { // a list that was corrupted to an empty one
		if strings.Contains(path, "{"+p.name+"}") {
			path, q.ambiguousPath = strings.Replace(path, "{"+p.name+"}", "", 1), true
		}
	}
	body := g.requestBody(r, where == places-1)
	target := path
	if len(query) > 0 {
		target += "?" + query.Encode()
	}
	if where == places-2 {
		target += pick(g.Rand, "?", "&") + pick(g.Rand, "unknown=1", "limit=", "%zz", "limit=1&limit=2", ";", "state=%00", "pageToken=x", strings.Repeat("a=1&", 500))
		header.Set(pick(g.Rand, "X-Tenant", "X-Actor", "X-Request-Id", "Content-Type", "Idempotency-Key", "Origin", "Accept", "If-Match", "If-None-Match", "Range"), pick(g.Rand, append([]string{"*", "bytes=1-2"}, oddStrings...)...))
	}
	req, err := http.NewRequest(r.method, "http://test"+path, bytes.NewReader(body))
	if err != nil {
		g.Fatalf("%s %q: %v", r.method, path, err)
	}
	if _, raw, found := strings.Cut(target, "?"); found {
		req.URL.RawQuery = raw
	}
	req.Header = header
	if strings.HasPrefix(r.path, "/hooks/") && !g.oneIn(3) {
		req.Header.Set("Authorization", "Bearer "+harness.TriggerSecret)
	}
	if r.path == "/answers" && len(g.answerTokens) > 0 && !g.oneIn(3) {
		req.Header.Set("Authorization", "Bearer "+pick(g.Rand, g.answerTokens...))
	}
	if req.Header.Get("X-Tenant") == "" {
		req.Header.Set("X-Tenant", g.tenant)
	}
	q.Request, q.text = req, fmt.Sprintf("%s %.600s %v\n%.2000s", r.method, target, header, body)
	return q
}

func (g *requestGenerator) requestBody(r route, corrupted bool) []byte {
	switch {
	case r.anyBody && strings.Contains(r.path, "publish"):
		return g.definition(corrupted)
	case r.anyBody:
		return g.entityLines(corrupted)
	case r.body == nil || (!r.needsBody && g.oneIn(3)):
		if corrupted {
			return []byte(pick(g.Rand, oddStrings...))
		}
		return nil
	}
	v := g.value(r.body, "", 0)
	// The entity is named by the path.
	if m := asObject(v); m != nil && strings.HasPrefix(r.path, "/entities/{type}") {
		delete(m, "type")
		delete(m, "id")
	}
	if !g.oneIn(4) { // few workers serve a region
		delete(asObject(v), "region")
	}
	if list, ok := asObject(v)["blocks"].([]any); ok {
		for i := range list {
			list[i] = pick(g.Rand, g.existing["blocks"]...)
		}
	}
	if len(g.polledPacks) > 0 && strings.HasPrefix(r.path, "/blackboard/job/") && !g.oneIn(3) {
		o := g.polledPacks[max(0, len(g.polledPacks)-1-g.IntN(3))]
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
	return g.encode(v, corrupted)
}

// encode returns a value as JSON, corrupted if it is to be.
func (g *requestGenerator) encode(v any, corrupted bool) []byte {
	if corrupted && !g.oneIn(4) {
		v, corrupted = g.corrupt(v), false
	}
	text, err := json.Marshal(v)
	if err != nil {
		g.Fatal(err)
	}
	if !corrupted || len(text) == 0 {
		return text
	}
	i := g.IntN(len(text))
	switch g.IntN(4) {
	case 0:
		return text[:i]
	case 1:
		return append(text, text...)
	case 2:
		return bytes.Repeat([]byte("["), 20_000)
	}
	text[i] = byte(g.IntN(256))
	return text
}

// definitionSources are valid definitions, which are corrupted byte by byte.
var definitionSources = []string{
	"package: p\nname: NAME\nversion: 1.0.0\nseedEntity: device\nsteps:\n  - {label: one, functionBlock: p/pure:1, runOn: device}\n  - {label: two, functionBlock: p/again:1, runOn: device, condition: \"one.result.attempt == 1\", retry: {maxRetries: 2, delay: 1s}}\n",
	"package: p\nname: NAME\nversion: 1.0.0\nconfig: {maxInFlight: 2, timeout: 1h, startWhen: \"true\"}\nacquire:\n  - {type: device, groups: [all]}\nsteps:\n  - {label: one, workflow: {steps: [{label: in, functionBlock: p/once:1, runOn: device, parameters: {a: \"${parameters.a}\"}}]}}\n  - {label: out, workflowReference: {workflow: p/one, mode: dispatch, executeOnParameters: {type: device, ids: [d001]}}}\n",
}

func (g *requestGenerator) definition(corrupted bool) []byte {
	name := pick(g.Rand, "one", "two", fmt.Sprint("n", g.IntN(20)))
	if g.oneIn(2) {
		text := []byte(strings.ReplaceAll(pick(g.Rand, definitionSources...), "NAME", name))
		for corrupted && g.oneIn(2) {
			text[g.IntN(len(text))] = pick(g.Rand, []byte("\x00:-{}[]&*!|>'\"%@`#, \n\t0a\xff")...)
		}
		return text
	}
	root := g.root
	g.root = g.definitionSchema
	defer func() { g.root = root }()
	v := asObject(g.value(g.definitionSchema, "", 0))
	v["package"], v["name"] = "p", name
	assignLabels(v["steps"], new(int))
	return g.encode(v, corrupted)
}

// assignLabels gives every step another label.
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

func (g *requestGenerator) entityLines(corrupted bool) []byte {
	var all []byte
	for i := range 1 + g.IntN(4) {
		v := g.value(map[string]any{"$ref": "#/components/schemas/EntityInput"}, "", 0)
		asObject(v)["type"], asObject(v)["id"] = "device", fmt.Sprint("d00", g.IntN(9))
		all = append(append(all, g.encode(v, corrupted && i == 0)...), '\n')
	}
	return all
}

// refreshAwaiting finds executions that wait for an operator.
func (g *requestGenerator) refreshAwaiting() {
	g.awaitingOperator = nil
	for _, state := range []string{"FAILED_UNSAFE", "CANCELLED", "BLOCKED_WAITING"} {
		var page struct{ Items []struct{ ID string } }
		g.mustDo(&page, "GET", "/workflow-execution/state/"+state+"?limit=5", "")
		for _, x := range page.Items {
			g.awaitingOperator = append(g.awaitingOperator, x.ID)
		}
	}
}

// observe remembers ids and page tokens of an answer.
func (g *requestGenerator) observe(r route, status int, body []byte) {
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
		g.executions = append(g.executions, v.ID)
	}
	if strings.HasSuffix(r.path, "/tokens") {
		var made struct{ Token string }
		if err := json.Unmarshal(body, &made); err != nil {
			g.Fatal(err)
		}
		g.answerTokens = append(g.answerTokens, made.Token)
	}
	if v.NextPageToken != nil {
		g.pageTokens[r.path] = append(g.pageTokens[r.path], *v.NextPageToken)
	}
	if r.path == "/blackboard/job" && v.Pack != "" {
		g.polledPacks = append(g.polledPacks, v.polledPack)
	}
}
