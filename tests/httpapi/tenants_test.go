package httpapi

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
	ownerTenant = "victim"
	otherTenant = "rival"
)

// ownerData is how everything that the victim has is named.
type ownerData struct {
	Execution, UnsafeExecution, WaitingExecution string // runs: at work, ended unsafe with its locks held, and waiting for a condition
	Worker                                       string
	Pack, Job                                    string // offered to the worker
	Token                                        int
	Pages                                        map[string]string // by path: the token of a second page
	Key                                          string            // Idempotency-Key of the run at work
}

const (
	oneStepDefinition   = "package: p\nname: one\nversion: 1.0.0\nseedEntity: device\nsteps:\n  - {label: one, functionBlock: p/pure:1, runOn: device}\n"
	unsafeDefinition    = "package: p\nname: unsafe\nversion: 1.0.0\nseedEntity: device\nsteps:\n  - {label: one, functionBlock: p/forever:1, runOn: device}\n  - {label: two, functionBlock: p/missing:1, runOn: device}\n"
	slowDefinition      = "package: p\nname: slow\nversion: 1.0.0\nseedEntity: device\nsteps:\n  - {label: one, functionBlock: p/slow:1, runOn: device}\n"
	waitingDefinition   = "package: p\nname: patient\nversion: 1.0.0\nseedEntity: device\nconfig: {startWhen: 'entity(\"device\", \"d001\").secret == \"told\"'}\nsteps:\n  - {label: one, functionBlock: p/pure:1, runOn: device}\n"
	scheduledDefinition = "package: p\nname: timed\nversion: 1.0.0\ncron: {schedule: '0 3 * * *'}\nsteps:\n  - {label: one, functionBlock: p/pure:1, runOn: global}\n"
	secret              = "the victim's own"
	blockFormat         = `{"package":"p","name":%q,"version":"1.0.0","pure":%v}`
	slowBlock           = `{"package":"p","name":"slow","version":"1.0.0","pool":"edge","idempotent":true}`
	entityFormat        = `{"attributes":{"secret":%q},"groups":["all"]}`
	startFormat         = `{"workflow":"p/%s","executeOnParameters":{"ids":[%s]}}`
	pollFormat          = `{"worker":%q,"blocks":["p/slow:1"],"wait":"0s"}`
	resultFormat        = `{"pack":%q,"token":%d,"results":[{"job":%q,"outcome":"OK","result":{"by":"the rival"}}]}`
	leaseFormat         = `{"pack":%q,"token":%d}`
	workerFormat        = `{"id":%q,"pool":"edge","blocks":["p/slow:1"]}`
	entityLine          = `{"type":"device","id":"d001","attributes":{"secret":"told"},"groups":["all"]}`
	reasonBody          = `{"reason":"the rival's"}`
)

