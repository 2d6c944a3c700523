package main

import (
	"fmt"
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
	var limit int
	cmd := &cobra.Command{
		Use:     "jobs ID",
		Short:   "List a run's jobs, every attempt",
		Example: "  lockstep jobs ID --state FAILED\n  lockstep jobs ID --entity device/sw-007",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			api, err := c.newClient()
			if err != nil {
				return err
			}
			f := views.JobFilter{Step: step, Kind: workflow.JobKind(strings.ToUpper(kind))}
			if state != "" {
				if f.State, err = sm.ParseJobState(strings.ToUpper(state)); err != nil {
					return err
				}
			}
			if f.Entity.ID = entity; strings.Contains(entity, "/") {
				if f.Entity, err = workflow.ParseEntityKey(entity); err != nil {
					return err
				}
			}
			n := 0
			err = printList(cmd, c, countItems(api.Jobs(cmd.Context(), args[0], f), &n), limit,
				[]string{"STEP", "VISIT", "KIND", "ENTITY", "STATE", "ATTEMPT", "WORKER", "ENDED", "ERROR"},
				func(j workflow.Job) []string {
					on, why := "-", "-"
					if j.Entity != nil {
						on = j.Entity.String()
					}
					if j.Error != nil {
						why = j.Error.Code + ": " + j.Error.Message
					}
					return []string{j.Step, fmt.Sprint(j.StepRunOrdinal), string(j.Kind), on, string(j.State), fmt.Sprint(j.Attempt), render.OrDash(j.Worker), render.Time(j.EndedAt), why}
				})
			if n == 0 && err == nil {
				noteNoJobs(cmd, api, args[0], f)
			}
			return err
		},
	}
	f := cmd.Flags()
	f.StringVar(&step, "step", "", "only this step")
	f.StringVar(&entity, "entity", "", "only this entity, TYPE/ID or ID")
	f.StringVar(&state, "state", "", "only this state: PENDING, CLAIMED, RUNNING, COMPLETED, FAILED, CANCELLED, UNKNOWN")
	f.StringVar(&kind, "kind", "", "only this kind: ACQUIRE, EXECUTE, ROLLBACK")
	f.IntVar(&limit, "limit", 0, "how many; 0 for all")
	return cmd
}

// noteNoJobs says what may be wrong with filters that match nothing.
func noteNoJobs(cmd *cobra.Command, api *client.Client, id string, f views.JobFilter) {
	if f.Step != "" {
		for s, err := range api.Steps(cmd.Context(), id) {
			if err != nil || s.Step == f.Step {
				printNote(cmd, "no job of step %q matches", f.Step)
				return
			}
		}
		printNote(cmd, "no step %q in this run so far; \"lockstep steps %s\" lists those that have begun", f.Step, id)
		return
	}
	if f.Entity.ID != "" {
		printNote(cmd, "no job of this run matches for entity %q", strings.TrimPrefix(f.Entity.String(), "/"))
	}
}
