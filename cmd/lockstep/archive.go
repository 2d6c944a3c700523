package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/lockstep-run/lockstep/shared/client"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

func newArchive(c *connection) *cobra.Command {
	return newVersionCommand(c, (*client.Client).Archive, "archived", &cobra.Command{
		Use:     "archive WORKFLOW",
		Short:   "Allow no new runs of one version of a workflow",
		Long:    "Allow no new runs of PACKAGE/NAME:MAJOR.MINOR.PATCH. Runs that there are go on, and \"lockstep\nrestore\" takes it back.",
		Example: "  lockstep archive fleet/upgrade_firmware:1.0.0",
	})
}

func newRestore(c *connection) *cobra.Command {
	return newVersionCommand(c, (*client.Client).Restore, "restored", &cobra.Command{
		Use:     "restore WORKFLOW",
		Short:   "Allow runs of an archived version again",
		Example: "  lockstep restore fleet/upgrade_firmware:1.0.0",
	})
}

func newVersionCommand(c *connection, do func(api *client.Client, ctx context.Context, ref workflow.Ref) (client.Definition, error), done string, cmd *cobra.Command) *cobra.Command {
	cmd.Args = cobra.ExactArgs(1)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		api, err := c.newClient()
		if err != nil {
			return err
		}
		ref, err := workflow.ParseRef(args[0])
		if err != nil {
			return err
		}
		if !ref.Exact() {
			return fmt.Errorf("%q is not one version: want PACKAGE/NAME:MAJOR.MINOR.PATCH", args[0])
		}
		d, err := do(api, cmd.Context(), ref)
		if err != nil {
			return asServiceError(err)
		}
		if c.output == "json" {
			return printJSON(cmd, d)
		}
		fmt.Fprintf(cmd.OutOrStdout(), "%s %s/%s:%s\n", done, d.Package, d.Name, d.Version)
		return nil
	}
	return cmd
}