// createOwnerData gives the tenant something of everything, by HTTP alone.
func createOwnerData(w *fixture) ownerData {
	w.Helper()
	w.tenant = ownerTenant
	w.PoolQueue("edge")
	for _, b := range []string{"pure", "forever"} {
		w.mustDo(nil, "POST", "/function-blocks/register", fmt.Sprintf(blockFormat, b, b == "pure"))
	}
	w.mustDo(nil, "POST", "/function-blocks/register", slowBlock)
	w.mustDo(nil, "POST", "/function-blocks/register", `{"package":"p","name":"missing","version":"1.0.0","pool":"nobody","pure":true}`)
	for _, d := range []string{oneStepDefinition, unsafeDefinition, slowDefinition, waitingDefinition, scheduledDefinition, strings.Replace(scheduledDefinition, "timed", "timed2", 1)} {
		w.mustDo(nil, "POST", "/workflow-definition/publish", d)
	}
	w.mustDo(nil, "POST", "/workflow-definition/publish", strings.Replace(oneStepDefinition, "1.0.0", "2.0.0", 1))
	for i := range 6 {
		w.mustDo(nil, "PUT", fmt.Sprintf("/entities/device/d00%d", i+1), fmt.Sprintf(entityFormat, secret))
	}
	p := ownerData{Worker: "vw1", Key: "the-key", Pages: map[string]string{}}
	for _, id := range []string{p.Worker, "vw2"} {
		w.mustDo(nil, "POST", "/workers/register", fmt.Sprintf(workerFormat, id))
	}
	var x struct{ ID string }
	w.mustDo(&x, "POST", "/workflow-execution", fmt.Sprintf(startFormat, "one", `"d006"`))
	w.Drain()
	w.mustDo(&x, "POST", "/workflow-execution", fmt.Sprintf(startFormat, "unsafe", `"d005"`))
	p.UnsafeExecution = x.ID
	w.RunFor(2 * time.Hour) // nobody serves the pool of its second step
	w.mustDo(&x, "POST", "/workflow-execution", fmt.Sprintf(startFormat, "patient", `"d004"`))
	p.WaitingExecution = x.ID
	w.mustDo(&x, "POST", "/workflow-execution", fmt.Sprintf(startFormat, "slow", `"d001","d002","d003"`), "Idempotency-Key: "+p.Key)
	p.Execution = x.ID
	for _, id := range []string{p.Worker, "vw2"} {
		w.mustDo(nil, "POST", "/workers/"+id+"/heartbeat", "")
	}
	var offer polledPack
	w.mustDo(&offer, "POST", "/blackboard/job", fmt.Sprintf(pollFormat, p.Worker))
	p.Pack, p.Token, p.Job = offer.Pack, offer.Token, offer.Jobs[0].Job.ID
	if s := w.executionState(p.UnsafeExecution); s != "FAILED_UNSAFE" {
		w.Fatalf("the run that should have ended unsafe is %s", s)
	}
	if s := w.executionState(p.WaitingExecution); s != "BLOCKED_WAITING" {
		w.Fatalf("the run that should wait is %s", s)
	}
	w.addDeadLetter(ownerTenant, p.Execution)
	for _, path := range p.listPaths() {
		var page struct{ NextPageToken *string }
		w.mustDo(&page, "GET", withQuery(path, "limit=1"), "")
		if page.NextPageToken == nil {
			w.Errorf("%s has no second page: the rival has no token to try", path)
			continue
		}
		p.Pages[path] = *page.NextPageToken
	}
	return p
}

func (w *fixture) executionState(id string) string {
	w.Helper()
	var x struct{ State string }
	w.mustDo(&x, "GET", "/workflow-execution/id/"+id, "")
	return x.State
}

// listPaths are the addresses of the victim's lists.
func (p ownerData) listPaths() []string {
	of := "/workflow-execution/id/" + p.Execution
	return []string{
		"/workflow-definition", "/workflow-definition/p/one", "/function-blocks", "/schedules", "/entities?type=device", "/workflow-execution", "/workflow-execution/active",
		of + "/history", of + "/jobs", "/workflow-execution/id/" + p.UnsafeExecution + "/steps", "/locks", "/workers", "/function-blocks/p/slow/1.0.0/workers",
	}
}

// withQuery adds to the query of an address.
func withQuery(path, query string) string {
	if strings.Contains(path, "?") {
		return path + "&" + query
	}
	return path + "?" + query
}

// otherTenantRequest is one request of the rival's.
type otherTenantRequest struct{ target, body, header string }

