package worker

import (
	"context"
	"sync"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Record is one message of a batch that a queue has pushed. A record that is not
// reported as failed is deleted.
type Record struct {
	ID           string
	Body         string
	ReceiveCount int // how often it has been received, this time included
}

// HandleBatch handles records side by side and returns the ids of those that have to
// come again, in their order; the list is never nil. open gives each record its
// ports.
//
// A record that has to wait is always sent again: reported as failed it would
// stay away for as long as the queue hides what a function works on, which is
// much longer than any lease.
func HandleBatch(ctx context.Context, w *Worker, records []Record, decode func(string) (*workflow.PackMessage, error), newPorts func() Ports) []string {
	errs := make([]error, len(records))
	budget := time.Duration(0)
	if end, ok := ctx.Deadline(); ok {
		budget = time.Until(end)
	}
	var all sync.WaitGroup
	for i, r := range records {
		all.Go(func() { errs[i] = handleOne(ctx, w, r, decode, newPorts, budget) })
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

func handleOne(ctx context.Context, w *Worker, r Record, decode func(string) (*workflow.PackMessage, error), newPorts func() Ports, budget time.Duration) (err error) {
	var final *FinalReceive
	var m *workflow.PackMessage
	defer func() { logUnfinished(ctx, w.Logger, m, r.ID, r.ReceiveCount, err); final.ReportFailure(ctx, err) }()
	defer recoverPanic(ctx, w, &m, &err)
	if m, err = decode(r.Body); err != nil {
		return err
	}
	p := newPorts()
	p.TimeBudget = budget
	final = w.finalReceive(r.ID, r.ReceiveCount, m, p)
	p.OnUnclaimedStart = final.ReportUnclaimedStart
	d, err := w.Handle(ctx, m, p)
	if err != nil || d.Done {
		return err
	}
	return resendLater(ctx, w, m, d.RetryAfter, p)
}

// recoverPanic makes a panic the failure of one message alone.
func recoverPanic(ctx context.Context, w *Worker, m **workflow.PackMessage, err *error) {
	if recovered := recover(); recovered != nil {
		*err = logPanic(ctx, w.Logger, *m, recovered)
	}
}

// resendLater sends a message again, to come after a delay; a wait longer than the
// queue's longest delay takes several. It takes along what was consumed.
func resendLater(ctx context.Context, w *Worker, m *workflow.PackMessage, after time.Duration, p Ports) error {
	resent, now := *m, w.Now()
	if at := now.Add(after); at.After(resent.NotBefore) {
		resent.NotBefore = at
	}
	resent.Cost = m.Cost.Clone()
	resent.Cost.Add(p.Meter.Take())
	failed, err := p.Sender.SendPacks(ctx, now, []*workflow.PackMessage{&resent})
	if err == nil && len(failed) > 0 {
		err = workflow.Errorf(workflow.CodeUnavailable, "pack %s could not be sent again", m.Key)
	}
	return err
}
