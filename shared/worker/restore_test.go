package worker_test

import (
	"context"
	"testing"

	"github.com/lockstep-run/lockstep/shared/worker"
)

// A message of a pack from before the tables were restored is let go: its run does
// not know of it any more.
func TestMessagesFromBeforeARestoreAreLetGo(t *testing.T) {
	for _, kind := range kinds {
		r := newRig(t)
		m := r.message(kind, 0, 9, 1)
		m.Work.Floor = 1000
		w := r.worker()
		told := worker.New(worker.Options{Name: "told", Floor: func() int64 { return 1001 }, Now: r.Now})
		if d, err := told.Handle(context.Background(), m, r.ports()); err != nil || !d.Done {
			t.Errorf("%s: %+v %v", kind, d, err)
		}
		if loan, d, err := told.Lend(context.Background(), m, r.ports()); err != nil || loan != nil || !d.Done {
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
