package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lockstep-run/lockstep/cmd/lockstep/show"
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
			api, err := c.open()
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
			return printList(cmd, c, api.Jobs(cmd.Context(), args[0], f), limit,
				[]string{"STEP", "KIND", "ENTITY", "STATE", "ATTEMPT", "WORKER", "ENDED", "ERROR"},
				func(j workflow.Job) []string {
					on, why := "-", "-"
					if j.Entity != nil {
						on = j.Entity.String()
					}
					if j.Error != nil {
						why = j.Error.Code + ": " + j.Error.Message
					}
					return []string{j.Step, string(j.Kind), on, string(j.State), fmt.Sprint(j.Attempt), show.Text(j.Worker), show.Clock(j.EndedAt), why}
				})
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
