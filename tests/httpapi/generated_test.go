package httpapi

import (
	"flag"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

var (
	cases = flag.Int("cases", 12000, "requests to send")
	seed  = flag.Uint64("seed", 1, "seed of the requests")
)

// fixtureCount is the number of fixtures that share the requests, so that none collects
// too many executions.
const fixtureCount = 6

// unacceptedRoutes returns the routes that have accepted no request.
func unacceptedRoutes(all []route, accepted map[string]int) (missing []route) {
	for _, r := range all {
		if accepted[r.String()] == 0 && !r.planned {
			missing = append(missing, r)
		}
	}
	return missing
}

// Requests that the document allows, and requests with one error, are sent to every route.
// No answer is an internal error, every status and body is documented, and every error is
// a problem document. A valid request is never rejected for its form.
func TestAPI_AnswersGeneratedRequestsAsDocumented(t *testing.T) {
	accepted, rejected := map[string]int{}, map[int]int{}
	failures, sent := 0, 0
	all := documentedRoutes()
	for round := range fixtureCount {
		f := newFixture(t, *seed*100+uint64(round))
		g := newRequestGenerator(f, *seed*100+uint64(round))
		g.populate()
		for n := range *cases / fixtureCount {
			r := all[g.IntN(len(all))]
			if g.oneIn(4) {
				r = all[routeIndex(all, pick(g.Rand, "POST /workflow-execution", "POST /workflow-definition/publish", "POST /blackboard/job", "POST /blackboard/job", "POST /blackboard/job/result",
					"POST /blackboard/job/heartbeat", "POST /workflow-execution/{id}/unlock", "POST /workflow-execution/{id}/retry"))]
			}
			if missing := unacceptedRoutes(all, accepted); len(missing) > 0 && round > 0 && g.oneIn(4) {
				r = pick(g.Rand, missing...) // some are accepted only in rare states
			}
			if r.path == "/blackboard/job" {
				f.do("POST", "/workers/w1/heartbeat", "")
				f.do("POST", "/workers/w2/heartbeat", "")
				if round > 0 && accepted["POST /blackboard/job/result"] == 0 { // something has to be left that can be claimed
					device := fmt.Sprintf("d%d-%d", round, n)
					f.ImportDevices(device)
					f.do("POST", "/workflow-definition/p/one/1.0.0/restore", "") // a request may have archived it
					f.mustDo(nil, "POST", "/workflow-execution", fmt.Sprintf(`{"workflow":"p/one:1.0.0","executeOnParameters":{"ids":[%q]}}`, device))
					f.DrainWakeups()
				}
			}
			q := g.generate(r)
			f.Errors.Reset()
			before := f.Consumed()
			rec := f.send(q.Request)
			sent++
			wrong := ""
			after := f.Consumed()
			switch {
			case q.Method == http.MethodGet && (!maps.Equal(after.WriteUnits, before.WriteUnits) || after.QueueRequests != before.QueueRequests):
				wrong = fmt.Sprintf("a GET writes or sends something, which whoever may only read may call: before %+v, after %+v", before, after)
			case rec.status >= 500 && rec.status != 501 && rec.status != 503, rec.status == 501 && !r.planned:
				wrong = "an internal error"
			case q.ambiguousPath && rec.status >= 400 && rec.header.Get("Content-Type") == "application/problem+json":
			case q.ambiguousPath:
			case rec.status == 404 && strings.Contains(q.URL.EscapedPath(), "%2F"):
			default:
				wrong = r.violation(rec)
			}
			if q.valid && rec.status == 400 && rejectsForm(rec) {
				wrong = "a valid request is rejected for its form"
			}
			if wrong != "" {
				failures++
				t.Errorf("seed %d, fixture %d, request %d to %s: %s\n%s\n--> %s\n%s", *seed, round, n, r, wrong, q.text, rec, f.Errors)
				if failures > 10 {
					t.Fatal("too many failures")
				}
			}
			if rec.status < 300 {
				accepted[r.String()]++
			} else {
				rejected[rec.status]++
			}
			g.observe(r, rec.status, rec.body)
			switch {
			case n%50 == 49:
				f.RunFor(time.Minute)
			case n%10 == 0:
				g.refreshAwaiting()
			case g.oneIn(4):
				f.Deliver()
			}
		}
	}
	for _, r := range unacceptedRoutes(all, accepted) {
		t.Errorf("%s accepted no request", r)
	}
	total := 0
	for _, n := range accepted {
		total += n
	}
	t.Logf("%d requests to %d routes: %d accepted, rejected by status: %v", sent, len(all), total, rejected)
	if total < sent/4 {
		t.Errorf("only %d of %d requests were accepted: too few test more than validation", total, sent)
	}
}

func routeIndex(all []route, name string) int {
	for i, r := range all {
		if r.String() == name {
			return i
		}
	}
	panic("no route " + name)
}

// rejectsForm reports whether an answer rejects a request because it does not match the
// schema.
func rejectsForm(a answer) bool {
	for _, code := range []string{"unknown_field", "unknown_parameter", "duplicate_field", "enum", "syntax"} {
		if strings.Contains(string(a.body), `"code":"`+code+`"`) && !strings.Contains(string(a.body), `"line":`) {
			return true
		}
	}
	return false
}

// populate creates entities, definitions, a worker and executions.
func (g *requestGenerator) populate() {
	g.Script = func(c harness.BlockCall) *harness.Outcome {
		if !c.Pure && g.oneIn(3) {
			return &harness.Outcome{FailCode: "FAILED", Retryable: g.oneIn(2)}
		}
		return nil
	}
	g.ImportDevices("d001", "d002", "d003", "d004")
	steps := "steps:\n  - {label: one, functionBlock: p/pure:1, runOn: device}\n  - {label: two, functionBlock: p/%s:1, runOn: device}\n"
	g.Publish("one", fmt.Sprintf(steps, "again"))
	g.Publish("two", fmt.Sprintf(steps, "once"))
	g.Publish("unsafe", fmt.Sprintf(steps, "forever"))
	for _, name := range []string{"pure", "again"} {
		g.Publish(name, "cron: {schedule: \"0 4 * * *\", concurrency: true}\n"+fmt.Sprintf(steps, "again"))
	}
	g.Publish("called", "triggers: {http: [{name: one, verify: {scheme: token, secret: hooks/one}, parameters: {}, rate: 900/1s}, {name: two, verify: {scheme: token, secret: hooks/two}, parameters: {}}, {name: pure, form: {}, schema: {}, parameters: {}, rate: 900/1s}]}\n"+fmt.Sprintf(steps, "again"))
	g.Publish("ask", "steps:\n  - {label: one, wait: {input: {title: ask}}}\n")
	for range 6 {
		var x struct{ ID string }
		g.mustDo(&x, "POST", "/workflow-execution", `{"workflow":"p/ask"}`)
		g.asking = append(g.asking, x.ID)
	}
	for _, name := range []string{"one", "two", "unsafe"} { // they hold a key, and no lock
		g.mustDo(nil, "POST", "/workflow-execution", fmt.Sprintf(`{"workflow":"p/%s","key":"order-7","hold":true}`, name))
	}
	for _, name := range []string{"one", "two"} {
		g.mustDo(nil, "PUT", "/subscriptions/"+name, `{"url":"http://127.0.0.1:9/x","events":["execution.*"]}`)
	}
	g.mustDo(nil, "POST", "/workers/register", `{"id":"w1","pool":"default","blocks":["p/pure:1"]}`)
	for i := range 6 {
		var x struct{ ID string }
		g.mustDo(&x, "POST", "/workflow-execution", fmt.Sprintf(`{"workflow":"p/%s","executeOnParameters":{"ids":["d00%d"]}}`, []string{"one", "two", "unsafe"}[i%3], 1+i%4))
		g.executions = append(g.executions, x.ID)
		if i == 2 {
			g.Drain()
		}
	}
}

// Answers that differ from the document are detected.
func TestRoute_ViolationIsDetected(t *testing.T) {
	all := documentedRoutes()
	r := all[routeIndex(all, "GET /locks")]
	plain, problem := http.Header{"Content-Type": {"application/json"}, "Etag": {`W/"x"`}}, http.Header{"Content-Type": {"application/problem+json"}}
	body := `{"type":"urn:x","title":"X","status":400,"detail":"d","code":"invalid","requestId":"r","errors":[]}`
	for name, c := range map[string]struct {
		answer
		valid bool
	}{
		"page":                              {answer{200, plain, []byte(`{"items":[],"nextPageToken":null}`)}, true},
		"page without its tag":              {answer{200, http.Header{"Content-Type": {"application/json"}}, []byte(`{"items":[],"nextPageToken":null}`)}, false},
		"problem":                           {answer{400, problem, []byte(body)}, true},
		"page without nextPageToken":        {answer{200, plain, []byte(`{"items":[]}`)}, false},
		"not JSON":                          {answer{200, plain, []byte(`items`)}, false},
		"other content type":                {answer{200, http.Header{"Content-Type": {"text/plain"}}, []byte(`x`)}, false},
		"undocumented success":              {answer{201, plain, []byte(`{"items":[],"nextPageToken":null}`)}, false},
		"unknown status":                    {answer{418, problem, []byte(body)}, false},
		"internal error":                    {answer{500, problem, []byte(body)}, false},
		"problem with another content type": {answer{400, plain, []byte(body)}, false},
		"problem of another status":         {answer{403, problem, []byte(body)}, false},
		"not implemented":                   {answer{501, problem, []byte(strings.Replace(body, "400", "501", 1))}, false},
	} {
		if wrong := r.violation(c.answer); (wrong == "") != c.valid {
			t.Errorf("%s: violation %q", name, wrong)
		}
	}
}
