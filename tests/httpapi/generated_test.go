package httpapi

import (
	"flag"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

var (
	cases = flag.Int("cases", 4500, "how many requests to make")
	seed  = flag.Uint64("seed", 1, "of the requests")
)

// fixtureCount is in how many worlds they are made, so that none grows too old.
const fixtureCount = 6

// untakenRoutes lists the routes that have not taken anything.
func untakenRoutes(all []route, good map[string]int) (missing []route) {
	for _, r := range all {
		if good[r.String()] == 0 && !r.planned {
			missing = append(missing, r)
		}
	}
	return missing
}

// TestAPI_AnswersGeneratedRequestsAsDocumented sends requests that the document allows, and such that it does
// not in one place, to every route. No answer is a failure of the service's own,
// none has a status or a body that the document does not promise, and every
// refusal is a problem. What is as the document says is never refused for its form.
func TestAPI_AnswersGeneratedRequestsAsDocumented(t *testing.T) {
	good, refused := map[string]int{}, map[int]int{}
	failures, sent := 0, 0
	all := documentedRoutes()
	for era := range fixtureCount {
		w := newFixture(t, *seed*100+uint64(era))
		a := newRequestGenerator(w, *seed*100+uint64(era))
		a.populate()
		for n := range *cases / fixtureCount {
			r := all[a.IntN(len(all))]
			if a.oneIn(4) {
				r = all[routeIndex(all, pick(a.Rand, "POST /workflow-execution", "POST /workflow-definition/publish", "POST /blackboard/job", "POST /blackboard/job/result",
					"POST /blackboard/job/heartbeat", "POST /workflow-execution/{id}/unlock", "POST /workflow-execution/{id}/retry"))]
			}
			if missing := untakenRoutes(all, good); len(missing) > 0 && era > 0 && a.oneIn(4) {
				r = pick(a.Rand, missing...) // some are only taken at a lucky moment
			}
			if r.path == "/blackboard/job" {
				w.do("POST", "/workers/w1/heartbeat", "")
				w.do("POST", "/workers/w2/heartbeat", "")
			}
			q := a.generate(r)
			w.log.Reset()
			rec := w.send(q.Request)
			sent++
			wrong := ""
			switch {
			case rec.status >= 500 && rec.status != 501 && rec.status != 503, rec.status == 501 && !r.planned:
				wrong = "the service's own failure"
			case q.ambiguousPath && rec.status >= 400 && rec.header.Get("Content-Type") == "application/problem+json":
			case q.ambiguousPath:
			case rec.status == 404 && strings.Contains(q.URL.EscapedPath(), "%2F"):
			default:
				wrong = r.violation(rec)
			}
			if q.valid && rec.status == 400 && rejectsForm(rec) {
				wrong = "what the document allows is refused for its form"
			}
			if wrong != "" {
				failures++
				t.Errorf("seed %d, era %d, request %d to %s: %s\n%s\n--> %s\n%s", *seed, era, n, r, wrong, q.text, rec, w.log)
				if failures > 10 {
					t.Fatal("there is more")
				}
			}
			if rec.status < 300 {
				good[r.String()]++
			} else {
				refused[rec.status]++
			}
			a.observe(r, rec.status, rec.body)
			switch {
			case n%50 == 49:
				w.RunFor(time.Minute)
			case n%10 == 0:
				a.refreshAwaiting()
			case a.oneIn(4):
				w.Deliver()
			}
		}
	}
	for _, r := range untakenRoutes(all, good) {
		t.Errorf("%s was never asked in a way that it took", r)
	}
	taken := 0
	for _, n := range good {
		taken += n
	}
	t.Logf("%d requests to %d routes: %d taken, refused %v", sent, len(all), taken, refused)
	if taken < sent/4 {
		t.Errorf("only %d of %d requests were taken: they do not reach what is behind the form", taken, sent)
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

// rejectsForm tells whether a refusal names a place that is not of the schema's form.
func rejectsForm(a answer) bool {
	for _, code := range []string{"unknown_field", "unknown_parameter", "duplicate_field", "enum", "syntax"} {
		if strings.Contains(string(a.body), `"code":"`+code+`"`) && !strings.Contains(string(a.body), `"line":`) {
			return true
		}
	}
	return false
}

// populate fills a world with a little of everything.
func (a *requestGenerator) populate() {
	a.Script = func(c harness.BlockCall) *harness.Outcome {
		if !c.Pure && a.oneIn(3) {
			return &harness.Outcome{FailCode: "NO", Retryable: a.oneIn(2)}
		}
		return nil
	}
	a.ImportDevices("d001", "d002", "d003", "d004")
	steps := "steps:\n  - {label: one, functionBlock: p/pure:1, runOn: device}\n  - {label: two, functionBlock: p/%s:1, runOn: device}\n"
	a.Publish("one", fmt.Sprintf(steps, "again"))
	a.Publish("two", fmt.Sprintf(steps, "once"))
	a.Publish("unsafe", fmt.Sprintf(steps, "forever"))
	a.mustDo(nil, "POST", "/workers/register", `{"id":"w1","pool":"default","blocks":["p/pure:1"]}`)
	for i := range 6 {
		var x struct{ ID string }
		a.mustDo(&x, "POST", "/workflow-execution", fmt.Sprintf(`{"workflow":"p/%s","executeOnParameters":{"ids":["d00%d"]}}`, []string{"one", "two", "unsafe"}[i%3], 1+i%4))
		a.executions = append(a.executions, x.ID)
		if i == 2 {
			a.Drain()
		}
	}
}

// TestRoute_ViolationIsDetected: what an answer must not be is seen.
func TestRoute_ViolationIsDetected(t *testing.T) {
	all := documentedRoutes()
	r := all[routeIndex(all, "GET /locks")]
	plain, problem := http.Header{"Content-Type": {"application/json"}}, http.Header{"Content-Type": {"application/problem+json"}}
	told := `{"type":"urn:x","title":"X","status":400,"detail":"d","code":"invalid","requestId":"r","errors":[]}`
	for name, c := range map[string]struct {
		answer
		good bool
	}{
		"a page":                  {answer{200, plain, []byte(`{"items":[],"nextPageToken":null}`)}, true},
		"a problem":               {answer{400, problem, []byte(told)}, true},
		"a page without its end":  {answer{200, plain, []byte(`{"items":[]}`)}, false},
		"no JSON":                 {answer{200, plain, []byte(`items`)}, false},
		"something else":          {answer{200, http.Header{"Content-Type": {"text/plain"}}, []byte(`x`)}, false},
		"created":                 {answer{201, plain, []byte(`{"items":[],"nextPageToken":null}`)}, false},
		"a teapot":                {answer{418, problem, []byte(told)}, false},
		"a failure":               {answer{500, problem, []byte(told)}, false},
		"a refusal that is none":  {answer{400, plain, []byte(told)}, false},
		"a problem of another":    {answer{403, problem, []byte(told)}, false},
		"not implemented, served": {answer{501, problem, []byte(strings.Replace(told, "400", "501", 1))}, false},
	} {
		if wrong := r.violation(c.answer); (wrong == "") != c.good {
			t.Errorf("%s: found %q", name, wrong)
		}
	}
}
