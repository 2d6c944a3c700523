package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/sim/faults"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

const subscriptionsAge = 30 * time.Second

func newObserved(t testing.TB, seed uint64, definition string) *harness.Harness {
	o := harness.Options()
	o.SubscriptionsAge = subscriptionsAge
	s := harness.New(t, seed, o)
	s.RegisterBlocks()
	s.ImportDevices(harness.DeviceIDs(3)...)
	s.Publish("w", definition)
	return s
}

// subscribe makes a subscription to everything from now on.
func subscribe(s *harness.Harness, sub workflow.Subscription) {
	s.Helper()
	if sub.ID == "" {
		sub.ID = "id of " + sub.Name
	}
	if sub.Since.IsZero() {
		sub.Since = s.Now()
	}
	s.WithoutFaults(func() {
		if ok, err := s.Open().Registry.PutSubscription(context.Background(), harness.Caller.Tenant, sub); !ok || err != nil {
			s.Fatal(ok, err)
		}
	})
	s.Advance(subscriptionsAge) // so that no cache is older
}

func subscriptionOf(s *harness.Harness, name string) (found workflow.Subscription) {
	s.Helper()
	s.WithoutFaults(func() {
		list, err := s.Open().Registry.Subscriptions(context.Background(), harness.Caller.Tenant)
		if err != nil {
			s.Fatal(err)
		}
		for _, one := range list {
			if one.Name == name {
				found = one
			}
		}
	})
	return found
}

var webhook = workflow.SubscriptionTarget{URL: "https://hooks.example/events"}

// toldOf lists the events of an execution that a receiver got, each once, in order.
func toldOf(s *harness.Harness, url, id string) (sequences []int64) {
	s.Helper()
	for _, r := range s.Receipts {
		var body views.DeliveryBody
		if r.To != url {
			continue
		}
		if err := json.Unmarshal(r.Body, &body); err != nil {
			s.Fatalf("%s: %v", r.Body, err)
		}
		for _, e := range body.Events {
			if e.Sequence <= body.After || e.Sequence > body.Through {
				s.Errorf("event %d is not one of those from %d to %d", e.Sequence, body.After, body.Through)
			}
			if body.Execution == id && !slices.Contains(sequences, e.Sequence) {
				sequences = append(sequences, e.Sequence)
			}
		}
	}
	slices.Sort(sequences)
	return sequences
}

// expectToldAll fails the test unless a receiver got every event of an execution.
func expectToldAll(s *harness.Harness, url, id string) {
	s.Helper()
	x := s.Load(id)
	want := make([]int64, x.Sequence)
	for i := range want {
		want[i] = int64(i) + 1
	}
	if got := toldOf(s, url, id); !slices.Equal(got, want) {
		s.Errorf("%s in %s has %d events, told of %v", id, x.State, x.Sequence, got)
	}
	if x.Announced != x.Sequence {
		s.Errorf("%s in %s: %d of %d events are known to be published, timer at %s", id, x.State, x.Announced, x.Sequence, x.DueAt)
	}
}

// observedScenarios end in each of the ways in which an execution comes to rest.
var observedScenarios = map[string]struct {
	definition string
	script     func(harness.BlockCall) *harness.Outcome
	command    func(s *harness.Harness, id string)
	end        sm.ExecutionState
}{
	"completes":   {definition: stepsYAML("one again device", "two pure global"), end: sm.ExecutionCompletedAck},
	"rolled back": {definition: stepsYAML("one again device", "two pure global"), script: failCalls("two EXECUTE"), end: sm.ExecutionFailedSafeAck},
	"unsafe":      {definition: stepsYAML("one forever device", "two pure global"), script: failCalls("two EXECUTE"), end: sm.ExecutionFailedUnsafe},
	"waits":       {definition: "steps:\n  - {label: one, functionBlock: p/again:1, runOn: device}\n  - {label: hold, wait: {input: {}}}\n", end: sm.ExecutionWaiting},
	"tried again": {
		definition: stepsYAML("one again device", "two pure global"), script: failCalls("two EXECUTE"), end: sm.ExecutionFailedSafeAck,
		command: func(s *harness.Harness, id string) {
			_, err := s.Engine.Retry(context.Background(), harness.Caller, id, views.RetryRequest{})
			if err != nil && !workflow.Is(err, workflow.CodeUnavailable) && !workflow.Is(err, workflow.CodeIllegalTransition) {
				s.Error(err)
			}
		},
	},
	"is cancelled": {
		definition: "steps:\n  - {label: one, functionBlock: p/again:1, runOn: device}\n  - {label: hold, wait: {input: {}}}\n", end: sm.ExecutionCancelledAck,
		command: func(s *harness.Harness, id string) {
			_, err := s.Engine.Cancel(context.Background(), harness.Caller, id, views.CancelRequest{})
			if err != nil && !workflow.Is(err, workflow.CodeUnavailable) && !workflow.Is(err, workflow.CodeIllegalTransition) {
				s.Error(err)
			}
		},
	},
}

