package worker

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Record is one message of a batch that a queue has pushed, as to a Lambda
// function: a record that is not reported as failed is deleted.
type Record struct {
	ID   string
	Body string
}

// defer limits: a message that has to wait longer than a moment is sent again
// with a delay and then deleted, rather than received over and over.
const shortWait = 3 * time.Second

// Batch handles records side by side and returns the ids of those that have to
// come again; the list is never nil. open gives each record its ports, decode
// reads its body.
func Batch(ctx context.Context, w *Worker, records []Record, decode func(string) (*workflow.PackMessage, error), open func() Ports) []string {
	failed := []string{}
	var mu sync.Mutex
	var all sync.WaitGroup
	for _, r := range records {
		all.Go(func() {
			if err := w.record(ctx, r, decode, open()); err != nil {
				w.Log.WarnContext(ctx, "pack not finished", "messageId", r.ID, "error", err)
				mu.Lock()
				defer mu.Unlock()
				failed = append(failed, r.ID)
			}
		})
	}
	all.Wait()
	return failed
}

// record handles one record; a panic is its failure alone.
func (w *Worker) record(ctx context.Context, r Record, decode func(string) (*workflow.PackMessage, error), p Ports) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			w.Log.ErrorContext(ctx, "panic", "messageId", r.ID, "panic", fmt.Sprint(cause), "stack", string(debug.Stack()))
			err = fmt.Errorf("panic: %v", cause)
		}
	}()
	m, err := decode(r.Body)
	if err != nil {
		return err
	}
	d, err := w.Handle(ctx, m, p)
	if err != nil || d.Done {
		return err
	}
	return w.postpone(ctx, m, d.After, p)
}

// postpone sends a message again, to come after a delay. A wait longer than the
// queue's longest delay takes several.
func (w *Worker) postpone(ctx context.Context, m *workflow.PackMessage, after time.Duration, p Ports) error {
	again := *m
	now := w.Now()
	if at := now.Add(after); at.After(again.NotBefore) {
		again.NotBefore = at
	}
	failed, err := p.Queue.Offer(ctx, now, []*workflow.PackMessage{&again})
	if err == nil && len(failed) > 0 {
		err = workflow.Errorf(workflow.CodeUnavailable, "pack %s could not be sent again", m.Key)
	}
	return err
}
