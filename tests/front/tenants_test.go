package front

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// Two tenants: one has something of everything, the other tries to get at it.
const (
	victim = "victim"
	rival  = "rival"
)

// property is how everything that the victim has is named.
type property struct {
	Run, Unsafe, Waiting string // runs: at work, ended unsafe with its locks held, and waiting for a condition
	Worker               string
	Pack, Job            string // offered to the worker
	Token                int
	Pages                map[string]string // by path: the token of a second page
	Key                  string            // Idempotency-Key of the run at work
}

const (
	oneStep    = "package: p\nname: one\nversion: 1.0.0\nseedEntity: device\nsteps:\n  - {label: one, functionBlock: p/pure:1, runOn: device}\n"
	failing    = "package: p\nname: unsafe\nversion: 1.0.0\nseedEntity: device\nsteps:\n  - {label: one, functionBlock: p/forever:1, runOn: device}\n  - {label: two, functionBlock: p/missing:1, runOn: device}\n"
	slowly     = "package: p\nname: slow\nversion: 1.0.0\nseedEntity: device\nsteps:\n  - {label: one, functionBlock: p/slow:1, runOn: device}\n"
	patient    = "package: p\nname: patient\nversion: 1.0.0\nseedEntity: device\nconfig: {startWhen: 'entity(\"device\", \"d001\").secret == \"told\"'}\nsteps:\n  - {label: one, functionBlock: p/pure:1, runOn: device}\n"
	timed      = "package: p\nname: timed\nversion: 1.0.0\ncron: {schedule: '0 3 * * *'}\nsteps:\n  - {label: one, functionBlock: p/pure:1, runOn: global}\n"
	secret     = "the victim's own"
	blockOf    = `{"package":"p","name":%q,"version":"1.0.0","pure":%v}`
	slowBlock  = `{"package":"p","name":"slow","version":"1.0.0","pool":"edge","idempotent":true}`
	entityOf   = `{"attributes":{"secret":%q},"groups":["all"]}`
	selectOf   = `{"workflow":"p/%s","executeOnParameters":{"ids":[%s]}}`
	pollOf     = `{"worker":%q,"blocks":["p/slow:1"],"wait":"0s"}`
	resultOf   = `{"pack":%q,"token":%d,"results":[{"job":%q,"outcome":"OK","result":{"by":"the rival"}}]}`
	leaseOf    = `{"pack":%q,"token":%d}`
	workerOf   = `{"id":%q,"pool":"edge","blocks":["p/slow:1"]}`
	lineOf     = `{"type":"device","id":"d001","attributes":{"secret":"told"},"groups":["all"]}`
	reasonable = `{"reason":"the rival's"}`
)

// furnish gives the tenant something of everything, by HTTP alone.
func furnish(w *world) property {
	w.Helper()
	w.tenant = victim
	w.MakePool("edge")
	for _, b := range []string{"pure", "forever"} {
		w.must(nil, "POST", "/function-blocks/register", fmt.Sprintf(blockOf, b, b == "pure"))
	}
	w.must(nil, "POST", "/function-blocks/register", slowBlock)
	w.must(nil, "POST", "/function-blocks/register", `{"package":"p","name":"missing","version":"1.0.0","pool":"nobody","pure":true}`)
	for _, d := range []string{oneStep, failing, slowly, patient, timed, strings.Replace(timed, "timed", "timed2", 1)} {
		w.must(nil, "POST", "/workflow-definition/publish", d)
	}
	w.must(nil, "POST", "/workflow-definition/publish", strings.Replace(oneStep, "1.0.0", "2.0.0", 1))
	for i := range 6 {
		w.must(nil, "PUT", fmt.Sprintf("/entities/device/d00%d", i+1), fmt.Sprintf(entityOf, secret))
	}
	p := property{Worker: "vw1", Key: "the-key", Pages: map[string]string{}}
	for _, id := range []string{p.Worker, "vw2"} {
		w.must(nil, "POST", "/workers/register", fmt.Sprintf(workerOf, id))
	}
	var x struct{ ID string }
	w.must(&x, "POST", "/workflow-execution", fmt.Sprintf(selectOf, "one", `"d006"`))
	w.Drain()
	w.must(&x, "POST", "/workflow-execution", fmt.Sprintf(selectOf, "unsafe", `"d005"`))
	p.Unsafe = x.ID
	w.Tick(2 * time.Hour) // nobody serves the pool of its second step
	w.must(&x, "POST", "/workflow-execution", fmt.Sprintf(selectOf, "patient", `"d004"`))
	p.Waiting = x.ID
	w.must(&x, "POST", "/workflow-execution", fmt.Sprintf(selectOf, "slow", `"d001","d002","d003"`), "Idempotency-Key: "+p.Key)
	p.Run = x.ID
	for _, id := range []string{p.Worker, "vw2"} {
		w.must(nil, "POST", "/workers/"+id+"/heartbeat", "")
	}
	var offer offer
	w.must(&offer, "POST", "/blackboard/job", fmt.Sprintf(pollOf, p.Worker))
	p.Pack, p.Token, p.Job = offer.Pack, offer.Token, offer.Jobs[0].Job.ID
	if s := w.state(p.Unsafe); s != "FAILED_UNSAFE" {
		w.Fatalf("the run that should have ended unsafe is %s", s)
	}
	if s := w.state(p.Waiting); s != "BLOCKED_WAITING" {
		w.Fatalf("the run that should wait is %s", s)
	}
	w.bury(victim, p.Run)
	for _, path := range p.lists() {
		var page struct{ NextPageToken *string }
		w.must(&page, "GET", with(path, "limit=1"), "")
		if page.NextPageToken == nil {
			w.Errorf("%s has no second page: the rival has no token to try", path)
			continue
		}
		p.Pages[path] = *page.NextPageToken
	}
	return p
}