// Whichever call fails, or a process crashes before or after it, the receiver gets every event, in
// whatever state the execution rests, and the timer ends. Nothing in the execution depends on it.
func TestObserver_IsToldOfEveryEvent(t *testing.T) {
	for name, c := range observedScenarios {
		t.Run(name, func(t *testing.T) {
			for _, fault := range []faults.Fault{faults.CrashBefore, faults.CrashAfter, faults.LostReply, faults.Throttled, faults.Repeated} {
				for n := 1; ; n++ {
					hit := false
					s := newObserved(t, 1, c.definition)
					s.Script = c.script
					subscribe(s, workflow.Subscription{Name: "all", To: webhook})
					at := faults.At(n, fault)
					s.Faults = func(call faults.Call) faults.Fault {
						f := at(call)
						hit = hit || f != faults.None
						return f
					}
					id := s.Start("w", harness.DeviceIDs(2)...)
					s.RunFor(2 * time.Hour)
					if c.command != nil {
						faults.CatchCrash(func() { c.command(s, id) })
						s.RunFor(2 * time.Hour)
					}
					s.Faults = nil
					s.RunFor(2 * time.Hour)
					if x := s.Load(id); x.State != c.end && c.command == nil {
						t.Fatalf("%v at call %d: %s is in %s", fault, n, id, x.State)
					}
					expectToldAll(s, webhook.URL, id)
					s.CheckInvariants()
					if t.Failed() {
						t.Fatalf("%v at call %d", fault, n)
					}
					if !hit {
						break
					}
				}
			}
		})
	}
}

