package httpapi

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// Two tenants: the owner has resources of every kind, and the other tries to get them.
const (
	ownerTenant = "tenant-one"
	otherTenant = "tenant-two"
)

// ownerData names what the owner has.
type ownerData struct {
	Execution, UnsafeExecution, WaitingExecution string // running, failed with its locks held, and waiting for its condition
	Worker                                       string
	Pack, Job                                    string // leased to the worker
	Token                                        int
	Pages                                        map[string]string // by path: the page token of the second page
	Key                                          string            // Idempotency-Key of the running execution
}

const (
	oneStepDefinition   = "package: p\nname: one\nversion: 1.0.0\nseedEntity: device\nsteps:\n  - {label: one, functionBlock: p/pure:1, runOn: device}\n"
	unsafeDefinition    = "package: p\nname: unsafe\nversion: 1.0.0\nseedEntity: device\nsteps:\n  - {label: one, functionBlock: p/forever:1, runOn: device}\n  - {label: two, functionBlock: p/missing:1, runOn: device}\n"
	slowDefinition      = "package: p\nname: slow\nversion: 1.0.0\nseedEntity: device\nsteps:\n  - {label: one, functionBlock: p/slow:1, runOn: device}\n"
	waitingDefinition   = "package: p\nname: patient\nversion: 1.0.0\nseedEntity: device\nconfig: {startWhen: 'entity(\"device\", \"d001\").secret == \"known\"'}\nsteps:\n  - {label: one, functionBlock: p/pure:1, runOn: device}\n"
	scheduledDefinition = "package: p\nname: timed\nversion: 1.0.0\ncron: {schedule: '0 3 * * *'}\nsteps:\n  - {label: one, functionBlock: p/pure:1, runOn: global}\n"
	triggeredDefinition = "package: p\nname: triggered\nversion: 1.0.0\ntriggers: {http: [{name: push, verify: {scheme: token, secret: hooks/push}}], event: [{name: placed, pattern: {source: [shop]}}]}\nsteps:\n  - {label: one, functionBlock: p/pure:1, runOn: global}\n"
	secret              = "only for the owner"
	blockFormat         = `{"package":"p","name":%q,"version":"1.0.0","pure":%v}`
	slowBlock           = `{"package":"p","name":"slow","version":"1.0.0","pool":"edge","idempotent":true}`
	entityFormat        = `{"attributes":{"secret":%q},"groups":["all"]}`
	startFormat         = `{"workflow":"p/%s","executeOnParameters":{"ids":[%s]}}`
	pollFormat          = `{"worker":%q,"blocks":["p/slow:1"],"wait":"0s"}`
	resultFormat        = `{"pack":%q,"token":%d,"results":[{"job":%q,"outcome":"OK","result":{"by":"the other"}}]}`
	leaseFormat         = `{"pack":%q,"token":%d}`
	workerFormat        = `{"id":%q,"pool":"edge","blocks":["p/slow:1"]}`
	entityLine          = `{"type":"device","id":"d001","attributes":{"secret":"known"},"groups":["all"]}`
	reasonBody          = `{"reason":"from the other tenant"}`
)

