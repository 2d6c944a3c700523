package main

import (
	"fmt"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version is set by the linker for a release.
var version = "dev"

func newVersion(c *connection) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version of this command and, if it answers, of the service",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			api, err := c.open()
			if err != nil {
				return err
			}
			mine := map[string]string{"version": version}
			if info, ok := debug.ReadBuildInfo(); ok {
				mine["go"] = info.GoVersion
			}
			service, err := api.Version(cmd.Context())
			if c.output == "json" {
				all := map[string]any{"client": mine, "service": nil}
				if err == nil {
					all["service"] = service
				}
				return printJSON(cmd, all)
			}
			fmt.Fprintf(cmd.OutOrStdout(), "lockstep %s (%s)\n", mine["version"], mine["go"])
			if err == nil {
				fmt.Fprintf(cmd.OutOrStdout(), "service %s\n", service.Version)
			}
			return nil
		},
	}
}
