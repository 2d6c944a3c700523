package worker

import (
	"context"
	"sync"
	"time"

	"github.com/lockstep-run/lockstep/shared/worker/lasttry"
	"github.com/lockstep-run/lockstep/shared/worker/told"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Record is one message of a batch that a queue has pushed. A record that is not
// reported as failed is deleted.
type Record struct {
	ID       string
	Body     string
	Receives int // how often it has been received, this time included
}

// Batch handles records side by side and returns the ids of those that have to
// come again, in their order; the list is never nil. open gives each record its
// ports.
//
// A record that has to wait is always sent again: reported as failed it would
// stay away for as long as the queue hides what a function works on, which is
// much longer than any lease.
func Batch(ctx context.Context, w *Worker, records []Record, decode func(string) (*workflow.PackMessage, error), open func() Ports) []string {
	errs := make([]error, len(records))
	budget := time.Duration(0)
	if end, ok := ctx.Deadline(); ok {
		budget = time.Until(end)
	}
	var all sync.WaitGroup
	for i, r := range records {
		all.Go(func() { errs[i] = one(ctx, w, r, decode, open, budget) })
	}
	all.Wait()
	failed := []string{}
	for i, err := range errs {
		if err != nil {
			failed = append(failed, records[i].ID)
		}
	}
	return failed
}

func one(ctx context.Context, w *Worker, r Record, decode func(string) (*workflow.PackMessage, error), open func() Ports, budget time.Duration) (err error) {
	var last *lasttry.Try
	var m *workflow.PackMessage
	defer func() { told.Unfinished(ctx, w.Log, m, r.ID, r.Receives, err); last.Failed(ctx, err) }()
	defer survive(ctx, w, &m, &err)
	if m, err = decode(r.Body); err != nil {
		return err
	}
	p := open()
	p.Budget = budget
	last = w.lastTry(r.ID, r.Receives, m, p)
	p.Begun = last.Begun
	d, err := w.Handle(ctx, m, p)
	if err != nil || d.Done {
		return err
	}
	return postpone(ctx, w, m, d.After, p)
}

// survive makes a panic the failure of one message alone.
func survive(ctx context.Context, w *Worker, m **workflow.PackMessage, err *error) {
	if cause := recover(); cause != nil {
		*err = told.Panic(ctx, w.Log, *m, cause)
	}
}

// postpone sends a message again, to come after a delay; a wait longer than the
// queue's longest delay takes several. It takes along what was consumed.
func postpone(ctx context.Context, w *Worker, m *workflow.PackMessage, after time.Duration, p Ports) error {
	again, now := *m, w.Now()
	if at := now.Add(after); at.After(again.NotBefore) {
		again.NotBefore = at
	}
	again.Cost = m.Cost.Clone()
	again.Cost.Add(p.Meter.Take())
	failed, err := p.Queue.Offer(ctx, now, []*workflow.PackMessage{&again})
	if err == nil && len(failed) > 0 {
		err = workflow.Errorf(workflow.CodeUnavailable, "pack %s could not be sent again", m.Key)
	}
	return err
}