func (w *world) state(id string) string {
	w.Helper()
	var x struct{ State string }
	w.must(&x, "GET", "/workflow-execution/id/"+id, "")
	return x.State
}

// lists are the addresses of the victim's lists.
func (p property) lists() []string {
	of := "/workflow-execution/id/" + p.Run
	return []string{
		"/workflow-definition", "/workflow-definition/p/one", "/function-blocks", "/schedules", "/entities?type=device", "/workflow-execution", "/workflow-execution/active",
		of + "/history", of + "/jobs", "/workflow-execution/id/" + p.Unsafe + "/steps", "/locks", "/workers", "/function-blocks/p/slow/1.0.0/workers",
	}
}

// with adds to the query of an address.
func with(path, query string) string {
	if strings.Contains(path, "?") {
		return path + "&" + query
	}
	return path + "?" + query
}

// try is one request of the rival's.
type try struct{ target, body, header string }

// tries are the rival's requests to every route: by name, by id, by page token and
// by pack, he asks for what is the victim's. They come in three rounds: first he
// has nothing of his own; then he makes himself things of the same names; then he
// asks for everything once more.
func tries(p property) map[string][]try {
	run := "/workflow-execution/" + p.Run
	lists := func(path string, more ...string) (all []try) {
		all = []try{{target: path}, {target: with(path, "limit=1")}}
		for _, q := range more {
			all = append(all, try{target: with(path, q)})
		}
		if token := p.Pages[path]; token != "" {
			all = append(all, try{target: with(path, "pageToken="+token)}, try{target: with(path, "limit=1&pageToken="+token)})
		}
		return all
	}
	each := func(format string, body string) (all []try) {
		for _, id := range []string{p.Run, p.Unsafe, p.Waiting} {
			all = append(all, try{target: fmt.Sprintf(format, id), body: body})
		}
		return all
	}
	pages := func(format string) (all []try) {
		all = each(format, "")
		for _, token := range p.Pages {
			all = append(all, try{target: fmt.Sprintf(format, p.Run) + "?pageToken=" + token})
		}
		slices.SortFunc(all, func(a, b try) int { return strings.Compare(a.target, b.target) })
		return all
	}
	one := func(target, body string) []try { return []try{{target: target, body: body}} }
	return map[string][]try{
		"GET /workflow-definition":                                     lists("/workflow-definition"),
		"GET /workflow-definition/{package}/{name}":                    lists("/workflow-definition/p/one"),
		"GET /workflow-definition/{package}/{name}/{version}":          {{target: "/workflow-definition/p/one/1"}, {target: "/workflow-definition/p/slow/1.0.0"}},
		"DELETE /workflow-definition/{package}/{name}/{version}":       one("/workflow-definition/p/one/1.0.0", ""),
		"POST /workflow-definition/{package}/{name}/{version}/restore": one("/workflow-definition/p/one/1.0.0/restore", ""),
		"POST /workflow-definition/publish":                            {{target: "/workflow-definition/publish?dryRun=true", body: slowly}, {target: "/workflow-definition/publish", body: strings.Replace(slowly, "label: one", "label: mine", 1)}, {target: "/workflow-definition/publish", body: timed}},
		"GET /function-blocks":                                         lists("/function-blocks"),
		"GET /function-blocks/{package}/{name}/{version}/workers":      lists("/function-blocks/p/slow/1.0.0/workers"),
		"POST /function-blocks/register":                               {{target: "/function-blocks/register", body: strings.Replace(slowBlock, `"idempotent"`, `"pure"`, 1)}},
		"GET /schedules":                                               lists("/schedules"),
		"GET /entities/types":                                          lists("/entities/types"),
		"GET /entities":                                                lists("/entities?type=device", "group=all", "query=entity.secret+!%3D+%22%22"),
		"GET /entities/{type}/{id}":                                    one("/entities/device/d001", ""),
		"PUT /entities/{type}/{id}":                                    one("/entities/device/d002", fmt.Sprintf(entityOf, "told")),
		"POST /entities/import":                                        one("/entities/import", lineOf),
		"GET /workflow-execution":                                      lists("/workflow-execution", "parent="+p.Run, "state=RUNNING", "status=FAILED", "workflow=p/slow"),
		"GET /workflow-execution/active":                               lists("/workflow-execution/active"),
		"GET /workflow-execution/state/{state}":                        {{target: "/workflow-execution/state/RUNNING"}, {target: "/workflow-execution/state/FAILED_UNSAFE"}},
		"POST /workflow-execution":                                     {{target: "/workflow-execution", body: fmt.Sprintf(selectOf, "slow", `"d001"`), header: "Idempotency-Key: " + p.Key}, {target: "/workflow-execution", body: fmt.Sprintf(selectOf, "slow", `"d001","d002"`)}},
		"GET /workflow-execution/id/{id}":                              each("/workflow-execution/id/%s", ""),
		"GET /workflow-execution/id/{id}/history":                      pages("/workflow-execution/id/%s/history"),
		"GET /workflow-execution/id/{id}/jobs":                         pages("/workflow-execution/id/%s/jobs"),
		"GET /workflow-execution/id/{id}/steps":                        pages("/workflow-execution/id/%s/steps"),
		"GET /workflow-execution/id/{id}/result":                       each("/workflow-execution/id/%s/result", ""),
		"GET /workflow-execution/id/{id}/cost":                         each("/workflow-execution/id/%s/cost", ""),
		"GET /executions/{id}/status":                                  each("/executions/%s/status", ""),
		"DELETE /workflow-execution/{id}":                              each("/workflow-execution/%s", ""),
		"POST /workflow-execution/{id}/cancel":                         each("/workflow-execution/%s/cancel", reasonable),
		"POST /workflow-execution/{id}/acknowledge":                    each("/workflow-execution/%s/acknowledge", reasonable),
		"POST /workflow-execution/{id}/retry":                          each("/workflow-execution/%s/retry", reasonable),
		"POST /workflow-execution/{id}/resume":                         each("/workflow-execution/%s/resume", reasonable),
		"POST /workflow-execution/{id}/unlock":                         each("/workflow-execution/%s/unlock", reasonable),
		"POST /workflow-execution/{id}/signal/{name}":                  one(run+"/signal/go", "{}"),
		"GET /locks":                     lists("/locks"),
		"GET /locks/{type}/{id}":         {{target: "/locks/device/d001"}, {target: "/locks/device/d005"}},
		"GET /workers":                   lists("/workers"),
		"GET /workers/{id}":              one("/workers/"+p.Worker, ""),
		"POST /workers/{id}/heartbeat":   one("/workers/"+p.Worker+"/heartbeat", ""),
		"POST /workers/{id}/unregister":  one("/workers/"+p.Worker+"/unregister", ""),
		"POST /workers/register":         one("/workers/register", fmt.Sprintf(workerOf, p.Worker)),
		"POST /blackboard/job":           {{target: "/blackboard/job", body: fmt.Sprintf(pollOf, p.Worker)}, {target: "/blackboard/job", body: fmt.Sprintf(pollOf, "rw")}},
		"POST /blackboard/job/heartbeat": one("/blackboard/job/heartbeat", fmt.Sprintf(leaseOf, p.Pack, p.Token)),
		"POST /blackboard/job/result":    one("/blackboard/job/result", fmt.Sprintf(resultOf, p.Pack, p.Token, p.Job)),
		"GET /blackboard/jobs":           one("/blackboard/jobs", ""),
		"GET /dead-letters":              {{target: "/dead-letters"}, {target: "/dead-letters?queue=lifecycle"}, {target: "/dead-letters?queue=jobs-edge"}},
		"POST /dead-letters/redrive":     {{target: "/dead-letters/redrive"}, {target: "/dead-letters/redrive", body: `{"queue":"lifecycle"}`}, {target: "/dead-letters/redrive", body: `{"queue":"jobs-edge"}`}},
		"GET /sweep":                     one("/sweep", ""),
	}
}