// createOwnerData creates resources of every kind as the owner, over HTTP.
func createOwnerData(f *fixture) ownerData {
	f.Helper()
	f.tenant = ownerTenant
	f.PoolQueue("edge")
	for _, b := range []string{"pure", "forever"} {
		f.mustDo(nil, "POST", "/function-blocks/register", fmt.Sprintf(blockFormat, b, b == "pure"))
	}
	f.mustDo(nil, "POST", "/function-blocks/register", slowBlock)
	f.mustDo(nil, "POST", "/function-blocks/register", `{"package":"p","name":"missing","version":"1.0.0","pool":"unserved","pure":true}`)
	for _, d := range []string{oneStepDefinition, unsafeDefinition, slowDefinition, waitingDefinition, triggeredDefinition, scheduledDefinition, strings.Replace(scheduledDefinition, "timed", "timed2", 1)} {
		f.mustDo(nil, "POST", "/workflow-definition/publish", d)
	}
	f.mustDo(nil, "POST", "/workflow-definition/publish", strings.Replace(oneStepDefinition, "1.0.0", "2.0.0", 1))
	for i := range 6 {
		f.mustDo(nil, "PUT", fmt.Sprintf("/entities/device/d00%d", i+1), fmt.Sprintf(entityFormat, secret))
	}
	f.mustDo(nil, "PUT", "/tables/payments", fmt.Sprintf(`{"description":%q,"columns":[{"name":"txn","type":"string"}]}`, secret))
	p := ownerData{Worker: "vw1", Key: "the-key", Pages: map[string]string{}}
	for _, id := range []string{p.Worker, "vw2"} {
		f.mustDo(nil, "POST", "/workers/register", fmt.Sprintf(workerFormat, id))
	}
	var x struct{ ID string }
	f.mustDo(&x, "POST", "/workflow-execution", fmt.Sprintf(startFormat, "one", `"d006"`))
	f.Drain()
	f.mustDo(&x, "POST", "/workflow-execution", fmt.Sprintf(startFormat, "unsafe", `"d005"`))
	p.UnsafeExecution = x.ID
	f.RunFor(2 * time.Hour) // until its second step fails as unclaimed
	f.mustDo(&x, "POST", "/workflow-execution", `{"workflow":"p/patient","key":"order-7","executeOnParameters":{"ids":["d004"]}}`)
	p.WaitingExecution = x.ID
	f.mustDo(&x, "POST", "/workflow-execution", fmt.Sprintf(startFormat, "slow", `"d001","d002","d003"`), "Idempotency-Key: "+p.Key)
	p.Execution = x.ID
	for _, id := range []string{p.Worker, "vw2"} {
		f.mustDo(nil, "POST", "/workers/"+id+"/heartbeat", "")
	}
	var offer polledPack
	f.mustDo(&offer, "POST", "/blackboard/job", fmt.Sprintf(pollFormat, p.Worker))
	p.Pack, p.Token, p.Job = offer.Pack, offer.Token, offer.Jobs[0].Job.ID
	if s := f.executionState(p.UnsafeExecution); s != "FAILED_UNSAFE" {
		f.Fatalf("the execution that should have failed unsafe is %s", s)
	}
	if s := f.executionState(p.WaitingExecution); s != "BLOCKED_WAITING" {
		f.Fatalf("the execution that should wait is %s", s)
	}
	f.addDeadLetter(ownerTenant, p.Execution)
	for _, path := range p.listPaths() {
		var page struct{ NextPageToken *string }
		f.mustDo(&page, "GET", withQuery(path, "limit=1"), "")
		if page.NextPageToken == nil {
			f.Errorf("%s has no second page, so that there is no page token to try", path)
			continue
		}
		p.Pages[path] = *page.NextPageToken
	}
	return p
}

func (f *fixture) executionState(id string) string {
	f.Helper()
	var x struct{ State string }
	f.mustDo(&x, "GET", "/workflow-execution/id/"+id, "")
	return x.State
}

// listPaths are the paths of the owner's lists.
func (p ownerData) listPaths() []string {
	execution := "/workflow-execution/id/" + p.Execution
	return []string{
		"/workflow-definition", "/workflow-definition/p/one", "/function-blocks", "/schedules", "/entities?type=device", "/workflow-execution", "/workflow-execution/active",
		execution + "/history", execution + "/jobs", "/workflow-execution/id/" + p.UnsafeExecution + "/steps", "/locks", "/workers", "/function-blocks/p/slow/1.0.0/workers",
	}
}

// withQuery adds to the query of a path.
func withQuery(path, query string) string {
	if strings.Contains(path, "?") {
		return path + "&" + query
	}
	return path + "?" + query
}

// otherTenantRequest is one request of the other tenant.
type otherTenantRequest struct{ target, body, header string }

