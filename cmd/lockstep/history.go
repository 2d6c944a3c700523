package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockstep-run/lockstep/cmd/lockstep/render"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

func newHistory(c *connection) *cobra.Command {
	return &cobra.Command{
		Use:   "history ID",
		Short: "Print every event of a run",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			api, err := c.newClient()
			if err != nil {
				return err
			}
			return printList(cmd, c, api.History(cmd.Context(), args[0]), 0,
				[]string{"#", "AT", "EVENT", "STEP", "FROM", "TO", "BY", "DATA"},
				func(e workflow.Event) []string {
					return []string{
						fmt.Sprint(e.Sequence), e.At.Local().Format(time.TimeOnly + ".000"), e.Type,
						orDash(e.Step), orDash(e.From), orDash(e.To), orDash(e.Actor), string(e.Data),
					}
				})
		},
	}
}

func orDash(s string) string { return render.OrDash(&s) }
