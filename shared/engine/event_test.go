package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/sim/faults"
	"github.com/lockstep-run/lockstep/shared/topology"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

const eventsYAML = `parameters: {type: object, required: [order], properties: {order: {type: string}, n: {type: integer}}, additionalProperties: false}
triggers:
  http: [{name: called, verify: {scheme: token, secret: hooks/push}, parameters: {order: "${body.order}"}}]
  event:
    - {name: placed, pattern: {source: [shop], detail-type: [placed]}, rate: 3/1m}
    - {name: large, pattern: {source: [shop], detail: {n: [{numeric: [">", 100]}]}}, parameters: {order: "${event.detail.order + '/' + event.id}"}, executeOnParameters: {ids: ["d000"]}}
    - {name: paid, pattern: {detail-type: [paid]}, parameters: {order: "${event.detail.order}"}, idempotencyKey: "${event.detail.payment}", key: "${event.detail.order}", signal: paid}
steps:
  - {label: one, set: {seen: "${parameters.order}"}}
`

func newEvents(t *testing.T, startsByWakeup bool) *harness.Harness {
	o := harness.Options()
	o.StartsByWakeup = startsByWakeup
	s := harness.New(t, 1, o)
	s.ImportDevices(harness.DeviceIDs(3)...)
	s.Publish("w", eventsYAML)
	return s
}

// busEvent is an event as it comes.
func busEvent(id, detailType, detail string) json.RawMessage {
	return fmt.Appendf(nil, `{"version":"0","id":%q,"source":"shop","detail-type":%q,"time":"2026-11-21T05:00:00Z","region":"eu","resources":[],"detail":%s}`, id, detailType, detail)
}

func send(s *harness.Harness, event json.RawMessage) (views.EventReceipt, error) {
	return sendBy(s, "", event)
}

// sendBy sends an event; by is empty for one that was not sent by a caller.
func sendBy(s *harness.Harness, by string, event json.RawMessage) (views.EventReceipt, error) {
	return s.Engine.TakeEvent(context.Background(), workflow.Caller{Tenant: harness.Caller.Tenant, Actor: by}, event)
}

// taken describes what triggers have done with an event: the name of each, and the code or whether
// the event was known.
func taken(r views.EventReceipt) string {
	var all []string
	for _, t := range r.Triggers {
		text := t.Trigger + string(" "[:min(1, len(t.Code))]) + string(t.Code)
		if t.Duplicate {
			text += " again"
		}
		all = append(all, text)
	}
	return strings.Join(all, ", ")
}

// An event starts an execution for each trigger whose pattern it matches, once, however often it comes.
func TestEvent_StartsOnceForEachTrigger(t *testing.T) {
	for _, byWakeup := range []bool{false, true} {
		s := newEvents(t, byWakeup)
		event := busEvent("e1", "placed", `{"order":"o-7","n":700}`)
		first, err := send(s, event)
		if err != nil || first.ID != "e1" || taken(first) != "large, placed" {
			t.Fatal(first, err)
		}
		s.RunFor(10 * time.Minute)
		large, placed := s.Load(first.Triggers[0].Execution), s.Load(first.Triggers[1].Execution)
		if large.State != sm.ExecutionCompletedAck || string(large.Input.Parameters) != `{"order":"o-7/e1"}` || large.Input.Selector.IDs[0] != "d000" {
			t.Errorf("%s %s", large.State, large.Input.Parameters)
		}
		if placed.State != sm.ExecutionCompletedAck || string(placed.Input.Parameters) != `{"order":"o-7","n":700}` || placed.CreatedBy != "~trigger/placed" || placed.Labels["trigger"] != "placed" {
			t.Errorf("%s %s %s %v", placed.State, placed.Input.Parameters, placed.CreatedBy, placed.Labels)
		}
		s.Advance(14 * 24 * time.Hour) // as long as a message may lie among the dead letters
		if again, err := send(s, event); err != nil || taken(again) != "large again, placed again" || again.Triggers[0].Execution != large.ID {
			t.Errorf("%+v, %v", again, err)
		}
		if other, err := send(s, busEvent("e2", "placed", `{"order":"o-8","n":1}`)); err != nil || taken(other) != "placed" || other.Triggers[0].Execution == placed.ID {
			t.Errorf("%+v, %v", other, err)
		}
		if none, err := send(s, busEvent("e3", "other", `{"n":1}`)); err != nil || len(none.Triggers) != 0 {
			t.Errorf("%+v, %v", none, err)
		}
		if elsewhere, err := s.Engine.TakeEvent(context.Background(), workflow.Caller{Tenant: "other"}, event); err != nil || len(elsewhere.Triggers) != 0 {
			t.Errorf("another tenant: %+v, %v", elsewhere, err)
		}
		if calls := triggerCalls(s, "placed"); len(calls) != 3 || calls[2].Status != 202 || calls[2].Execution != placed.ID {
			t.Errorf("%+v", calls)
		}
	}
}

