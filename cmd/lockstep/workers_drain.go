package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/lockstep-run/lockstep/cmd/lockstep/render"
	"github.com/lockstep-run/lockstep/shared/views"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

func newDrain(c *connection) *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use:   "drain WORKER",
		Short: "Give a worker no new packs, and let it end those that it has",
		Long: `Give a polling worker no new packs, and let it end those that it has. It learns of it with its next
heartbeat or poll. "lockstep workers ID" shows what it still holds; with nothing left it can be
stopped. It is given packs again once it is started again.`,
		Example: "  lockstep workers drain press-1 --reason \"its host is to be upgraded\"",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			api, err := c.newClient()
			if err != nil {
				return err
			}
			before, err := api.Worker(cmd.Context(), args[0])
			if err != nil {
				before = views.WorkerView{} // the drain reports why
			}
			w, err := api.DrainWorker(cmd.Context(), args[0], reason)
			if err != nil {
				return render.AsServiceError(hintNotFound(err, "\"lockstep workers\" lists the polling workers; a pool of functions has none that could be drained."))
			}
			if silent := before.State == sm.WorkerUnreachable || before.State == sm.WorkerOffline; silent {
				heard := "it has sent no heartbeat yet"
				if w.LastHeartbeat != nil {
					heard = "its last heartbeat was " + render.Ago(*w.LastHeartbeat)
				}
				printNote(cmd, "%s was %s: %s. If its process has ended, there is nothing to wait for; packs that it held are given to others when their leases end", w.ID, before.State, heard)
			}
			if c.json() {
				return render.PrintJSON(cmd, w)
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s is %s and holds %d packs\n", w.ID, w.State, len(w.Packs))
			return nil
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why")
	return cmd
}
