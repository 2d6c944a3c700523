package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockstep-run/lockstep/cmd/lockstep/render"
	"github.com/lockstep-run/lockstep/shared/client"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

func newSubscriptions(c *connection) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "subscriptions [NAME]",
		Aliases: []string{"observers"},
		Short:   "List who is told of the events of executions, or show one",
		Example: "  lockstep subscriptions\n  lockstep subscriptions put failures --topic arn:aws:sns:eu-west-1:123456789012:ops --text --state FAILED_UNSAFE\n" +
			"  lockstep subscriptions put audit --webhook https://ops.example/hooks/lockstep --event 'execution.*'",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			api, err := c.newClient()
			if err != nil {
				return err
			}
			if len(args) == 1 {
				return showSubscription(cmd, c, api, args[0])
			}
			return printListOrNote(cmd, c, api.Subscriptions(cmd.Context()), 0, []string{"NAME", "TO", "EVENTS", "STATES", "WORKFLOWS", "STATE"}, func(v views.SubscriptionView) []string {
				state := "on"
				switch {
				case v.Suspended != nil:
					state = "suspended"
				case v.Dead > 0:
					state = fmt.Sprintf("on, but %d in a row were given up", v.Dead)
				}
				return []string{v.Name, subscriptionTarget(v), orAll(v.Events), orAll(v.States), orAll(v.Workflows), state}
			}, "nobody is told of the events of executions")
		},
	}
	cmd.AddCommand(newPutSubscription(c), newRemoveSubscription(c), newResumeSubscription(c), newTestSubscription(c), newDeliveries(c))
	return cmd
}

// showSubscription prints a subscription with its newest deliveries, because a subscription whose
// receiver fails stays on until enough deliveries were given up.
func showSubscription(cmd *cobra.Command, c *connection, api *client.Client, name string) error {
	v, err := api.Subscription(cmd.Context(), name)
	if err != nil {
		return render.AsServiceError(err)
	}
	all, err := api.Deliveries(cmd.Context(), name)
	if err != nil {
		return render.AsServiceError(err)
	}
	if c.json() {
		return render.PrintJSON(cmd, struct {
			views.SubscriptionView
			Deliveries []workflow.DeliveryAttempt `json:"deliveries"`
		}{v, all})
	}
	if err := printSubscription(cmd, c, v, nil); err != nil {
		return err
	}
	for _, one := range all[:min(len(all), 10)] {
		fmt.Fprintln(cmd.OutOrStdout(), strings.Join(deliveryCells(one), "  "))
	}
	return nil
}

