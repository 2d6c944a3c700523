package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lockstep-run/lockstep/cmd/lockstep/transfer"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

func newBlocks(c *connection) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "blocks",
		Short: "List and register function blocks",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			api, err := c.newClient()
			if err != nil {
				return err
			}
			return printList(cmd, c, api.Blocks(cmd.Context()), 0,
				[]string{"BLOCK", "RUNS ON", "POOL", "IS"},
				func(b workflow.Block) []string {
					return []string{b.Ref().String(), orDash(b.RunOn), orDash(b.Pool), orDash(blockProperties(b))}
				})
		},
	}
	list := &cobra.Command{Use: "list", Short: "List function blocks, as \"lockstep blocks\" does", Args: cobra.NoArgs, RunE: cmd.RunE}
	cmd.AddCommand(newBlocksRegister(c), list)
	return cmd
}

// blockProperties lists what a block promises.
func blockProperties(b workflow.Block) string {
	var is []string
	if b.Pure {
		is = append(is, "pure")
	}
	if b.Idempotent {
		is = append(is, "idempotent")
	}
	if b.Reversible {
		is = append(is, "reversible")
	}
	return strings.Join(is, ",")
}

func newBlocksRegister(c *connection) *cobra.Command {
	return &cobra.Command{
		Use:   "register FILE",
		Short: "Register blocks from a JSON object or array (- reads standard input)",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			api, err := c.newClient()
			if err != nil {
				return err
			}
			source, err := readSource(cmd, args[0])
			if err != nil {
				return err
			}
			blocks, err := transfer.ParseBlocks(source)
			if err != nil {
				return &fileError{args[0], err}
			}
			for _, b := range blocks {
				created, err := api.RegisterBlock(cmd.Context(), b)
				if err != nil {
					return &fileError{args[0], asServiceError(err)}
				}
				if c.output == "table" {
					what := "registered"
					if !created {
						what = "unchanged"
					}
					fmt.Fprintf(cmd.OutOrStdout(), "%s %s\n", what, b.Ref())
				}
			}
			if c.output == "json" {
				return printJSON(cmd, blocks)
			}
			return nil
		},
	}
}