// The same with faults at random, several at a time, announcements that are lost or come twice,
// and a receiver that is down now and then.
func TestObserver_IsToldUnderManyFaults(t *testing.T) {
	names := []string{}
	for name := range observedScenarios {
		names = append(names, name)
	}
	slices.Sort(names)
	for seed := range uint64(150) {
		c := observedScenarios[names[seed%uint64(len(names))]]
		s := newObserved(t, seed, c.definition)
		s.Script = c.script
		subscribe(s, workflow.Subscription{Name: "all", To: webhook})
		subscribe(s, workflow.Subscription{Name: "bus", To: workflow.SubscriptionTarget{EventBus: "default"}})
		random := rand.New(rand.NewPCG(seed, 7))
		s.QueueFaults.Shuffle, s.QueueFaults.DuplicateOneIn, s.QueueFaults.LoseOneIn = true, 4, 4
		s.Faults = faults.Randomly(random, 15, faults.CrashBefore, faults.CrashAfter, faults.LostReply, faults.Throttled, faults.Repeated)
		s.Receiver = func(harness.Received) (int, error) {
			if random.IntN(3) == 0 {
				return 503, nil
			}
			return 200, nil
		}
		id := s.Start("w", harness.DeviceIDs(2)...)
		s.RunFor(6 * time.Hour)
		if c.command != nil {
			faults.CatchCrash(func() { c.command(s, id) })
			s.RunFor(6 * time.Hour)
		}
		s.Faults, s.Receiver, s.QueueFaults.LoseOneIn = nil, nil, 0
		s.RedriveDeliveries()
		s.RunFor(48 * time.Hour)
		expectToldAll(s, webhook.URL, id)
		onBus := map[string]bool{}
		for _, r := range s.Receipts {
			var d views.BusDetail
			if r.To == "default" {
				if err := json.Unmarshal(r.Body, &d); err != nil || d.Type != r.Type {
					t.Fatalf("%s of type %s: %v", r.Body, r.Type, err)
				}
				onBus[d.ID] = true
			}
		}
		if x := s.Load(id); len(onBus) != int(x.Sequence) {
			t.Errorf("%d of %d events are on the bus", len(onBus), x.Sequence)
		}
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// An execution that nobody observes makes the same calls as before there were observers, but for
// one read of the tenant's subscriptions in half a minute.
func TestObserver_UnobservedExecutionsCostNothing(t *testing.T) {
	run := func(age time.Duration, observed bool) (calls []string, used workflow.Cost) {
		o := harness.Options()
		o.SubscriptionsAge = age
		s := harness.New(t, 1, o)
		s.RegisterBlocks()
		s.ImportDevices(harness.DeviceIDs(3)...)
		s.Publish("w", stepsYAML("one again device", "two pure global"))
		if observed {
			subscribe(s, workflow.Subscription{Name: "all", To: webhook})
		}
		before := s.Consumed()
		from := s.CallCount()
		id := s.Start("w", harness.DeviceIDs(3)...)
		settle(s)
		s.ExpectState(id, sm.ExecutionCompletedAck)
		for _, c := range s.Trace()[from:] {
			calls = append(calls, c.Name)
		}
		used = s.Consumed()
		for table, n := range before.WriteUnits {
			used.WriteUnits[table] -= n
		}
		for table, n := range before.ReadUnits {
			used.ReadUnits[table] -= n
		}
		used.QueueRequests -= before.QueueRequests
		return calls, used
	}
	without, _ := run(0, false)
	unobserved, cost := run(subscriptionsAge, false)
	reads := 0
	unobserved = slices.DeleteFunc(unobserved, func(name string) bool {
		if name == "registry.subscriptions" {
			reads++
			return true
		}
		return false
	})
	if !slices.Equal(without, unobserved) || reads != 1 {
		t.Errorf("%d reads of subscriptions; calls without observers:\n%v\nunobserved:\n%v", reads, without, unobserved)
	}
	_, observed := run(subscriptionsAge, true)
	extra := observed.WriteUnits["executions"] - cost.WriteUnits["executions"]
	t.Logf("unobserved %v, observed %v: %v write units more", cost, observed, extra)
	if extra > 2*4+1 { // the cursor twice for each announcement, and one commit at the end
		t.Errorf("an observed execution costs %v write units more", extra)
	}
}

// A subscription made while an execution changes gets every event from the time that it names,
// although a handler learns of it only after half a minute.
func TestObserver_SubscriptionMadeMeanwhile(t *testing.T) {
	var many []string
	for i := range 12 {
		many = append(many, fmt.Sprintf("s%d pure global", i))
	}
	for before := range 12 {
		s := newObserved(t, 1, stepsYAML(many...))
		id := s.Start("w")
		for i := 0; s.Deliver(); i++ {
			if i == 2*before {
				since := s.Now().Add(subscriptionsAge + 4*time.Second)
				if ok, err := s.Open().Registry.PutSubscription(context.Background(), harness.Caller.Tenant, workflow.Subscription{Name: "all", ID: "1", To: webhook, Since: since}); !ok || err != nil {
					t.Fatal(ok, err)
				}
			}
			s.Advance(3 * time.Second)
		}
		s.RunFor(time.Hour)
		sub, told := subscriptionOf(s, "all"), toldOf(s, webhook.URL, id)
		for _, e := range s.History(id) {
			if due := sub.Name != "" && !e.At.Before(sub.Since); due != slices.Contains(told, e.Sequence) {
				t.Errorf("made before message %d: event %d at %s, since %s: told of %v", before, e.Sequence, e.At, sub.Since, told)
			}
		}
	}
}

// A subscription gets the events that it names, of the executions that it names.
func TestObserver_Filters(t *testing.T) {
	for name, c := range map[string]struct {
		sub  workflow.Subscription
		want string
	}{
		"types":             {workflow.Subscription{Events: []string{"step.*", "execution.settled"}}, "step.entered step.exited execution.settled"},
		"states":            {workflow.Subscription{States: []string{"COMPLETED", "COMPLETED_ACK"}}, "execution.completed execution.settled"},
		"another workflow":  {workflow.Subscription{Workflows: []string{"p/other"}}, ""},
		"this workflow":     {workflow.Subscription{Workflows: []string{"p/w"}, Events: []string{"execution.created"}}, "execution.created"},
		"another label":     {workflow.Subscription{Labels: map[string]string{"stage": "test"}}, ""},
		"this label":        {workflow.Subscription{Labels: map[string]string{"stage": "prod"}, Events: []string{"execution.created"}}, "execution.created"},
		"no time is known":  {workflow.Subscription{Since: time.Date(2099, 1, 1, 0, 0, 0, 0, time.UTC)}, ""},
		"part of a pattern": {workflow.Subscription{Events: []string{"execution.settle", "step"}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := newObserved(t, 1, stepsYAML("one pure global"))
			c.sub.Name, c.sub.To = "some", webhook
			subscribe(s, c.sub)
			req := harness.NewStartRequest("w")
			req.Labels = map[string]string{"stage": "prod"}
			s.StartWith(req)
			settle(s)
			var types []string
			for _, r := range s.Receipts {
				var body views.DeliveryBody
				if err := json.Unmarshal(r.Body, &body); err != nil {
					t.Fatal(err)
				}
				for _, e := range body.Events {
					types = append(types, e.Type)
				}
			}
			if got := strings.Join(types, " "); got != c.want {
				t.Errorf("told of %q, want %q", got, c.want)
			}
		})
	}
}

// A delivery is retried for a day. Twenty in a row that are given up suspend their subscription.
// Later events are kept among the dead letters, and are delivered once somebody resumes it.
func TestObserver_SuspendsWhoeverIsDead(t *testing.T) {
	s := newObserved(t, 1, stepsYAML("one pure global"))
	subscribe(s, workflow.Subscription{Name: "dead", To: webhook})
	other := workflow.SubscriptionTarget{URL: "https://other.example/"}
	subscribe(s, workflow.Subscription{Name: "other", To: other})
	s.Receiver = func(r harness.Received) (int, error) {
		if r.To == webhook.URL {
			return 500, nil
		}
		return 200, nil
	}
	var ids []string
	for range 24 {
		ids = append(ids, s.Start("w"))
		s.RunFor(2 * time.Minute)
	}
	tried := s.Now()
	s.RunFor(20 * time.Hour)
	if got := subscriptionOf(s, "dead"); got.Suspended != nil || got.Dead != 0 {
		t.Errorf("given up after %s: %+v", s.Now().Sub(tried), got)
	}
	s.RunFor(5 * time.Hour)
	got := subscriptionOf(s, "dead")
	if got.Suspended == nil || !strings.Contains(got.Suspended.Reason, "status 500") || len(s.DeadDeliveries) < 20 {
		t.Fatalf("after a day: %+v, %d dead letters", got, len(s.DeadDeliveries))
	}
	if sub := subscriptionOf(s, "other"); sub.Suspended != nil || sub.Dead != 0 {
		t.Errorf("the other one is %+v", sub)
	}
	ids = append(ids, s.Start("w"))
	s.RunFor(time.Hour)
	for _, id := range ids {
		expectToldAll(s, other.URL, id)
		if told := toldOf(s, webhook.URL, id); len(told) > 0 {
			t.Errorf("the dead one was told of %v", told)
		}
	}
	s.Receiver = nil
	got.Suspended, got.Dead = nil, 0
	subscribe(s, got)
	s.RedriveDeliveries()
	s.RunFor(time.Hour)
	for _, id := range ids {
		expectToldAll(s, webhook.URL, id)
	}
}

// Events that a receiver refused with 410, and later ones, are delivered once somebody resumes its
// subscription.
func TestObserver_ResumedAfterGone(t *testing.T) {
	s := newObserved(t, 1, stepsYAML("one pure global"))
	subscribe(s, workflow.Subscription{Name: "hook", To: webhook})
	s.Receiver = func(harness.Received) (int, error) { return http.StatusGone, nil }
	ids := []string{s.Start("w")}
	s.RunFor(time.Hour)
	ids = append(ids, s.Start("w"))
	s.RunFor(time.Hour)
	s.Receiver = nil
	hook := subscriptionOf(s, "hook")
	hook.Suspended = nil
	subscribe(s, hook)
	s.RedriveDeliveries()
	s.RunFor(time.Hour)
	for _, id := range ids {
		expectToldAll(s, webhook.URL, id)
	}
}

// A receiver that answers 410 is not called again. One that was removed, or recreated under the
// same name, does not get what was meant for the old one.
func TestObserver_GoneAndRemoved(t *testing.T) {
	s := newObserved(t, 1, stepsYAML("one pure global"))
	subscribe(s, workflow.Subscription{Name: "gone", To: webhook})
	requests := 0
	s.Receiver = func(harness.Received) (int, error) {
		requests++
		return http.StatusGone, nil
	}
	s.Start("w")
	s.RunFor(time.Hour)
	if got := subscriptionOf(s, "gone"); requests != 1 || got.Suspended == nil || !strings.Contains(got.Suspended.Reason, "410") {
		t.Errorf("%d requests, %+v", requests, got)
	}
	old := subscriptionOf(s, "gone")
	old.ID, old.Suspended = "another", nil
	subscribe(s, old)
	s.RedriveDeliveries()
	s.RunFor(time.Hour)
	if requests != 1 || s.HooksQueue().Len() != 0 {
		t.Errorf("%d requests, %d messages are left", requests, s.HooksQueue().Len())
	}
	s.Receiver = nil
	removed := subscriptionOf(s, "gone")
	removed.RemovedAt = s.Now()
	subscribe(s, removed)
	id := s.Start("w")
	s.RunFor(time.Hour)
	if x := s.Load(id); len(s.Receipts) != 0 || x.Announced != 0 || !x.DueAt.IsZero() {
		t.Errorf("%d receipts, announced %d, timer %s", len(s.Receipts), x.Announced, x.DueAt)
	}
}

// A follow-up is started once for each event, however often that is tried, and starts no others.
func TestObserver_FollowUp(t *testing.T) {
	for seed := range uint64(40) {
		s := newObserved(t, seed, stepsYAML("one pure global"))
		s.Publish("clean", "parameters: {type: object, properties: {execution: {type: string}, state: {type: string}, workflow: {type: string}, event: {type: string}}, required: [execution]}\n"+
			"steps:\n  - {label: sweep, functionBlock: p/pure:1, runOn: global, parameters: {of: '${parameters.execution} ${parameters.state}'}}\n")
		subscribe(s, workflow.Subscription{Name: "cleaner", To: workflow.SubscriptionTarget{Workflow: "p/clean:1"}, States: []string{"COMPLETED"}})
		s.Faults = faults.Randomly(rand.New(rand.NewPCG(seed, 3)), 12, faults.CrashBefore, faults.CrashAfter, faults.LostReply, faults.Throttled, faults.Repeated)
		s.QueueFaults.DuplicateOneIn = 2
		id := s.Start("w")
		s.RunFor(6 * time.Hour)
		s.Faults = nil
		s.RedriveDeliveries()
		s.RunFor(30 * time.Hour)
		var started []string
		for other := range s.States(harness.Caller.Tenant) {
			if x := s.Load(other); x.Workflow.Name == "clean" {
				started = append(started, other)
				if x.State != sm.ExecutionCompletedAck || x.CreatedBy != workflow.FollowUpActor+"cleaner" || x.CorrelationID != id {
					t.Errorf("%s is in %s, created by %s for %s", other, x.State, x.CreatedBy, x.CorrelationID)
				}
			}
		}
		if len(started) != 1 || !slices.ContainsFunc(s.BlockCalls, func(c harness.BlockCall) bool {
			return c.Step == "sweep" && strings.Contains(string(c.Parameters), id+" COMPLETED")
		}) {
			t.Fatalf("seed %d: started %v", seed, started)
		}
	}
}

// Events contain no data of an execution: no parameter, result, answer, or text of a block or an
// operator.
func TestObserver_ToldNoSecrets(t *testing.T) {
	const secret = "s3cr3t"
	s := newObserved(t, 1, "parameters: {type: object, properties: {p: {type: string}}}\nsteps:\n"+
		"  - {label: one, functionBlock: p/again:1, runOn: device, retry: {maxRetries: 1}, parameters: {p: '${parameters.p}'}}\n"+
		"  - {label: ask, wait: {input: {}}}\n"+
		"  - {label: two, functionBlock: p/pure:1, runOn: global, parameters: {p: '${parameters.p}'}, assert: [\"parameters.p != '"+secret+"'\"]}\n")
	subscribe(s, workflow.Subscription{Name: "all", To: webhook})
	subscribe(s, workflow.Subscription{Name: "bus", To: workflow.SubscriptionTarget{EventBus: "default"}})
	subscribe(s, workflow.Subscription{Name: "people", To: workflow.SubscriptionTarget{Topic: "arn:aws:sns:x:1:t", Text: true}, States: workflow.AlertStates})
	s.Script = func(c harness.BlockCall) *harness.Outcome {
		if c.Step == "one" && c.Entity == "d001" && c.Attempt == 1 {
			return &harness.Outcome{FailCode: "BUSY", FailMessage: "cannot do " + secret, Retryable: true}
		}
		return &harness.Outcome{Result: json.RawMessage(`"` + secret + `"`)}
	}
	req := harness.NewStartRequest("w", harness.DeviceIDs(2)...)
	req.Parameters = json.RawMessage(`{"p":"` + secret + `"}`)
	id := s.StartWith(req)
	s.RunFor(10 * time.Minute)
	if _, err := s.Engine.Cancel(context.Background(), harness.Caller, id, views.CancelRequest{Reason: "because of " + secret}); err != nil {
		t.Error(err)
	}
	s.RunFor(time.Hour)
	if len(toldOf(s, webhook.URL, id)) == 0 {
		t.Fatal("nothing was told")
	}
	for _, r := range s.Receipts {
		if strings.Contains(string(r.Body)+r.Type+fmt.Sprint(r.Header), secret) {
			t.Errorf("told %s", r.Body)
		}
	}
}

// Alerts report failures, with the entities that need a look, and nothing else.
func TestObserver_Alerts(t *testing.T) {
	o := harness.Options()
	o.SubscriptionsAge, o.Alerts = subscriptionsAge, workflow.AlertTarget{Topic: "arn:aws:sns:x:1:people", URL: ""}
	run := func(definition string, script func(harness.BlockCall) *harness.Outcome, devices int) (texts []string, id string) {
		s := harness.New(t, 1, o)
		s.RegisterBlocks()
		s.ImportDevices(harness.DeviceIDs(20)...)
		s.Publish("w", definition)
		s.Script = script
		id = s.Start("w", harness.DeviceIDs(devices)...)
		s.RunFor(time.Hour)
		for _, r := range s.Receipts {
			if r.To != o.Alerts.Topic {
				t.Errorf("sent to %s", r.To)
			}
			texts = append(texts, r.Type+"\n"+string(r.Body))
		}
		return texts, id
	}
	if texts, _ := run(stepsYAML("one again device"), nil, 3); len(texts) != 0 {
		t.Errorf("told of success: %q", texts)
	}
	texts, id := run("config: {failureTolerance: 100%}\n"+stepsYAML("one forever device"), func(c harness.BlockCall) *harness.Outcome {
		return &harness.Outcome{FailCode: "REFUSED", FailMessage: "of a block"}
	}, 9)
	if len(texts) != 1 || strings.Count(texts[0], "device/") != 5 || !strings.Contains(texts[0], "and 4 more") || !strings.Contains(texts[0], "lockstep status "+id) || strings.Contains(texts[0], "of a block") {
		t.Errorf("told %q", texts)
	}
	texts, _ = run(stepsYAML("one forever device", "two pure global"), failCalls("two EXECUTE"), 2)
	if len(texts) != 1 || !strings.Contains(texts[0], "FAILED_UNSAFE") || !strings.Contains(texts[0], "at step two") || !strings.Contains(texts[0], "acknowledges") {
		t.Errorf("told %q", texts)
	}
}

// A long history is published in parts, from its pages and from the state item.
func TestObserver_TellsLongHistories(t *testing.T) {
	var many []string
	for i := range 90 {
		many = append(many, fmt.Sprintf("s%d pure global", i))
	}
	s := newObserved(t, 1, stepsYAML(many...))
	subscribe(s, workflow.Subscription{Name: "all", To: webhook})
	s.Faults = faults.Every(faults.Throttled, "store.lease_observed") // nothing is published before the end
	id := s.Start("w")
	s.RunFor(time.Hour)
	s.Faults = nil
	s.RunFor(time.Hour)
	if x := s.Load(id); x.PagedThrough < 100 {
		t.Errorf("%d of %d events are in pages", x.PagedThrough, x.Sequence)
	}
	expectToldAll(s, webhook.URL, id)
}

// An announcement that finds another handler with the lease comes again, because that one may have
// read the execution before its last commit. It takes over when the lease has expired.
func TestObserver_LeaseIsNotDone(t *testing.T) {
	s := newObserved(t, 1, stepsYAML("one pure global"))
	subscribe(s, workflow.Subscription{Name: "all", To: webhook})
	id := s.Start("w")
	for !sm.Acknowledged(s.Load(id).State) {
		s.Deliver()
	}
	ctx := context.Background()
	if ok, err := s.Open().Store.LeaseObserved(ctx, harness.Caller.Tenant, id, 0, "another", s.Now(), s.Now().Add(time.Minute)); !ok || err != nil {
		t.Fatal(ok, err)
	}
	a := workflow.Announcement{Tenant: harness.Caller.Tenant, Execution: id}
	if after, err := s.Engine.PublishEvents(ctx, a); err == nil || after <= 0 {
		t.Errorf("while another one is at work: again after %s, %v", after, err)
	}
	s.Advance(61 * time.Second)
	if _, err := s.Engine.PublishEvents(ctx, a); err != nil {
		t.Error(err)
	}
	s.RunFor(time.Hour)
	expectToldAll(s, webhook.URL, id)
}

// A subscription is written first, and only then is its start time fixed. Those who change
// executions learn of it from then on, however long the first write took.
func TestObserver_SubscribingIsTwoWrites(t *testing.T) {
	for _, stall := range []time.Duration{0, time.Minute} {
		s := newObserved(t, 1, "steps:\n  - {label: a, wait: {for: 20s}}\n  - {label: b, wait: {for: 20s}}\n  - {label: c, wait: {for: 20s}}\n  - {label: d, wait: {for: 20s}}\n  - {label: e, wait: {for: 20s}}\n  - {label: f, functionBlock: p/pure:1, runOn: global}\n")
		id := s.Start("w")
		s.Drain()
		written := false
		s.Faults = func(c faults.Call) faults.Fault {
			if c.Name == "registry.put_subscription" && !written {
				written = true
				s.Advance(stall) // between the reading of the clock and the write
			}
			return faults.None
		}
		sub, secret, err := s.Catalog.PutSubscription(context.Background(), harness.Caller, "all", views.SubscriptionRequest{URL: webhook.URL})
		if err != nil || secret == "" || sub.Since.Before(s.Now().Add(subscriptionsAge)) {
			t.Errorf("written at %s, told since %s: %v", s.Now(), sub.Since, err)
		}
		s.Faults = nil
		s.RunFor(time.Hour)
		told := toldOf(s, webhook.URL, id)
		for _, e := range s.History(id) {
			if due := !e.At.Before(sub.Since); due != slices.Contains(told, e.Sequence) {
				t.Errorf("event %d at %s, since %s: told of %v", e.Sequence, e.At, sub.Since, told)
			}
		}
	}
}

// An execution whose retention is over is kept until its events are published.
func TestObserver_DiscardWaits(t *testing.T) {
	o := harness.Options()
	o.SubscriptionsAge, o.Policy.Retention = subscriptionsAge, 30*24*time.Hour
	s := harness.New(t, 1, o)
	s.RegisterBlocks()
	s.Publish("w", stepsYAML("one pure global"))
	subscribe(s, workflow.Subscription{Name: "all", To: webhook})
	s.Faults = faults.Every(faults.Throttled, "sender.send_announcements")
	id := s.Start("w")
	s.RunFor(31 * 24 * time.Hour)
	if x := s.Load(id); !x.DiscardedAt.IsZero() || len(s.Receipts) != 0 {
		t.Errorf("discarded at %s, %d receipts", x.DiscardedAt, len(s.Receipts))
	}
	s.Faults = nil
	s.RunFor(32 * 24 * time.Hour)
	if x := s.Load(id); x.DiscardedAt.IsZero() || int64(len(toldOf(s, webhook.URL, id))) < x.Announced || x.Announced == 0 {
		t.Errorf("discarded at %s, announced %d, told of %v", x.DiscardedAt, x.Announced, toldOf(s, webhook.URL, id))
	}
}
