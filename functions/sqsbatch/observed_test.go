package sqsbatch_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"github.com/lockstep-run/lockstep/functions/sqsbatch"
	"github.com/lockstep-run/lockstep/shared/engine"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// fakeObserver records what it is asked to do. What has the id or the execution "fails" fails.
type fakeObserver struct {
	mu   sync.Mutex
	told []string
}

func (f *fakeObserver) record(what, id string) (time.Duration, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.told = append(f.told, what)
	switch id {
	case "fails":
		return 90 * time.Second, errors.New("no")
	case "panics":
		panic("no")
	}
	return 0, nil
}

func (f *fakeObserver) PublishEvents(_ context.Context, a workflow.Announcement) (time.Duration, error) {
	return f.record("publish "+a.Execution, a.Execution)
}

func (f *fakeObserver) Deliver(_ context.Context, _ engine.Receivers, d *workflow.Delivery, receives int) (time.Duration, error) {
	return f.record(fmt.Sprint("deliver ", d.Execution, " ", receives), d.Execution)
}

func (f *fakeObserver) HandleEvent(_ context.Context, e workflow.BusEvent, receives int) (time.Duration, error) {
	var event struct{ ID string }
	if err := json.Unmarshal(e.Event, &event); err != nil {
		return 0, err
	}
	return f.record(fmt.Sprint("event ", e.Tenant, " ", event.ID, " ", receives), event.ID)
}

// Each message goes where its queue says, as AWS sends it; one that fails comes again alone, when it
// should, and one that nobody can read becomes a dead letter.
func TestHandleObserved_ReadsDocumentedEvents(t *testing.T) {
	source, err := os.ReadFile("testdata/observed.json")
	if err != nil {
		t.Fatal(err)
	}
	var batch events.SQSEvent
	if err := json.Unmarshal(source, &batch); err != nil {
		t.Fatal(err)
	}
	o, deferred := &fakeObserver{}, []string{}
	handle := sqsbatch.HandleObserved(sqsbatch.ObservedOptions{
		Log: slog.New(slog.DiscardHandler), Engine: o,
		Defer: func(_ context.Context, url, handle string, after time.Duration) error {
			deferred = append(deferred, fmt.Sprint(handle, " ", after, " ", url))
			return nil
		},
		EventsURL: "https://sqs/1/lockstep-events", HooksOutURL: "https://sqs/1/lockstep-hooks-out", HooksInURL: "https://sqs/1/lockstep-hooks-in",
	})
	got, err := handle(t.Context(), batch)
	if err != nil {
		t.Fatal(err)
	}
	var failed []string
	for _, f := range got.BatchItemFailures {
		failed = append(failed, f.ItemIdentifier)
	}
	slices.Sort(failed)
	slices.Sort(o.told)
	if want := []string{"fails", "panics", "poison"}; !slices.Equal(failed, want) {
		t.Errorf("failed %q, want %q", failed, want)
	}
	if want := []string{"deliver x 1", "event store 7bf73129-1428-4cd3-a780-95db273d1602 1", "event store fails 3", "event store panics 1", "publish x"}; !slices.Equal(o.told, want) {
		t.Errorf("%q, want %q", o.told, want)
	}
	if want := []string{"handle-fails 1m30s https://sqs/1/lockstep-hooks-in"}; !slices.Equal(deferred, want) {
		t.Errorf("%q, want %q", deferred, want)
	}
}
