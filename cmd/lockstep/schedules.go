package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockstep-run/lockstep/cmd/lockstep/render"
	"github.com/lockstep-run/lockstep/shared/client"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

func newSchedules(c *connection) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "schedules [SCHEDULE]",
		Short:   "List the schedules of workflows, or show one with its newest executions",
		Example: "  lockstep schedules\n  lockstep schedules fleet/nightly\n  lockstep schedules pause fleet/nightly --reason \"change freeze\"",
		Long: `List the schedules that start workflows, or show one with its newest executions. A schedule has the name
of its workflow, PACKAGE/NAME, and one of several PACKAGE/NAME@SCHEDULE.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			api, err := c.newClient()
			if err != nil {
				return err
			}
			if len(args) == 1 {
				return onSchedule(cmd, c, args[0], func(ctx context.Context, api *client.Client, ref workflow.Ref) error {
					v, err := api.Schedule(ctx, ref.Package, ref.Name)
					if err != nil {
						return err
					}
					return printSchedule(cmd, c, v)
				})
			}
			return printListOrNote(cmd, c, api.Schedules(cmd.Context()), 0,
				[]string{"SCHEDULE", "VERSION", "CRON", "ZONE", "NEXT", "LAST EXECUTION", "SKIPPED"},
				func(v views.ScheduleView) []string {
					return []string{v.Schedule, v.Workflow.Version, v.Cron, v.Zone, nextFireTime(v), render.OrDash(v.LastExecutionID), fmt.Sprint(v.Skipped)}
				}, "no published workflow has a schedule")
		},
	}
	cmd.AddCommand(
		newScheduleVerb(c, (*client.Client).PauseSchedule, &cobra.Command{
			Use:   "pause SCHEDULE",
			Short: "Let a schedule start nothing until it is resumed, whatever is published",
		}),
		newScheduleVerb(c, (*client.Client).ResumeSchedule, &cobra.Command{
			Use:   "resume SCHEDULE",
			Short: "Let a paused schedule start executions again, from its next fire time on",
		}),
		newScheduleVerb(c, (*client.Client).RemoveSchedule, &cobra.Command{
			Use:   "remove SCHEDULE",
			Short: "Switch a schedule off until another version of the workflow is published",
		}),
		newFire(c),
	)
	return cmd
}

// newScheduleVerb completes a verb that changes one schedule for a reason.
func newScheduleVerb(c *connection, do func(api *client.Client, ctx context.Context, pkg, name, why string) (views.ScheduleView, error), cmd *cobra.Command) *cobra.Command {
	var reason string
	cmd.Args = cobra.ExactArgs(1)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return onSchedule(cmd, c, args[0], func(ctx context.Context, api *client.Client, ref workflow.Ref) error {
			before, unknown := api.Schedule(ctx, ref.Package, ref.Name)
			v, err := do(api, ctx, ref.Package, ref.Name, reason)
			if err != nil {
				return err
			}
			if cmd.Name() == "remove" && !c.json() {
				fmt.Fprintf(cmd.OutOrStdout(), "removed the schedule %s; publish another version to have it again\n", v.Schedule)
				return nil
			}
			if c.json() {
				return printSchedule(cmd, c, v)
			}
			if unknown == nil {
				noteUnchanged(cmd, before.Paused != nil, v.Paused != nil)
			}
			if now, err := api.Schedule(ctx, ref.Package, ref.Name); err == nil {
				v = now // the answer does not say in which states its executions are
			}
			return printSchedule(cmd, c, v)
		})
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why")
	return cmd
}

func newFire(c *connection) *cobra.Command {
	var key string
	var detach bool
	cmd := &cobra.Command{
		Use:   "fire SCHEDULE",
		Short: "Start an execution of a schedule now, and follow it",
		Long: `Start an execution as the schedule does, with its parameters and its label, and follow it. A paused
