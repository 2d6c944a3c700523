package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"
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
			"  lockstep triggers fire github --body '{\"ref\": \"main\"}'\n" +
			"  lockstep triggers send --source shop.orders --type \"order placed\" --detail '{\"order\": \"o-7\", \"total\": 1200}'",
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
				state, address, proof := "on", "events", "-"
				if v.Paused != nil {
					state = "paused"
				}
				if v.Address != nil {
					address = *v.Address
				}
				switch {
				case v.Verify != nil:
					proof = v.Verify.Scheme
				case v.Form != nil:
					proof = "form"
				}
				return []string{v.Name, v.Workflow.String(), address, proof, v.Rate, state}
			}, "no published workflow has a trigger")
		},
	}
	cmd.AddCommand(
		newTriggerVerb(c, (*client.Client).PauseTrigger, &cobra.Command{Use: "pause NAME", Short: "Let a trigger refuse all calls until it is resumed, whatever is published"}),
		newTriggerVerb(c, (*client.Client).ResumeTrigger, &cobra.Command{Use: "resume NAME", Short: "Let a paused trigger take calls again"}),
		newFireTrigger(c),
		newTriggerHistory(c),
		newTriggerStats(c),
		newSendEvent(c),
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
	printCalls(cmd.OutOrStdout(), calls, v.Address == nil)
	return nil
}

// printCalls prints the calls of a trigger, one a line, or the events that it has taken.
func printCalls(out io.Writer, calls []workflow.TriggerCall, events bool) {
	for _, one := range calls {
		fmt.Fprintf(out, "%s  %d", localTime(one.At), one.Status)
		if one.Code != "" {
			fmt.Fprintf(out, "  %s", one.Code)
		}
		if one.Execution != "" {
			fmt.Fprintf(out, "  %s", one.Execution)
		}
		if one.Duplicate {
			fmt.Fprint(out, "  again")
		}
		switch {
		case one.By != "" && events:
			fmt.Fprintf(out, "  sent by %s", one.By)
		case one.By != "":
			fmt.Fprintf(out, "  fired by %s", one.By)
		}
		for _, i := range one.Issues {
			fmt.Fprintf(out, "  %s: %s", i.Path, i.Code)
		}
		fmt.Fprintln(out)
	}
}

