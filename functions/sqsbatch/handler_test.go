package sqsbatch_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"os"
	"reflect"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"github.com/lockstep-run/lockstep/functions/sqsbatch"
	"github.com/lockstep-run/lockstep/shared/topology"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/tests/testkit"
)

// decode decodes a body as the id of an execution; "poison" cannot be decoded.
func decode(body string) (workflow.Wakeup, error) {
	if body == "poison" {
		return workflow.Wakeup{}, errors.New("not a wake-up")
	}
	return workflow.Wakeup{Tenant: "t", Execution: body}, nil
}

// fakeEngine calls its two functions; recordFailure may be nil.
type fakeEngine struct {
	advance       func(context.Context, workflow.Wakeup) error
	recordFailure func(context.Context, workflow.Wakeup, error)
}

func (e fakeEngine) Advance(ctx context.Context, w workflow.Wakeup) error { return e.advance(ctx, w) }

func (e fakeEngine) RecordFailure(ctx context.Context, w workflow.Wakeup, err error) {
	if e.recordFailure != nil {
		e.recordFailure(ctx, w, err)
	}
}

// fakeWakeupSender records the wake-ups that are sent.
type fakeWakeupSender struct {
	mu      sync.Mutex
	wakeups []workflow.Wakeup
}

func (q *fakeWakeupSender) SendWakeups(_ context.Context, _ time.Duration, wakeups ...workflow.Wakeup) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.wakeups = append(q.wakeups, wakeups...)
	return nil
}

func ignoreMetric(context.Context, string, int) {}

// noMetric fails the test if anything is measured.
func noMetric(t *testing.T) func(context.Context, string, int) {
	return func(_ context.Context, metric string, n int) { t.Errorf("measured %s %d", metric, n) }
}

// Messages that cannot be decoded, fail or panic are reported one by one. All messages
// about one execution fail together.
func TestHandleWakeups_ReportsFailuresPerRecord(t *testing.T) {
	var mu sync.Mutex
	advanced := map[string]workflow.Wakeup{}
	recorded, measured := map[string]bool{}, map[string]int{}
	handle := sqsbatch.HandleWakeups(slog.New(slog.DiscardHandler), decode, fakeEngine{func(_ context.Context, l workflow.Wakeup) error {
		mu.Lock()
		advanced[l.Execution] = l
		mu.Unlock()
		switch l.Execution {
		case "fails":
			return errors.New("no")
		case "panics":
			panic("no")
		}
		return nil
	}, func(_ context.Context, l workflow.Wakeup, err error) {
		mu.Lock()
		recorded[l.Execution] = err != nil
		mu.Unlock()
	}}, nil, func(_ context.Context, metric string, n int) { measured[metric] += n })
	event := events.SQSEvent{}
	for id, body := range map[string]string{"1": "good", "2": "fails", "3": "good", "4": "panics", "5": "poison", "6": "fails"} {
		event.Records = append(event.Records, events.SQSMessage{MessageId: id, Body: body})
	}
	got, err := handle(t.Context(), event)
	if err != nil {
		t.Fatal(err)
	}
	var failed []string
	for _, f := range got.BatchItemFailures {
		failed = append(failed, f.ItemIdentifier)
	}
	slices.Sort(failed)
	if want := []string{"2", "4", "5", "6"}; !slices.Equal(failed, want) {
		t.Errorf("failed %v, want %v", failed, want)
	}
	if !maps.Equal(recorded, map[string]bool{"fails": true, "panics": true}) {
		t.Errorf("recorded failures of %v", recorded)
	}
	// Lambda counts the invocation as a success, so nothing else would tell.
	if !maps.Equal(measured, map[string]int{topology.MetricFailedWakeups: 4}) {
		t.Errorf("measured %v", measured)
	}
	if a := testkit.ReadAlarm(t, "FailedWakeups"); !a.Fires([]testkit.Measured{{At: time.Now(), Value: measured[a.Metric]}}) || a.Fires([]testkit.Measured{{At: time.Now(), Value: 2}}) {
		t.Errorf("%d failures, and not two, should raise the alarm", measured[a.Metric])
	}
	if len(advanced) != 3 {
		t.Errorf("%d calls of Advance, want one for each execution", len(advanced))
	}
	if got := advanced["good"].Cost.QueueRequests; got < 0.66 || got > 0.67 {
		t.Errorf("two of six messages are charged %v requests, want 4/6", got)
	}
}

