package worker

import (
	"context"
	"log/slog"
	"testing"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// A block says on what it runs when it is registered, and is never run on
// anything else: it may rely on its entity.
func TestBlock_RejectsOtherEntityTypes(t *testing.T) {
	w := New(Options{Logger: slog.New(slog.DiscardHandler)})
	type none struct{}
	name := func(_ context.Context, job *Job, _ none) (string, error) {
		if job.Entity == nil {
			return "", nil
		}
		return job.Entity.ID, nil
	}
	for block, runOn := range map[string]string{"p/device": "device", "p/global": "global", "p/any": ""} {
		Register(w, Block[none, string]{Name: block, Version: "1.0.0", RunOn: runOn, Execute: name})
	}
	for _, b := range w.Blocks() {
		if want := map[string]string{"device": "device", "global": "global"}[b.Name]; b.RunOn != want {
			t.Errorf("%s is registered to run on %q", b.Ref(), b.RunOn)
		}
	}
	device, site := &workflow.EntityKey{Type: "device", ID: "a"}, &workflow.EntityKey{Type: "site", ID: "a"}
	for _, c := range []struct {
		block  string
		entity *workflow.EntityKey
		ok     bool
	}{
		{"p/device", device, true}, {"p/device", nil, false}, {"p/device", site, false},
		{"p/global", nil, true}, {"p/global", device, false},
		{"p/any", nil, true}, {"p/any", site, true},
	} {
		a := w.blocks[c.block+":1.0.0"].handler(t.Context(), &Job{Operation: workflow.JobExecute, Entity: c.entity})
		if (a.Failure == nil) != c.ok || (a.Failure != nil && (a.Failure.Code != "RUN_ON" || a.Failure.Retryable)) {
			t.Errorf("%s for %v: %+v", c.block, c.entity, a.Failure)
		}
	}
}
