package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/lockstep-run/lockstep/cmd/lockstep/render"
)

// newSweep is the verb that shows what the alarm clock would do.
func newSweep(s render.Env) *cobra.Command {
	return &cobra.Command{
		Use:   "sweep",
		Short: "Show what the next sweep would do, and do nothing",
		Long: "Show what the next sweep would do, and do nothing: which runs it would look at because their alarm has rung,\n" +
			"which polling workers it would count as silent, and which schedules it would fire.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			api, err := s.NewClient()
			if err != nil {
				return err
			}
			v, err := api.NextSweep(cmd.Context())
			if err != nil {
				return s.ServiceError(err)
			}
			if s.JSON() {
				return s.PrintJSON(cmd, v)
			}
			t := render.NewTable(cmd.OutOrStdout(), "DUE", "NAME", "NOW", "WOULD", "SINCE")
			for _, x := range v.Executions {
				t.Row([]string{"execution", x.Execution, string(x.State), "be looked at", render.Ago(x.Since)})
			}
			for _, w := range v.Workers {
				t.Row([]string{"worker", w.Worker, string(w.State), "become " + string(w.NextState), render.Ago(w.Since)})
			}
			for _, c := range v.Schedules {
				would := "be skipped: its last run has not ended"
				if !c.Skipped {
					would = "start " + render.OrDash(c.ExecutionID)
				}
				t.Row([]string{"schedule", c.Schedule, "-", would, render.Ago(c.FireTime)})
			}
			if err := t.Flush(); err != nil {
				return err
			}
			if !v.Complete {
				fmt.Fprintln(cmd.ErrOrStderr(), "note: more is due than is shown")
			}
			return nil
		},
	}
}