func TestHandleWakeups_EmptyFailureListIsNotNull(t *testing.T) {
	handle := sqsbatch.HandleWakeups(slog.New(slog.DiscardHandler), decode, fakeEngine{advance: func(context.Context, workflow.Wakeup) error { return nil }}, nil, noMetric(t))
	got, err := handle(t.Context(), events.SQSEvent{Records: []events.SQSMessage{{MessageId: "1", Body: "x"}}})
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(got)
	if err != nil || string(raw) != `{"batchItemFailures":[]}` {
		t.Errorf("got %s, %v", raw, err)
	}
}

// The handler accepts the event as AWS documents it and replies in the documented form.
func TestHandleWakeups_ReadsDocumentedEvent(t *testing.T) {
	source, err := os.ReadFile("testdata/sqs.json")
	if err != nil {
		t.Fatal(err)
	}
	var event events.SQSEvent
	if err := json.Unmarshal(source, &event); err != nil {
		t.Fatal(err)
	}
	handle := sqsbatch.HandleWakeups(slog.New(slog.DiscardHandler), decode, fakeEngine{advance: func(_ context.Context, l workflow.Wakeup) error {
		if l.Execution == "fails" {
			return errors.New("no")
		}
		return nil
	}}, nil, ignoreMetric)
	reply, err := handle(t.Context(), event)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(reply)
	if want := `{"batchItemFailures":[{"itemIdentifier":"2e1424d4-f796-459a-8184-9c92662be6da"}]}`; err != nil || string(raw) != want {
		t.Errorf("got %s, %v, want %s", raw, err, want)
	}
}

// Wake-ups for the same lane of two step runs are handled separately.
func TestHandleWakeups_SeparatesStepRunsOfLane(t *testing.T) {
	var mu sync.Mutex
	seen := map[int]int{}
	lane := 3
	decodeBody := func(body string) (workflow.Wakeup, error) {
		return workflow.Wakeup{Tenant: "t", Execution: "x", Lane: &lane, StepRunSeq: len(body)}, nil
	}
	handle := sqsbatch.HandleWakeups(slog.New(slog.DiscardHandler), decodeBody, fakeEngine{advance: func(_ context.Context, l workflow.Wakeup) error {
		mu.Lock()
		defer mu.Unlock()
		seen[l.StepRunSeq]++
		return nil
	}}, nil, ignoreMetric)
	event := events.SQSEvent{Records: []events.SQSMessage{
		{MessageId: "1", Body: "1"}, {MessageId: "2", Body: "22"}, {MessageId: "3", Body: "1"},
	}}
	if _, err := handle(t.Context(), event); err != nil {
		t.Fatal(err)
	}
	if len(seen) != 2 || seen[1] != 1 || seen[2] != 1 {
		t.Errorf("wake-ups by step run: %v", seen)
	}
}

