package httpapi

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

// A retry that would go on with outdated results is refused as documented, and changes nothing. Forced, it
// goes on, and the history says who has forced it and why.
func TestRetry_OutdatedIsAnsweredAsDocumented(t *testing.T) {
	f := newFixtureWith(t, 2, harness.Options())
	f.Publish("two", "steps: [{label: look, functionBlock: p/pure:1, runOn: device}, {label: set, functionBlock: p/pure:1, runOn: device}]\n")
	f.Publish("other", "steps: [{label: set, functionBlock: p/forever:1, runOn: device}]\n")
	refuses := true
	f.Script = func(c harness.BlockCall) *harness.Outcome {
		if c.Step == "set" && c.Kind == workflow.JobExecute && refuses {
			return &harness.Outcome{FailCode: "REFUSED"}
		}
		return nil
	}
	f.ImportDevices("d000", "d001")
	const on = `{"workflow":"p/NAME","executeOnParameters":{"type":"device","ids":["d000","d001"]}}`
	x := f.execute(strings.Replace(on, "NAME", "two", 1))
	refuses = false
	other := f.execute(strings.Replace(on, "NAME", "other", 1))
	if x.State != "FAILED_SAFE_ACK" || other.State != "COMPLETED_ACK" {
		t.Fatalf("%+v, %+v", x, other)
	}
	a := f.do("POST", "/workflow-execution/"+x.ID+"/retry", `{}`)
	var p struct {
		Code, Detail string
		Errors       []struct{ Path, Code, Message string }
	}
	if err := json.Unmarshal(a.body, &p); err != nil || a.status != http.StatusConflict || p.Code != "conflict" || len(p.Errors) != 2 {
		t.Fatalf("the retry: %v, %s", err, a)
	}
	for i, e := range p.Errors {
		if e.Path != "entities" || e.Code != "outdated" || !strings.HasPrefix(e.Message, []string{"device/d000: ", "device/d001: "}[i]) || !strings.Contains(e.Message, other.ID) {
			t.Errorf("issue %d: %+v", i, e)
		}
	}
	if got := f.execution(x.ID); got.State != x.State {
		t.Errorf("it is in %s", got.State)
	}
	f.mustDo(nil, "POST", "/workflow-execution/"+x.ID+"/retry", `{"force":true,"reason":"both are as they were"}`)
	if got := f.awaitEnd(x.ID); got.State != "COMPLETED_ACK" {
		t.Errorf("forced: %+v", got)
	}
	history := f.mustDo(nil, "GET", "/workflow-execution/id/"+x.ID+"/history", "")
	var h struct {
		Items []struct {
			Type, Actor string
			Data        struct {
				Force  bool
				Reason string
			}
		}
	}
	if err := json.Unmarshal(history.body, &h); err != nil {
		t.Fatal(err)
	}
	told := false
	for _, e := range h.Items {
		told = told || e.Type == "execution.retried" && e.Actor != "" && e.Data.Force && e.Data.Reason == "both are as they were"
	}
	if !told {
		t.Errorf("the history does not say who has forced it: %s", history)
	}
}
