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
		Short: "Print the version of this command and of the service",
		Long:  "Print the version of this command and of the service. If a service is named, by --url or\nLOCKSTEP_URL, and does not answer, the exit code is 4.",
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
				if err := printJSON(cmd, all); err != nil {
					return err
				}
			} else {
				fmt.Fprintf(cmd.OutOrStdout(), "lockstep %s (%s)\n", mine["version"], mine["go"])
			}
			switch {
			case err == nil && c.output == "table":
				fmt.Fprintf(cmd.OutOrStdout(), "service %s\n", service.Version)
			case err != nil && named(cmd):
				explain(cmd.ErrOrStderr(), called(err))
				return &reportedError{called(err)}
			case err != nil:
				note(cmd, "no service answers at %s", c.url)
			}
			return nil
		},
	}
}
