package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/lockstep-run/lockstep/cmd/lockstep/render"
)

func newStatus(c *connection) *cobra.Command {
	return &cobra.Command{
		Use:   "status ID",
		Short: "Say how a run stands, and what it waits for",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			api, err := c.newClient()
			if err != nil {
				return err
			}
			x, err := api.Execution(cmd.Context(), args[0])
			if err != nil {
				return asServiceError(err)
			}
			if c.output == "json" {
				return printJSON(cmd, x)
			}
			out := cmd.OutOrStdout()
			fmt.Fprintf(out, "%s  %s  %s (%s)\n%s\n%s", x.ID, x.Workflow, x.State, x.Status, render.DescribeExecution(x), rollbackSummary(cmd, api, x))
			for kind, n := range x.Entities {
				fmt.Fprintf(out, "entities: %d %s\n", n, kind)
			}
			if x.Parent != nil {
				fmt.Fprintf(out, "started by: %s\n", *x.Parent)
			}
			for _, id := range x.Children {
				fmt.Fprintf(out, "has started: %s\n", id)
			}
			j := x.Progress.Jobs
			counts := fmt.Sprintf("jobs: %d, of which %d completed, %d failed, %s running, %s waiting",
				j.Total, j.Completed, j.Failed, render.CountOrDash(j.Running), render.CountOrDash(j.Pending))
			for _, rare := range []struct {
				n    *int
				what string
			}{{j.Claimed, "claimed"}, {j.Cancelled, "cancelled"}, {j.Unknown, "unknown"}} {
				if rare.n != nil && (*rare.n > 0 || rare.what != "claimed") {
					counts += fmt.Sprintf(", %d %s", *rare.n, rare.what)
				}
			}
			fmt.Fprintf(out, "%s; steps: %d of %d done\n", counts, x.Progress.Steps.Done, x.Progress.Steps.Total)
			return nil
		},
	}
}
