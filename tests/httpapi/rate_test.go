package httpapi

import (
	"testing"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Every route that starts an execution says when to come again, if that is above the rate of the workflow, and
// the document says that it does. In a batch each start does.
func TestRate_IsAnsweredAsDocumented(t *testing.T) {
	f := newFixture(t, 1)
	f.mustDo(nil, "POST", "/workflow-definition/publish", "package: p\nname: rated\nversion: 1.0.0\nconfig: {rate: {limit: 1/1h, onLimit: fail}}\n"+
		"triggers: {http: [{name: rated, verify: {scheme: token, secret: hooks/push}}]}\nsteps: [{label: one, functionBlock: p/pure:1, runOn: global}]\n", "Content-Type: application/yaml")
	const start = `{"workflow":"p/rated"}`
	f.mustDo(nil, "POST", "/workflow-execution", start, "Content-Type: application/json")
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
