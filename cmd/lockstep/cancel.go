package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/lockstep-run/lockstep/cmd/lockstep/show"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

func newCancel(c *connection) *cobra.Command {
	var req views.CancelRequest
	var rollback string
	cmd := &cobra.Command{
		Use:   "cancel ID",
		Short: "End a run early and cleanly",
		Long:  "End a run early and cleanly: nothing more of it starts, what has started stops at its next\nheartbeat, and what was changed is rolled back unless --rollback=never.",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			api, err := c.open()
			if err != nil {
				return err
			}
			req.Rollback = workflow.RollbackMode(rollback)
			x, err := api.Cancel(cmd.Context(), args[0], req)
			return printVerb(cmd, c, x, err)
		},
	}
	f := cmd.Flags()
	f.StringVar(&req.Reason, "reason", "", "why, for the history")
	f.StringVar(&rollback, "rollback", "auto", "auto or never")
	f.BoolVar(&req.Cascade, "cascade", true, "cancel children too")
	return cmd
}

func newAcknowledge(c *connection) *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use:   "acknowledge ID",
		Short: "Say that you have looked at a run that ended unsafely, and release its locks",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			api, err := c.open()
			if err != nil {
				return err
			}
			x, err := api.Acknowledge(cmd.Context(), args[0], reason)
			return printVerb(cmd, c, x, err)
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "what you found, for the history")
	return cmd
}

// printVerb shows the execution as an operator's verb left it.
func printVerb(cmd *cobra.Command, c *connection, x views.ExecutionView, err error) error {
	if err != nil {
		return called(err)
	}
	if c.output == "json" {
		return printJSON(cmd, x)
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%s  %s\n%s\n", x.ID, x.State, show.Sentence(x))
	return nil
}
