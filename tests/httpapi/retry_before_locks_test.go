package httpapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

// A retry of an execution that ended unsafely, and was acknowledged, does not get its locks. It is told as the end
// before: unsafe, with the same entities to look at. It holds none of them, and can be acknowledged and rerun.
func TestRetry_WithoutItsLocksIsToldAsTheEndBefore(t *testing.T) {
	f := newFixtureWith(t, 2, harness.Options())
	f.Publish("two", "config: {onLocked: fail}\nsteps: [{label: set, functionBlock: p/forever:1, runOn: device}, {label: check, functionBlock: p/pure:1, runOn: device}]\n")
	f.Script = func(c harness.BlockCall) *harness.Outcome {
		if c.Step == "check" && c.Entity == "d001" && c.Kind == workflow.JobExecute {
			return &harness.Outcome{FailCode: "REFUSED"}
		}
		return nil
	}
	f.ImportDevices("d000", "d001")
	const on = `{"workflow":"p/two","executeOnParameters":{"type":"device","ids":[IDS]}}`
	type execution struct {
		State, Outcome string
		Cause          string
		EntityOutcomes map[string]int
		FailedEntities []struct{ Entity, Outcome, Step string }
		Remains        string
		Kept           int
	}
	told := func(id string) (x execution) {
		t.Helper()
		a := f.mustDo(nil, "GET", "/workflow-execution/id/"+id, "")
		if err := json.Unmarshal(a.body, &x); err != nil {
			t.Fatal(err)
		}
		return x
	}
	id := f.execute(strings.Replace(on, "IDS", `"d000","d001"`, 1)).ID
	first := told(id)
	if first.State != "FAILED_UNSAFE" || first.EntityOutcomes["FAILED_UNSAFE"] != 2 || len(first.FailedEntities) != 2 || first.Kept != 2 {
		t.Fatalf("%+v", first)
	}
	f.mustDo(nil, "POST", "/workflow-execution/"+id+"/acknowledge", `{"reason":"seen"}`)
	holder := f.execute(strings.Replace(on, "IDS", `"d001"`, 1)).ID
	if x := told(holder); x.State != "FAILED_UNSAFE" || x.Kept != 1 {
		t.Fatalf("who is to hold a lock: %+v", x)
	}
	f.mustDo(nil, "POST", "/workflow-execution/"+id+"/retry", `{"force":true,"reason":"mended"}`)
	f.awaitEnd(id)
	x := told(id)
	if x.State != "FAILED_UNSAFE" || x.Outcome != "FAILED_UNSAFE" || x.Cause != "LOCK_TIMEOUT" || x.Kept != 0 || !strings.Contains(x.Remains, `step "set" has no rollback`) ||
		fmt.Sprint(x.EntityOutcomes, x.FailedEntities) != fmt.Sprint(first.EntityOutcomes, first.FailedEntities) {
		t.Errorf("the retry is told as %+v, and the end before as %+v", x, first)
	}
	if a := f.do("POST", "/workflow-execution/"+id+"/unlock", `{"reason":"needed"}`); a.status != http.StatusConflict {
		t.Errorf("it holds nothing, and is unlocked: %s", a)
	}
	f.mustDo(nil, "POST", "/workflow-execution/"+holder+"/acknowledge", `{"reason":"seen"}`)
	f.Script = nil
	f.mustDo(nil, "POST", "/workflow-execution/"+id+"/acknowledge", `{"reason":"seen again"}`)
	if x := told(id); x.State != "FAILED_UNSAFE_ACK" || x.EntityOutcomes["FAILED_UNSAFE"] != 2 {
		t.Errorf("acknowledged, it is %+v", x)
	}
	var again struct{ ID string }
	f.mustDo(&again, "POST", "/workflow-execution/"+id+"/rerun", `{"entities":"unsafe","reason":"once more"}`)
	if x := f.awaitEnd(again.ID); x.State != "COMPLETED_ACK" {
		t.Errorf("the rerun: %+v", x)
	}
}
