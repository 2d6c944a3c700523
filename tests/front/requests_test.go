package front

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

// asker makes requests about a world, and learns from its answers what exists.
type asker struct {
	*world
	*maker
	format  map[string]any // of definitions
	runs    []string
	resting []string            // runs that an operator can do something with
	pages   map[string][]string // tokens, by path
	offers  []offer
}

// offer is a pack that a worker was given.
type offer struct {
	Pack  string
	Token int
	Jobs  []struct{ Job struct{ ID string } }
}

func newAsker(w *world, seed uint64) *asker {
	a := &asker{world: w, maker: &maker{Rand: rand.New(rand.NewPCG(seed, 1)), in: root()}, pages: map[string][]string{}}
	if err := json.Unmarshal(definition.Schema(), &a.format); err != nil {
		panic(err)
	}
	return a
}

// Everything that expressions can be, good and bad.
var conditions = []string{
	"true", "false", "parameters.n > 1", `entity.name == "d001"`, "one.result.attempt == 1", "size(one.results) > 0", "steps.one.status", "1 +", "nobody.result",
	`now > timestamp("2026-01-01T00:00:00Z")`, `entity("device", "d001").name != ""`, `parameters.list.all(x, x > 1)`, `"a" * 3`, "execution.id",
}

// known fills in what exists, as the route names it.
func (a *asker) known(r route) {
	devices := []string{"d001", "d002", "d003", "d004"}
	a.words = map[string][]string{
		"package": {"p"}, "name": {"one", "two", "pure", "again", "unsafe"}, "version": {"1", "1.0", "1.0.0", "2.0.0"}, "type": {"device"}, "group": {"all"},
		"workflow": {"p/one", "p/two:1", "p/two:1.0.0", "p/unsafe:1"}, "step": {"one", "two"}, "entity": {"device/d001", "d002"},
		"query": conditions, "from": {"one", "two"}, "worker": {"w1", "w2"}, "blocks": {"p/pure:1", "p/again:1"},
		"wait": {"0s", "1s"}, "pageToken": a.pages[r.path], "parent": a.runs, "url": {"http://127.0.0.1:9/x"},
		// Of definitions.
		"functionBlock": {"p/pure:1", "p/again:1", "p/once:1", "p/forever", "p/harmless:1.0.0"}, "runOn": {"device", "device", "global"}, "seedEntity": {"device"},
		"condition": conditions, "while": conditions, "when": conditions, "startWhen": conditions, "assert": conditions,
		"delay": {"1s", "0s", "1h"}, "timeout": {"1m", "10s"}, "stepTimeout": {"1h"}, "notBefore": {"2026-01-01T00:00:00Z", "${parameters.at}"}, "schedule": {"0 0 * * *", "*/5 * * * *"},
		"zone": {"UTC", "Europe/Zurich"}, "timezone": {"UTC", "Europe/Zurich"},
	}
	switch {
	case strings.HasPrefix(r.path, "/workflow-execution"), strings.HasPrefix(r.path, "/executions"):
		a.words["id"] = append(slices.Clone(a.runs[max(0, len(a.runs)-10):]), a.resting...)
	case strings.HasPrefix(r.path, "/workers"):
		a.words["id"] = a.words["worker"]
	default:
		a.words["id"] = devices
	}
}

// asked is a request, and what is known of it.
type asked struct {
	*http.Request
	text  string
	clean bool // made as the document says, and nothing spoilt
	stray bool // its path may not lead to the route
}

