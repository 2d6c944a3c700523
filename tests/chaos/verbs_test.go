package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// act does what an operator does with an execution in its present state, if there is anything. What
// it asks for may be lost with whoever is killed: the caller reads the state again.
func (o *operator) act(ctx context.Context, x views.ExecutionView) {
	if x.State == sm.ExecutionWaiting && x.Waiting != nil {
		o.answer(ctx, x)
		return
	}
	if x.State != sm.ExecutionFailedUnsafe {
		return
	}
	// Who has released locks leaves the execution alone: others may have changed its entities.
	switch n := o.random.IntN(6); {
	case o.released == x.ID:
	case n < 2 && o.retried != x.ID:
		o.retried = x.ID
		o.done("retry", o.retry(ctx, x.ID))
		return
	case n == 2:
		o.released = x.ID
		_, err := o.Unlock(ctx, x.ID, "chaos")
		o.done("unlock", err)
		return
	case n == 3:
		if entity := o.heldEntity(ctx, x.ID); entity != "" {
			o.released = x.ID
			_, err := o.Acknowledge(ctx, x.ID, "chaos", entity)
			o.done("acknowledge one", err)
			return
		}
	}
	_, err := o.Acknowledge(ctx, x.ID, "chaos")
	o.done("acknowledge", err)
}

func (o *operator) retry(ctx context.Context, id string) error {
	_, err := o.Retry(ctx, id, views.RetryRequest{Reason: "chaos"})
	return err
}

// heldEntity is an entity that an execution holds, "" if it holds none.
func (o *operator) heldEntity(ctx context.Context, id string) string {
	for l, err := range o.Locks(ctx) {
		if err != nil {
			return ""
		}
		if l.HeldBy != nil && *l.HeldBy == id {
			return l.Entity.String()
		}
	}
	return ""
}

// answer sends the signal or the answer that an execution waits for, sometimes twice.
func (o *operator) answer(ctx context.Context, x views.ExecutionView) {
	for range 1 + o.random.IntN(2) {
		switch x.Waiting.Kind {
		case workflow.WaitSignal:
			_, err := o.Signal(ctx, x.ID, "go", views.SignalRequest{IdempotencyKey: "go-" + x.ID})
			o.done("signal", err)
		case workflow.WaitInput:
			_, err := o.Answer(ctx, x.ID, views.AnswerRequest{Input: json.RawMessage(`{}`), Reason: "chaos", IdempotencyKey: "answer-" + x.ID})
			o.done("answer", err)
		default:
			return
		}
	}
}

// done counts a verb that was accepted.
func (f *fixture) done(verb string, err error) {
	if err != nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.verbs == nil {
		f.verbs = map[string]int{}
	}
	f.verbs[verb]++
}

// startCrowd starts n executions that all want the device that nobody else does, in batches.
func (f *fixture) startCrowd(ctx context.Context, n int) error {
	crowd := f.fleet.IDs()[deviceCount:]
	for first := 0; first < n; first += views.MaxBatch {
		req := views.BatchRequest{IdempotencyKey: fmt.Sprint("crowd-", first)}
		for range min(views.MaxBatch, n-first) {
			req.Items = append(req.Items, views.StartRequest{Workflow: "chaos/crowd", Parameters: json.RawMessage(`{}`), ExecuteOnParameters: &workflow.Selector{Type: "device", IDs: crowd}})
		}
		for {
			items, err := f.StartBatch(ctx, req)
			started := 0
			for _, item := range items {
				if item.ID != nil {
					started++
				}
			}
			if err == nil && started == len(req.Items) {
				break
			}
			if err := sleep(ctx, 100*time.Millisecond); err != nil {
				return fmt.Errorf("%d of %d executions of the crowd were started: %w", started, len(req.Items), err)
			}
		}
	}
	return nil
}

// cancelCrowd cancels those of the crowd that have not ended.
func (f *fixture) cancelCrowd(ctx context.Context) error {
	for {
		left, failed := 0, error(nil)
		filter := views.ExecutionFilter{Workflow: workflow.Ref{Package: "chaos", Name: "crowd"}}
		for item, err := range f.ChangeExecutions(ctx, filter, views.BulkRequest{Verb: views.BulkCancel, Reason: "chaos"}) {
			if err != nil {
				failed = err
				break
			}
			switch {
			case item.Applied:
				f.done("cancel of the crowd", nil)
			case !sm.Terminal(item.State):
				left++
			}
		}
		if left == 0 && failed == nil {
			return nil
		}
		if err := sleep(ctx, 200*time.Millisecond); err != nil {
			return fmt.Errorf("%d executions of the crowd are not cancelled: %w", left, errors.Join(err, failed))
		}
	}
}