func printTrigger(cmd *cobra.Command, v views.TriggerView) {
	out := cmd.OutOrStdout()
	if v.Address != nil {
		fmt.Fprintf(out, "%s  POST %s  starts %s\n", v.Name, *v.Address, v.Workflow)
	} else {
		fmt.Fprintf(out, "%s  events  start %s\npattern  %s\n", v.Name, v.Workflow, v.Pattern)
	}
	if v.Verify != nil {
		fmt.Fprintf(out, "proof  %s in %s, with the secret %s\n", v.Verify.Scheme, v.Verify.Header, v.Verify.Secret)
	}
	if v.Form != nil {
		fmt.Fprintf(out, "form  everybody may send it; GET %s says what it has\n", *v.Form)
	}
	fmt.Fprintf(out, "rate  %s\n", v.Rate)
	if v.Signal != nil {
		fmt.Fprintf(out, "signal  %s\n", *v.Signal)
	}
	if p := v.Paused; p != nil {
		by := "the archiving of a version"
		if p.By != nil {
			by = *p.By
		}
		fmt.Fprintln(out, withReason(fmt.Sprintf("paused by %s at %s", by, localTime(p.At)), p.Reason))
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
		before, unknown := api.Trigger(cmd.Context(), args[0])
		v, err := do(api, cmd.Context(), args[0], reason)
		if err != nil {
			return render.AsServiceError(err)
		}
		if c.json() {
			return render.PrintJSON(cmd, v)
		}
		if unknown == nil {
			noteUnchanged(cmd, before.Paused != nil, v.Paused != nil)
		}
		printTrigger(cmd, v)
		return nil
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why")
	return cmd
}

// noteUnchanged says that a verb that pauses or resumes has found it done.
func noteUnchanged(cmd *cobra.Command, before, after bool) {
	switch {
	case before != after:
	case after:
		printNote(cmd, "it was paused already: nothing has changed")
	default:
		printNote(cmd, "it was not paused: nothing has changed")
	}
}

func newFireTrigger(c *connection) *cobra.Command {
	var body string
	var req views.FireRequest
	cmd := &cobra.Command{
		Use:   "fire NAME",
		Short: "Do what a call with a body, or an event, would do, without a proof, also while the trigger is paused",
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
	f.StringVar(&body, "body", "", "body of the call, JSON; or the event")
	f.StringToStringVar(&req.Headers, "header", nil, "a header of the call: NAME=VALUE")
	f.StringToStringVar(&req.Query, "query", nil, "a parameter in the address of the call: NAME=VALUE")
	f.StringVar(&req.Reason, "reason", "", "why")
	f.StringVar(&req.IdempotencyKey, "key", "", "Idempotency-Key: the same one again starts nothing")
	return cmd
}

func newTriggerHistory(c *connection) *cobra.Command {
	return &cobra.Command{
		Use:   "history NAME",
		Short: "List the newest calls of a trigger, with what became of each",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			api, err := c.newClient()
			if err != nil {
				return err
			}
			v, err := api.Trigger(cmd.Context(), args[0])
			if err != nil {
				return render.AsServiceError(err)
			}
			calls, err := api.TriggerCalls(cmd.Context(), args[0])
			if err != nil {
				return render.AsServiceError(err)
			}
			if c.json() {
				return render.PrintJSON(cmd, append([]workflow.TriggerCall{}, calls...))
			}
			if len(calls) == 0 {
				printNote(cmd, "it has no calls")
			}
			printCalls(cmd.OutOrStdout(), calls, v.Address == nil)
			return nil
		},
	}
}

func newTriggerStats(c *connection) *cobra.Command {
	return &cobra.Command{
		Use:   "stats NAME",
		Short: "Count the newest calls of a trigger by what became of them",
		Long: `Counts the calls that the history of the trigger has: the newest hundred that have proved who made them. Of those that
have not, of those that were accepted before, and of those above the rate it has about one a minute.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			api, err := c.newClient()
			if err != nil {
				return err
			}
			s, err := api.TriggerStats(cmd.Context(), args[0])
			if err != nil {
				return render.AsServiceError(err)
			}
			if c.json() {
				return render.PrintJSON(cmd, s)
			}
			out := cmd.OutOrStdout()
			if s.Since == nil {
				fmt.Fprintf(out, "%s  no calls\n", s.Name)
				return nil
			}
			fmt.Fprintf(out, "%s  calls since %s, the last at %s: %d\n", s.Name, localTime(*s.Since), localTime(*s.LastCallAt), s.Calls)
			fmt.Fprintf(out, "accepted  %d\naccepted before  %d\nrefused  %d\n", s.Accepted, s.Duplicates, s.Refused)
			for _, code := range slices.Sorted(maps.Keys(s.Codes)) {
				fmt.Fprintf(out, "  %s  %d\n", code, s.Codes[code])
			}
			fmt.Fprintf(out, "fired by hand  %d\n", s.Fired)
			return nil
		},
	}
}

func newSendEvent(c *connection) *cobra.Command {
	var e views.Event
	var detail string
	cmd := &cobra.Command{
		Use:   "send",
		Short: "Hand an event to the triggers whose patterns it matches, as EventBridge would",
		Long: `Hands an event to the triggers whose patterns it matches, as EventBridge would, and says what each has made of it.
It exits with 3 if every one of them refuses the event, with 5 if some do.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			api, err := c.newClient()
			if err != nil {
				return err
			}
			if !json.Valid([]byte(detail)) {
				return fmt.Errorf("--detail wants JSON such as '{\"order\":\"o-7\"}', and %q is not JSON", detail)
			}
			e.Detail, e.Time, e.ID = json.RawMessage(detail), time.Now().UTC().Truncate(time.Second), cmp.Or(e.ID, uuid.NewString())
			v, err := api.SendEvent(cmd.Context(), e)
			if err != nil {
				return render.AsServiceError(err)
			}
			if c.json() {
				err = render.PrintJSON(cmd, v)
			} else {
				printTaken(cmd, v)
			}
			return cmp.Or(err, refusal(v))
		},
	}
	f := cmd.Flags()
	f.StringVar(&e.Source, "source", "", "source of the event")
	f.StringVar(&e.DetailType, "type", "", "its detail-type")
	f.StringVar(&detail, "detail", "{}", "its detail, a JSON object")
	f.StringArrayVar(&e.Resources, "resource", nil, "what it is about; repeatable")
	f.StringVar(&e.ID, "id", "", "its id: the same one again starts nothing; a new one by default")
	_ = cmd.MarkFlagRequired("source") // the flags exist
	_ = cmd.MarkFlagRequired("type")
	return cmd
}

func printTaken(cmd *cobra.Command, v views.EventReceipt) {
	out := cmd.OutOrStdout()
	for _, t := range v.Triggers {
		switch {
		case t.Code != "":
			fmt.Fprintf(out, "%s  refused: %s\n", t.Trigger, cmp.Or(t.Message, string(t.Code)))
			printIssues(out, "", t.Issues)
		case t.Duplicate:
			fmt.Fprintf(out, "%s  %s  again\n", t.Trigger, t.Execution)
		default:
			fmt.Fprintf(out, "%s  %s\n", t.Trigger, t.Execution)
		}
	}
	if len(v.Triggers) == 0 {
		fmt.Fprintln(cmd.ErrOrStderr(), "no trigger takes this event")
	}
}

// refusal returns the error with which a command ends after triggers have refused an event. The
// output has the reasons.
func refusal(v views.EventReceipt) error {
	var refused int
	for _, t := range v.Triggers {
		if t.Code != "" {
			refused++
		}
	}
	switch refused {
	case 0:
		return nil
	case len(v.Triggers):
		return &render.ReportedError{Worst: render.AsServiceError(errors.New("the event was refused"))}
	}
	return render.ErrPartial
}
