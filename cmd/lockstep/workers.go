package main

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/lockstep-run/lockstep/cmd/lockstep/show"
	"github.com/lockstep-run/lockstep/shared/views"
)

func newWorkers(c *connection) *cobra.Command {
	return &cobra.Command{
		Use:   "workers [ID]",
		Short: "Show the polling workers",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			api, err := c.open()
			if err != nil {
				return err
			}
			heads := []string{"WORKER", "STATE", "POOL", "BLOCKS", "VERSION", "LAST HEARTBEAT", "JOBS"}
			if len(args) == 0 {
				return printNoted(cmd, c, api.Workers(cmd.Context()), 0, heads, workerRow, "no worker polls now; functions that AWS starts are not listed")
			}
			w, err := api.Worker(cmd.Context(), args[0])
			if err != nil {
				return called(err)
			}
			return printOne(cmd, c, w, heads, workerRow)
		},
	}
}

func workerRow(w views.WorkerView) []string {
	return []string{
		w.ID, string(w.State), dash(w.Pool), dash(strings.Join(w.Blocks, ",")), show.Text(w.Version), show.Clock(w.LastHeartbeat), dash(strings.Join(w.Jobs, ",")),
	}
}
