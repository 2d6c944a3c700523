package batch_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"github.com/lockstep-run/lockstep/functions/batch"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

func decode(body string) (workflow.Look, error) {
	if body == "poison" {
		return workflow.Look{}, errors.New("not a look")
	}
	return workflow.Look{Tenant: "t", Execution: body}, nil
}

// engine is two functions; failed may be nil.
type engine struct {
	look   func(context.Context, workflow.Look) error
	failed func(context.Context, workflow.Look, error)
}

func (e engine) Look(ctx context.Context, l workflow.Look) error { return e.look(ctx, l) }

func (e engine) Failed(ctx context.Context, l workflow.Look, err error) {
	if e.failed != nil {
		e.failed(ctx, l, err)
	}
}

// told are the looks that were sent.
type told struct {
	mu    sync.Mutex
	looks []workflow.Look
}

func (q *told) Notify(_ context.Context, _ time.Duration, looks ...workflow.Look) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.looks = append(q.looks, looks...)
	return nil
}

// TestLooks: a record that cannot be read, one that fails and one that panics
// are reported one by one; all messages about one execution share its fate.
func TestLooks(t *testing.T) {
	var mu sync.Mutex
	looks := map[string]workflow.Look{}
	told := map[string]bool{}
	handle := batch.Looks(slog.New(slog.DiscardHandler), decode, engine{func(_ context.Context, l workflow.Look) error {
		mu.Lock()
		looks[l.Execution] = l
		mu.Unlock()
		switch l.Execution {
		case "fails":
			return errors.New("no")
		case "panics":
			panic("no")
		}
		return nil
	}, func(_ context.Context, l workflow.Look, err error) {
		mu.Lock()
		told[l.Execution] = err != nil
		mu.Unlock()
	}}, nil)
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
	if !maps.Equal(told, map[string]bool{"fails": true, "panics": true}) {
		t.Errorf("told of %v", told)
	}
	if len(looks) != 3 {
		t.Errorf("%d looks, want one for each execution", len(looks))
	}
	if got := looks["good"].Cost.Queue; got < 0.66 || got > 0.67 {
		t.Errorf("two of six messages are charged %v requests, want 4/6", got)
	}
}

// TestNothingFailed: the list is empty, never null.
func TestNothingFailed(t *testing.T) {
	handle := batch.Looks(slog.New(slog.DiscardHandler), decode, engine{look: func(context.Context, workflow.Look) error { return nil }}, nil)
	got, err := handle(t.Context(), events.SQSEvent{Records: []events.SQSMessage{{MessageId: "1", Body: "x"}}})
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(got)
	if err != nil || string(raw) != `{"batchItemFailures":[]}` {
		t.Errorf("got %s, %v", raw, err)
	}
}

// TestEventShape: the event as AWS documents it is read, and the reply has the
// shape that the event source mapping reads.
func TestEventShape(t *testing.T) {
	source, err := os.ReadFile("testdata/sqs.json")
	if err != nil {
		t.Fatal(err)
	}
	var event events.SQSEvent
	if err := json.Unmarshal(source, &event); err != nil {
		t.Fatal(err)
	}
	handle := batch.Looks(slog.New(slog.DiscardHandler), decode, engine{look: func(_ context.Context, l workflow.Look) error {
		if l.Execution == "fails" {
			return errors.New("no")
		}
		return nil
	}}, nil)
	reply, err := handle(t.Context(), event)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(reply)
	if want := `{"batchItemFailures":[{"itemIdentifier":"2e1424d4-f796-459a-8184-9c92662be6da"}]}`; err != nil || string(raw) != want {
		t.Errorf("got %s, %v, want %s", raw, err, want)
	}
}