// otherTenantRequests are the rival's requests to every route: by name, by id, by page token and
// by pack, he asks for what is the victim's. They come in three rounds: first he
// has nothing of his own; then he makes himself things of the same names; then he
// asks for everything once more.
func otherTenantRequests(p ownerData) map[string][]otherTenantRequest {
	run := "/workflow-execution/" + p.Execution
	lists := func(path string, more ...string) (all []otherTenantRequest) {
		all = []otherTenantRequest{{target: path}, {target: withQuery(path, "limit=1")}}
		for _, q := range more {
			all = append(all, otherTenantRequest{target: withQuery(path, q)})
		}
		if token := p.Pages[path]; token != "" {
			all = append(all, otherTenantRequest{target: withQuery(path, "pageToken="+token)}, otherTenantRequest{target: withQuery(path, "limit=1&pageToken="+token)})
		}
		return all
	}
	each := func(format string, body string) (all []otherTenantRequest) {
		for _, id := range []string{p.Execution, p.UnsafeExecution, p.WaitingExecution} {
			all = append(all, otherTenantRequest{target: fmt.Sprintf(format, id), body: body})
		}
		return all
	}
	pages := func(format string) (all []otherTenantRequest) {
		all = each(format, "")
		for _, token := range p.Pages {
			all = append(all, otherTenantRequest{target: fmt.Sprintf(format, p.Execution) + "?pageToken=" + token})
		}
		slices.SortFunc(all, func(a, b otherTenantRequest) int { return strings.Compare(a.target, b.target) })
		return all
	}
	one := func(target, body string) []otherTenantRequest {
		return []otherTenantRequest{{target: target, body: body}}
	}
	return map[string][]otherTenantRequest{
		"GET /workflow-definition":                                     lists("/workflow-definition"),
		"GET /workflow-definition/{package}/{name}":                    lists("/workflow-definition/p/one"),
		"GET /workflow-definition/{package}/{name}/{version}":          {{target: "/workflow-definition/p/one/1"}, {target: "/workflow-definition/p/slow/1.0.0"}},
		"DELETE /workflow-definition/{package}/{name}/{version}":       one("/workflow-definition/p/one/1.0.0", ""),
		"POST /workflow-definition/{package}/{name}/{version}/restore": one("/workflow-definition/p/one/1.0.0/restore", ""),
		"POST /workflow-definition/publish":                            {{target: "/workflow-definition/publish?dryRun=true", body: slowDefinition}, {target: "/workflow-definition/publish", body: strings.Replace(slowDefinition, "label: one", "label: mine", 1)}, {target: "/workflow-definition/publish", body: scheduledDefinition}},
		"GET /function-blocks":                                         lists("/function-blocks"),
		"GET /function-blocks/{package}/{name}/{version}/workers":      lists("/function-blocks/p/slow/1.0.0/workers"),
		"POST /function-blocks/register":                               {{target: "/function-blocks/register", body: strings.Replace(slowBlock, `"idempotent"`, `"pure"`, 1)}},
		"GET /schedules":                                               lists("/schedules"),
		"GET /entities/types":                                          lists("/entities/types"),
		"GET /entities":                                                lists("/entities?type=device", "group=all", "query=entity.secret+!%3D+%22%22"),
		"GET /entities/{type}/{id}":                                    one("/entities/device/d001", ""),
		"PUT /entities/{type}/{id}":                                    one("/entities/device/d002", fmt.Sprintf(entityFormat, "told")),
		"POST /entities/import":                                        one("/entities/import", entityLine),
		"GET /workflow-execution":                                      lists("/workflow-execution", "parent="+p.Execution, "state=RUNNING", "status=FAILED", "workflow=p/slow"),
		"GET /workflow-execution/active":                               lists("/workflow-execution/active"),
		"GET /workflow-execution/state/{state}":                        {{target: "/workflow-execution/state/RUNNING"}, {target: "/workflow-execution/state/FAILED_UNSAFE"}},
		"POST /workflow-execution":                                     {{target: "/workflow-execution", body: fmt.Sprintf(startFormat, "slow", `"d001"`), header: "Idempotency-Key: " + p.Key}, {target: "/workflow-execution", body: fmt.Sprintf(startFormat, "slow", `"d001","d002"`)}},
		"GET /workflow-execution/id/{id}":                              each("/workflow-execution/id/%s", ""),
		"GET /workflow-execution/id/{id}/history":                      pages("/workflow-execution/id/%s/history"),
		"GET /workflow-execution/id/{id}/jobs":                         pages("/workflow-execution/id/%s/jobs"),
		"GET /workflow-execution/id/{id}/steps":                        pages("/workflow-execution/id/%s/steps"),
		"GET /workflow-execution/id/{id}/result":                       each("/workflow-execution/id/%s/result", ""),
		"GET /workflow-execution/id/{id}/cost":                         each("/workflow-execution/id/%s/cost", ""),
		"GET /executions/{id}/status":                                  each("/executions/%s/status", ""),
		"DELETE /workflow-execution/{id}":                              each("/workflow-execution/%s", ""),
		"POST /workflow-execution/{id}/cancel":                         each("/workflow-execution/%s/cancel", reasonBody),
		"POST /workflow-execution/{id}/acknowledge":                    each("/workflow-execution/%s/acknowledge", reasonBody),
		"POST /workflow-execution/{id}/retry":                          each("/workflow-execution/%s/retry", reasonBody),
		"POST /workflow-execution/{id}/resume":                         each("/workflow-execution/%s/resume", reasonBody),
		"POST /workflow-execution/{id}/unlock":                         each("/workflow-execution/%s/unlock", reasonBody),
		"POST /workflow-execution/{id}/signal/{name}":                  one(run+"/signal/go", "{}"),
		"GET /locks":                     lists("/locks"),
		"GET /locks/{type}/{id}":         {{target: "/locks/device/d001"}, {target: "/locks/device/d005"}},
		"GET /workers":                   lists("/workers"),
		"GET /workers/{id}":              one("/workers/"+p.Worker, ""),
		"POST /workers/{id}/heartbeat":   one("/workers/"+p.Worker+"/heartbeat", ""),
		"POST /workers/{id}/unregister":  one("/workers/"+p.Worker+"/unregister", ""),
		"POST /workers/register":         one("/workers/register", fmt.Sprintf(workerFormat, p.Worker)),
		"POST /blackboard/job":           {{target: "/blackboard/job", body: fmt.Sprintf(pollFormat, p.Worker)}, {target: "/blackboard/job", body: fmt.Sprintf(pollFormat, "rw")}},
		"POST /blackboard/job/heartbeat": one("/blackboard/job/heartbeat", fmt.Sprintf(leaseFormat, p.Pack, p.Token)),
		"POST /blackboard/job/result":    one("/blackboard/job/result", fmt.Sprintf(resultFormat, p.Pack, p.Token, p.Job)),
		"GET /blackboard/jobs":           one("/blackboard/jobs", ""),
		"GET /dead-letters":              {{target: "/dead-letters"}, {target: "/dead-letters?queue=lifecycle"}, {target: "/dead-letters?queue=jobs-edge"}},
		"POST /dead-letters/redrive":     {{target: "/dead-letters/redrive"}, {target: "/dead-letters/redrive", body: `{"queue":"lifecycle"}`}, {target: "/dead-letters/redrive", body: `{"queue":"jobs-edge"}`}},
		"GET /sweep":                     one("/sweep", ""),
	}
}

