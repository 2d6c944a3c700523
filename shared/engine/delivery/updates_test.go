package delivery_test

import (
	"encoding/json"
	"testing"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// asking writes a finished pack whose first job asks for an update.
func (b *bench) asking(lane, attempt, first int, codes ...workflow.JobCode) *workflow.Pack {
	b.Helper()
	p := b.pack(lane, attempt, workflow.PackClaimed, first, codes...)
	p.State, p.FinishedAt = workflow.PackFinished, b.Now()
	p.Jobs[0].Updates = json.RawMessage(`[{"entity":{"type":"device","id":"a"},"remove":["x"]}]`)
	if ok, _, err := b.view.Packs.Finish(b.Context(), p); err != nil || !ok {
		b.Fatal(ok, err)
	}
	return p
}

// A run says that jobs ask for updates when it is complete: by its pack, by its
// done sets, and by all its packs when an alarm or a close reads these. A lane
// that is added by the engine keeps what an earlier attempt has asked for; what
// failed asks for nothing.
func TestUpdatesAreReported(t *testing.T) {
	for name, alarm := range map[string]bool{"a look": false, "an alarm": true} {
		b := newBench(t, 1, 1, nil)
		b.asking(0, 1, 0, ok)
		if rep := b.report(alarm); !rep.Complete || !rep.Updates {
			t.Errorf("one lane, %s: %+v", name, rep)
		}
		b = newBench(t, 2, 1, nil)
		b.asking(0, 1, 0, ok)
		if rep := b.report(true); rep.Complete || rep.Updates {
			t.Errorf("a run that is not over: %+v", rep)
		}
		b.pack(1, 1, workflow.PackFinished, 1, ok)
		if _, err := b.view.Packs.AddDone(t.Context(), b.key(1, 1), workflow.LaneEnd{}); err != nil {
			t.Fatal(err)
		}
		if rep := b.report(alarm); !rep.Complete || !rep.Updates {
			t.Errorf("two lanes, %s: %+v", name, rep)
		}
	}
	b := newBench(t, 2, 2, retried(1))
	b.asking(0, 1, 0, ok, failed)
	b.pack(0, 2, workflow.PackFinished, 1, ok)
	if rep := b.close(); !rep.Complete || !rep.Updates {
		t.Errorf("asked for by the first attempt: %+v", rep)
	}
	b = newBench(t, 1, 1, nil)
	b.asking(0, 1, 0, failed)
	if rep := b.report(false); !rep.Complete || rep.Updates {
		t.Errorf("asked for by a job that failed: %+v", rep)
	}
	b = newBench(t, 2, 1, nil)
	for lane := range 2 {
		b.pack(lane, 1, workflow.PackFinished, lane, ok)
		if _, err := b.view.Packs.AddDone(t.Context(), b.key(lane, 1), workflow.LaneEnd{}); err != nil {
			t.Fatal(err)
		}
	}
	if rep := b.report(false); !rep.Complete || rep.Updates {
		t.Errorf("nothing is asked for: %+v", rep)
	}
}

// An attempt that the engine sends takes along that an earlier one asks for
// updates, so that the worker who ends the lane says so.
func TestUpdatesGoAlong(t *testing.T) {
	b := newBench(t, 4, 2, retried(1))
	b.asking(0, 1, 0, ok, failed)
	b.report(true)
	for _, m := range b.sent() {
		if want := m.Key.Lane == 0; m.Updates != want {
			t.Errorf("%s: updates %v", m.Key, m.Updates)
		}
	}
}
