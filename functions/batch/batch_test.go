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

func ignored(context.Context, workflow.Look, error) {}

// TestLooks: a record that cannot be read, one that fails and one that panics
// are reported one by one; all messages about one execution share its fate.
func TestLooks(t *testing.T) {
	var mu sync.Mutex
	looks := map[string]workflow.Look{}
	told := map[string]bool{}
	handle := batch.Looks(slog.New(slog.DiscardHandler), decode, func(_ context.Context, l workflow.Look) error {
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
	})
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
	handle := batch.Looks(slog.New(slog.DiscardHandler), decode, func(context.Context, workflow.Look) error { return nil }, ignored)
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
	handle := batch.Looks(slog.New(slog.DiscardHandler), decode, func(_ context.Context, l workflow.Look) error {
		if l.Execution == "fails" {
			return errors.New("no")
		}
		return nil
	}, ignored)
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
	handle := batch.Looks(slog.New(slog.DiscardHandler), read, func(_ context.Context, l workflow.Look) error {
		mu.Lock()
		defer mu.Unlock()
		seen[l.RunSeq]++
		return nil
	}, ignored)
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
