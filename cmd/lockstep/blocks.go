package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lockstep-run/lockstep/cmd/lockstep/render"
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
				[]string{"BLOCK", "RUNS ON", "POOL", "PROPERTIES"},
				func(b workflow.Block) []string {
					return []string{b.Ref().String(), orDash(b.RunOn), orDash(b.Pool), orDash(blockProperties(b))}
				})
		},
	}
	list := &cobra.Command{Use: "list", Short: "List function blocks, as \"lockstep blocks\" does", Args: cobra.NoArgs, RunE: cmd.RunE}
	cmd.AddCommand(newBlocksRegister(c), list)
	return cmd
}

// blockProperties lists the properties that a block declares.
func blockProperties(b workflow.Block) string {
	var properties []string
	if b.Pure {
		properties = append(properties, "pure")
	}
	if b.Idempotent {
		properties = append(properties, "idempotent")
	}
	if b.Reversible {
		properties = append(properties, "reversible")
	}
	return strings.Join(properties, ",")
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
				return &render.FileError{Path: args[0], Err: err}
			}
			for _, b := range blocks {
				created, err := api.RegisterBlock(cmd.Context(), b)
				if err != nil {
					return &render.FileError{Path: args[0], Err: render.AsServiceError(err)}
				}
				if !c.json() {
					result := "registered"
					if !created {
						result = "unchanged"
					}
					fmt.Fprintf(cmd.OutOrStdout(), "%s %s\n", result, b.Ref())
				}
			}
			if c.json() {
				return render.PrintJSON(cmd, blocks)
			}
			return nil
		},
	}
}
