package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/lockstep-run/lockstep/cmd/lockstep/render"
	"github.com/lockstep-run/lockstep/shared/client"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// newAcknowledge, newResume and newUnlock are the verbs that take nothing but a
// reason.
func newAcknowledge(c *connection) *cobra.Command {
	return newReasonCommand(c, (*client.Client).Acknowledge, "what you found, for the history", &cobra.Command{
		Use:     "acknowledge ID",
		Short:   "Say that you have looked at a run that ended unsafely, and release its locks",
		Example: "  lockstep acknowledge ID --reason 'sw-007 put right by hand'",
	})
}

func newResume(c *connection) *cobra.Command {
	return newReasonCommand(c, (*client.Client).Resume, "why, for the history", &cobra.Command{
		Use:     "resume ID",
		Short:   "Go on now with a run that waits for a moment",
		Example: "  lockstep resume ID --reason 'the window is open'",
	})
}

func newUnlock(c *connection) *cobra.Command {
	return newReasonCommand(c, (*client.Client).Unlock, "why, for the history", &cobra.Command{
		Use:     "unlock ID",
		Short:   "Release the locks of a run that ended unsafely, and leave it to be looked at",
		Long:    "Release the locks of a run that ended unsafely or was cancelled, and leave it to be looked at: its\nstate stays until \"lockstep acknowledge\". Whoever still works for it is fenced off.",
		Example: "  lockstep unlock ID --reason 'the devices are needed elsewhere'",
	})
}

func newReasonCommand(c *connection, do func(api *client.Client, ctx context.Context, id, reason string) (views.ExecutionView, error), usage string, cmd *cobra.Command) *cobra.Command {
	var reason string
	cmd.Args = cobra.ExactArgs(1)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		api, err := c.newClient()
		if err != nil {
			return err
		}
		x, err := do(api, cmd.Context(), args[0], reason)
		return printExecution(cmd, c, x, hintIllegalState(cmd, api, args[0], err))
	}
	cmd.Flags().StringVar(&reason, "reason", "", usage)
	return cmd
}

// hintIllegalState adds to a refusal which states allow the verb, and which verb would
// work.
func hintIllegalState(cmd *cobra.Command, api *client.Client, id string, err error) error {
	if !workflow.Is(err, workflow.CodeIllegalTransition) {
		return err
	}
	x, failed := api.Execution(cmd.Context(), id)
	if failed != nil {
		return err
	}
	return withHint(err, "%s", render.IllegalStateHint(cmd.Name(), x.State, id))
}

// printExecution shows the execution as an operator's verb left it.
func printExecution(cmd *cobra.Command, c *connection, x views.ExecutionView, err error) error {
	if err != nil {
		return asServiceError(err)
	}
	if c.output == "json" {
		return printJSON(cmd, x)
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%s  %s\n%s\n", x.ID, x.State, render.DescribeExecution(x))
	return nil
}
