package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lockstep-run/lockstep/cmd/lockstep/render"
	"github.com/lockstep-run/lockstep/shared/client"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

func newJobs(c *connection) *cobra.Command {
	var step, entity, state, kind string
	var attempts, all bool
	var limit int
	cmd := &cobra.Command{
		Use:   "jobs ID",
		Short: "List the jobs of an execution, each with its last attempt; where it has failed, what failed",
		Long: `List the jobs of an execution, each with its last attempt. Of an execution that has failed, or completed
with failures, it lists what is left of them: the jobs that ended FAILED or UNKNOWN in their last attempt, unless
a retry of the execution has repeated them. --all lists the other jobs too, and so does naming a state or an entity;
--attempts lists every attempt of each job.`,
		Example: "  lockstep jobs ID\n  lockstep jobs ID --state RUNNING\n  lockstep jobs ID --entity device/sw-007 --attempts",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			api, err := c.newClient()
			if err != nil {
				return err
			}
			f := views.JobFilter{Step: step, Kind: workflow.JobKind(strings.ToUpper(kind)), LastAttempts: !attempts}
			if state != "" {
				if f.State, err = sm.ParseJobState(strings.ToUpper(state)); err != nil {
					return err
				}
			}
			if f.Entity, err = parseJobEntity(entity); err != nil {
				return err
			}
			if !all && !attempts && state == "" && entity == "" {
				x, err := api.Execution(cmd.Context(), args[0])
				if err != nil {
					return render.AsServiceError(err)
				}
				f.FinallyFailed = hasFailed(x)
				defer noteNotExecuted(cmd, x)
			}
			return printJobs(cmd, c, api, args[0], f, limit)
		},
	}
	f := cmd.Flags()
	f.StringVar(&step, "step", "", "only this step")
	f.StringVar(&entity, "entity", "", "only this entity, TYPE/ID or ID")
	f.StringVar(&state, "state", "", "only this state: PENDING, CLAIMED, RUNNING, COMPLETED, FAILED, CANCELLED, UNKNOWN")
	f.StringVar(&kind, "kind", "", "only this kind: ACQUIRE, EXECUTE, ROLLBACK")
	f.BoolVar(&all, "all", false, "all jobs of an execution that has failed, not only those that failed")
	f.BoolVar(&attempts, "attempts", false, "every attempt of each job, not only the last")
	f.IntVar(&limit, "limit", 0, "maximum number; 0 for all")
	return cmd
}

// hasFailed reports whether an execution has ended, and something in it has failed.
func hasFailed(x views.ExecutionView) bool {
	return x.Outcome != nil && slices.Contains([]workflow.Outcome{workflow.OutcomePartial, workflow.OutcomeFailedSafe, workflow.OutcomeFailedUnsafe}, *x.Outcome)
}

// noteNotExecuted says how many jobs of an execution that has failed were not executed.
func noteNotExecuted(cmd *cobra.Command, x views.ExecutionView) {
	if n := x.Progress.Jobs.Cancelled; hasFailed(x) && n != nil && *n > 0 {
		printNote(cmd, "jobs that were not executed, such as those whose turn never came: %d; \"lockstep jobs %s --state CANCELLED\" lists them", *n, x.ID)
	}
}

// printJobs prints the jobs that match a filter, and says which filter has left some out.
func printJobs(cmd *cobra.Command, c *connection, api *client.Client, id string, f views.JobFilter, limit int) error {
	n := 0
	err := printList(cmd, c, countItems(api.Jobs(cmd.Context(), id, f), &n), limit,
		[]string{"STEP", "VISIT", "KIND", "ENTITY", "STATE", "ATTEMPT", "WORKER", "ENDED", "PROGRESS", "ERROR"},
		func(j workflow.Job) []string {
			return []string{j.Step, fmt.Sprint(j.StepRunOrdinal), string(j.Kind), jobEntity(&j), string(j.State), fmt.Sprint(j.Attempt), render.OrDash(j.Worker), render.Time(j.EndedAt), render.OneLine(jobProgress(&j)), jobError(&j)}
		})
	switch {
	case err != nil:
		return err
	case n == 0 && f.FinallyFailed:
		f.FinallyFailed = false
		for _, err := range api.Jobs(cmd.Context(), id, f) {
			if err != nil {
				return render.AsServiceError(err)
			}
			of := ""
			if f.Step != "" {
				of = fmt.Sprintf(" of step %q", f.Step)
			}
			printNote(cmd, "no job%s is left that has failed; \"lockstep jobs %s --all\" lists all", of, id)
			return nil
		}
		noteNoJobs(cmd, api, id, f)
	case n == 0:
		noteNoJobs(cmd, api, id, f)
	case f.FinallyFailed:
		printNote(cmd, "these have failed; \"lockstep jobs %s --all\" lists all", id)
	}
	return nil
}

// parseJobEntity is the entity of a filter, of which the type may be left out.
func parseJobEntity(entity string) (workflow.EntityKey, error) {
	if strings.Contains(entity, "/") {
		return workflow.ParseEntityKey(entity)
	}
	return workflow.EntityKey{ID: entity}, nil
}

// jobEntity names the entity or the item of a job.
func jobEntity(j *workflow.Job) string {
	switch {
	case j.Entity != nil:
		return j.Entity.String()
	case j.Item != nil:
		return render.OneLine(fmt.Sprintf("item %d: %s", *j.Item, render.OrDash(j.ItemText)))
	}
	return "-"
}

// jobProgress is how far a job that has not succeeded last said that it was.
func jobProgress(j *workflow.Job) string {
	if j.Progress == nil {
		return "-"
	}
	return j.Progress.String()
}

func jobError(j *workflow.Job) string {
	if j.Error == nil {
		return "-"
	}
	return j.Error.Code + ": " + j.Error.Message
}

// noteNoJobs prints which filter matched nothing.
func noteNoJobs(cmd *cobra.Command, api *client.Client, id string, f views.JobFilter) {
	if f.Step != "" {
		for s, err := range api.Steps(cmd.Context(), id) {
			if err != nil || s.Step == f.Step { // if the steps cannot be read, this is true all the same
				printNote(cmd, "no job of step %q matches", f.Step)
				return
			}
		}
		printNote(cmd, "this execution has not started a step %q; \"lockstep steps %s\" lists its steps", f.Step, id)
		return
	}
	if f.Entity.ID != "" {
		printNote(cmd, "no job of this execution matches entity %q", strings.TrimPrefix(f.Entity.String(), "/"))
		return
	}
	if f.State != "" || f.Kind != "" {
		printNote(cmd, "no job of this execution matches; \"lockstep jobs %s --all\" lists all", id)
		return
	}
	printNote(cmd, "this execution has no jobs: none of its steps has called a block so far; \"lockstep steps %s\" lists its steps, \"lockstep tree %s\" what it has started", id, id)
}