// otherTenantRequests are requests to every route that name what the owner has, by name,
// id, page token and pack.
func otherTenantRequests(p ownerData) map[string][]otherTenantRequest {
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
		"POST /workflow-definition/publish":                            {{target: "/workflow-definition/publish?dryRun=true", body: slowDefinition}, {target: "/workflow-definition/publish", body: strings.Replace(slowDefinition, "label: one", "label: other", 1)}, {target: "/workflow-definition/publish", body: scheduledDefinition}},
		"GET /function-blocks":                                         lists("/function-blocks"),
		"GET /function-blocks/{package}/{name}/{version}/workers":      lists("/function-blocks/p/slow/1.0.0/workers"),
		"POST /function-blocks/register":                               {{target: "/function-blocks/register", body: strings.Replace(slowBlock, `"idempotent"`, `"pure"`, 1)}},
		"GET /forms/{tenant}/{name}":                                   {{target: "/forms/" + otherTenant + "/push"}},
		"POST /events":                                                 {{target: "/events", body: `{"id":"e1","source":"shop","detail-type":"placed","detail":{"ref":"x"}}`}},
		"GET /triggers":                                                lists("/triggers"),
		"GET /triggers/{name}":                                         one("/triggers/push", ""),
		"GET /triggers/{name}/history":                                 one("/triggers/push/history", ""),
		"GET /triggers/{name}/stats":                                   one("/triggers/push/stats", ""),
		"POST /triggers/{name}/pause":                                  one("/triggers/push/pause", reasonBody),
		"POST /triggers/{name}/resume":                                 one("/triggers/push/resume", reasonBody),
		"POST /triggers/{name}/fire":                                   one("/triggers/push/fire", `{"body":{"ref":"x"}}`),
		"POST /hooks/{tenant}/{name}":                                  {{target: "/hooks/" + otherTenant + "/push", body: `{"ref":"x"}`}, {target: "/hooks/" + ownerTenant + "/push", body: `{"ref":"x"}`}},
		"GET /tables":                                                  lists("/tables"),
		"GET /tables/{name}":                                           one("/tables/payments", ""),
		"PUT /tables/{name}":                                           one("/tables/payments", `{"columns":[{"name":"other","type":"string"}]}`),
		"GET /tables/{name}/rows":                                      one("/tables/payments/rows", ""),
		"GET /tables/{name}/deliveries":                                one("/tables/payments/deliveries", ""),
		"POST /tables/{name}/retry":                                    one("/tables/payments/retry", reasonBody),
		"GET /subscriptions":                                           lists("/subscriptions"),
		"GET /subscriptions/{name}":                                    one("/subscriptions/failures", ""),
		"POST /subscriptions/{name}/test":                              one("/subscriptions/failures/test", reasonBody),
		"GET /subscriptions/{name}/deliveries":                         one("/subscriptions/failures/deliveries", ""),
		"PUT /subscriptions/{name}":                                    one("/subscriptions/failures", `{"topic":"arn:aws:sns:eu-west-1:123456789012:other"}`),
		"DELETE /subscriptions/{name}":                                 one("/subscriptions/failures", ""),
		"POST /subscriptions/{name}/resume":                            one("/subscriptions/failures/resume", reasonBody),
		"GET /schedules":                                               lists("/schedules"),
		"POST /workflow-execution/batch":                               {{target: "/workflow-execution/batch", body: `{"items":[{"workflow":"p/one"}]}`, header: "Idempotency-Key: " + p.Key}},
		"POST /workflow-execution/bulk":                                one("/workflow-execution/bulk?verb=cancel&workflow=p/one", reasonBody),
		"GET /schedules/{package}/{name}":                              one("/schedules/p/timed", ""),
		"DELETE /schedules/{package}/{name}":                           one("/schedules/p/timed", ""),
		"POST /schedules/{package}/{name}/pause":                       one("/schedules/p/timed/pause", reasonBody),
		"POST /schedules/{package}/{name}/remove":                      one("/schedules/p/timed/remove", reasonBody),
		"POST /schedules/{package}/{name}/resume":                      one("/schedules/p/timed/resume", reasonBody),
		"POST /schedules/{package}/{name}/fire":                        one("/schedules/p/timed/fire", ""),
		"GET /entities/types":                                          lists("/entities/types"),
		"GET /entities":                                                lists("/entities?type=device", "group=all", "query=entity.secret+!%3D+%22%22"),
		"GET /entities/{type}/{id}":                                    one("/entities/device/d001", ""),
		"GET /audit":                                                   {{target: "/audit?verb=importEntities"}, {target: "/audit?verb=putEntity&limit=1"}, {target: "/audit?actor=nobody"}}, // of one kind, because entries of one moment have no order
		"GET /failures":                                                lists("/failures", "group=all", "workflow=p/slow"),
		"GET /inputs":                                                  lists("/inputs", "mine=true"),
		"GET /entities/{type}/{id}/executions":                         {{target: "/entities/device/d001/executions"}, {target: "/entities/device/d005/executions"}},
		"PUT /entities/{type}/{id}":                                    one("/entities/device/d002", fmt.Sprintf(entityFormat, "known")),
		"PATCH /entities/{type}/{id}":                                  {{target: "/entities/device/d002", body: `{"set":{"stolen":1}}`}, {target: "/entities/device/d002", body: `{"removeGroups":["all"],"version":1}`}},
		"DELETE /entities/{type}/{id}":                                 {{target: "/entities/device/d002"}, {target: "/entities/device/d001?version=1"}, {target: "/entities/device/d005"}},
		"POST /entities/import":                                        {{target: "/entities/import", body: entityLine}, {target: "/entities/import?replace=true", body: entityLine}},
		"GET /workflow-execution":                                      lists("/workflow-execution", "parent="+p.Execution, "state=RUNNING", "status=FAILED", "workflow=p/slow"),
		"GET /workflow-execution/active":                               lists("/workflow-execution/active"),
		"GET /workflow-execution/state/{state}":                        {{target: "/workflow-execution/state/RUNNING"}, {target: "/workflow-execution/state/FAILED_UNSAFE"}},
		"POST /workflow-execution":                                     {{target: "/workflow-execution", body: fmt.Sprintf(startFormat, "slow", `"d001"`), header: "Idempotency-Key: " + p.Key}, {target: "/workflow-execution", body: fmt.Sprintf(startFormat, "slow", `"d001","d002"`)}, {target: "/workflow-execution", body: `{"workflow":"p/patient","key":"order-7"}`}},
		"POST /workflow-execution/plan":                                {{target: "/workflow-execution/plan", body: fmt.Sprintf(startFormat, "slow", `"d001"`)}},
		"GET /workflow-execution/id/{id}":                              each("/workflow-execution/id/%s", ""),
		"GET /workflow-execution/id/{id}/history":                      pages("/workflow-execution/id/%s/history"),
		"GET /workflow-execution/id/{id}/jobs":                         pages("/workflow-execution/id/%s/jobs"),
		"GET /workflow-execution/id/{id}/compensations":                pages("/workflow-execution/id/%s/compensations"),
		"GET /workflow-execution/id/{id}/children":                     pages("/workflow-execution/id/%s/children"),
		"GET /workflow-execution/id/{id}/steps":                        pages("/workflow-execution/id/%s/steps"),
		"GET /workflow-execution/id/{id}/result":                       each("/workflow-execution/id/%s/result", ""),
		"GET /workflow-execution/id/{id}/cost":                         each("/workflow-execution/id/%s/cost", ""),
		"GET /workflow-execution/id/{id}/definition":                   each("/workflow-execution/id/%s/definition", ""),
		"GET /workflow-execution/id/{id}/next":                         each("/workflow-execution/id/%s/next", ""),
		"GET /workflow-execution/id/{id}/inputs":                       each("/workflow-execution/id/%s/inputs", ""),
		"GET /executions/{id}/status":                                  each("/executions/%s/status", ""),
		"DELETE /workflow-execution/{id}":                              each("/workflow-execution/%s", ""),
		"POST /workflow-execution/{id}/cancel":                         each("/workflow-execution/%s/cancel", reasonBody),
		"POST /workflow-execution/{id}/acknowledge":                    each("/workflow-execution/%s/acknowledge", reasonBody),
		"POST /workflow-execution/{id}/retry":                          each("/workflow-execution/%s/retry", reasonBody),
		"POST /workflow-execution/{id}/rerun":                          each("/workflow-execution/%s/rerun", `{"entities":"all"}`),
		"POST /workflow-execution/{id}/resume":                         each("/workflow-execution/%s/resume", reasonBody),
		"POST /workflow-execution/{id}/next":                           each("/workflow-execution/%s/next", reasonBody),
		"POST /workflow-execution/{id}/rewind":                         each("/workflow-execution/%s/rewind", `{"to":"one"}`),
		"GET /workflow-execution/id/{id}/tokens":                       each("/workflow-execution/id/%s/tokens", ""),
		"POST /workflow-execution/{id}/tokens":                         each("/workflow-execution/%s/tokens", `{"for":"ann"}`),
		"POST /workflow-execution/{id}/tokens/revoke":                  each("/workflow-execution/%s/tokens/revoke", reasonBody),
		"POST /workflow-execution/{id}/unlock":                         each("/workflow-execution/%s/unlock", reasonBody),
		"POST /workflow-execution/{id}/signal/{name}":                  each("/workflow-execution/%s/signal/go", "{}"),
		"POST /signals/{package}/{name}/{key}/{signal}":                one("/signals/p/patient/order-7/go", "{}"),
		"GET /locks":                     lists("/locks"),
		"GET /locks/{type}/{id}":         {{target: "/locks/device/d001"}, {target: "/locks/device/d005"}},
		"GET /workers":                   lists("/workers"),
		"GET /workers/{id}":              one("/workers/"+p.Worker, ""),
		"POST /workers/{id}/heartbeat":   one("/workers/"+p.Worker+"/heartbeat", ""),
		"POST /workers/{id}/drain":       one("/workers/"+p.Worker+"/drain", reasonBody),
		"POST /workers/{id}/unregister":  one("/workers/"+p.Worker+"/unregister", ""),
		"POST /workers/register":         one("/workers/register", fmt.Sprintf(workerFormat, p.Worker)),
		"POST /blackboard/job":           {{target: "/blackboard/job", body: fmt.Sprintf(pollFormat, p.Worker)}, {target: "/blackboard/job", body: fmt.Sprintf(pollFormat, "rw")}},
		"POST /blackboard/job/heartbeat": one("/blackboard/job/heartbeat", fmt.Sprintf(leaseFormat, p.Pack, p.Token)),
		"POST /blackboard/job/result":    one("/blackboard/job/result", fmt.Sprintf(resultFormat, p.Pack, p.Token, p.Job)),
		"GET /blackboard/jobs":           one("/blackboard/jobs", ""),
		"GET /dead-letters":              {{target: "/dead-letters"}, {target: "/dead-letters?queue=lifecycle"}, {target: "/dead-letters?queue=jobs-edge"}},
		"POST /dead-letters/redrive":     {{target: "/dead-letters/redrive"}, {target: "/dead-letters/redrive", body: `{"queue":"lifecycle"}`}, {target: "/dead-letters/redrive", body: `{"queue":"jobs-edge"}`}},
		"GET /metrics/summary":           {{target: "/metrics/summary"}, {target: "/metrics/summary?workflow=p/slow&days=1"}},
		"GET /sweep":                     one("/sweep", ""),
		"GET /secrets":                   one("/secrets", ""),
		"GET /caller":                    one("/caller", ""),
	}
}

