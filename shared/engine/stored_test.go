package engine_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/lockstep-run/lockstep/shared/sim/fate"
	"github.com/lockstep-run/lockstep/shared/sim/stage"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// text is a JSON text of so many kilobytes.
func text(mark string, kb int) json.RawMessage {
	return json.RawMessage(`"` + mark + strings.Repeat("x", kb<<10-len(mark)-2) + `"`)
}

// Results that no pack holds are seen by expressions, by those who ask for the
// run's results and jobs, and by what undoes the job, whole.
func TestLargeResults(t *testing.T) {
	s := open(t, 3)
	s.Publish("w", steps("one again device", `two again device , parameters: {size: "${size(one.result)}"}`))
	seen := map[string]string{}
	s.Script = func(c stage.Call) *stage.Outcome {
		switch {
		case c.Step == "one" && c.Kind == workflow.JobExecute:
			return &stage.Outcome{Result: text(c.Entity, 300)}
		case c.Step == "one":
			seen[c.Entity] = string(c.Result)
		case c.Entity == "d001" && c.Kind == workflow.JobExecute:
			return &stage.Outcome{Fail: "NO"}
		}
		return nil
	}
	var faults int
	s.Faults = func(c fate.Call) fate.Fault {
		if (c.Name == "packs.save" || c.Name == "packs.load") && faults < 3 {
			faults++
			return []fate.Fault{fate.LostReply, fate.CrashAfter, fate.Throttled}[faults-1]
		}
		return fate.None
	}
	id := s.Start("w", stage.Names(3)...)
	settle(s)
	s.Faults = nil
	s.Ends(id, sm.ExecutionFailedSafeAck)
	for _, name := range stage.Names(3) {
		if seen[name] != string(text(name, 300)) {
			t.Errorf("%s is undone with %d bytes", name, len(seen[name]))
		}
	}
	list, err := s.View.Jobs(context.Background(), stage.Caller, id, views.JobFilter{Step: "one", Kind: workflow.JobExecute}, workflow.Page{})
	if err != nil {
		t.Fatal(err)
	}
	for _, j := range list.Items {
		if j.State == sm.JobCompleted && string(j.Result) != string(text(j.Entity.ID, 300)) {
			t.Errorf("%s is shown with %d bytes", j.Entity, len(j.Result))
		}
	}
	result, err := s.View.Result(context.Background(), stage.Caller, id)
	if err != nil || faults != 3 || len(result.Steps["one"].Results) != 3 {
		t.Errorf("%v %v", result.Steps["one"].Results, err)
	}
	for name, r := range result.Steps["one"].Results {
		if string(r) != string(text(name, 300)) {
			t.Errorf("the result of %s has %d bytes", name, len(r))
		}
	}
}

// Expressions that would read more than they may are refused before anything of
// it is read.
func TestLargeResultsBeyondTheLimit(t *testing.T) {
	s := open(t, 3)
	s.Publish("w", steps("one pure device", `two again global , parameters: {size: "${size(one.results)}"}`))
	s.Script = func(c stage.Call) *stage.Outcome {
		if c.Step == "one" {
			return &stage.Outcome{Result: text(c.Entity, 500)}
		}
		return nil
	}
	loads := 0
	s.Faults = func(c fate.Call) fate.Fault {
		if c.Name == "packs.load" {
			loads++
		}
		return fate.None
	}
	id := s.Start("w", stage.Names(3)...)
	settle(s)
	x := s.Ends(id, sm.ExecutionFailedSafeAck)
	if x.Cause != workflow.CauseLimit || loads != 0 {
		t.Errorf("cause %s after %d reads", x.Cause, loads)
	}
}
