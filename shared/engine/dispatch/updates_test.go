package dispatch_test

import (
	"encoding/json"
	"testing"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// writePackWithUpdates writes a finished pack whose first job asks for an update.
func (b *fixture) writePackWithUpdates(lane, attempt, first int, codes ...workflow.JobCode) *workflow.Pack {
	b.Helper()
	p := b.writePack(lane, attempt, workflow.PackClaimed, first, codes...)
	p.State, p.FinishedAt = workflow.PackFinished, b.Now()
	p.Jobs[0].Updates = json.RawMessage(`[{"entity":{"type":"device","id":"a"},"remove":["x"]}]`)
	if ok, _, err := b.ports.Packs.Finish(b.Context(), p); err != nil || !ok {
		b.Fatal(ok, err)
	}
	return p
}

// A run says that jobs ask for updates when it is complete: by its pack, by its
// done sets, and by all its packs when an alarm or a close reads these. A lane
// that is added by the engine keeps what an earlier attempt has asked for; what
// failed asks for nothing.
func TestDispatcher_ReportsUpdates(t *testing.T) {
	for name, alarm := range map[string]bool{"a look": false, "an alarm": true} {
		b := newFixture(t, 1, 1, nil)
		b.writePackWithUpdates(0, 1, 0, ok)
		if rep := b.report(alarm); !rep.Complete || !rep.HasUpdates {
			t.Errorf("one lane, %s: %+v", name, rep)
		}
		b = newFixture(t, 2, 1, nil)
		b.writePackWithUpdates(0, 1, 0, ok)
		if rep := b.report(true); rep.Complete || rep.HasUpdates {
			t.Errorf("a run that is not over: %+v", rep)
		}
		b.writePack(1, 1, workflow.PackFinished, 1, ok)
		if _, err := b.ports.Packs.AddDone(t.Context(), b.key(1, 1), workflow.LaneResult{}); err != nil {
			t.Fatal(err)
		}
		if rep := b.report(alarm); !rep.Complete || !rep.HasUpdates {
			t.Errorf("two lanes, %s: %+v", name, rep)
		}
	}
	b := newFixture(t, 2, 2, withRetries(1))
	b.writePackWithUpdates(0, 1, 0, ok, failed)
	b.writePack(0, 2, workflow.PackFinished, 1, ok)
	if rep := b.close(); !rep.Complete || !rep.HasUpdates {
		t.Errorf("asked for by the first attempt: %+v", rep)
	}
	b = newFixture(t, 1, 1, nil)
	b.writePackWithUpdates(0, 1, 0, failed)
	if rep := b.report(false); !rep.Complete || rep.HasUpdates {
		t.Errorf("asked for by a job that failed: %+v", rep)
	}
	b = newFixture(t, 2, 1, nil)
	for lane := range 2 {
		b.writePack(lane, 1, workflow.PackFinished, lane, ok)
		if _, err := b.ports.Packs.AddDone(t.Context(), b.key(lane, 1), workflow.LaneResult{}); err != nil {
			t.Fatal(err)
		}
	}
	if rep := b.report(false); !rep.Complete || rep.HasUpdates {
		t.Errorf("nothing is asked for: %+v", rep)
	}
}

// An attempt that the engine sends takes along that an earlier one asks for
// updates, so that the worker who ends the lane says so.
func TestDispatcher_RetriesCarryUpdates(t *testing.T) {
	b := newFixture(t, 4, 2, withRetries(1))
	b.writePackWithUpdates(0, 1, 0, ok, failed)
	b.report(true)
	for _, m := range b.drainQueue() {
		if want := m.Key.Lane == 0; m.HasUpdates != want {
			t.Errorf("%s: updates %v", m.Key, m.HasUpdates)
		}
	}
}
