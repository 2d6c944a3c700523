package main

import (
	"context"
	"fmt"
	"io"

	"github.com/lockstep-run/lockstep/shared/topology"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// failingPercents are the shares of the devices for which the block bench/refuse fails.
var failingPercents = []int{0, 5, 50}

// refuses reports whether a block fails for a device, so that it does for this share of all.
func refuses(percent, device int) bool { return device*percent%100 < percent }

// benchFailures prints what executions over n devices read if no device fails, and if some do within
// the tolerance. The block may not be repeated, so that each job travels in a pack of its own.
func (s *stack) benchFailures(ctx context.Context, out io.Writer, n int) error {
	for _, percent := range failingPercents {
		name := fmt.Sprintf("refuse%d", percent)
		_, err := s.RegisterBlock(ctx, workflow.Block{Package: "bench", Name: name, Version: "1.0.0", RunOn: "device", HTTP: &workflow.Endpoint{URL: s.blockURL}})
		if err != nil {
			return err
		}
		_, _, err = s.Publish(ctx, fmt.Appendf(nil, "package: bench\nname: %s\nversion: 1.0.0\nseedEntity: device\nconfig: {failureTolerance: 60%%, onEntityFailure: leave}\n"+
			"steps: [{label: refuse, functionBlock: 'bench/%s:1', runOn: device}]\n", name, name), false)
		if err != nil {
			return err
		}
		started, _, err := s.Start(ctx, views.StartRequest{Workflow: "bench/" + name, ExecuteOnParameters: &workflow.Selector{Groups: []string{"fleet"}}})
		if err != nil {
			return err
		}
		x, err := s.Wait(ctx, started.ID, 10*pollInterval, nil)
		if err != nil {
			return err
		}
		failed := n * percent / 100
		if x.State != sm.ExecutionCompletedAck || x.Progress.Jobs.Failed != failed || x.Progress.Jobs.Completed != n-failed {
			return fmt.Errorf("the execution with %d%% failures is in %s with %d jobs completed and %d failed", percent, x.State, x.Progress.Jobs.Completed, x.Progress.Jobs.Failed)
		}
		bill, err := s.Cost(ctx, x.ID)
		if err != nil {
			return err
		}
		all := 0.0
		for _, units := range bill.ReadUnits {
			all += units
		}
		figure := fmt.Sprintf("failures_%d_percent", percent)
		printFigure(out, figure+"_read_units", all, "RRU")
		printFigure(out, figure+"_read_units_of_jobs", bill.ReadUnits[topology.TableJobs], "RRU")
		printFigure(out, figure+"_dollars", bill.Dollars, "USD")
		printFigure(out, figure+"_wall", x.EndedAt.Sub(x.CreatedAt).Seconds(), "s")
	}
	return nil
}
