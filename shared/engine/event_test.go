package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/sim/faults"
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
	return s.Engine.TakeEvent(context.Background(), harness.Caller.Tenant, event)
}

// taken says what triggers have made of an event: the name of each, and the code or whether it was known.
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
		if elsewhere, err := s.Engine.TakeEvent(context.Background(), "other", event); err != nil || len(elsewhere.Triggers) != 0 {
			t.Errorf("another tenant: %+v, %v", elsewhere, err)
		}
		if calls := triggerCalls(s, "placed"); len(calls) != 3 || calls[2].Status != 202 || calls[2].Execution != placed.ID {
			t.Errorf("%+v", calls)
		}
	}
}

// What is refused for good is in the history and does not come again; what may pass comes again, and
// what was started meanwhile is found.
func TestEvent_RefusedForGoodOrAgain(t *testing.T) {
	s := newEvents(t, false)
	if got, err := send(s, busEvent("bad", "placed", `{"order":7}`)); err != nil || taken(got) != "placed invalid" {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := send(s, busEvent("none", "placed", `"text"`)); err != nil || taken(got) != "placed invalid" {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := send(s, busEvent("e1", "placed", `{"order":"a"}`)); err != nil {
		t.Error(err)
	}
	var limited *workflow.Error
	got, err := send(s, busEvent("e2", "placed", `{"order":"b","n":700}`))
	if !errors.As(err, &limited) || limited.Code != workflow.CodeRateLimited || limited.RetryAfter <= 0 || taken(got) != "large, placed rate_limited" {
		t.Errorf("%+v, %v", got, err)
	}
	s.Advance(limited.RetryAfter)
	if again, err := send(s, busEvent("e2", "placed", `{"order":"b","n":700}`)); err != nil || taken(again) != "large again, placed" || again.Triggers[0].Execution != got.Triggers[0].Execution {
		t.Errorf("%+v, %v", again, err)
	}
	if _, err := s.Catalog.PauseTrigger(context.Background(), harness.Caller, "placed", "freeze"); err != nil {
		t.Fatal(err)
	}
	s.Advance(time.Minute)
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
	if fmt.Sprint(statuses) != "map[200:1 202:2 400:2 403:1 429:1]" {
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

// An event costs three writes beyond the execution, one that no trigger takes none, and one that was
// taken before none but the one a minute that the history has of such.
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