// makes are the routes by which the rival makes himself things of the same names.
var makes = []string{
	"POST /workers/register", "POST /function-blocks/register", "POST /workflow-definition/publish", "PUT /entities/{type}/{id}", "POST /entities/import",
	"POST /workflow-execution", "POST /blackboard/job",
}

// TestTenants: whatever the rival asks by whatever route, the answer is the same
// as in a world in which there is no victim; and everything that the victim can
// see is the same as before. A route of the document that has no tries here fails
// the test.
func TestTenants(t *testing.T) {
	beside, alone := open(t, 1), open(t, 1)
	p := furnish(beside)
	alone.MakePool("edge")
	alone.Tick(2 * time.Hour)
	before := beside.shown(p)
	all := tries(p)
	for _, r := range routes() {
		if _, covered := all[r.String()]; !covered && !r.open {
			t.Errorf("%s: nobody has tried what a rival sees of it", r)
		}
	}
	beside.tenant, alone.tenant = rival, rival
	asked := 0
	ask := func(round int, name string) {
		method, _, _ := strings.Cut(name, " ")
		for _, try := range all[name] {
			var headers []string
			if try.header != "" {
				headers = append(headers, try.header)
			}
			a, b := beside.ask(method, try.target, try.body, headers...), alone.ask(method, try.target, try.body, headers...)
			if seen, not := plain(a, nil), plain(b, nil); seen != not {
				t.Errorf("round %d, %s %s %s\nbeside the victim: %s\nalone: %s", round, method, try.target, try.body, seen, not)
			}
			if strings.Contains(string(a.body), secret) || strings.Contains(string(a.body), victim) {
				t.Errorf("round %d, %s %s shows %s", round, method, try.target, a)
			}
			if strings.Contains(try.target, "pageToken=") && a.status < 400 {
				t.Errorf("round %d, %s %s: the victim's page token is taken: %s", round, method, try.target, a)
			}
			for _, id := range []string{p.Run, p.Unsafe, p.Waiting} {
				if strings.Contains(string(a.body), id) && !strings.Contains(try.target, id) {
					t.Errorf("round %d, %s %s names the run %s", round, method, try.target, id)
				}
			}
			asked++
		}
	}
	names := sorted(all)
	for round := range 3 {
		for _, name := range names {
			if slices.Contains(makes, name) == (round == 1) {
				ask(round, name)
			}
		}
	}
	after := beside.shown(p)
	for what, was := range before {
		if after[what] != was {
			t.Errorf("the rival has changed what the victim sees of %s: it was\n%s\nand is\n%s", what, was, after[what])
		}
	}
	// The victim goes on as if nothing had been.
	beside.tenant = victim
	beside.must(nil, "POST", "/blackboard/job/result", strings.Replace(fmt.Sprintf(resultOf, p.Pack, p.Token, p.Job), "rival", "victim", 1))
	t.Logf("%d requests by a rival over %d routes", asked, len(all))
}

