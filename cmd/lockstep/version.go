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
			api, err := c.newClient()
			if err != nil {
				return err
			}
			clientInfo := map[string]string{"version": version}
			if info, ok := debug.ReadBuildInfo(); ok {
				clientInfo["go"] = info.GoVersion
			}
			service, err := api.Version(cmd.Context())
			if c.output == "json" {
				all := map[string]any{"client": clientInfo, "service": nil}
				if err == nil {
					all["service"] = service
				}
				if err := printJSON(cmd, all); err != nil {
					return err
				}
			} else {
				fmt.Fprintf(cmd.OutOrStdout(), "lockstep %s (%s)\n", clientInfo["version"], clientInfo["go"])
			}
			switch {
			case err == nil && c.output == "table":
				fmt.Fprintf(cmd.OutOrStdout(), "service %s\n", service.Version)
			case err != nil && urlIsSet(cmd):
				printError(cmd.ErrOrStderr(), asServiceError(err))
				return &reportedError{asServiceError(err)}
			case err != nil:
				printNote(cmd, "no service answers at %s", c.url)
			}
			return nil
		},
	}
}
