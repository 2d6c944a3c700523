package main

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
)

func newPublish(c *connection) *cobra.Command {
	var dryRun bool
	cmd := &cobra.Command{
		Use:     "publish FILE...",
		Short:   "Publish workflow definitions",
		Long:    "Publish workflow definitions (YAML or JSON; - reads standard input). A definition is immutable:\nthe same content again is accepted, other content needs a new version.",
		Example: "  lockstep publish examples/fleet/upgrade_firmware.yaml\n  lockstep publish --dry-run *.yaml",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, files []string) error {
			api, err := c.open()
			if err != nil {
				return err
			}
			published := []any{}
			for _, file := range files {
				source, err := readSource(cmd, file)
				if err != nil {
					return err
				}
				d, created, err := api.Publish(cmd.Context(), source, dryRun)
				if err != nil {
					return called(fmt.Errorf("%s: %w", file, err))
				}
				published = append(published, d)
				if c.output == "table" {
					what := "published"
					switch {
					case dryRun:
						what = "valid"
					case !created:
						what = "unchanged"
					}
					fmt.Fprintf(cmd.OutOrStdout(), "%s %s/%s:%s\n", what, d.Package, d.Name, d.Version)
				}
			}
			if c.output == "json" {
				return printJSON(cmd, published)
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "check everything, store nothing")
	return cmd
}

// readSource reads a file, or standard input for "-".
func readSource(cmd *cobra.Command, file string) ([]byte, error) {
	if file == "-" {
		return io.ReadAll(cmd.InOrStdin())
	}
	return os.ReadFile(file)
}
