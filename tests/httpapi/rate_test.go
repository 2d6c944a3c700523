package httpapi

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Every route that starts an execution says when to come again, if that is above the rate of the workflow, and
// the document says that it does. In a batch each start does.
func TestRate_IsAnsweredAsDocumented(t *testing.T) {
	f := newFixture(t, 1)
	f.mustDo(nil, "POST", "/workflow-definition/publish", "package: p\nname: rated\nversion: 1.0.0\nconfig: {rate: {limit: 1/1h, onLimit: fail}}\n"+
		"triggers: {http: [{name: rated, verify: {scheme: token, secret: hooks/push}}]}\nsteps: [{label: one, functionBlock: p/pure:1, runOn: global}]\n", "Content-Type: application/yaml")
	const start = `{"workflow":"p/rated"}`
	headers := func(a answer, want ...string) {
		t.Helper()
		for i, name := range []string{"RateLimit-Limit", "RateLimit-Policy", "RateLimit-Remaining", "RateLimit-Reset"} {
			if got := a.header.Get(name); got != want[i] {
				t.Errorf("%s is %q, want %q in %s", name, got, want[i], a)
			}
		}
	}
	headers(f.mustDo(nil, "POST", "/workflow-execution", start, "Content-Type: application/json"), "1", "1;w=3600", "0", "3600")
	for _, c := range []struct{ path, target, body string }{
		{"/workflow-execution", "/workflow-execution", start},
		{"/triggers/{name}/fire", "/triggers/rated/fire", `{"body":{}}`},
	} {
		a, violation := f.do("POST", c.target, c.body, "Content-Type: application/json"), "no such route"
		for _, r := range documentedRoutes() {
			if r.method == "POST" && r.path == c.path {
				violation = r.violation(a)
			}
		}
		headers(a, "1", "1;w=3600", "0", "3600")
		if a.status != 429 || a.header.Get("Retry-After") != "3600" || violation != "" {
			t.Errorf("%s: %s, Retry-After %q: %s", c.target, a, a.header.Get("Retry-After"), violation)
		}
	}
	var batch struct {
		Items []struct {
			Error struct {
				Code       workflow.Code
				RetryAfter int
			}
		}
	}
	f.mustDo(&batch, "POST", "/workflow-execution/batch", `{"items":[`+start+`]}`, "Content-Type: application/json")
	if len(batch.Items) != 1 || batch.Items[0].Error.Code != workflow.CodeRateLimited || batch.Items[0].Error.RetryAfter != 3600 {
		t.Errorf("of a batch: %+v", batch)
	}
}

// A call of a trigger says what is left of its rate, and one that takes nothing of it says nothing.
// The answers to a form are alike whether it was sent before or not.
func TestRate_CallsOfTriggersSayWhatIsLeft(t *testing.T) {
	f := newFixture(t, 1)
	f.mustDo(nil, "POST", "/workflow-definition/publish", "package: p\nname: called\nversion: 1.0.0\ntriggers: {http: [{name: called, rate: 3/1m, idempotencyKey: '${body.id}', verify: {scheme: token, secret: hooks/push}}, "+
		"{name: contact, rate: 2/1m, schema: {type: object}, form: {honeypot: site, dedupe: {fields: [mail], window: 5m}}}]}\nsteps: [{label: one, functionBlock: p/pure:1, runOn: global}]\n", "Content-Type: application/yaml")
	const secret = "a secret of a trigger"
	f.Engine.Secret = func(context.Context, string, string) (string, error) { return secret, nil }
	left := func(a answer, want string) {
		t.Helper()
		if got := a.header.Get("RateLimit-Remaining") + " " + a.header.Get("RateLimit-Reset") + " " + a.header.Get("Retry-After"); got != want {
			t.Errorf("%q, want %q: %s", got, want, a)
		}
	}
	call := func(body string, headers ...string) answer {
		return f.do("POST", "/hooks/"+f.tenant+"/called", body, append(headers, "Content-Type: application/json")...)
	}
	proof := "Authorization: Bearer " + secret
	left(call(`{"id": "a"}`), "  ")
	left(call(`{"id": "a"}`, proof), "2 20 ")
	left(call(`{"id": "b"}`, proof), "1 20 ")
	left(call(`{"id": "c"}`, proof), "0 20 ")
	left(call(`{"id": "d"}`, proof), "0 20 20")
	form := func(body string) answer {
		return f.do("POST", "/hooks/"+f.tenant+"/contact", body, "Content-Type: application/json")
	}
	for _, body := range []string{`{"mail": "a"}`, `{"mail": "a"}`, `{"mail": "b", "site": "x"}`} {
		left(form(body), "  ")
	}
	left(form(`{"mail": "c"}`), "0 30 30")
}

func TestTriggerStats_CountCallsByResult(t *testing.T) {
	f := newFixture(t, 1)
	f.mustDo(nil, "POST", "/workflow-definition/publish", "package: p\nname: counted\nversion: 1.0.0\ntriggers: {http: [{name: counted, rate: 3/1m, idempotencyKey: '${body.id}', schema: {type: object}, verify: {scheme: token, secret: hooks/push}}]}\n"+
		"steps: [{label: one, functionBlock: p/pure:1, runOn: global}]\n", "Content-Type: application/yaml")
	stats := func() (s views.TriggerStats) {
		f.mustDo(&s, "GET", "/triggers/counted/stats", "")
		return s
	}
	if s := stats(); s.Calls != 0 || s.Since != nil || s.LastCallAt != nil {
		t.Errorf("nothing was called: %+v", s)
	}
	const secret = "a secret of a trigger"
	f.Engine.Secret = func(context.Context, string, string) (string, error) { return secret, nil }
	first := f.Now()
	for _, body := range []string{`{"id": "a"}`, `{"id": "b"}`, `{"id": "b"}`, `[]`, `{"id": "c"}`} { // two are accepted, one of them again, which takes nothing of the rate; one does not fit, and the last is above the rate
		f.do("POST", "/hooks/"+f.tenant+"/counted", body, "Content-Type: application/json", "Authorization: "+secret)
		f.Advance(time.Second)
	}
	f.do("POST", "/hooks/"+f.tenant+"/counted", `{"id": "d"}`, "Content-Type: application/json", "Authorization: nothing")
	f.mustDo(nil, "POST", "/triggers/counted/fire", `{"body":{"id":"e"}}`)
	got, last := stats(), f.Now()
	want := views.TriggerStats{
		Name: "counted", Since: &first, LastCallAt: &last, Calls: 7, Accepted: 3, Duplicates: 1, Refused: 3, Fired: 1,
		Statuses: map[string]int{"202": 3, "200": 1, "400": 1, "401": 1, "429": 1}, Codes: map[workflow.Code]int{"invalid": 1, "rate_limited": 1, "unauthorized": 1},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if a := f.do("GET", "/triggers/none/stats", ""); a.status != 404 {
		t.Errorf("of a trigger that does not exist: %s", a)
	}
}
