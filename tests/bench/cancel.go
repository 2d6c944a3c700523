package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/lockstep-run/lockstep/shared/topology"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// benchCancel executes a step over n devices with so many bytes of attributes, cancels it when half of its jobs have completed, with a
// rollback of these, and prints how long that takes and the most memory that a process of each
// function has had. It fails if that is more than a function has.
func benchCancel(ctx context.Context, out io.Writer, binary string, n, attributes int) error {
	local, s, err := startWatchedStack(ctx, binary)
	if err != nil {
		return err
	}
	defer local.Close()
	defer func() { _ = s.blocks.Close() }()
	if err := s.prepare(ctx, 1, 1); err != nil {
		return err
	}
	if err := s.importDevices(ctx, n, attributes); err != nil {
		return err
	}
	began := time.Now()
	started, _, err := s.Start(ctx, views.StartRequest{Workflow: "bench/work", ExecuteOnParameters: &workflow.Selector{Groups: []string{"fleet"}}})
	if err != nil {
		return err
	}
	var half time.Time
	var refused error
	x, err := s.Wait(ctx, started.ID, pollInterval, func(x views.ExecutionView) {
		if half.IsZero() && 2*x.Progress.Jobs.Completed >= n {
			half = time.Now()
			_, refused = s.Cancel(ctx, x.ID, views.CancelRequest{Reason: "half of it is enough"})
		}
	})
	if err != nil || refused != nil {
		return fmt.Errorf("the execution over %d devices was not cancelled: %v, %v", n, err, refused)
	}
	name := fmt.Sprintf("cancel_%d", n)
	printFigure(out, name+"_half", half.Sub(began).Seconds(), "s")
	printFigure(out, name+"_rolled_back", time.Since(half).Seconds(), "s")
	jobs := map[workflow.JobKind]int{}
	for step, err := range s.Steps(ctx, x.ID) {
		if err != nil {
			return err
		}
		if step.Kind != nil {
			jobs[*step.Kind] += step.Jobs.Completed
		}
	}
	printFigure(out, name+"_jobs_executed", float64(jobs[workflow.JobExecute]), "jobs")
	printFigure(out, name+"_jobs_rolled_back", float64(jobs[workflow.JobRollback]), "jobs")
	most, err := printMemory(out, local, name)
	switch {
	case err != nil:
		return err
	case x.State != sm.ExecutionCancelledAck && x.State != sm.ExecutionCancelled:
		return fmt.Errorf("the execution over %d devices is in %s", n, x.State)
	case jobs[workflow.JobRollback] != jobs[workflow.JobExecute]:
		return fmt.Errorf("of %d jobs %d were executed and %d rolled back", n, jobs[workflow.JobExecute], jobs[workflow.JobRollback])
	case most > topology.FunctionMemoryMB:
		return fmt.Errorf("a function has had %.0f MB, and has %d on AWS", most, topology.FunctionMemoryMB)
	}
	return nil
}
