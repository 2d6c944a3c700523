package main

import (
	"fmt"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/lockstep-run/lockstep/cmd/lockstep/render"
)

// version is set by the linker for a release.
var version = "dev"

func newVersion(c *connection) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version of this command and of the service",
		Long:  "Print the version of this command and of the service. If --url or LOCKSTEP_URL\nnames a service that does not answer, the exit code is 4.",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			api, err := c.newClient()
			if err != nil {
				return err
			}
			clientInfo := map[string]string{"version": commandVersion(debug.ReadBuildInfo)}
			if info, ok := debug.ReadBuildInfo(); ok {
				clientInfo["go"] = info.GoVersion
			}
			service, err := api.Version(cmd.Context())
			if c.json() {
				all := map[string]any{"client": clientInfo, "service": nil}
				if err == nil {
					all["service"] = service
				}
				if err := render.PrintJSON(cmd, all); err != nil {
					return err
				}
			} else {
				fmt.Fprintf(cmd.OutOrStdout(), "lockstep %s (%s)\n", clientInfo["version"], clientInfo["go"])
			}
			switch {
			case err == nil && !c.json():
				fmt.Fprintf(cmd.OutOrStdout(), "service %s\n", service.Version)
			case err != nil && c.urlIsSet(cmd):
				printError(cmd.ErrOrStderr(), render.AsServiceError(err))
				return &render.ReportedError{Worst: render.AsServiceError(err)}
			case err != nil:
				printNote(cmd, "no service answers at %s", defaultURL)
			}
			return nil
		},
	}
}
