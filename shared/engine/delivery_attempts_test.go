package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/token"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

func deliveriesOf(s *harness.Harness, name string) []workflow.DeliveryAttempt {
	s.Helper()
	list, err := s.Catalog.Deliveries(context.Background(), harness.Caller, name)
	if err != nil {
		s.Fatal(err)
	}
	return list.Items
}

// Of each delivery it is known when it was tried last, how often, and with what answer; nothing of what
// was sent.
func TestDeliveries_SayWhatBecameOfEach(t *testing.T) {
	s := newObserved(t, 1, stepsYAML("one pure global"))
	subscribe(s, workflow.Subscription{Name: "hook", To: webhook, States: []string{"COMPLETED"}})
	status, failed := 503, error(nil)
	s.Receiver = func(harness.Received) (int, error) { return status, failed }
	id := s.Start("w")
	s.RunFor(15 * time.Second)
	first := deliveriesOf(s, "hook")
	if len(first) != 1 || first[0].Delivered || first[0].Status != 503 || first[0].Attempts != 2 || first[0].Execution != id || !strings.Contains(first[0].Error, "status 503") {
		t.Fatalf("%+v", first)
	}
	status, failed = 0, errors.New("connection refused")
	s.RunFor(time.Minute)
	if second := deliveriesOf(s, "hook"); len(second) != 1 || second[0].Attempts != 3 || second[0].Status != 0 || !strings.Contains(second[0].Error, "refused") || second[0].Delivery != first[0].Delivery {
		t.Errorf("%+v", second)
	}
	status, failed = 204, nil
	s.RunFor(10 * time.Minute)
	last := deliveriesOf(s, "hook")
	if len(last) != 1 || !last[0].Delivered || last[0].Status != 204 || last[0].Error != "" || last[0].Attempts != 4 || !last[0].At.After(first[0].At) {
		t.Errorf("%+v", last)
	}
	s.ExpectState(id, sm.ExecutionCompletedAck)
	if _, err := s.Catalog.Deliveries(context.Background(), harness.Caller, "nothing"); !workflow.Is(err, workflow.CodeNotFound) {
		t.Errorf("of one that does not exist: %v", err)
	}
}

// A test sends one signed event to a webhook and returns the response, even for a suspended
// subscription. It changes nothing but the list of deliveries.
func TestSubscription_TestSendsOneEvent(t *testing.T) {
	s := newObserved(t, 1, stepsYAML("one pure global"))
	ctx := context.Background()
	to := webhook
	keys, err := s.Engine.TokenKeys(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if to.Secret, err = keys.Seal([]byte(hookSecret)); err != nil {
		t.Fatal(err)
	}
	subscribe(s, workflow.Subscription{Name: "hook", To: to, States: []string{"CANCELLED"}, Suspended: &workflow.SubscriptionPause{Reason: "it was dead"}})
	subscribe(s, workflow.Subscription{Name: "chat", To: workflow.SubscriptionTarget{URL: "https://chat.example/", Text: true}})
	subscribe(s, workflow.Subscription{Name: "bus", To: workflow.SubscriptionTarget{EventBus: "orders"}})
	before := subscriptionOf(s, "hook")
	status := 204
	var got []harness.Received
	s.Receiver = func(r harness.Received) (int, error) {
		got = append(got, r)
		return status, nil
	}
	test := func(name string) (workflow.DeliveryAttempt, error) {
		return s.Engine.TestSubscription(ctx, s.Receivers(), harness.Caller.Tenant, name)
	}
	a, err := test("hook")
	if err != nil || !a.Delivered || a.Status != 204 || !a.Test || a.Attempts != 1 || len(got) != 1 || got[0].To != webhook.URL || got[0].Header["Lockstep-Delivery"] != a.Delivery {
		t.Fatalf("%+v, %v, %+v", a, err, got)
	}
	v := workflow.Verification{Scheme: workflow.VerifyHMAC}
	if _, ok := v.Check([]byte(hookSecret), got[0].Header[workflow.SignatureHeader], got[0].Body, s.Now()); !ok {
		t.Errorf("not signed: %v", got[0].Header)
	}
	var body views.DeliveryBody
	if err := json.Unmarshal(got[0].Body, &body); err != nil || body.Subscription != "hook" || len(body.Events) != 1 || body.Events[0].Type != workflow.TestEventType || body.Execution != "" {
		t.Errorf("%v %s", err, got[0].Body)
	}
	status = http.StatusGone
	if a, err := test("hook"); err != nil || a.Delivered || a.Status != 410 || a.Error == "" {
		t.Errorf("%+v, %v", a, err)
	}
	if after := subscriptionOf(s, "hook"); after.Revision != before.Revision {
		t.Errorf("the subscription has changed: %+v", after)
	}
	if all := deliveriesOf(s, "hook"); len(all) != 2 || !all[0].Test || !all[1].Test {
		t.Errorf("%+v", all)
	}
	if a, err := test("chat"); err != nil || a.Status != 410 || !strings.Contains(string(got[2].Body), `{"text":"A test of the subscription chat`) {
		t.Errorf("%+v, %v, %s", a, err, got[2].Body)
	}
	if _, err := test("bus"); !workflow.Is(err, workflow.CodeInvalid) || len(got) != 3 {
		t.Errorf("a bus: %v", err)
	}
	if _, err := test("nothing"); !workflow.Is(err, workflow.CodeNotFound) {
		t.Errorf("%v", err)
	}
	if _, err := s.Engine.TestSubscription(ctx, s.Receivers(), "other", "hook"); !workflow.Is(err, workflow.CodeNotFound) {
		t.Errorf("another tenant: %v", err)
	}
	s.Engine.TokenKeys = func(context.Context) (token.Keys, error) { return token.Keys{}, errors.New("no keys") }
	if a, err := test("hook"); err != nil || a.Delivered || len(got) != 3 {
		t.Errorf("without keys nothing is sent unsigned: %+v, %v", a, err)
	}
}

// Each time that a delivery is tried is one write.
func TestCost_OfADelivery(t *testing.T) {
	writes := func(state string, status int) float64 {
		s := newObserved(t, 1, stepsYAML("one pure global"))
		subscribe(s, workflow.Subscription{Name: "hook", To: webhook, States: []string{state}})
		s.Receiver = func(harness.Received) (int, error) {
			defer func() { status = 200 }()
			return status, nil
		}
		before := s.Consumed().WriteUnits["registry"]
		s.Start("w")
		s.RunFor(10 * time.Minute)
		return s.Consumed().WriteUnits["registry"] - before
	}
	if none, one, two := writes("CANCELLED", 200), writes("COMPLETED", 200), writes("COMPLETED", 503); one-none != 1 || two-none != 2 {
		t.Errorf("one try costs %v writes, two cost %v", one, two)
	}
}
