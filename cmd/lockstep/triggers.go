package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockstep-run/lockstep/cmd/lockstep/render"
	"github.com/lockstep-run/lockstep/shared/client"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

func newTriggers(c *connection) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "triggers [NAME]",
		Short: "List what starts executions from outside, or show one with its newest calls",
		Example: "  lockstep triggers\n  lockstep triggers github\n  lockstep triggers pause github --reason \"change freeze\"\n" +
			"  lockstep triggers fire github --body '{\"ref\": \"main\"}'",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			api, err := c.newClient()
			if err != nil {
				return err
			}
			if len(args) == 1 {
				return showTrigger(cmd, c, api, args[0])
			}
			return printListOrNote(cmd, c, api.Triggers(cmd.Context()), 0, []string{"NAME", "WORKFLOW", "ADDRESS", "PROOF", "RATE", "STATE"}, func(v views.TriggerView) []string {
				state := "on"
				if v.Paused != nil {
					state = "paused"
				}
				return []string{v.Name, v.Workflow.String(), v.Address, v.Verify.Scheme, v.Rate, state}
			}, "no published workflow has a trigger")
		},
	}
	cmd.AddCommand(
		newTriggerVerb(c, (*client.Client).PauseTrigger, &cobra.Command{Use: "pause NAME", Short: "Let a trigger refuse all calls until it is resumed, whatever is published"}),
		newTriggerVerb(c, (*client.Client).ResumeTrigger, &cobra.Command{Use: "resume NAME", Short: "Let a paused trigger take calls again"}),
		newFireTrigger(c),
	)
	return cmd
}

func showTrigger(cmd *cobra.Command, c *connection, api *client.Client, name string) error {
	v, err := api.Trigger(cmd.Context(), name)
	if err != nil {
		return render.AsServiceError(err)
	}
	calls, err := api.TriggerCalls(cmd.Context(), name)
	if err != nil {
		return render.AsServiceError(err)
	}
	if c.json() {
		return render.PrintJSON(cmd, struct {
			views.TriggerView
			Calls []workflow.TriggerCall `json:"calls"`
		}{v, calls})
	}
	printTrigger(cmd, v)
	out := cmd.OutOrStdout()
	for _, one := range calls {
		fmt.Fprintf(out, "%s  %d", one.At.Local().Format(time.DateTime), one.Status)
		if one.Code != "" {
			fmt.Fprintf(out, "  %s", one.Code)
		}
		if one.Execution != "" {
			fmt.Fprintf(out, "  %s", one.Execution)
		}
		if one.Duplicate {
			fmt.Fprint(out, "  again")
		}
		if one.By != "" {
			fmt.Fprintf(out, "  fired by %s", one.By)
		}
		for _, i := range one.Issues {
			fmt.Fprintf(out, "  %s: %s", i.Path, i.Code)
		}
		fmt.Fprintln(out)
	}
	return nil
}

func printTrigger(cmd *cobra.Command, v views.TriggerView) {
	out := cmd.OutOrStdout()
	fmt.Fprintf(out, "%s  POST %s  starts %s\n", v.Name, v.Address, v.Workflow)
	fmt.Fprintf(out, "proof  %s in %s, with the secret %s\nrate  %s\n", v.Verify.Scheme, v.Verify.Header, v.Verify.Secret, v.Rate)
	if v.Signal != nil {
		fmt.Fprintf(out, "signal  %s\n", *v.Signal)
	}
	if p := v.Paused; p != nil {
		by := "the archiving of a version"
		if p.By != nil {
			by = *p.By
		}
		fmt.Fprintf(out, "paused by %s at %s: %s\n", by, p.At.Local().Format(time.DateTime), p.Reason)
	}
}

// newTriggerVerb completes a verb that changes one trigger for a reason.
func newTriggerVerb(c *connection, do func(api *client.Client, ctx context.Context, name, why string) (views.TriggerView, error), cmd *cobra.Command) *cobra.Command {
	var reason string
	cmd.Args = cobra.ExactArgs(1)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		api, err := c.newClient()
		if err != nil {
			return err
		}
		v, err := do(api, cmd.Context(), args[0], reason)
		if err != nil {
			return render.AsServiceError(err)
		}
		if c.json() {
			return render.PrintJSON(cmd, v)
		}
		printTrigger(cmd, v)
		return nil
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why")
	return cmd
}

func newFireTrigger(c *connection) *cobra.Command {
	var body string
	var req views.FireRequest
	cmd := &cobra.Command{
		Use:   "fire NAME",
		Short: "Do what a call with a body would do, without a proof, also while the trigger is paused",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			api, err := c.newClient()
			if err != nil {
				return err
			}
			if body != "" {
				if !json.Valid([]byte(body)) {
					return fmt.Errorf("--body wants JSON such as '{\"ref\":\"main\"}', and %q is not JSON", body)
				}
				req.Body = json.RawMessage(body)
			}
			v, err := api.FireTrigger(cmd.Context(), args[0], req)
			return printText(cmd, c, v, err, v.ID)
		},
	}
	f := cmd.Flags()
	f.StringVar(&body, "body", "", "body of the call, JSON")
	f.StringToStringVar(&req.Headers, "header", nil, "a header of the call: NAME=VALUE")
	f.StringToStringVar(&req.Query, "query", nil, "a parameter in the address of the call: NAME=VALUE")
	f.StringVar(&req.Reason, "reason", "", "why")
	f.StringVar(&req.IdempotencyKey, "key", "", "Idempotency-Key: the same one again starts nothing")
	return cmd
}
