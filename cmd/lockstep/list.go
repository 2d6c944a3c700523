package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lockstep-run/lockstep/cmd/lockstep/render"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

func newList(c *connection) *cobra.Command {
	var state, status, name, parent string
	var labels []string
	var active bool
	var limit int
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List runs, the newest first",
		Example: "  lockstep list --active\n  lockstep list --state FAILED_UNSAFE --workflow fleet/upgrade_firmware",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			api, err := c.newClient()
			if err != nil {
				return err
			}
			f := views.ExecutionFilter{Active: active, Parent: parent}
			if state != "" {
				if f.State, err = sm.ParseExecutionState(strings.ToUpper(state)); err != nil {
					return err
				}
			}
			if status != "" {
				if f.Status, err = sm.ParseStatus(strings.ToUpper(status)); err != nil {
					return err
				}
			}
			if name != "" {
				if f.Workflow, err = workflow.ParseRef(name); err != nil {
					return err
				}
			}
			if f.Labels, err = parsePairs(labels); err != nil {
				return err
			}
			n := 0
			defer func() {
				if n == 0 {
					printNote(cmd, "no run matches")
				}
			}()
			return printList(cmd, c, countItems(api.Executions(cmd.Context(), f), &n), limit,
				[]string{"ID", "WORKFLOW", "STATE", "JOBS", "FAILED", "STEP", "CREATED", "WAITING"},
				func(x views.ExecutionView) []string {
					waiting := "-"
					if x.Waiting != nil {
						waiting = render.DescribeWaiting(x.Waiting)
					}
					return []string{
						x.ID, x.Workflow.String(), string(x.State), fmt.Sprintf("%d/%d", x.Progress.Jobs.Completed, x.Progress.Jobs.Total),
						fmt.Sprint(x.Progress.Jobs.Failed), render.OrDash(x.CurrentStep), render.Ago(x.CreatedAt), waiting,
					}
				})
		},
	}
	f := cmd.Flags()
	f.BoolVar(&active, "active", false, "only runs that have not ended")
	f.StringVar(&state, "state", "", "only this exact state, such as SCHEDULED")
	f.StringVar(&status, "status", "", "only this status: PENDING, RUNNING, COMPLETED, FAILED, CANCELLED")
	f.StringVar(&name, "workflow", "", "only this workflow, PACKAGE/NAME[:VERSION]")
	f.StringVar(&parent, "parent", "", "only runs that this one has started, by its id")
	f.StringArrayVarP(&labels, "label", "l", nil, "only with this label, NAME=VALUE (repeatable)")
	f.IntVar(&limit, "limit", 50, "how many; 0 for all")
	return cmd
}
