package dispatch_test

import (
	"context"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Jobs that no message carries are stored beside their pack, by a dispatch as by
// an alarm that sends again; whoever receives the message has them all.
func TestDispatcher_OffloadsLargeJobs(t *testing.T) {
	b := newFixture(t, 4, 2, func(r *workflow.StepRun, _ *workflow.Work) { r.Window = 1 })
	small := b.r.Jobs
	b.r.Jobs = func(ctx context.Context) ([]workflow.JobInput, error) {
		jobs, err := small(ctx)
		for i := range jobs[:2] {
			jobs[i].Attributes = json.RawMessage(`{"text":"` + strings.Repeat(string(rune('a'+i)), 900<<10) + `"}`)
		}
		return jobs, err
	}
	want, err := b.r.Jobs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for name, send := range map[string]func(){
		"dispatch": func() {
			if err := b.d.Dispatch(t.Context(), b.r, b.Now(), workflow.Cost{}); err != nil {
				t.Fatal(err)
			}
		},
		"alarm": func() { b.report(true) },
	} {
		send()
		sent := b.drainQueue()
		if len(sent) != 1 || sent[0].JobsRef == nil || len(sent[0].Jobs) != 0 || len(sent[0].Chain) != 0 || sent[0].ChainCut != 1 {
			t.Fatalf("%s: sent %+v", name, sent)
		}
		whole, err := sent[0].LoadPayload(func(key workflow.PackKey, s workflow.PayloadRef) ([]byte, error) {
			return b.ports.Packs.LoadPayload(t.Context(), key, s)
		})
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(want[:2], whole.Jobs) || whole.JobsRef != nil {
			t.Errorf("%s: other jobs than were sent", name)
		}
		b.Advance(time.Minute)
	}
	// The lane that was cut off is small enough.
	if err := b.d.SendLane(t.Context(), b.r, 1, b.Now()); err != nil {
		t.Fatal(err)
	}
	if sent := b.drainQueue(); len(sent) != 1 || sent[0].JobsRef != nil || len(sent[0].Jobs) != 2 {
		t.Errorf("sent %+v", sent)
	}
}
