package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// benchStepRuns executes one step over one device n times in one execution, and prints how long a
// step run takes: of all, and of the first and the last tenth, when the execution has a history.
func (s *stack) benchStepRuns(ctx context.Context, out io.Writer, n int) error {
	_, _, err := s.Publish(ctx, fmt.Appendf(nil, "package: bench\nname: again\nversion: 1.0.0\nseedEntity: device\n"+
		"steps: [{label: again, functionBlock: 'bench/work:1', runOn: device, repeat: {count: %d}}]\n", n), false)
	if err != nil {
		return err
	}
	started, _, err := s.Start(ctx, views.StartRequest{Workflow: "bench/again", ExecuteOnParameters: &workflow.Selector{IDs: []string{deviceID(0)}}})
	if err != nil {
		return err
	}
	x, err := s.Wait(ctx, started.ID, 10*pollInterval, nil)
	if err != nil {
		return err
	}
	if x.State != sm.ExecutionCompletedAck {
		return fmt.Errorf("the execution of %d step runs ended in %s", n, x.State)
	}
	var entered []time.Time
	for r, err := range s.Steps(ctx, x.ID) {
		if err != nil {
			return err
		}
		entered = append(entered, r.EnteredAt)
	}
	if len(entered) != n {
		return fmt.Errorf("%d step runs, want %d", len(entered), n)
	}
	entered = append(entered, *x.EndedAt)
	tenth := max(1, n/10)
	for _, part := range []struct {
		name     string
		from, to int
	}{{"", 0, n}, {"_first_tenth", 0, tenth}, {"_last_tenth", n - tenth, n}} {
		d := entered[part.to].Sub(entered[part.from])
		printFigure(out, fmt.Sprintf("step_runs_%d%s", n, part.name), milliseconds(d)/float64(part.to-part.from), "ms each")
	}
	return nil
}
