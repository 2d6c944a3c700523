package worker_test

import (
	"context"
	"testing"

	"github.com/lockstep-run/lockstep/shared/worker"
)

// A message of a pack from before the tables were restored is let go: its run does
// not know of it any more.
func TestWorker_DropsMessagesFromBeforeRestore(t *testing.T) {
	for _, kind := range kinds {
		r := newFixture(t)
		m := r.newMessage(kind, 0, 9, 1)
		m.Work.MinFencingToken = 1000
		w := r.worker()
		restored := worker.New(worker.Options{Name: "told", MinFencingToken: func() int64 { return 1001 }, Now: r.Now})
		if d, err := restored.Handle(context.Background(), m, r.ports()); err != nil || !d.Done {
			t.Errorf("%s: %+v %v", kind, d, err)
		}
		if remote, d, err := restored.LeaseRemote(context.Background(), m, r.ports()); err != nil || remote != nil || !d.Done {
			t.Errorf("%s is lent: %+v %v", kind, d, err)
		}
		if p := r.pack(m.Key); p != nil {
			t.Errorf("%s: it is claimed: %+v", kind, p)
		}
		if d, err := w.Handle(context.Background(), m, r.ports()); err != nil || !d.Done {
			t.Errorf("%s: %+v %v", kind, d, err)
		}
		if p := r.pack(m.Key); p == nil {
			t.Errorf("%s: it is not worked on where nobody knows of a restore", kind)
		}
	}
}
