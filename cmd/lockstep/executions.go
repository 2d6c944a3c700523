package main

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockstep-run/lockstep/cmd/lockstep/render"
	"github.com/lockstep-run/lockstep/shared/client"
	"github.com/lockstep-run/lockstep/shared/cost"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// createdSince ends a list of executions, which is sorted newest first, at the first older one.
func createdSince(items iter.Seq2[views.ExecutionView, error], at time.Time) iter.Seq2[views.ExecutionView, error] {
	return func(yield func(views.ExecutionView, error) bool) {
		for x, err := range items {
			if err == nil && x.CreatedAt.Before(at) || !yield(x, err) {
				return
			}
		}
	}
}

func newList(c *connection) *cobra.Command {
	var filter filterFlags
	var active bool
	var limit int
	var since, key, sort string
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List executions, newest first unless --sort says otherwise",
		Example: "  lockstep list --active\n  lockstep list --since 7d --state FAILED_UNSAFE --workflow fleet/upgrade_firmware",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			api, err := c.newClient(noteSkipped(cmd))
			if err != nil {
				return err
			}
			f, err := filter.parse()
			if err != nil {
				return err
			}
			if f.Active, f.IdempotencyKey = active, key; cmd.Flags().Changed("idempotency-key") && key == "" {
				return errors.New("--idempotency-key is empty: omit it, or give a key")
			}
			if sort == sortOldest {
				f.Order = workflow.OrderOldest
			}
			items := api.Executions(cmd.Context(), f)
			if since != "" && sort == sortOldest {
				return errors.New("--since reads from the newest on: leave out --sort")
			}
			if since != "" {
				at, err := parseSince(since, time.Now())
				if err != nil {
					return err
				}
				items = createdSince(items, at)
			}
			n := 0
			defer func() {
				if n == 0 {
					printNote(cmd, "no execution matches")
				}
			}()
			return printList(cmd, c, countItems(items, &n), limit,
				[]string{"ID", "WORKFLOW", "STATE", "OUTCOME", "JOBS", "FAILED", "STEP", "REGION", "CREATED", "UPDATED", "WHY"},
				func(x views.ExecutionView) []string {
					if at := x.IdempotencyExpiresAt; at != nil {
						printNote(cmd, "the idempotency key is remembered until %s", render.Time(at))
					}
					why := orDash(render.DescribePartial(x))
					if x.Waiting != nil {
						why = render.DescribeWait(x)
					}
					return []string{
						x.ID, x.Workflow.String(), string(x.State), render.OrDash((*string)(x.Outcome)), fmt.Sprintf("%d/%d", x.Progress.Jobs.Completed, x.Progress.Jobs.Total),
						fmt.Sprint(x.Progress.Jobs.Failed), render.OrDash(x.CurrentStep), render.OrDash(x.Region), render.Ago(x.CreatedAt), render.Ago(x.UpdatedAt), why,
					}
				})
		},
	}
	filter.addTo(cmd)
	cmd.Flags().BoolVar(&active, "active", false, "only executions that have not ended")
	cmd.Flags().StringVar(&since, "since", "", "only executions that were created since then: a time (RFC 3339), or a duration such as 7d or 12h")
	cmd.Flags().StringVar(&key, "idempotency-key", "", "only the execution that was started with this key, as long as the key is remembered")
	cmd.Flags().StringVar(&sort, "sort", "createdAt:desc", "createdAt:desc or createdAt:asc")
	cmd.Flags().IntVar(&limit, "limit", 50, "maximum number; 0 for all")
	return cmd
}

// sortOldest lists the oldest execution first.
const sortOldest = "createdAt:asc"

// maxShownParameters bounds the bytes of parameters that status shows. JSON has all of them.
const maxShownParameters = 300