func newPutSubscription(c *connection) *cobra.Command {
	var req views.SubscriptionRequest
	var labels map[string]string
	cmd := &cobra.Command{
		Use:   "put NAME",
		Short: "Tell somebody of the events of executions, or change whom, and of which",
		Long: `Tell somebody of the events of executions from now on, or change whom, and of which. It takes effect within
half a minute. Requests to a webhook are signed with the secret that is printed: another one each time,
and it can be read nowhere again.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			api, err := c.newClient()
			if err != nil {
				return err
			}
			req.Labels = labels
			if !c.json() {
				noteUnknownWorkflows(cmd, api, req.Workflows)
			}
			v, err := api.PutSubscription(cmd.Context(), args[0], req)
			return printSubscription(cmd, c, v, err)
		},
	}
	f := cmd.Flags()
	f.StringVar(&req.URL, "webhook", "", "URL of a webhook")
	f.StringVar(&req.EventBus, "event-bus", "", "name or ARN of a bus of EventBridge")
	f.StringVar(&req.Topic, "topic", "", "ARN of a topic of SNS")
	f.StringVar(&req.Workflow, "start", "", "a workflow that is started for each event")
	f.BoolVar(&req.Text, "text", false, "send a short text for people, as chats take it")
	f.StringArrayVar(&req.Events, "event", nil, "only events of this type; a star stands for the rest of one")
	f.StringArrayVar(&req.States, "state", nil, "only events that lead an execution to this state")
	f.StringArrayVar(&req.Workflows, "workflow", nil, "only executions of this workflow")
	f.StringToStringVar(&labels, "label", nil, "only executions with this label: NAME=VALUE")
	return cmd
}

// noteUnknownWorkflows says which workflows nobody has published, under a similar name if there is one.
// If it cannot read them, it stays silent.
func noteUnknownWorkflows(cmd *cobra.Command, api *client.Client, names []string) {
	if len(names) == 0 {
		return
	}
	var known []string
	for d, err := range api.Definitions(cmd.Context()) {
		if err != nil {
			return
		}
		known = append(known, d.Package+"/"+d.Name)
	}
	for _, name := range names {
		if !slices.Contains(known, name) {
			printNote(cmd, "no workflow %s is published%s", name, workflow.DidYouMean(name, known))
		}
	}
}

func newRemoveSubscription(c *connection) *cobra.Command {
	return &cobra.Command{
		Use:   "remove NAME",
		Short: "Tell a subscription nothing any more, nor what was not delivered yet",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			api, err := c.newClient()
			if err != nil {
				return err
			}
			v, err := api.RemoveSubscription(cmd.Context(), args[0])
			return printText(cmd, c, v, err, "removed the subscription "+args[0])
		},
	}
}

func newResumeSubscription(c *connection) *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use:   "resume NAME",
		Short: "Tell a subscription again that was suspended because its receiver was dead",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			api, err := c.newClient()
			if err != nil {
				return err
			}
			before, unknown := api.Subscription(cmd.Context(), args[0])
			v, err := api.ResumeSubscription(cmd.Context(), args[0], reason)
			const undelivered = "what came in the last minutes is delivered by itself, and \"lockstep redrive --queue hooks-out\" delivers what came before"
			text := "it was not suspended"
			switch {
			case unknown != nil:
				text = "it is not suspended now; whether it was could not be read: if so, " + undelivered
			case before.Suspended != nil:
				text = "resumed; " + undelivered
			}
			return printText(cmd, c, v, err, text)
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why")
	return cmd
}

func newTestSubscription(c *connection) *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use:   "test NAME",
		Short: "Send one event to a webhook now, signed as any other, and say what it has answered",
		Long:  "Send one event to a webhook now, signed as any other, and say what it has answered. The exit code is 1\nif the webhook has not received it.",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			api, err := c.newClient()
			if err != nil {
				return err
			}
			v, err := api.TestSubscription(cmd.Context(), args[0], reason)
			text := fmt.Sprintf("received, with status %d", v.Status)
			if !v.Delivered {
				text = "not received: " + v.Error
			}
			if err := printText(cmd, c, v, err, text); err != nil || v.Delivered {
				return err
			}
			return render.ErrSilent
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why")
	return cmd
}

func newDeliveries(c *connection) *cobra.Command {
	return &cobra.Command{
		Use:   "deliveries NAME",
		Short: "List the newest deliveries of a subscription, and what became of each when it was tried last",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			api, err := c.newClient()
			if err != nil {
				return err
			}
			all, err := api.Deliveries(cmd.Context(), args[0])
			return printDeliveries(cmd, c, all, err, "nothing was delivered in the last seven days")
		},
	}
}

// deliveryCells returns the cells of a delivery: the last attempt, the execution, the number of
// attempts, the status, and the outcome.
func deliveryCells(a workflow.DeliveryAttempt) []string {
	status, result := "-", "received"
	if a.Status > 0 {
		status = strconv.Itoa(a.Status)
	}
	if !a.Delivered {
		result = "not received: " + a.Error
	}
	if a.DeadLetter {
		result += " (a dead letter)"
	}
	if a.Test {
		result += " (a test)"
	}
	return []string{a.At.Local().Format(time.DateTime), cmp.Or(a.Execution, "-"), strconv.Itoa(a.Attempts), status, result}
}

// printDeliveries prints deliveries, or a note if there are none.
func printDeliveries(cmd *cobra.Command, c *connection, all []workflow.DeliveryAttempt, err error, none string) error {
	if err != nil {
		return render.AsServiceError(err)
	}
	items := func(yield func(workflow.DeliveryAttempt, error) bool) {
		for _, one := range all {
			if !yield(one, nil) {
				return
			}
		}
	}
	return printListOrNote(cmd, c, items, 0, []string{"AT", "EXECUTION", "TRIES", "STATUS", "RESULT"}, deliveryCells, none)
}

// printSubscription prints a subscription, with its secret if it was just created.
func printSubscription(cmd *cobra.Command, c *connection, v views.SubscriptionView, err error) error {
	if err != nil {
		return render.AsServiceError(err)
	}
	if c.json() {
		return render.PrintJSON(cmd, v)
	}
	out := cmd.OutOrStdout()
	fmt.Fprintf(out, "%s  to %s\n", v.Name, subscriptionTarget(v))
	for _, one := range []struct {
		name   string
		values []string
	}{{"events", v.Events}, {"states", v.States}, {"workflows", v.Workflows}, {"labels", labelTexts(v.Labels)}} {
		if len(one.values) > 0 {
			fmt.Fprintf(out, "%s  %s\n", one.name, strings.Join(one.values, " "))
		}
	}
	if v.Since != nil {
		fmt.Fprintf(out, "since  %s\n", v.Since.Local().Format(time.DateTime))
	}
	if s := v.Suspended; s != nil {
		fmt.Fprintln(out, withReason("suspended since "+s.At.Local().Format(time.DateTime), s.Reason))
	}
	if v.Secret != nil {
		fmt.Fprintf(out, "secret  %s\n", *v.Secret)
	}
	return nil
}

func subscriptionTarget(v views.SubscriptionView) string {
	for _, t := range []struct {
		what string
		to   *string
	}{{"", v.URL}, {"bus ", v.EventBus}, {"", v.Topic}, {"start ", v.Workflow}} {
		if t.to != nil {
			return t.what + *t.to
		}
	}
	return "-"
}

func orAll(values []string) string {
	if len(values) == 0 {
		return "all"
	}
	return strings.Join(values, " ")
}

func labelTexts(labels map[string]string) (texts []string) {
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		texts = append(texts, name+"="+labels[name])
	}
	return texts
}