// A wake-up that fails at its last permitted receive is reported for each message, with
// the reason. One that will be delivered again is not, and neither is a dead-letter
// report.
func TestHandleWakeups_ReportsFinalFailure(t *testing.T) {
	queue := &fakeWakeupSender{}
	failures := map[string]int{}
	decodeBody := func(body string) (workflow.Wakeup, error) {
		l, err := decode(body)
		if body == "dead" {
			l.Execution, l.DeadLetter = "fails", &workflow.DeadLetter{MessageID: "m0"}
		}
		return l, err
	}
	handle := sqsbatch.HandleWakeups(slog.New(slog.DiscardHandler), decodeBody, fakeEngine{func(_ context.Context, l workflow.Wakeup) error {
		if l.Execution == "panics" {
			panic("a secret")
		}
		return workflow.Errorf(workflow.CodeUnavailable, "the table does not answer: %w", errors.New("a secret"))
	}, func(_ context.Context, l workflow.Wakeup, _ error) { failures[l.Execution]++ }}, queue, ignoreMetric)
	event := events.SQSEvent{}
	for _, m := range []struct{ id, body, receives string }{
		{"1", "fails", "9"}, {"2", "fails", "10"}, {"3", "dead", "10"}, {"4", "fails", "11"}, {"5", "poison", "10"},
	} {
		event.Records = append(event.Records, events.SQSMessage{MessageId: m.id, Body: m.body, Attributes: map[string]string{"ApproximateReceiveCount": m.receives}})
	}
	got, err := handle(t.Context(), event)
	if err != nil || len(got.BatchItemFailures) != 5 {
		t.Fatalf("%v, %v", got, err)
	}
	if !maps.Equal(failures, map[string]int{"fails": 1}) {
		t.Errorf("recorded failures of %v", failures)
	}
	for i, want := range []workflow.DeadLetter{
		{MessageID: "2", Queue: "lifecycle", Reason: "unavailable: the table does not answer", ReceiveCount: 10},
		{MessageID: "4", Queue: "lifecycle", Reason: "unavailable: the table does not answer", ReceiveCount: 11},
	} {
		if len(queue.wakeups) != 2 || *queue.wakeups[i].DeadLetter != want || queue.wakeups[i].Execution != "fails" || queue.wakeups[i].Tenant != "t" {
			t.Fatalf("sent %+v", queue.wakeups)
		}
	}
	event.Records = []events.SQSMessage{{MessageId: "6", Body: "panics", Attributes: map[string]string{"ApproximateReceiveCount": "10"}}}
	if _, err := handle(t.Context(), event); err != nil || len(queue.wakeups) != 3 || queue.wakeups[2].DeadLetter.Reason != "internal: panic" {
		t.Errorf("%v, sent %+v", err, queue.wakeups)
	}
}

// A dead-letter report is not merged with a wake-up of its execution.
func TestHandleWakeups_DoesNotMergeDeadLetters(t *testing.T) {
	var mu sync.Mutex
	deadLetters, wakeups := map[string]int{}, 0
	decodeBody := func(body string) (workflow.Wakeup, error) {
		l := workflow.Wakeup{Tenant: "t", Execution: "x"}
		if body != "" {
			l.DeadLetter = &workflow.DeadLetter{MessageID: body}
		}
		return l, nil
	}
	handle := sqsbatch.HandleWakeups(slog.New(slog.DiscardHandler), decodeBody, fakeEngine{advance: func(_ context.Context, l workflow.Wakeup) error {
		mu.Lock()
		defer mu.Unlock()
		if l.DeadLetter == nil {
			wakeups++
		} else {
			deadLetters[l.DeadLetter.MessageID]++
		}
		return nil
	}}, nil, ignoreMetric)
	event := events.SQSEvent{Records: []events.SQSMessage{
		{MessageId: "1", Body: "a"}, {MessageId: "2"}, {MessageId: "3", Body: "b"}, {MessageId: "4", Body: "a"}, {MessageId: "5"},
	}}
	if _, err := handle(t.Context(), event); err != nil {
		t.Fatal(err)
	}
	if wakeups != 1 || !maps.Equal(deadLetters, map[string]int{"a": 1, "b": 1}) {
		t.Errorf("%d wake-ups, dead letters %v", wakeups, deadLetters)
	}
}

