package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lockstep-run/lockstep/cmd/lockstep/render"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

func newLocks(c *connection) *cobra.Command {
	var limit int
	cmd := &cobra.Command{
		Use:   "locks [TYPE/ID]",
		Short: "Show who holds what, and who waits",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			api, err := c.newClient()
			if err != nil {
				return err
			}
			columns := []string{"ENTITY", "HELD BY", "SINCE", "TOKEN", "MODE", "RESERVED BY", "WAITING"}
			if len(args) == 0 {
				return printListOrNote(cmd, c, api.Locks(cmd.Context()), limit, columns, lockRow, "nobody holds a lock or waits for one")
			}
			key, err := workflow.ParseEntityKey(args[0])
			if err != nil {
				return err
			}
			l, err := api.Lock(cmd.Context(), key)
			if err != nil {
				return asServiceError(err)
			}
			return printOne(cmd, c, l, columns, lockRow)
		},
	}
	cmd.Flags().IntVar(&limit, "limit", 0, "how many; 0 for all")
	return cmd
}

func lockRow(l views.LockView) []string {
	var waiting []string
	for _, w := range l.Waiting {
		waiting = append(waiting, w.Execution)
	}
	mode := l.Mode
	if l.HeldBy == nil {
		mode = "-" // nobody holds it in any
	}
	return []string{
		l.Entity.String(), render.OrDash(l.HeldBy), render.Time(l.Since), fmt.Sprint(l.Token), mode, render.OrDash(l.ReservedBy), orDash(strings.Join(waiting, ",")),
	}
}
