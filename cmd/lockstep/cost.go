package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/lockstep-run/lockstep/cmd/lockstep/render"
)

func newCost(c *connection) *cobra.Command {
	return &cobra.Command{
		Use:   "cost ID",
		Short: "Show what a run has consumed, and what that costs on AWS",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			api, err := c.newClient()
			if err != nil {
				return err
			}
			bill, err := api.Cost(cmd.Context(), args[0])
			if err != nil {
				return asServiceError(err)
			}
			if c.output == "json" {
				return printJSON(cmd, bill)
			}
			t := render.NewTable(cmd.OutOrStdout(), "WHAT", "QUANTITY", "UNIT", "PER MILLION RUNS")
			for _, l := range bill.Lines {
				t.Row([]string{l.Item, fmt.Sprintf("%.2f", l.Quantity), l.Unit, fmt.Sprintf("$%.2f", l.Dollars*1e6)})
			}
			t.Row([]string{"total", "", "", fmt.Sprintf("$%.2f", bill.Dollars*1e6)})
			if err := t.Flush(); err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "this run: $%.2f ($%.2f per million such runs), at prices of %s\n", bill.Dollars, bill.Dollars*1e6, bill.PricesAsOf)
			return nil
		},
	}
}