// creatingRoutes are the routes by which the other tenant creates resources with the same
// names.
var creatingRoutes = []string{
	"POST /workers/register", "POST /function-blocks/register", "POST /workflow-definition/publish", "PUT /entities/{type}/{id}", "POST /entities/import",
	"POST /workflow-execution", "POST /blackboard/job",
}

// The answer to every request of the other tenant is the same as if there were no owner,
// and everything that the owner sees stays as it was. There are three rounds: first the
// other tenant has nothing; then it creates resources with the same names; then it sends
// the first requests again. A route without requests here fails the test.
func TestAPI_TenantsAreIsolated(t *testing.T) {
	withOwner, withoutOwner := newFixture(t, 1), newFixture(t, 1)
	p := createOwnerData(withOwner)
	withoutOwner.PoolQueue("edge")
	withoutOwner.RunFor(2 * time.Hour)
	before := withOwner.snapshot(p)
	all := otherTenantRequests(p)
	for _, r := range documentedRoutes() {
		if _, covered := all[r.String()]; !covered && !r.public {
			t.Errorf("%s: no requests of another tenant", r)
		}
	}
	withOwner.tenant, withoutOwner.tenant = otherTenant, otherTenant
	sent := 0
	send := func(round int, name string) {
		method, _, _ := strings.Cut(name, " ")
		for _, q := range all[name] {
			var headers []string
			if q.header != "" {
				headers = append(headers, q.header)
			}
			withOwner.Advance(time.Millisecond) // what was done at one moment is listed in any order
			withoutOwner.Advance(time.Millisecond)
			a, b := withOwner.do(method, q.target, q.body, headers...), withoutOwner.do(method, q.target, q.body, headers...)
			if with, without := normalize(a, volatileAnswers), normalize(b, volatileAnswers); with != without {
				t.Errorf("round %d, %s %s %s\nwith the owner: %s\nwithout: %s", round, method, q.target, q.body, with, without)
			}
			if strings.Contains(string(a.body), secret) || strings.Contains(string(a.body), ownerTenant) {
				t.Errorf("round %d, %s %s reveals %s", round, method, q.target, a)
			}
			if strings.Contains(q.target, "pageToken=") && a.status < 400 {
				t.Errorf("round %d, %s %s: the owner's page token is accepted: %s", round, method, q.target, a)
			}
			for _, id := range []string{p.Execution, p.UnsafeExecution, p.WaitingExecution} {
				if strings.Contains(string(a.body), id) && !strings.Contains(q.target, id) {
					t.Errorf("round %d, %s %s names the execution %s", round, method, q.target, id)
				}
			}
			sent++
		}
	}
	names := sortedKeys(all)
	for round := range 3 {
		for _, name := range names {
			if slices.Contains(creatingRoutes, name) == (round == 1) {
				send(round, name)
			}
		}
	}
	after := withOwner.snapshot(p)
	for path, was := range before {
		if after[path] != was {
			t.Errorf("the other tenant changed what the owner sees at %s from\n%s\nto\n%s", path, was, after[path])
		}
	}
	// The owner's worker can still report.
	withOwner.tenant = ownerTenant
	withOwner.mustDo(nil, "POST", "/blackboard/job/result", strings.Replace(fmt.Sprintf(resultFormat, p.Pack, p.Token, p.Job), "the other", "the owner", 1))
	t.Logf("%d requests to %d routes", sent, len(all))
}

