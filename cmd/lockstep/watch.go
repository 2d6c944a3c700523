package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockstep-run/lockstep/cmd/lockstep/render"
	"github.com/lockstep-run/lockstep/shared/client"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

func newWatch(c *connection) *cobra.Command {
	return &cobra.Command{
		Use:   "watch ID",
		Short: "Follow a run to its end",
		Long:  "Follow a run to its end. Ctrl-C stops following; the run goes on.\n\nExit code 0: it completed. 1: it failed or was cancelled. 130: Ctrl-C. 143: SIGTERM.",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			api, err := c.newClient()
			if err != nil {
				return err
			}
			return follow(cmd, c, api, args[0], nil)
		},
	}
}

// pollInterval is how often a followed run is read.
const pollInterval = 250 * time.Millisecond

// follow shows a run's progress on standard error until it rests, then its end
// on standard output. ended, unless it is nil, sees it first.
func follow(cmd *cobra.Command, c *connection, api *client.Client, id string, onEnd func(views.ExecutionView)) error {
	bar := render.NewProgressBar(cmd.ErrOrStderr())
	x, err := api.Follow(cmd.Context(), id, pollInterval, bar.Update, bar.ConnectionLost)
	bar.Clear()
	if err != nil && errors.Is(cmd.Context().Err(), context.Canceled) {
		return withHint(err, "the run goes on; \"lockstep watch %s\" follows it again", id)
	}
	if err != nil && bar.HasData {
		return withHint(asServiceError(err), "gave up following; the run goes on where the service does: \"lockstep watch %s\" follows it again", id)
	}
	if err != nil {
		return asServiceError(err)
	}
	if onEnd != nil {
		onEnd(x)
	}
	if c.output == "json" {
		if err := printJSON(cmd, x); err != nil {
			return err
		}
	} else {
		fmt.Fprintf(cmd.OutOrStdout(), "%s  %s\n%s\n%s", x.ID, x.State, render.DescribeExecution(x), rollbackSummary(cmd, api, x))
	}
	if x.Status != sm.StatusCompleted {
		return errSilent
	}
	return nil
}

// rollbackSummary is a line on how many jobs a run has rolled back, if it has; without an
// answer it is nothing, for the run itself has been told.
func rollbackSummary(cmd *cobra.Command, api *client.Client, x views.ExecutionView) string {
	if !x.RolledBack {
		return ""
	}
	n, failed := 0, 0
	for s, err := range api.Steps(cmd.Context(), x.ID) {
		if err != nil {
			return ""
		}
		if s.Kind != nil && *s.Kind == workflow.JobRollback { // of each entity that the step had been given, changed or not
			n, failed = n+s.Jobs.Completed, failed+s.Jobs.Failed
		}
	}
	if failed > 0 {
		return fmt.Sprintf("Rollback jobs: %d completed, %d failed.\n", n, failed)
	}
	return fmt.Sprintf("Rollback jobs: %d completed.\n", n)
}
