package httpapi

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

// Results of HTML take as many bytes wherever they are stored, sent and served as the
// block has returned. Escaped they would take six times as many.
func TestAnswers_DoNotEscapeHTML(t *testing.T) {
	const size = 512 << 10
	html := strings.Repeat("<&>", size/3)
	f := newFixture(t, 1)
	received := 0
	f.Script = func(call harness.BlockCall) *harness.Outcome {
		if call.Step == "two" {
			received = len(call.Parameters)
			return &harness.Outcome{Result: json.RawMessage(`{}`)}
		}
		return &harness.Outcome{Result: json.RawMessage(`{"html":"` + html + `"}`)}
	}
	f.Publish("html", `steps:
  - {label: one, functionBlock: "p/pure:1", runOn: global}
  - {label: two, functionBlock: "p/pure:1", runOn: global, parameters: {html: "${one.result.html}"}}`)
	x := f.execute(`{"workflow":"p/html"}`)
	if x.State != "COMPLETED_ACK" {
		t.Fatalf("%+v", x)
	}
	if received < size || received > size+100 {
		t.Errorf("%d bytes of parameters for %d of HTML", received, size)
	}
	for _, what := range []string{"result", "jobs"} {
		a := f.mustDo(nil, "GET", "/workflow-execution/id/"+x.ID+"/"+what, "")
		if len(a.body) < size || len(a.body) > size+4096 || !strings.Contains(string(a.body), html) {
			t.Errorf("%s: %d bytes for %d of HTML", what, len(a.body), size)
		}
	}
}