// TestLooksOfLanes: what names the same lane of two step runs is two looks.
func TestLooksOfLanes(t *testing.T) {
	var mu sync.Mutex
	seen := map[int]int{}
	lane := 3
	read := func(body string) (workflow.Look, error) {
		return workflow.Look{Tenant: "t", Execution: "x", Lane: &lane, RunSeq: len(body)}, nil
	}
	handle := batch.Looks(slog.New(slog.DiscardHandler), read, engine{look: func(_ context.Context, l workflow.Look) error {
		mu.Lock()
		defer mu.Unlock()
		seen[l.RunSeq]++
		return nil
	}}, nil)
	event := events.SQSEvent{Records: []events.SQSMessage{
		{MessageId: "1", Body: "1"}, {MessageId: "2", Body: "22"}, {MessageId: "3", Body: "1"},
	}}
	if _, err := handle(t.Context(), event); err != nil {
		t.Fatal(err)
	}
	if len(seen) != 2 || seen[1] != 1 || seen[2] != 1 {
		t.Errorf("looks by step run: %v", seen)
	}
}

// A look that fails when it is received for the last time is told, with its reason,
// message by message; one that may come again is not, nor one that tells of a death.
func TestTheLastFailureIsTold(t *testing.T) {
	queue := &told{}
	troubles := map[string]int{}
	read := func(body string) (workflow.Look, error) {
		l, err := decode(body)
		if body == "dead" {
			l.Execution, l.Dead = "fails", &workflow.Dead{Message: "m0"}
		}
		return l, err
	}
	handle := batch.Looks(slog.New(slog.DiscardHandler), read, engine{func(_ context.Context, l workflow.Look) error {
		if l.Execution == "panics" {
			panic("a secret")
		}
		return workflow.Errorf(workflow.CodeUnavailable, "the table does not answer: %w", errors.New("a secret"))
	}, func(_ context.Context, l workflow.Look, _ error) { troubles[l.Execution]++ }}, queue)
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
	if !maps.Equal(troubles, map[string]int{"fails": 1}) {
		t.Errorf("trouble with %v", troubles)
	}
	for i, want := range []workflow.Dead{
		{Message: "2", Queue: "lifecycle", Reason: "unavailable: the table does not answer", Receives: 10},
		{Message: "4", Queue: "lifecycle", Reason: "unavailable: the table does not answer", Receives: 11},
	} {
		if len(queue.looks) != 2 || *queue.looks[i].Dead != want || queue.looks[i].Execution != "fails" || queue.looks[i].Tenant != "t" {
			t.Fatalf("told %+v", queue.looks)
		}
	}
	event.Records = []events.SQSMessage{{MessageId: "6", Body: "panics", Attributes: map[string]string{"ApproximateReceiveCount": "10"}}}
	if _, err := handle(t.Context(), event); err != nil || len(queue.looks) != 3 || queue.looks[2].Dead.Reason != "internal: panic" {
		t.Errorf("%v, told %+v", err, queue.looks)
	}
}

// That a message has died is no look at its run, and is not merged with one.
func TestDeathsAreNotMerged(t *testing.T) {
	var mu sync.Mutex
	deaths, looks := map[string]int{}, 0
	read := func(body string) (workflow.Look, error) {
		l := workflow.Look{Tenant: "t", Execution: "x"}
		if body != "" {
			l.Dead = &workflow.Dead{Message: body}
		}
		return l, nil
	}
	handle := batch.Looks(slog.New(slog.DiscardHandler), read, engine{look: func(_ context.Context, l workflow.Look) error {
		mu.Lock()
		defer mu.Unlock()
		if l.Dead == nil {
			looks++
		} else {
			deaths[l.Dead.Message]++
		}
		return nil
	}}, nil)
	event := events.SQSEvent{Records: []events.SQSMessage{
		{MessageId: "1", Body: "a"}, {MessageId: "2"}, {MessageId: "3", Body: "b"}, {MessageId: "4", Body: "a"}, {MessageId: "5"},
	}}
	if _, err := handle(t.Context(), event); err != nil {
		t.Fatal(err)
	}
	if looks != 1 || !maps.Equal(deaths, map[string]int{"a": 1, "b": 1}) {
		t.Errorf("%d looks, deaths %v", looks, deaths)
	}
}