schedule can be fired too. Its fire times stay. While an execution of it has not ended, the service
refuses, unless the schedule has concurrency.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return onSchedule(cmd, c, args[0], func(ctx context.Context, api *client.Client, ref workflow.Ref) error {
				fired, existed, err := api.FireSchedule(ctx, ref.Package, ref.Name, key)
				if err != nil {
					return err
				}
				if existed {
					fmt.Fprintf(cmd.ErrOrStderr(), "this idempotency key has already started %s\n", fired.ID)
				}
				switch {
				case detach && c.json():
					return render.PrintJSON(cmd, fired)
				case detach:
					fmt.Fprintln(cmd.OutOrStdout(), fired.ID)
					return nil
				}
				return follow(cmd, c, api, fired.ID, 0, nil)
			})
		},
	}
	cmd.Flags().StringVar(&key, "idempotency-key", "", "start at most one execution with this key")
	cmd.Flags().BoolVarP(&detach, "detach", "d", false, "print the id and do not follow")
	return cmd
}

// onSchedule calls do with the workflow that an argument names.
func onSchedule(cmd *cobra.Command, c *connection, arg string, do func(ctx context.Context, api *client.Client, ref workflow.Ref) error) error {
	api, err := c.newClient()
	if err != nil {
		return err
	}
	of, name := spec.SplitScheduleName(arg)
	ref, err := workflow.ParseRef(of)
	if err != nil {
		return err
	}
	if ref.Version != "" {
		return fmt.Errorf("a schedule is that of the newest version: want %s", spec.ScheduleName(ref.FullName(), name))
	}
	ref.Name = spec.ScheduleName(ref.Name, name)
	err = do(cmd.Context(), api, ref)
	if workflow.Is(err, workflow.CodeNotFound) {
		err = withHint(err, "%s\"lockstep schedules\" lists all schedules", nearestSchedule(cmd.Context(), api, ref.FullName()))
	}
	return render.AsServiceError(err)
}

// nearestSchedule returns a hint that names a similar schedule, "" if none is similar.
func nearestSchedule(ctx context.Context, api *client.Client, name string) string {
	var names []string
	for s, err := range api.Schedules(ctx) {
		if err != nil {
			break // it is only a hint
		}
		names = append(names, s.Schedule)
	}
	if near := workflow.Closest(name, names); near != "" {
		return fmt.Sprintf("did you mean %s? ", near)
	}
	return ""
}

// localTime formats a time with its date in the caller's time zone.
func localTime(t time.Time) string { return t.Local().Format(time.DateTime + " MST") }

// nextFireTime formats when a schedule starts its next execution.
func nextFireTime(v views.ScheduleView) string {
	switch {
	case v.Paused != nil:
		return "paused"
	case v.NextAt == nil:
		return "-"
	}
	return localTime(*v.NextAt)
}

// withReason adds to a text the reason, if there is one.
func withReason(text, reason string) string { return strings.TrimSuffix(text+": "+reason, ": ") }

// printSchedule prints one schedule with its newest executions.
func printSchedule(cmd *cobra.Command, c *connection, v views.ScheduleView) error {
	if c.json() {
		return render.PrintJSON(cmd, v)
	}
	out := cmd.OutOrStdout()
	fmt.Fprintf(out, "%s  %s  %s  %s\nnext: %s\n", v.Schedule, v.Workflow.Version, v.Cron, v.Zone, nextFireTime(v))
	if p := v.Paused; p != nil {
		by := ""
		if p.By != nil {
			by = " by " + *p.By
		}
		fmt.Fprintln(out, render.OneLine(withReason(fmt.Sprintf("paused%s at %s", by, localTime(p.At)), p.Reason)))
	}
	if v.Skipped > 0 {
		fmt.Fprintf(out, "skipped: %d fire times, the last at %s\n", v.Skipped, localTime(*v.SkippedAt))
	}
	if v.Problem != nil {
		fmt.Fprintln(out, render.OneLine("problem: "+*v.Problem))
	}
	if len(v.Executions) == 0 {
		return nil
	}
	t := render.NewTable(out, "EXECUTION", "AT", "STATE", "FIRED BY")
	for _, x := range v.Executions {
		state := "-"
		if x.State != nil {
			state = string(*x.State)
		}
		t.Row([]string{x.ID, localTime(x.At), state, render.OrDash(x.By)})
	}
	return t.Flush()
}
