package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lockstep-run/lockstep/shared/client"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

func newRetry(c *connection) *cobra.Command {
	var req views.RetryRequest
	var entities string
	cmd := &cobra.Command{
		Use:   "retry ID",
		Short: "Try a failed run again",
		Long: `Try a failed run again, from the step that failed or from a named one. Locks that are still held
stay; otherwise they are taken anew. What has come to its end well before that step is kept.`,
		Example: "  lockstep retry ID --reason 'power is back'\n  lockstep retry ID --from upgrade --entities all",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			api, err := c.newClient()
			if err != nil {
				return err
			}
			switch req.Entities = views.RetryEntities(entities); req.Entities {
			case "", views.RetryFailed, views.RetryAll:
			default:
				return fmt.Errorf("--entities is failed or all, not %q", entities)
			}
			x, err := api.Retry(cmd.Context(), args[0], req)
			return printExecution(cmd, c, x, hintRetrySteps(cmd, api, args[0], req.From, hintIllegalState(cmd, api, args[0], err)))
		},
	}
	f := cmd.Flags()
	f.StringVar(&req.Reason, "reason", "", "why, for the history")
	f.StringVar(&req.From, "from", "", "label of the step to begin with; the one that failed if absent")
	f.StringVar(&entities, "entities", "", "failed or all: with which entities that step begins; what fits if absent")
	return cmd
}

// hintRetrySteps adds the steps that a retry may begin with to a refusal of one.
func hintRetrySteps(cmd *cobra.Command, api *client.Client, id, from string, err error) error {
	if from == "" || !workflow.Is(err, workflow.CodeInvalid) {
		return err
	}
	var steps []string
	for s, failed := range api.Steps(cmd.Context(), id) {
		if failed != nil {
			return err
		}
		if !slices.Contains(steps, s.Step) {
			steps = append(steps, s.Step)
		}
	}
	return withHint(err, "the steps that it came to: %s", strings.Join(steps, ", "))
}
