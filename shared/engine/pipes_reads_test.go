package engine_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/engine"
	"github.com/lockstep-run/lockstep/shared/sim/faults"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

// The reads for delivering one part of a step do not grow with the step, even if the parameters,
// the condition and the items of the step are made from the results of another step that is as
// large.
func TestCost_DeliveryOfRowsDoesNotGrowWithItsStep(t *testing.T) {
	const read = "steps:\n  - {label: one, functionBlock: p/again:1, runOn: device}\n" +
		"  - {label: two, functionBlock: p/again:1, runOn: device, condition: one.result.id != null, parameters: {id: '${one.result.id}'}}\n"
	const pipe = "pipes:\n  - {step: two, table: payments, map: {txn: entity.id}}\n"
	run := func(devices int, pipes string) (all, last float64) {
		s := newPiped(t, 1, read+pipes)
		s.ImportDevices(harness.DeviceIDs(devices)...)
		s.Script = func(c harness.BlockCall) *harness.Outcome {
			return &harness.Outcome{Result: json.RawMessage(fmt.Sprintf(`{"id":"t-%s"}`, c.Entity))}
		}
		units := func() (n float64) {
			for _, u := range s.Consumed().ReadUnits {
				n += u
			}
			return n
		}
		var begun []float64 // what was read when each delivery had read the definition of its table
		s.Faults = func(c faults.Call) faults.Fault {
			if c.Name == "registry.table" {
				begun = append(begun, units())
			}
			return faults.None
		}
		before := units()
		s.Start("w", harness.DeviceIDs(devices)...)
		settle(s)
		if n := len(begun); n > 1 {
			last = begun[n-1] - begun[n-2]
		}
		return units() - before, last
	}
	extra := func(devices int) (all, last float64) {
		piped, last := run(devices, pipe)
		none, _ := run(devices, "")
		return piped - none, last
	}
	small, smallPart := extra(1000)
	large, largePart := extra(4000)
	if largePart == 0 || largePart > smallPart*1.25 {
		t.Errorf("a part of 1000 jobs reads %v units, one of 4000 jobs %v", smallPart, largePart)
	}
	if large > small*4.5 {
		t.Errorf("the rows of 1000 jobs take %v read units, those of 4000 jobs %v", small, large)
	}
	t.Logf("%v and %v read units, %v and %v for a part", small, large, smallPart, largePart)
}

// Each part has the rows of its jobs, whatever else in the step takes no part.
func TestPipe_PartsOfAStep(t *testing.T) {
	for name, definition := range map[string]string{
		"entities with a condition": "steps:\n  - {label: one, functionBlock: p/again:1, runOn: device, condition: '!entity.id.endsWith(\"7\")'}\n",
		"a pipeline":                "config: {executionStrategy: {parallel: true}}\nsteps:\n  - {label: zero, functionBlock: p/again:1, runOn: device}\n  - {label: one, functionBlock: p/again:1, runOn: device, condition: '!entity.id.endsWith(\"7\")'}\n",
	} {
		t.Run(name, func(t *testing.T) {
			s := newPiped(t, 1, definition+"pipes:\n  - {step: one, table: payments, map: {txn: entity.id, source: result.id}}\n")
			ids := harness.DeviceIDs(700)
			s.ImportDevices(ids...)
			s.Script = func(c harness.BlockCall) *harness.Outcome {
				return &harness.Outcome{Result: json.RawMessage(fmt.Sprintf(`{"id":"t-%s"}`, c.Entity))}
			}
			s.Start("w", ids...)
			settle(s)
			rows := allRowsOf(s, "payments")
			for i, r := range rows {
				var v struct{ Txn, Source string }
				if err := json.Unmarshal(r.Values, &v); err != nil || v.Source != "t-"+v.Txn {
					t.Fatalf("row %d is %s, %v", i, r.Values, err)
				}
			}
			if len(rows) != 630 {
				t.Errorf("%d rows", len(rows))
			}
		})
	}
}

// allRowsOf lists the rows of a table of any size.
func allRowsOf(s *harness.Harness, table string) (rows []workflow.Row) {
	s.Helper()
	for next := ""; ; {
		list, err := s.Open().Rows.Rows(s.Context(), harness.Caller.Tenant, table, workflow.Page{Limit: workflow.MaxPageSize, Token: next})
		if err != nil {
			s.Fatal(err)
		}
		rows = append(rows, list.Items...)
		if next = list.NextToken; next == "" {
			return rows
		}
	}
}

// While a definition cannot be read, a process that does not have it cached delivers the events to
// the other subscriptions, each once, as if the execution had no pipes. The rows come when it can
// be read, or when the dead letter is redriven.
func TestPipe_OfADefinitionThatCannotBeReadTouchesNobody(t *testing.T) {
	for name, outage := range map[string]time.Duration{"for minutes": 5 * time.Minute, "for days": 48 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			s := newPiped(t, 1, stepsYAML("one again device", "two pure global")+chargePipe)
			subscribe(s, workflow.Subscription{Name: "all", To: webhook})
			s.Script = pay
			s.Faults = faults.Every(faults.Throttled, "store.lease_observed") // nothing is published before the execution has ended
			id := s.Start("w", harness.DeviceIDs(2)...)
			s.RunFor(10 * time.Second)
			if len(s.Receipts) > 0 {
				t.Fatalf("told too early: %+v", s.Receipts)
			}
			s.Engine = engine.New(s.Engine.Deps, s.Engine.Options, "")
			s.Faults = faults.Every(faults.Throttled, "registry.definition")
			s.RunFor(outage)
			expectToldAll(s, webhook.URL, id)
			told := map[int64]int{}
			for _, r := range s.Receipts {
				var body views.DeliveryBody
				if err := json.Unmarshal(r.Body, &body); err != nil {
					t.Fatal(err)
				}
				for _, e := range body.Events {
					if told[e.Sequence]++; told[e.Sequence] > 1 {
						t.Errorf("told %d times of event %d", told[e.Sequence], e.Sequence)
					}
				}
			}
			expectRows(s)
			s.Faults = nil
			if dead := len(s.DeadDeliveries); outage > 24*time.Hour && dead != 2 { // one of each step
				t.Errorf("%d dead letters", dead)
			}
			s.RedriveDeliveries()
			s.RunFor(time.Hour)
			expectRows(s, `{"amount":7,"source":"shop","txn":"t-d000"}`, `{"amount":7,"source":"shop","txn":"t-d001"}`)
		})
	}
}
