package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockstep-run/lockstep/cmd/lockstep/render"
	"github.com/lockstep-run/lockstep/shared/views"
)

func newSchedules(c *connection) *cobra.Command {
	return &cobra.Command{
		Use:   "schedules",
		Short: "List the workflows that are started by the clock",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			api, err := c.newClient()
			if err != nil {
				return err
			}
			return printListOrNote(cmd, c, api.Schedules(cmd.Context()), 0,
				[]string{"WORKFLOW", "CRON", "ZONE", "NEXT", "LAST RUN", "SKIPPED"},
				func(v views.ScheduleView) []string {
					next := "-"
					if v.NextAt != nil {
						next = v.NextAt.Local().Format(time.DateTime + " MST")
					}
					return []string{v.Workflow.String(), v.Cron, v.Zone, next, render.OrDash(v.LastExecutionID), fmt.Sprint(v.Skipped)}
				}, "no published workflow is started by the clock")
		},
	}
}