// creatingRoutes are the routes by which the rival makes himself things of the same names.
var creatingRoutes = []string{
	"POST /workers/register", "POST /function-blocks/register", "POST /workflow-definition/publish", "PUT /entities/{type}/{id}", "POST /entities/import",
	"POST /workflow-execution", "POST /blackboard/job",
}

// TestAPI_TenantsAreIsolated: whatever the rival asks by whatever route, the answer is the same
// as in a world in which there is no victim; and everything that the victim can
// see is the same as before. A route of the document that has no tries here fails
// the test.
func TestAPI_TenantsAreIsolated(t *testing.T) {
	withOwner, withoutOwner := newFixture(t, 1), newFixture(t, 1)
	p := createOwnerData(withOwner)
	withoutOwner.PoolQueue("edge")
	withoutOwner.RunFor(2 * time.Hour)
	before := withOwner.snapshot(p)
	all := otherTenantRequests(p)
	for _, r := range documentedRoutes() {
		if _, covered := all[r.String()]; !covered && !r.public {
			t.Errorf("%s: nobody has tried what a rival sees of it", r)
		}
	}
	withOwner.tenant, withoutOwner.tenant = otherTenant, otherTenant
	asked := 0
	ask := func(round int, name string) {
		method, _, _ := strings.Cut(name, " ")
		for _, try := range all[name] {
			var headers []string
			if try.header != "" {
				headers = append(headers, try.header)
			}
			a, b := withOwner.do(method, try.target, try.body, headers...), withoutOwner.do(method, try.target, try.body, headers...)
			if seen, not := normalize(a, nil), normalize(b, nil); seen != not {
				t.Errorf("round %d, %s %s %s\nbeside the victim: %s\nalone: %s", round, method, try.target, try.body, seen, not)
			}
			if strings.Contains(string(a.body), secret) || strings.Contains(string(a.body), ownerTenant) {
				t.Errorf("round %d, %s %s shows %s", round, method, try.target, a)
			}
			if strings.Contains(try.target, "pageToken=") && a.status < 400 {
				t.Errorf("round %d, %s %s: the victim's page token is taken: %s", round, method, try.target, a)
			}
			for _, id := range []string{p.Execution, p.UnsafeExecution, p.WaitingExecution} {
				if strings.Contains(string(a.body), id) && !strings.Contains(try.target, id) {
					t.Errorf("round %d, %s %s names the run %s", round, method, try.target, id)
				}
			}
			asked++
		}
	}
	names := sortedKeys(all)
	for round := range 3 {
		for _, name := range names {
			if slices.Contains(creatingRoutes, name) == (round == 1) {
				ask(round, name)
			}
		}
	}
	after := withOwner.snapshot(p)
	for what, was := range before {
		if after[what] != was {
			t.Errorf("the rival has changed what the victim sees of %s: it was\n%s\nand is\n%s", what, was, after[what])
		}
	}
	// The victim goes on as if nothing had been.
	withOwner.tenant = ownerTenant
	withOwner.mustDo(nil, "POST", "/blackboard/job/result", strings.Replace(fmt.Sprintf(resultFormat, p.Pack, p.Token, p.Job), "rival", "victim", 1))
	t.Logf("%d requests by a rival over %d routes", asked, len(all))
}