func newStatus(c *connection) *cobra.Command {
	return &cobra.Command{
		Use:   "status ID",
		Short: "Show the state of an execution, and what it waits for",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			api, err := c.newClient()
			if err != nil {
				return err
			}
			x, err := api.Execution(cmd.Context(), args[0])
			if err != nil {
				return render.AsServiceError(err)
			}
			if c.json() {
				return render.PrintJSON(cmd, x)
			}
			out := cmd.OutOrStdout()
			fmt.Fprintf(out, "%s  %s  %s (%s)\n%s\n%s%s%s", x.ID, x.Workflow, x.State, statusText(x), render.DescribeExecution(x), rollbackSummary(cmd, api, x), render.DescribeEntities(x), render.DescribeUnacknowledged(x))
			noteNotExecuted(cmd, x)
			for _, kind := range slices.Sorted(maps.Keys(x.Entities)) {
				fmt.Fprintf(out, "%s: %d %s\n", entitiesTitle(x), x.Entities[kind], kind)
			}
			if p := string(x.Parameters); p != "" && p != "{}" && p != "null" {
				fmt.Fprintf(out, "parameters: %s\n", render.OneLine(workflow.Truncate(p, maxShownParameters)))
			}
			if m := string(x.Metadata); m != "" && m != "null" {
				fmt.Fprintf(out, "metadata: %s\n", render.OneLine(workflow.Truncate(m, maxShownParameters)))
			}
			fmt.Fprintf(out, "created: %s, updated: %s\n", render.Ago(x.CreatedAt), render.Ago(x.UpdatedAt))
			noteAnswers(cmd, api, x)
			if x.Cancellation != nil {
				fmt.Fprintf(out, "cancellation: %s\n", describeCancellation(x.Cancellation))
			}
			if x.Key != nil && x.KeyOwner != nil {
				fmt.Fprintf(out, "key: %s, which execution %s has\n", *x.Key, *x.KeyOwner)
			} else if x.Key != nil {
				fmt.Fprintf(out, "key: %s\n", *x.Key)
			}
			if x.Limits != nil {
				fmt.Fprintf(out, "limits: %s\n", describeLimits(x))
			}
			if x.Region != nil {
				fmt.Fprintf(out, "region: %s\n", *x.Region)
			}
			if x.Parent != nil {
				of := ""
				if x.Item != nil {
					of = fmt.Sprintf(", for item %d", *x.Item)
				}
				fmt.Fprintf(out, "started by: %s%s\n", *x.Parent, of)
			}
			if x.FollowUpOf != nil {
				fmt.Fprintf(out, "started by an event of: %s\n", *x.FollowUpOf)
			}
			if x.FollowUp != nil {
				fmt.Fprintf(out, "started at its end: %s\n", *x.FollowUp)
			}
			if f := x.FollowUpFailure; f != nil {
				fmt.Fprintf(out, "not started at its end, after %d attempts, the last %s: %s%s\n", f.Attempts, render.Ago(f.At), render.OneLine(f.Error), followUpNext(f))
			}
			for _, s := range x.ChildSets {
				fmt.Fprintf(out, "started: %s\n", describeChildSet(s, x.EndedAt != nil))
			}
			if len(x.Children) > 0 {
				printChildren(cmd, api, x)
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

// entitiesTitle says of which entities their numbers by type are: a retry may go on with some of those
// that the execution has had.
func entitiesTitle(x views.ExecutionView) string {
	now, all := 0, -x.Dropped.Count
	for _, n := range x.Entities {
		now += n
	}
	for _, n := range x.EntityOutcomes {
		all += n
	}
	if now < all {
		return "entities of its last try"
	}
	return "entities"
}

// describeCancellation describes who or what cancelled an execution, when and why.
func describeCancellation(c *workflow.Cancellation) string {
	text := "source " + c.Source
	if c.By != "" {
		text += ", by " + c.By
	}
	text += ", " + render.Ago(c.At)
	if c.Reason != "" {
		text += ": " + c.Reason
	}
	return render.OneLine(text)
}

// describeLimits describes what an execution may need with all its tries.
func describeLimits(x views.ExecutionView) string {
	var parts []string
	if n := x.Limits.Steps; n != nil {
		parts = append(parts, fmt.Sprintf("%d step runs, of which it has had %d", *n, x.Limits.StepRuns))
	}
	if wall := x.Limits.Wall; wall != nil {
		over := x.CreatedAt.Add(wall.Std())
		parts = append(parts, fmt.Sprintf("%s since it was created, until %s", wall.Std(), render.Time(&over)))
	}
	return strings.Join(parts, "; ")
}

// describeChildSet describes the progress of the executions that a step has started for the items
// of a list.
// ended says that the execution has, and with it the step.
func describeChildSet(s views.ChildSetView, ended bool) string {
	text := fmt.Sprintf("%d of %s by step %s, one for each item", s.Total, s.Workflow, s.Step)
	if s.Done != nil {
		text += fmt.Sprintf(": %d are over", *s.Done)
	}
	if s.Failed != nil && *s.Failed > 0 {
		text += fmt.Sprintf(", of which %d not well", *s.Failed)
	}
	if s.Done != nil && ended && *s.Done < s.Total {
		text += fmt.Sprintf("; %d were cancelled or never began", s.Total-*s.Done)
	}
	if s.Asking > 0 {
		text += fmt.Sprintf("; %d wait for a person", s.Asking)
	}
	return text
}

// printChildren prints a line for each execution that an execution has started. If it cannot read
// them, it prints the ids only.
func printChildren(cmd *cobra.Command, api *client.Client, x views.ExecutionView) {
	out := cmd.OutOrStdout()
	for child, err := range api.Children(cmd.Context(), x.ID, "") {
		if err != nil {
			fmt.Fprintf(out, "started: %s\n", strings.Join(x.Children, ", "))
			return
		}
		if child.Item != nil {
			continue
		}
		fmt.Fprintf(out, "started: %s  %s  by step %s  %s\n", child.ID, child.Workflow, child.Step, render.OrDash((*string)(child.State)))
	}
}

// statusText returns the outcome of an execution that has ended, its status otherwise.
func statusText(x views.ExecutionView) string {
	if x.Outcome != nil {
		return string(*x.Outcome)
	}
	return string(x.Status)
}

func orDash(s string) string { return render.OrDash(&s) }

var stepColumns = []string{"STEP", "TRY", "VISIT", "KIND", "STATUS", "JOBS", "OK", "FAILED", "UNKNOWN", "CANCELLED", "SKIPPED", "TOOK", "WAY"}

func newSteps(c *connection) *cobra.Command {
	return &cobra.Command{
		Use:   "steps ID",
		Short: "Summarise each step of an execution, rollback waves included",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			api, err := c.newClient()
			if err != nil {
				return err
			}
			return printList(cmd, c, api.Steps(cmd.Context(), args[0]), 0, stepColumns, stepRow)
		},
	}
}

func stepRow(s views.StepView) []string {
	kind, took := "-", "-"
	switch {
	case s.Kind != nil:
		kind = string(*s.Kind)
	case s.Child != nil:
		kind = string(s.Child.Mode)
	case s.Children != nil:
		kind = string(s.Children.Mode)
	}
	if s.Wave != nil {
		kind += fmt.Sprintf(" %d", *s.Wave)
	}
	if s.EndedAt != nil {
		took = s.EndedAt.Sub(s.EnteredAt).String()
	}
	j := s.Jobs
	return []string{
		s.Step, fmt.Sprint(s.Try), fmt.Sprint(s.Ordinal), kind, string(s.Status), fmt.Sprint(j.Total), fmt.Sprint(j.Completed), fmt.Sprint(j.Failed),
		render.CountOrDash(j.Unknown), render.CountOrDash(j.Cancelled), fmt.Sprint(s.Skipped), took, stepWay(s),
	}
}

// stepWaited describes what a step waits or has waited for, and how the wait ended.
func stepWaited(w *views.StepWait) string {
	kind := string(w.Kind)
	if w.Reason != nil {
		kind += fmt.Sprintf(" %q", *w.Reason)
	}
	switch {
	case w.Open:
		kind = fmt.Sprintf("waits for %s until %s", kind, w.Until.Format(time.RFC3339))
	case w.Lapsed:
		kind = fmt.Sprintf("waited for %s until its deadline", kind)
	default:
		kind = "waited for " + kind
	}
	if len(w.Answers) > 0 {
		var by []string
		for _, a := range w.Answers {
			by = append(by, a.By)
		}
		kind += ", answered by " + strings.Join(by, ", ")
	}
	return kind
}

// stepWay describes where a step run was executed (wave of a rollout, branch, round of a loop),
// what it waited for, and where the execution continued: the case taken, the failure handled, and
// the next step. It returns "-" if the execution simply went on to the next step.
func stepWay(s views.StepView) string {
	var parts []string
	if w := s.Rollout; w != nil {
		parts = append(parts, fmt.Sprintf("wave %d of %d", w.Number, w.Of))
		if w.StoppedAt != nil {
			parts = append(parts, fmt.Sprintf("stopped at wave %d", *w.StoppedAt))
		}
	}
	if s.Branch != nil {
		parts = append(parts, "branch "+*s.Branch)
	}
	if s.Index != nil {
		of := ""
		if s.Item != nil {
			of = " (" + *s.Item + ")"
		}
		parts = append(parts, fmt.Sprintf("index %d%s", *s.Index, of))
	}
	if s.Wait != nil {
		parts = append(parts, stepWaited(s.Wait))
	}
	if r := s.Route; r != nil {
		parts = append(parts, fmt.Sprintf("case %d (%s)", r.Number, shownCondition(r.When)))
	}
	if h := s.Handled; h != nil {
		by := ""
		if h.Step != s.Step {
			by = " of " + h.Step
		}
		code := ""
		if s.Error != nil {
			code = s.Error.Code + " "
		}
		parts = append(parts, fmt.Sprintf("%shandled by case %d%s (%s)", code, h.Number, by, shownCondition(h.When)))
	}
	for _, e := range s.CaseErrors {
		of, why := "", ""
		if e.Step != s.Step {
			of = " of " + e.Step
		}
		if e.Message != nil {
			why = ": " + *e.Message
		}
		parts = append(parts, fmt.Sprintf("case %d%s had no value%s", e.Number, of, why))
	}
	if s.Next != nil {
		parts = append(parts, "next "+*s.Next)
	}
	return orDash(strings.Join(parts, ", "))
}

// shownCondition returns the condition of a case, shortened.
func shownCondition(when *string) string {
	if when == nil {
		return "always"
	}
	return workflow.Truncate(*when, 60)
}

func newResult(c *connection) *cobra.Command {
	return &cobra.Command{
		Use:   "result ID",
		Short: "Print what the steps of an execution returned, as JSON",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			api, err := c.newClient()
			if err != nil {
				return err
			}
			r, err := api.Result(cmd.Context(), args[0])
			if err != nil {
				return render.AsServiceError(err)
			}
			return render.PrintJSON(cmd, r)
		},
	}
}

func newCost(c *connection) *cobra.Command {
	return &cobra.Command{
		Use:   "cost ID",
		Short: "Show what an execution consumed, and what that costs on AWS",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			api, err := c.newClient()
			if err != nil {
				return err
			}
			bill, err := api.Cost(cmd.Context(), args[0])
			if err != nil {
				return render.AsServiceError(err)
			}
			if c.json() {
				return render.PrintJSON(cmd, bill)
			}
			t := render.NewTable(cmd.OutOrStdout(), "WHAT", "QUANTITY", "UNIT", "PER MILLION")
			for _, l := range bill.Lines {
				t.Row([]string{l.Item, fmt.Sprintf("%.2f", l.Quantity), l.Unit, cost.Format(l.Dollars * 1e6)})
			}
			t.Row([]string{"total", "", "", cost.Format(bill.Dollars * 1e6)})
			if err := t.Flush(); err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "this execution: %s (%s per million such executions), at prices of %s\n", cost.Format(bill.Dollars), cost.Format(bill.Dollars*1e6), bill.PricesAsOf)
			return nil
		},
	}
}

// followUpNext says when what an end could not start is tried again, or how.
func followUpNext(f *views.FollowUpFailure) string {
	switch {
	case f.DeadLetter:
		return "; it is a dead letter now: \"lockstep redrive --queue hooks-out\" tries it again"
	case f.RetryAt != nil:
		return "; it is tried again about " + f.RetryAt.Local().Format(time.DateTime)
	}
	return ""
}