// A wake-up ends before the invocation does, and what is left is enough to record why.
func TestHandleWakeups_LeavesTimeToRecordFailure(t *testing.T) {
	deadline := time.Now().Add(time.Hour)
	ctx, cancel := context.WithDeadline(t.Context(), deadline)
	defer cancel()
	var advance, record time.Time
	engine := fakeEngine{
		advance: func(ctx context.Context, _ workflow.Wakeup) error {
			advance, _ = ctx.Deadline()
			return errors.New("slow")
		},
		recordFailure: func(ctx context.Context, _ workflow.Wakeup, _ error) { record, _ = ctx.Deadline() },
	}
	event := events.SQSEvent{Records: []events.SQSMessage{{MessageId: "1", Body: "x"}}}
	if _, err := sqsbatch.HandleWakeups(slog.New(slog.DiscardHandler), decode, engine, &fakeWakeupSender{}, ignoreMetric)(ctx, event); err != nil {
		t.Fatal(err)
	}
	if !record.Equal(deadline) || !advance.Equal(deadline.Add(-5*time.Second)) {
		t.Errorf("the wake-up ends at %s, recording at %s, the invocation at %s", advance, record, deadline)
	}
}

// The engine knows of a wake-up that was delivered before: its handler may have died of it.
func TestHandleWakeups_MarksRedelivery(t *testing.T) {
	var mu sync.Mutex
	redelivered := map[string]bool{}
	engine := fakeEngine{advance: func(_ context.Context, w workflow.Wakeup) error {
		mu.Lock()
		defer mu.Unlock()
		redelivered[w.Execution] = w.Redelivered
		return nil
	}}
	record := func(id, body, receives string) events.SQSMessage {
		return events.SQSMessage{MessageId: id, Body: body, Attributes: map[string]string{"ApproximateReceiveCount": receives}}
	}
	event := events.SQSEvent{Records: []events.SQSMessage{record("1", "new", "1"), record("2", "again", "1"), record("3", "again", "2")}}
	if _, err := sqsbatch.HandleWakeups(slog.New(slog.DiscardHandler), decode, engine, &fakeWakeupSender{}, ignoreMetric)(t.Context(), event); err != nil {
		t.Fatal(err)
	}
	if redelivered["new"] || !redelivered["again"] {
		t.Errorf("redelivered: %v", redelivered)
	}
}

// Wake-ups of one execution are handled together, and nothing that only one of them says is lost.
func TestHandleWakeups_MergesWakeupsOfExecution(t *testing.T) {
	for name, c := range map[string]struct {
		sent []workflow.Wakeup
		want workflow.Wakeup
	}{
		"children that ask": {
			[]workflow.Wakeup{{Reason: "child"}, {Children: []int{4}}, {Children: []int{2}}, {Children: []int{4}}},
			workflow.Wakeup{Reason: "child", Children: []int{2, 4}},
		},
		"the parent has let go": {
			[]workflow.Wakeup{{Reason: "timer"}, {FromParent: true}},
			workflow.Wakeup{Reason: "timer", FromParent: true},
		},
		"a step run is over": {
			[]workflow.Wakeup{{Children: []int{1}}, {StepRunSeq: 3}, {StepRunSeq: 2}},
			workflow.Wakeup{Children: []int{1}, StepRunSeq: 3},
		},
	} {
		t.Run(name, func(t *testing.T) {
			event := events.SQSEvent{}
			for i := range c.sent {
				event.Records = append(event.Records, events.SQSMessage{MessageId: strconv.Itoa(i), Body: strconv.Itoa(i)})
			}
			decodeBody := func(body string) (workflow.Wakeup, error) {
				i, err := strconv.Atoi(body)
				w := c.sent[i]
				w.Tenant, w.Execution = "t", "x"
				return w, err
			}
			var got []workflow.Wakeup
			handle := sqsbatch.HandleWakeups(slog.New(slog.DiscardHandler), decodeBody, fakeEngine{advance: func(_ context.Context, w workflow.Wakeup) error {
				got = append(got, w)
				return nil
			}}, nil, noMetric(t))
			if _, err := handle(t.Context(), event); err != nil {
				t.Fatal(err)
			}
			c.want.Tenant, c.want.Execution = "t", "x"
			if len(got) != 1 {
				t.Fatalf("%d calls of Advance, want 1", len(got))
			}
			if got[0].Cost = (workflow.Cost{}); !reflect.DeepEqual(got[0], c.want) {
				t.Errorf("handled %+v, want %+v", got[0], c.want)
			}
		})
	}
}
