package engine_test

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
	"github.com/lockstep-run/lockstep/tests/testkit"
)

// moreThan returns what one consumption has more than another, divided by a number.
func moreThan(a, b workflow.Cost, by float64) (writes, reads map[string]float64, queue float64) {
	return testkit.Difference(a.WriteUnits, b.WriteUnits, by), testkit.Difference(a.ReadUnits, b.ReadUnits, by), (a.QueueRequests - b.QueueRequests) / by
}

// since returns what was consumed since an earlier time.
func since(s *harness.Harness, before workflow.Cost) (used workflow.Cost) {
	used.WriteUnits, used.ReadUnits, used.QueueRequests = moreThan(s.Consumed(), before, 1)
	return used
}

// The events of an observed execution are published, which takes two writes of a cursor each time
// and one for each delivery; a minute after its end, its timer finds that all are, and stores that.
// It is the same for a webhook and for a bus.
func TestCost_OfAnObservedExecution(t *testing.T) {
	run := func(to *workflow.SubscriptionTarget) workflow.Cost {
		o := harness.Options()
		o.SubscriptionsAge = subscriptionsAge
		s := harness.New(t, 1, o)
		s.RegisterBlocks()
		s.ImportDevices(harness.DeviceIDs(1)...)
		s.Publish("w", stepsYAML("one again device"))
		if to != nil {
			subscribe(s, workflow.Subscription{Name: "all", To: *to})
		}
		var used workflow.Cost
		for range 2 { // the first reads definitions and subscriptions
			before := s.Consumed()
			id := s.Start("w", harness.DeviceIDs(1)...)
			s.RunFor(time.Hour)
			s.ExpectState(id, sm.ExecutionCompletedAck)
			used = since(s, before)
		}
		return used
	}
	plain := run(nil)
	for name, to := range map[string]*workflow.SubscriptionTarget{"webhook": &webhook, "bus": {EventBus: "bus"}} {
		writes, reads, queue := moreThan(run(to), plain, 1)
		t.Logf("%s: writes %v, reads %v, %v requests to SQS more than %+v", name, writes, reads, queue, plain)
		if fmt.Sprint(writes, reads) != "map[executions:3 registry:1] map[executions:7 registry:3]" || math.Abs(queue-4.1) > 1e-6 {
			t.Errorf("%s: writes %v, reads %v, %v requests to SQS", name, writes, reads, queue)
		}
	}
}

// A child in a set writes twice more than an execution that a request starts, however many there
// are and however many run at a time: it exists before it asks its parent, and it is counted. The
// parent writes a few times for all of them.
func TestCost_OfAChildInASet(t *testing.T) {
	for _, window := range []string{"", ", maxInFlight: 5"} {
		start := func(name string, n int) workflow.Cost {
			o := harness.Options()
			o.MaxDescendants = 1000
			s := harness.New(t, 1, o)
			s.RegisterBlocks()
			s.Publish("child", "steps: [{label: work, functionBlock: p/pure:1, runOn: global}]\n")
			s.Publish("w", "parameters: {type: object}\nsteps: [{label: all, foreach: {items: '${parameters.list}', as: i"+window+"}, workflowReference: {workflow: 'p/child:1', mode: dispatch}}]\n")
			s.Start("child") // reads the definition and the block
			s.RunFor(time.Minute)
			req := harness.NewStartRequest(name)
			if n > 0 {
				req.Parameters = json.RawMessage(`{"list":[` + strings.TrimSuffix(strings.Repeat("0,", n), ",") + `]}`)
			}
			before := s.Consumed()
			id := s.StartWith(req)
			s.RunFor(time.Hour)
			s.ExpectState(id, sm.ExecutionCompletedAck)
			return since(s, before)
		}
		own, few, many := start("child", 0), start("w", 10), start("w", 110)
		writes, reads, queue := moreThan(many, few, 100)
		t.Logf("%q: each writes %v, reads %v, %v requests to SQS; alone %+v", window, writes, reads, queue, own)
		for table, most := range map[string]float64{"executions": 1.02, "jobs": 1.02, "registry": 0} {
			if more := writes[table] - own.WriteUnits[table]; more > most {
				t.Errorf("%q: a child writes %v units of %s more than alone", window, more, table)
			}
		}
	}
}
