package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/lockstep-run/lockstep/shared/client"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"

	"github.com/lockstep-run/lockstep/examples/fleet/simulator"
)

// prepare imports the devices, registers the blocks and publishes the definitions.
func (f *fixture) prepare(ctx context.Context) error {
	var lines strings.Builder
	if err := simulator.WriteInventory(&lines, simulator.NumberedDevices(len(f.fleet.IDs()))); err != nil {
		return err
	}
	if _, err := f.ImportEntities(ctx, strings.NewReader(lines.String())); err != nil {
		return err
	}
	for _, b := range f.chaosBlocks() {
		if _, err := f.RegisterBlock(ctx, b); err != nil {
			return err
		}
	}
	for {
		n := 0
		for b, err := range f.Blocks(ctx) {
			if err == nil && b.Package == "fleet" {
				n++
			}
		}
		if n == 4 {
			break
		}
		if err := sleep(ctx, 50*time.Millisecond); err != nil {
			return fmt.Errorf("the polling worker has registered %d of 4 blocks: %w", n, err)
		}
	}
	for _, d := range definitions {
		if _, _, err := f.Publish(ctx, []byte(d), false); err != nil {
			return err
		}
	}
	if !*told {
		return nil
	}
	return f.subscribe(ctx)
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// operator starts executions one after another and handles each until it is
// acknowledged.
type operator struct {
	*fixture
	random     *rand.Rand
	nextNumber *atomic.Int64 // number of the next execution; shared by all operators
	retried    string        // the execution that it has retried last
	released   string        // the execution of which it has released locks last
}

// work starts executions until start ends, and waits for the last one until all ends.
func (o *operator) work(start, all context.Context) {
	for start.Err() == nil {
		id := o.startExecution(all)
		if id == "" {
			return
		}
		if o.random.IntN(5) == 0 {
			if sleep(all, time.Duration(o.random.IntN(1500))*time.Millisecond) != nil {
				return
			}
			mode := []workflow.RollbackMode{workflow.RollbackAuto, workflow.RollbackAuto, workflow.RollbackNever}[o.random.IntN(3)]
			_, err := o.Cancel(all, id, views.CancelRequest{Reason: "chaos", Rollback: mode}) // fails if the execution has ended or the stack is down
			o.done("cancel", err)
		}
		if !o.awaitEnd(all, id) {
			return
		}
	}
}

// startExecution starts an execution over random devices, which others use too. With its
// idempotency key, repeated requests start one execution.
func (o *operator) startExecution(ctx context.Context) string {
	n := o.nextNumber.Add(1)
	ids := slices.Clone(o.fleet.IDs()[:deviceCount])
	o.random.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
	name := []string{"upgrade", "upgrade", "mixed", "mixed", "pipeline", "parent", "once", "once", "asked", "asked", "audit"}[o.random.IntN(11)]
	switch n := o.random.IntN(8); { // most want a few, some one, some most
	case name == "audit" || n == 0:
		ids = ids[:1+o.random.IntN(len(ids))]
	case n == 1:
		ids = ids[:1]
	default:
		ids = ids[:1+o.random.IntN(min(6, len(ids)))]
	}
	parameters := map[string]any{"target": fmt.Sprintf("%d.0.0", n+1), "fail": []string{}}
	if o.random.IntN(3) == 0 {
		parameters["fail"] = ids[:1]
	}
	req := views.StartRequest{Workflow: "chaos/" + name, IdempotencyKey: fmt.Sprint("execution-", n)}
	if name == "parent" {
		parameters["devices"] = ids
	} else {
		req.ExecuteOnParameters = &workflow.Selector{Type: "device", IDs: ids}
	}
	var err error
	if req.Parameters, err = json.Marshal(parameters); err != nil {
		o.t.Error(err)
		return ""
	}
	for {
		x, _, err := o.Start(ctx, req)
		if err == nil {
			return x.ID
		}
		if isRejected(err) {
			o.t.Errorf("a valid start was rejected: %v", err)
			return ""
		}
		if sleep(ctx, 50*time.Millisecond) != nil {
			return ""
		}
	}
}

// isRejected reports whether the service rejected the request, rather than failed to
// answer.
func isRejected(err error) bool {
	for _, code := range []workflow.Code{workflow.CodeInvalid, workflow.CodeNotFound, workflow.CodeConflict, workflow.CodeIdempotencyMismatch, workflow.CodeLimit, workflow.CodeForbidden} {
		if workflow.Is(err, code) {
			return true
		}
	}
	return false
}

// awaitEnd waits until an execution is acknowledged, and answers what it asks. If it ends unsafely,
// it retries some executions once, releases some locks, and then acknowledges them.
func (o *operator) awaitEnd(ctx context.Context, id string) bool {
	for {
		x, err := o.Execution(ctx, id)
		switch {
		case err == nil && sm.Acknowledged(x.State):
			return true
		case err != nil && workflow.Is(err, workflow.CodeNotFound):
			o.t.Errorf("execution %s was started and is not found: %v", id, err)
			return true
		case err == nil && (x.State == sm.ExecutionFailedUnsafe || x.State == sm.ExecutionWaiting):
			o.act(ctx, x) // the loop reads the state again
		case err == nil && client.Idle(x):
			_, _ = o.Acknowledge(ctx, id, "chaos") // the loop reads the state again
		}
		if sleep(ctx, 50*time.Millisecond) != nil {
			return false
		}
	}
}

// acknowledgeLeftovers acknowledges idle executions that have no operator: child
// executions, and after the operators are done all others. It returns when every
// execution is acknowledged or ctx ends.
func (f *fixture) acknowledgeLeftovers(ctx, operating context.Context) error {
	for {
		operatorsDone := operating.Err() != nil
		open, failed := "", error(nil)
		for x, err := range f.Executions(ctx, views.ExecutionFilter{}) {
			if err != nil {
				failed = err
				break
			}
			if sm.Acknowledged(x.State) {
				continue
			}
			open = fmt.Sprintf("%s of %s, version %d", x.State, x.ID, x.Version)
			if client.Idle(x) && (operatorsDone || x.Parent != nil) {
				_, _ = f.Acknowledge(ctx, x.ID, "left over") // the next round reads the state again
			}
		}
		if operatorsDone && open == "" && failed == nil {
			return nil
		}
		if err := sleep(ctx, 300*time.Millisecond); err != nil {
			return fmt.Errorf("not all executions end: %s: %w", open, errors.Join(failed, err))
		}
	}
}
