package main

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/lockstep-run/lockstep/cmd/lockstep/render"
	"github.com/lockstep-run/lockstep/shared/views"
)

func newWorkers(c *connection) *cobra.Command {
	return &cobra.Command{
		Use:   "workers [ID]",
		Short: "Show the polling workers",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			api, err := c.newClient()
			if err != nil {
				return err
			}
			columns := []string{"WORKER", "STATE", "POOL", "BLOCKS", "VERSION", "LAST HEARTBEAT", "JOBS"}
			if len(args) == 0 {
				return printListOrNote(cmd, c, api.Workers(cmd.Context()), 0, columns, workerRow, "no worker polls now; functions that AWS starts are not listed")
			}
			w, err := api.Worker(cmd.Context(), args[0])
			if err != nil {
				return asServiceError(err)
			}
			return printOne(cmd, c, w, columns, workerRow)
		},
	}
}

func workerRow(w views.WorkerView) []string {
	return []string{
		w.ID, string(w.State), orDash(w.Pool), orDash(strings.Join(w.Blocks, ",")), render.OrDash(w.Version), render.Time(w.LastHeartbeat), orDash(strings.Join(w.Packs, ",")),
	}
}