// shown is everything that the victim can see, by where it is.
func (w *world) shown(p property) map[string]string {
	w.tenant = victim
	all := map[string]string{}
	see := func(path string) { all[path] = plain(w.ask("GET", path, ""), changing) }
	for _, path := range p.lists() {
		see(path)
	}
	for _, id := range []string{p.Run, p.Unsafe, p.Waiting} {
		for _, of := range []string{"", "/history", "/jobs", "/steps", "/result", "/cost"} {
			see("/workflow-execution/id/" + id + of)
		}
		see("/executions/" + id + "/status")
	}
	for _, path := range []string{"/entities/device/d001", "/entities/device/d002", "/locks/device/d001", "/workers/" + p.Worker, "/workflow-definition/p/one/1.0.0", "/workflow-definition/p/slow/1.0.0"} {
		see(path)
	}
	return all
}

var (
	asOf      = regexp.MustCompile(`"asOf":"[^"]*"`)
	changing  = []*regexp.Regexp{asOf}
	incidents = []*regexp.Regexp{
		regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-8[0-9a-f]{3}-[0-9a-f]{12}`), // ids, of requests too
		regexp.MustCompile(`20[0-9]{2}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z`),
		regexp.MustCompile(`"(digest|pack|nextPageToken)":"[^"]*"`),
		// A pool's queue is everybody's whose blocks name the pool: how much is in it
		// is no tenant's secret, what it is about is.
		regexp.MustCompile(`"(waiting|delayed)":[0-9]+`),
	}
)

// plain is an answer without what never comes twice: of a list, or of the
// incidents, where none is given.
func plain(a answer, without []*regexp.Regexp) string {
	if without == nil {
		without = incidents
	}
	text := fmt.Sprintf("%d %s %s", a.status, a.header.Get("Content-Type"), a.body)
	for _, re := range append(slices.Clone(without), regexp.MustCompile(`"requestId":"[^"]*"`)) {
		text = re.ReplaceAllString(text, "*")
	}
	return text
}
