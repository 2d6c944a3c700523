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
func (r *fixture) prepare(ctx context.Context) error {
	var lines strings.Builder
	if err := simulator.WriteInventory(&lines, simulator.NumberedDevices(len(r.fleet.IDs()))); err != nil {
		return err
	}
	if _, err := r.ImportEntities(ctx, strings.NewReader(lines.String())); err != nil {
		return err
	}
	for _, b := range r.chaosBlocks() {
		if _, err := r.RegisterBlock(ctx, b); err != nil {
			return err
		}
	}
	for {
		n := 0
		for b, err := range r.Blocks(ctx) {
			if err == nil && b.Package == "fleet" {
				n++
			}
		}
		if n == 4 {
			break
		}
		if err := sleep(ctx, 50*time.Millisecond); err != nil {
			return fmt.Errorf("the polling worker has registered %d blocks: %w", n, err)
		}
	}
	for _, d := range definitions {
		if _, _, err := r.Publish(ctx, []byte(d), false); err != nil {
			return err
		}
	}
	return nil
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// operator starts one run after the other, and looks after each until it rests.
type operator struct {
	*fixture
	random     *rand.Rand
	nextNumber *atomic.Int64 // of the runs, over all operators
}

// work goes on until start ends, and then until its last run rests or all ends.
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
			_, _ = o.Cancel(all, id, views.CancelRequest{Reason: "chaos", Rollback: mode}) // it may be over, or nobody may be there
		}
		if !o.awaitEnd(all, id) {
			return
		}
	}
}

// startExecution starts a run over devices that others want too. Its key makes it one
// run, however often it has to be asked for.
func (o *operator) startExecution(ctx context.Context) string {
	n := o.nextNumber.Add(1)
	ids := slices.Clone(o.fleet.IDs())
	o.random.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
	ids = ids[:1+o.random.IntN(min(6, len(ids)))]
	name := []string{"upgrade", "upgrade", "mixed", "mixed", "pipeline", "parent", "once"}[o.random.IntN(7)]
	parameters := map[string]any{"target": fmt.Sprintf("%d.0.0", n+1), "fail": []string{}}
	if o.random.IntN(3) == 0 {
		parameters["fail"] = ids[:1]
	}
	req := views.StartRequest{Workflow: "chaos/" + name, IdempotencyKey: fmt.Sprint("run-", n)}
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
			o.t.Errorf("a good run is refused: %v", err)
			return ""
		}
		if sleep(ctx, 50*time.Millisecond) != nil {
			return ""
		}
	}
}

// isRejected reports whether the service has said no to what was asked, and not
// only failed to answer.
func isRejected(err error) bool {
	for _, code := range []workflow.Code{workflow.CodeInvalid, workflow.CodeNotFound, workflow.CodeConflict, workflow.CodeIdempotencyMismatch, workflow.CodeLimit, workflow.CodeForbidden} {
		if workflow.Is(err, code) {
			return true
		}
	}
	return false
}

// awaitEnd waits until a run is over, and does what an operator does with one that
// needs it: some are tried again, and then acknowledged.
func (o *operator) awaitEnd(ctx context.Context, id string) bool {
	tried := false
	for {
		x, err := o.Execution(ctx, id)
		switch {
		case err == nil && sm.Acknowledged(x.State):
			return true
		case err != nil && workflow.Is(err, workflow.CodeNotFound):
			o.t.Errorf("run %s was started and is not there: %v", id, err)
			return true
		case err == nil && x.State == sm.ExecutionFailedUnsafe && !tried && o.random.IntN(3) == 0:
			tried = true
			_, _ = o.Retry(ctx, id, views.RetryRequest{Reason: "chaos"}) // it is looked at again below
		case err == nil && client.Idle(x):
			tried = true
			_, _ = o.Acknowledge(ctx, id, "chaos") // the same
		}
		if sleep(ctx, 50*time.Millisecond) != nil {
			return false
		}
	}
}

// acknowledgeLeftovers acknowledges what rests and has no operator of its own, the runs that
// others have started, until the operators are done and then until all runs are over, or ctx ends.
func (r *fixture) acknowledgeLeftovers(ctx, working context.Context) error {
	for {
		last := working.Err() != nil
		open, failed := "", error(nil)
		for x, err := range r.Executions(ctx, views.ExecutionFilter{}) {
			if err != nil {
				failed = err
				break
			}
			if sm.Acknowledged(x.State) {
				continue
			}
			open = fmt.Sprintf("%s of %s, version %d", x.State, x.ID, x.Version)
			if client.Idle(x) && (last || x.Parent != nil) {
				_, _ = r.Acknowledge(ctx, x.ID, "left over") // it is looked at again
			}
		}
		if last && open == "" && failed == nil {
			return nil
		}
		if err := sleep(ctx, 300*time.Millisecond); err != nil {
			return fmt.Errorf("not all runs end: %s: %w", open, errors.Join(failed, err))
		}
	}
}