// request makes a request to a route. One in three is spoilt in one place.
func (a *asker) request(r route) asked {
	a.known(r)
	spoilt := a.chance(3)
	places := 2 + len(r.parameters)
	where := -1
	if spoilt {
		where = a.IntN(places)
	}
	q := asked{clean: !spoilt}
	path, query, header := r.path, url.Values{}, http.Header{}
	for i, p := range r.parameters {
		if !p.required && where != i && !a.chance(3) {
			continue
		}
		v := a.value(p.schema, p.name, 0)
		if where == i {
			v = a.spoil(v)
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
				q.stray = q.stray || text == "" || text == "." || text == ".." || strings.Contains(text, "/")
				path = strings.Replace(path, "{"+p.name+"}", url.PathEscape(text), 1)
			case p.in == "header" && n == 0:
				header.Set(p.name, text)
			}
		}
	}
	for _, p := range r.parameters { // a list that was spoilt to nothing
		if strings.Contains(path, "{"+p.name+"}") {
			path, q.stray = strings.Replace(path, "{"+p.name+"}", "", 1), true
		}
	}
	body := a.content(r, where == places-1)
	target := path
	if len(query) > 0 {
		target += "?" + query.Encode()
	}
	if where == places-2 {
		target += pick(a.Rand, "?", "&") + pick(a.Rand, "unknown=1", "limit=", "%zz", "limit=1&limit=2", ";", "state=%00", "pageToken=x", strings.Repeat("a=1&", 500))
		header.Set(pick(a.Rand, "X-Tenant", "X-Actor", "X-Request-Id", "Content-Type", "Idempotency-Key", "Origin", "Accept", "If-Match", "If-None-Match", "Range"), pick(a.Rand, append([]string{"*", "bytes=1-2"}, strange...)...))
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

// content is a body.
func (a *asker) content(r route, spoilt bool) []byte {
	switch {
	case r.anyBody && strings.Contains(r.path, "publish"):
		return a.document(spoilt)
	case r.anyBody:
		return a.lines(spoilt)
	case r.body == nil || (!r.needsBody && a.chance(3)):
		if spoilt {
			return []byte(pick(a.Rand, strange...))
		}
		return nil
	}
	v := a.value(r.body, "", 0)
	// An entity in a body is named as in its path, or not at all.
	if m := object(v); m != nil && strings.HasPrefix(r.path, "/entities/{type}") {
		delete(m, "type")
		delete(m, "id")
	}
	if list, ok := object(v)["blocks"].([]any); ok {
		for i := range list {
			list[i] = pick(a.Rand, a.words["blocks"]...)
		}
	}
	if len(a.offers) > 0 && strings.HasPrefix(r.path, "/blackboard/job/") && !a.chance(3) {
		o := a.offers[max(0, len(a.offers)-1-a.IntN(3))]
		object(v)["pack"], object(v)["token"] = o.Pack, o.Token
		if list, ok := object(v)["results"].([]any); ok {
			list = list[:min(len(list), len(o.Jobs))]
			for i := range list {
				object(list[i])["job"] = o.Jobs[i].Job.ID
			}
			object(v)["results"] = list
			delete(object(v), "notBegun")
		}
	}
	return a.written(v, spoilt)
}

// written is a value as JSON, or what is left of it.
func (a *asker) written(v any, spoilt bool) []byte {
	if spoilt && !a.chance(4) {
		v, spoilt = a.spoil(v), false
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

// sources are good definitions, to be spoilt letter by letter.
var sources = []string{
	"package: p\nname: NAME\nversion: 1.0.0\nseedEntity: device\nsteps:\n  - {label: one, functionBlock: p/pure:1, runOn: device}\n  - {label: two, functionBlock: p/again:1, runOn: device, condition: \"one.result.attempt == 1\", retry: {maxRetries: 2, delay: 1s}}\n",
	"package: p\nname: NAME\nversion: 1.0.0\nconfig: {maxInFlight: 2, timeout: 1h, startWhen: \"true\"}\nacquire:\n  - {type: device, groups: [all]}\nsteps:\n  - {label: one, workflow: {steps: [{label: in, functionBlock: p/once:1, runOn: device, parameters: {a: \"${parameters.a}\"}}]}}\n  - {label: out, workflowReference: {workflow: p/one, mode: dispatch, executeOnParameters: {type: device, ids: [d001]}}}\n",
}

func (a *asker) document(spoilt bool) []byte {
	name := pick(a.Rand, "one", "two", fmt.Sprint("n", a.IntN(20)))
	if a.chance(2) {
		text := []byte(strings.ReplaceAll(pick(a.Rand, sources...), "NAME", name))
		for spoilt && a.chance(2) {
			text[a.IntN(len(text))] = pick(a.Rand, []byte("\x00:-{}[]&*!|>'\"%@`#, \n\t0a\xff")...)
		}
		return text
	}
	in := a.in
	a.in = a.format
	defer func() { a.in = in }()
	v := object(a.value(a.format, "", 0))
	v["package"], v["name"] = "p", name
	labels(v["steps"], new(int))
	return a.written(v, spoilt)
}

// labels gives every step a label of its own.
func labels(v any, n *int) {
	switch v := v.(type) {
	case []any:
		for _, item := range v {
			labels(item, n)
		}
	case map[string]any:
		if _, ok := v["label"]; ok {
			*n++
			v["label"] = map[int]string{1: "one", 2: "two"}[*n]
			if *n > 2 {
				v["label"] = fmt.Sprint("s", *n)
			}
		}
		for _, name := range sorted(v) {
			labels(v[name], n)
		}
	}
}

func (a *asker) lines(spoilt bool) []byte {
	var all []byte
	for i := range 1 + a.IntN(4) {
		v := a.value(map[string]any{"$ref": "#/components/schemas/EntityInput"}, "", 0)
		object(v)["type"], object(v)["id"] = "device", fmt.Sprint("d00", a.IntN(9))
		all = append(append(all, a.written(v, spoilt && i == 0)...), '\n')
	}
	return all
}

// look finds the runs that wait for an operator.
func (a *asker) look() {
	a.resting = nil
	for _, state := range []string{"FAILED_UNSAFE", "CANCELLED", "BLOCKED_WAITING"} {
		var page struct{ Items []struct{ ID string } }
		a.must(&page, "GET", "/workflow-execution/state/"+state+"?limit=5", "")
		for _, x := range page.Items {
			a.resting = append(a.resting, x.ID)
		}
	}
}

// learn remembers what an answer names.
func (a *asker) learn(r route, status int, body []byte) {
	if status >= 300 {
		return
	}
	var v struct {
		offer
		ID            string
		NextPageToken *string
	}
	_ = json.Unmarshal(body, &v) // not every answer has such fields
	if r.path == "/workflow-execution" && r.method == http.MethodPost {
		a.runs = append(a.runs, v.ID)
	}
	if v.NextPageToken != nil {
		a.pages[r.path] = append(a.pages[r.path], *v.NextPageToken)
	}
	if r.path == "/blackboard/job" && v.Pack != "" {
		a.offers = append(a.offers, v.offer)
	}
}
