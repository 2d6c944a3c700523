package main

import "github.com/spf13/cobra"

func newResult(c *connection) *cobra.Command {
	return &cobra.Command{
		Use:   "result ID",
		Short: "Print what the steps of a run returned, as JSON",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			api, err := c.newClient()
			if err != nil {
				return err
			}
			r, err := api.Result(cmd.Context(), args[0])
			if err != nil {
				return asServiceError(err)
			}
			return printJSON(cmd, r)
		},
	}
}
