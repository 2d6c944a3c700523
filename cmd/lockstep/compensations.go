package main

import (
	"fmt"
	"iter"

	"github.com/spf13/cobra"

	"github.com/lockstep-run/lockstep/cmd/lockstep/render"
	"github.com/lockstep-run/lockstep/shared/client"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

func newCompensations(c *connection) *cobra.Command {
	var limit int
	cmd := &cobra.Command{
		Use:   "compensations ID",
		Short: "List what has been done to undo the steps of an execution, in the order of the waves",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			api, err := c.newClient()
			if err != nil {
				return err
			}
			n := 0
			err = printList(cmd, c, countItems(lastAttempts(api.Compensations(cmd.Context(), args[0])), &n), limit,
				[]string{"WAVE", "STEP", "VISIT", "ENTITY", "STATE", "ATTEMPT", "ENDED", "ERROR"},
				func(j workflow.Job) []string {
					wave := "-"
					if j.Wave != nil {
						wave = fmt.Sprint(*j.Wave)
					}
					return []string{wave, j.Step, fmt.Sprint(j.StepRunOrdinal), jobEntity(&j), string(j.State), fmt.Sprint(j.Attempt), render.Time(j.EndedAt), jobError(&j)}
				})
			if err != nil {
				return err
			}
			if undoing := noteUndoing(cmd, api, args[0]); n+undoing == 0 {
				printNote(cmd, "no block has undone anything of this execution, nor has another execution")
			}
			return nil
		},
	}
	cmd.Flags().IntVar(&limit, "limit", 0, "maximum number; 0 for all")
	return cmd
}

// noteUndoing names the executions that were to undo what other executions have done for this one:
// they have jobs of their own. It returns how many there are. If it cannot read them, it stays silent.
func noteUndoing(cmd *cobra.Command, api *client.Client, id string) (n int) {
	for child, err := range api.Children(cmd.Context(), id, "") {
		if err != nil {
			return n
		}
		if child.Compensates != nil {
			n++
			printNote(cmd, "step %s is undone by execution %s (%s), whose jobs are not listed here; \"lockstep steps %s\" has its wave", child.Step, child.ID, render.OrDash((*string)(child.State)), id)
		}
	}
	return n
}

// lastAttempts leaves out attempts that a later one has replaced.
func lastAttempts(jobs iter.Seq2[workflow.Job, error]) iter.Seq2[workflow.Job, error] {
	return func(yield func(workflow.Job, error) bool) {
		for j, err := range jobs {
			if (err != nil || j.ReplacedBy == nil) && !yield(j, err) {
				return
			}
		}
	}
}