// What is refused for good is in the history and does not come again.
func TestEvent_RefusedForGood(t *testing.T) {
	s := newEvents(t, false)
	got, err := send(s, busEvent("bad", "placed", `{"order":7}`))
	if err != nil || taken(got) != "placed invalid" {
		t.Fatalf("%+v, %v", got, err)
	}
	if bad := got.Triggers[0]; bad.Message == "" || len(bad.Issues) != 1 || bad.Issues[0].Path != "parameters.order" {
		t.Errorf("who hands it in does not learn what does not fit: %+v", bad)
	}
	if got, err := send(s, busEvent("none", "placed", `"text"`)); err != nil || taken(got) != "placed invalid" {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := send(s, busEvent("e1", "placed", `{"order":"a"}`)); err != nil {
		t.Error(err)
	}
	if _, err := s.Catalog.PauseTrigger(context.Background(), harness.Caller, "placed", "freeze"); err != nil {
		t.Fatal(err)
	}
	if again, err := send(s, busEvent("e1", "placed", `{"order":"a"}`)); err != nil || taken(again) != "placed again" {
		t.Errorf("what was taken before: %+v, %v", again, err)
	}
	if got, err := send(s, busEvent("e3", "placed", `{"order":"c"}`)); err != nil || taken(got) != "placed forbidden" {
		t.Errorf("paused: %+v, %v", got, err)
	}
	fire := views.FireRequest{Body: busEvent("e3", "unlike the pattern", `{"order":"c"}`)}
	fired, err := s.Engine.FireTrigger(context.Background(), harness.Caller, "placed", fire)
	if err != nil || s.Load(fired.ID).CreatedBy != harness.Caller.Actor {
		t.Errorf("fired: %+v, %v", fired, err)
	}
	if again, err := s.Engine.FireTrigger(context.Background(), harness.Caller, "placed", fire); err != nil || !again.Duplicate {
		t.Errorf("fired again: %+v, %v", again, err)
	}
	statuses := map[int]int{}
	for _, c := range triggerCalls(s, "placed") {
		statuses[c.Status]++
	}
	if fmt.Sprint(statuses) != "map[200:2 202:2 400:2 403:1]" {
		t.Errorf("%v", statuses)
	}
	for event, want := range map[string]workflow.Code{
		`{"source":"shop"}`: workflow.CodeInvalid, `{"id":7}`: workflow.CodeInvalid, `[]`: workflow.CodeInvalid, `{`: workflow.CodeInvalid,
		`{"id":"` + strings.Repeat("x", 256<<10) + `"}`: workflow.CodeTooLarge,
	} {
		if _, err := send(s, json.RawMessage(event)); !workflow.Is(err, want) {
			t.Errorf("%.40s: %v", event, err)
		}
	}
	if _, err := call(s, "placed", views.TriggerCall{Headers: map[string]string{"authorization": hookSecret}}); !workflow.Is(err, workflow.CodeUnauthorized) {
		t.Errorf("called over HTTP: %v", err)
	}
	for _, c := range triggerCalls(s, "placed") {
		if c.Status == 401 {
			t.Errorf("there is a history of calls of what is not called: %+v", c)
		}
	}
}

// Events above the rate are accepted all the same, and their executions begin when the rate allows
// it. Only events above the rate for longer than a day are delivered again.
func TestEvent_WaitsForTheRate(t *testing.T) {
	for _, byWakeup := range []bool{false, true} {
		s := newEvents(t, byWakeup)
		var all []string
		for i := range 100 {
			id := fmt.Sprint("e", i)
			if after, err := handle(s, busEvent(id, "placed", `{"order":"o"}`), 1); err != nil {
				t.Fatalf("event %d comes again after %s: %v", i, after, err)
			}
			got, err := send(s, busEvent(id, "placed", `{"order":"o"}`))
			if err != nil || taken(got) != "placed again" {
				t.Fatal(got, err)
			}
			all = append(all, got.Triggers[0].Execution)
			s.Advance(20 * time.Millisecond)
		}
		for i, minutes := range []int{0, 10, 20, 33} {
			s.RunFor(time.Duration(minutes-[]int{0, 0, 10, 20}[i]) * time.Minute)
			ended := 0
			for _, id := range all {
				if s.Load(id).State == sm.ExecutionCompletedAck {
					ended++
				}
			}
			if most := 3 + 3*minutes; ended > most || ended < min(100, most-3) {
				t.Errorf("after %d minutes %d of 100 have ended, and the rate allows %d", minutes, ended, most)
			}
		}
	}
}

func handle(s *harness.Harness, event json.RawMessage, receives int) (time.Duration, error) {
	return s.Engine.HandleEvent(context.Background(), workflow.BusEvent{Tenant: harness.Caller.Tenant, Event: event}, receives)
}

// More events than the rate lets begin within a day come again, and are not lost: their last
// receive is before the queue drops them.
func TestEvent_MoreThanADayAheadComesAgain(t *testing.T) {
	s := newHarness(t, 1)
	s.Publish("w", "triggers: {event: [{name: any, pattern: {detail-type: [placed]}, parameters: {}, rate: 1/12h}]}\nsteps: [{label: one, set: {a: 1}}]\n")
	for i := range 3 {
		if _, err := handle(s, busEvent(fmt.Sprint("e", i), "placed", `{}`), 1); err != nil {
			t.Fatal(err)
		}
	}
	all := time.Duration(0)
	for receives := 1; receives <= topology.MaxReceiveHooksIn; receives++ {
		after, err := handle(s, busEvent("late", "placed", `{}`), receives)
		if !workflow.Is(err, workflow.CodeRateLimited) || after < 6*time.Hour {
			t.Fatalf("receive %d: %s, %v", receives, after, err)
		}
		all += after
	}
	if all < 48*time.Hour || all > 84*time.Hour {
		t.Errorf("it is a dead letter after %s", all)
	}
	s.Advance(12 * time.Hour)
	if _, err := handle(s, busEvent("late", "placed", `{}`), 2); err != nil {
		t.Error(err)
	}
}

// A key that another execution has is free when that ends: the event comes again until then.
func TestEvent_ComesAgainWhileItsKeyIsHeld(t *testing.T) {
	s := newHarness(t, 1)
	s.Publish("w", "triggers: {event: [{name: any, pattern: {detail-type: [placed]}, parameters: {}, key: '${event.detail.order}'}]}\nsteps: [{label: one, wait: {for: 1h}}]\n")
	first, second := busEvent("1", "placed", `{"order":"o-7"}`), busEvent("2", "placed", `{"order":"o-7"}`)
	if _, err := handle(s, first, 1); err != nil {
		t.Fatal(err)
	}
	if after, err := handle(s, second, 1); !workflow.Is(err, workflow.CodeConflict) || after <= 0 {
		t.Errorf("%s, %v", after, err)
	}
	if _, err := send(s, second); err == nil || !strings.Contains(err.Error(), "hand in the event 2 again, with this id: trigger any: ") {
		t.Errorf("who hands it in is told %v", err)
	}
	s.RunFor(2 * time.Hour)
	if _, err := handle(s, second, 2); err != nil || len(s.States(harness.Caller.Tenant)) != 2 {
		t.Errorf("%v, %v", err, s.States(harness.Caller.Tenant))
	}
}

// Sources number their events themselves: the same id of another source is another event.
func TestEvent_IsKnownBySourceAndID(t *testing.T) {
	s := newHarness(t, 1)
	s.Publish("w", "triggers: {event: [{name: any, pattern: {detail-type: [placed]}, parameters: {}}]}\nsteps: [{label: one, set: {a: 1}}]\n")
	executions := map[string]bool{}
	for _, event := range []string{
		`{"id":"1","source":"shop","detail-type":"placed"}`, `{"id":"1","source":"warehouse","detail-type":"placed"}`,
		`{"id":"1","detail-type":"placed"}`, `{"id":"p1","source":"sho","detail-type":"placed"}`,
	} {
		got, err := send(s, json.RawMessage(event))
		if err != nil || taken(got) != "any" || executions[got.Triggers[0].Execution] {
			t.Errorf("%s: %+v, %v", event, got, err)
			continue
		}
		executions[got.Triggers[0].Execution] = true
	}
}

// For an event sent by a caller, the execution and the history of the trigger name the caller.
func TestEvent_SaysWhoHasHandedItIn(t *testing.T) {
	s := newEvents(t, false)
	got, err := sendBy(s, "ann", busEvent("e1", "placed", `{"order":"o-7"}`))
	if err != nil || s.Load(got.Triggers[0].Execution).CreatedBy != "ann" {
		t.Errorf("%+v, %v", got, err)
	}
	if calls := triggerCalls(s, "placed"); len(calls) != 1 || calls[0].By != "ann" {
		t.Errorf("%+v", calls)
	}
	if _, err := send(s, busEvent("e2", "placed", `{"order":"o-8"}`)); err != nil {
		t.Error(err)
	}
	if calls := triggerCalls(s, "placed"); len(calls) != 2 || calls[0].By+calls[1].By != "ann" {
		t.Errorf("%+v", calls)
	}
}

// A handler that dies when it has bound the execution of an event, and a trigger that is paused then:
// the event is finished all the same.
func TestEvent_IsFinishedThoughItsTriggerIsPaused(t *testing.T) {
	bound := 0
	for at := 1; ; at++ {
		s := newEvents(t, false)
		calls, died := 0, false
		s.Faults = func(f faults.Call) faults.Fault {
			if calls++; calls == at {
				died = true
				return faults.CrashAfter
			}
			return faults.None
		}
		event := busEvent("e1", "placed", `{"order":"o-7"}`)
		faults.CatchCrash(func() { _, _ = send(s, event) })
		s.Faults = nil
		if !died {
			break
		}
		if _, err := s.Catalog.PauseTrigger(context.Background(), harness.Caller, "placed", "freeze"); err != nil {
			t.Fatal(err)
		}
		got, err := send(s, event)
		if err != nil {
			t.Errorf("call %d: %v", at, err)
		}
		if taken(got) == "placed again" {
			bound++
			if len(s.States(harness.Caller.Tenant)) != 1 {
				t.Errorf("call %d: its execution is missing", at)
			}
		}
	}
	if bound < 2 {
		t.Errorf("the execution was bound %d times", bound)
	}
}

// The triggers of a tenant are read once for many events; a pause and another pattern count at once.
func TestEvent_KeepsTriggersForAWhile(t *testing.T) {
	o := harness.Options()
	o.SubscriptionsAge = 30 * time.Second
	s := harness.New(t, 1, o)
	s.ImportDevices(harness.DeviceIDs(3)...)
	s.Publish("w", eventsYAML)
	reads := func(event json.RawMessage) float64 {
		before := s.Consumed().ReadUnits["registry"]
		if _, err := handle(s, event, 1); err != nil {
			t.Fatal(err)
		}
		return s.Consumed().ReadUnits["registry"] - before
	}
	if first, next := reads(busEvent("n1", "other", `{}`)), reads(busEvent("n2", "other", `{}`)); first == 0 || next != 0 {
		t.Errorf("an event that no trigger takes reads %v, the next one %v", first, next)
	}
	if _, err := s.Catalog.PauseTrigger(context.Background(), harness.Caller, "placed", "freeze"); err != nil {
		t.Fatal(err)
	}
	if reads(busEvent("e1", "placed", `{"order":"o"}`)); len(s.States(harness.Caller.Tenant)) != 0 {
		t.Error("a paused trigger has taken an event")
	}
	if _, err := s.Catalog.ResumeTrigger(context.Background(), harness.Caller, "placed"); err != nil {
		t.Fatal(err)
	}
	next := "package: p\nname: w\nversion: 1.1.0\nseedEntity: device\n" + strings.Replace(eventsYAML, "source: [shop], detail-type: [placed]", "detail-type: [placed], detail: {order: [b]}", 1)
	if _, _, err := s.Catalog.Publish(context.Background(), harness.Caller, []byte(next), false); err != nil {
		t.Fatal(err)
	}
	reads(busEvent("e2", "placed", `{"order":"a"}`))
	if reads(busEvent("e3", "placed", `{"order":"b"}`)); len(s.States(harness.Caller.Tenant)) != 1 {
		t.Errorf("by the new pattern: %v", s.States(harness.Caller.Tenant))
	}
	s.Publish("v", "triggers: {event: [{name: late, pattern: {detail-type: [late]}, parameters: {}}]}\nsteps: [{label: one, set: {a: 1}}]\n")
	if got, err := sendBy(s, "ann", busEvent("l1", "late", `{}`)); err != nil || taken(got) != "late" {
		t.Errorf("handed in: %+v, %v", got, err)
	}
	s.Publish("u", "triggers: {event: [{name: later, pattern: {detail-type: [later]}, parameters: {}}]}\nsteps: [{label: one, set: {a: 1}}]\n")
	s.Advance(30 * time.Second)
	if reads(busEvent("l2", "later", `{}`)); len(s.States(harness.Caller.Tenant)) != 3 {
		t.Errorf("a new trigger: %v", s.States(harness.Caller.Tenant))
	}
}

// An event may be known by more than its id, and be a signal to the execution that has its key.
func TestEvent_KeysAndSignals(t *testing.T) {
	for _, byWakeup := range []bool{false, true} {
		s := newEvents(t, byWakeup)
		first, err := send(s, busEvent("e1", "paid", `{"order":"o-7","payment":"p1"}`))
		if err != nil || taken(first) != "paid" {
			t.Fatal(first, err)
		}
		x := s.Load(first.Triggers[0].Execution)
		if x.Key != "o-7" || x.SignalOrder != 1 {
			t.Errorf("%+v", x)
		}
		if again, err := send(s, busEvent("e2", "paid", `{"order":"o-7","payment":"p1"}`)); err != nil || taken(again) != "paid again" || again.Triggers[0].Execution != x.ID {
			t.Errorf("the same payment: %+v, %v", again, err)
		}
		s.RunFor(10 * time.Minute)
		if state := s.Load(x.ID).State; state != sm.ExecutionCompletedAck {
			t.Errorf("%s", state)
		}
	}
}

// A handler that dies between any two calls, and an event that comes again: one execution for each trigger.
func TestEvent_OneExecutionWhoeverDies(t *testing.T) {
	for _, byWakeup := range []bool{false, true} {
		for at := 1; ; at++ {
			s := newEvents(t, byWakeup)
			calls, died := 0, false
			s.Faults = func(faults.Call) faults.Fault {
				if calls++; calls == at {
					died = true
					return faults.CrashAfter
				}
				return faults.None
			}
			event := busEvent("e1", "placed", `{"order":"o-7","n":700}`)
			faults.CatchCrash(func() { _, _ = send(s, event) })
			s.Faults = nil
			s.Advance(time.Minute)
			if _, err := send(s, event); err != nil {
				t.Errorf("call %d: %v", at, err)
			}
			s.RunFor(10 * time.Minute)
			states := s.States(harness.Caller.Tenant)
			if len(states) != 2 {
				t.Errorf("call %d: %v", at, states)
			}
			for id := range states {
				if state := s.Load(id).State; state != sm.ExecutionCompletedAck {
					t.Errorf("call %d: %s", at, state)
				}
			}
			if !died {
				break
			}
		}
	}
}

// An event costs three writes beyond the execution. An event that no trigger accepts costs none,
// and a repeated one costs none except the one per minute for such events in the history.
func TestCost_OfAnEvent(t *testing.T) {
	s := newEvents(t, false)
	writes := func(event json.RawMessage) float64 {
		before := s.Consumed().WriteUnits["registry"]
		if _, err := send(s, event); err != nil {
			t.Fatal(err)
		}
		return s.Consumed().WriteUnits["registry"] - before
	}
	if n := writes(busEvent("e1", "placed", `{"order":"o"}`)); n != 3 {
		t.Errorf("an event costs %v writes", n)
	}
	if n := writes(busEvent("e2", "other", `{}`)); n != 0 {
		t.Errorf("an event that no trigger takes costs %v writes", n)
	}
	for i, want := range []float64{1, 0} {
		if n := writes(busEvent("e1", "placed", `{"order":"o"}`)); n != want {
			t.Errorf("time %d of an event that was taken costs %v writes", i, n)
		}
	}
}

// An execution that waits for the rate of its trigger costs more than one that begins at once: the
// wait.
func TestCost_OfAnEventAboveTheRate(t *testing.T) {
	s := newEvents(t, true)
	var costs []float64
	for i := range 4 {
		before := maps.Clone(s.Consumed().WriteUnits)
		if _, err := send(s, busEvent(fmt.Sprint("e", i), "placed", `{"order":"o"}`)); err != nil {
			t.Fatal(err)
		}
		s.RunFor([]time.Duration{0, 0, 0, time.Minute}[i])
		for id, state := range s.States(harness.Caller.Tenant) {
			if state != sm.ExecutionCompletedAck {
				t.Errorf("%s is %s", id, state)
			}
		}
		n := 0.0
		for table, units := range s.Consumed().WriteUnits {
			n += units - before[table]
		}
		costs = append(costs, n)
	}
	if more := costs[3] - costs[2]; more != 1 {
		t.Errorf("an event above the rate costs %v writes more", more)
	}
}
