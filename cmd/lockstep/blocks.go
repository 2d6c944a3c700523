package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lockstep-run/lockstep/cmd/lockstep/render"
	"github.com/lockstep-run/lockstep/cmd/lockstep/transfer"
	"github.com/lockstep-run/lockstep/shared/client"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

func newBlocks(c *connection) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "blocks [NAME]",
		Short: "List and register function blocks, or show one",
		Long: `List the function blocks that a step can use. With PACKAGE/NAME[:VERSION], show the newest such version:
what it declares, its parameters and its results.`,
		Example: "  lockstep blocks\n  lockstep blocks fleet/upgrade:1",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			api, err := c.newClient()
			if err != nil {
				return err
			}
			if len(args) == 1 {
				return showBlock(cmd, c, api, args[0])
			}
			return printList(cmd, c, api.Blocks(cmd.Context()), 0,
				[]string{"BLOCK", "RUNS ON", "POOL", "PROPERTIES"},
				func(b workflow.Block) []string {
					return []string{b.Ref().String(), orDash(b.RunOn), orDash(b.Pool), orDash(blockProperties(b))}
				})
		},
	}
	list := &cobra.Command{Use: "list", Short: "List function blocks, as \"lockstep blocks\" does", Args: cobra.NoArgs, RunE: func(list *cobra.Command, _ []string) error { return cmd.RunE(list, nil) }}
	cmd.AddCommand(newBlocksRegister(c), list)
	return cmd
}

// showBlock shows the newest version of a block that a reference matches.
func showBlock(cmd *cobra.Command, c *connection, api *client.Client, reference string) error {
	ref, err := workflow.ParseRef(reference)
	if err != nil {
		return err
	}
	versions, names := map[string]workflow.Block{}, []string{}
	for b, err := range api.Blocks(cmd.Context()) {
		if err != nil {
			return render.AsServiceError(err)
		}
		if names = append(names, b.Ref().FullName()); b.Ref().FullName() == ref.FullName() && ref.Matches(b.Version) {
			versions[b.Version] = b
		}
	}
	b, ok := versions[ref.Newest(slices.Collect(maps.Keys(versions)))]
	if !ok {
		err := render.AsServiceError(workflow.Errorf(workflow.CodeNotFound, "there is no block %s", ref))
		if near := workflow.Closest(ref.FullName(), names); near != "" && near != ref.FullName() {
			return withHint(err, "did you mean %s? \"lockstep blocks\" lists all blocks", near)
		}
		return withHint(err, "\"lockstep blocks\" lists all blocks")
	}
	if c.json() {
		return render.PrintJSON(cmd, b)
	}
	out := cmd.OutOrStdout()
	fmt.Fprintln(out, b.Ref())
	if b.Description != "" {
		fmt.Fprintln(out, b.Description)
	}
	served := "Go workers"
	if b.HTTP != nil {
		if served = b.HTTP.URL; served == "" {
			served = "the endpoint " + b.HTTP.Endpoint + " " + b.HTTP.Path
		}
	}
	fmt.Fprintf(out, "runs on: %s\nproperties: %s\npool: %s\ntimeout: %s\nserved by: %s\n", orDash(b.RunOn), orDash(blockProperties(b)), orDash(b.Pool), timeoutText(b), served)
	for _, schema := range []struct {
		of   string
		text json.RawMessage
	}{{"parameters", b.ParameterSchema}, {"results", b.ResultSchema}} {
		var text bytes.Buffer
		if len(schema.text) == 0 || string(schema.text) == "null" || json.Indent(&text, schema.text, "", "  ") != nil {
			text.Reset()
			text.WriteString("no schema")
		}
		fmt.Fprintf(out, "%s: %s\n", schema.of, &text)
	}
	return nil
}

// timeoutText formats the timeout of a block's jobs, "-" if the service's default applies.
func timeoutText(b workflow.Block) string {
	if b.Timeout == 0 {
		return "-"
	}
	return b.Timeout.Std().String()
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
	if b.UndoHarmless {
		properties = append(properties, "undoHarmless")
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