// snapshot is everything that the victim can see, by where it is.
func (w *fixture) snapshot(p ownerData) map[string]string {
	w.tenant = ownerTenant
	all := map[string]string{}
	see := func(path string) { all[path] = normalize(w.do("GET", path, ""), volatileLists) }
	for _, path := range p.listPaths() {
		see(path)
	}
	for _, id := range []string{p.Execution, p.UnsafeExecution, p.WaitingExecution} {
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
	asOfPattern     = regexp.MustCompile(`"asOf":"[^"]*"`)
	volatileLists   = []*regexp.Regexp{asOfPattern}
	volatileAnswers = []*regexp.Regexp{
		regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-8[0-9a-f]{3}-[0-9a-f]{12}`), // ids, of requests too
		regexp.MustCompile(`20[0-9]{2}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z`),
		regexp.MustCompile(`"(digest|pack|nextPageToken)":"[^"]*"`),
		// A pool's queue is everybody's whose blocks name the pool: how much is in it
		// is no tenant's secret, what it is about is.
		regexp.MustCompile(`"(waiting|delayed)":[0-9]+`),
	}
)

// normalize is an answer without what never comes twice: of a list, or of the
// incidents, where none is given.
func normalize(a answer, without []*regexp.Regexp) string {
	if without == nil {
		without = volatileAnswers
	}
	text := fmt.Sprintf("%d %s %s", a.status, a.header.Get("Content-Type"), a.body)
	for _, re := range append(slices.Clone(without), regexp.MustCompile(`"requestId":"[^"]*"`)) {
		text = re.ReplaceAllString(text, "*")
	}
	return text
}