// snapshot returns everything that the owner sees, by path.
func (f *fixture) snapshot(p ownerData) map[string]string {
	f.tenant = ownerTenant
	all := map[string]string{}
	see := func(path string) { all[path] = normalize(f.do("GET", path, ""), volatileLists) }
	for _, path := range p.listPaths() {
		see(path)
	}
	for _, id := range []string{p.Execution, p.UnsafeExecution, p.WaitingExecution} {
		for _, view := range []string{"", "/history", "/jobs", "/steps", "/result", "/cost"} {
			see("/workflow-execution/id/" + id + view)
		}
		see("/executions/" + id + "/status")
	}
	for _, path := range []string{"/entities/device/d001", "/entities/device/d002", "/locks/device/d001", "/workers/" + p.Worker, "/workflow-definition/p/one/1.0.0", "/workflow-definition/p/slow/1.0.0"} {
		see(path)
	}
	return all
}

var (
	volatileLists   = []*regexp.Regexp{regexp.MustCompile(`"asOf":"[^"]*"`)}
	volatileAnswers = []*regexp.Regexp{
		regexp.MustCompile(`"id":"[0-9]{13}-[a-z0-9]{12}"`),                                  // of audit entries
		regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-8[0-9a-f]{3}-[0-9a-f]{12}`), // ids
		regexp.MustCompile(`20[0-9]{2}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z`),
		regexp.MustCompile(`"(digest|pack|nextPageToken)":"[^"]*"`),
	}
)

// normalize returns an answer without what differs each time.
func normalize(a answer, volatile []*regexp.Regexp) string {
	text := fmt.Sprintf("%d %s %s", a.status, a.header.Get("Content-Type"), a.body)
	for _, re := range append(slices.Clone(volatile), regexp.MustCompile(`"requestId":"[^"]*"`)) {
		text = re.ReplaceAllString(text, "*")
	}
	return text
}
