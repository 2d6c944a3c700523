package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lockstep-run/lockstep/cmd/lockstep/render"
)

func newWhoami(c *connection) *cobra.Command {
	var operations bool
	cmd := &cobra.Command{
		Use:   "whoami",
		Short: "Show who you are for the service, and what you may do",
		Long: `Show who you are for the service: tenant, name in the history, and which roles you have by its configuration.
A gateway in front of the service may allow less: "lockstep doctor" tries it.`,
		Example: "  lockstep whoami\n  lockstep whoami --operations | grep cancel",
		RunE: func(cmd *cobra.Command, _ []string) error {
			api, err := c.newClient()
			if err != nil {
				return err
			}
			me, err := api.Caller(cmd.Context())
			if err != nil {
				return render.AsServiceError(err)
			}
			if c.json() {
				return render.PrintJSON(cmd, me)
			}
			out := cmd.OutOrStdout()
			if operations {
				for _, id := range me.Operations {
					fmt.Fprintln(out, id)
				}
				return nil
			}
			s, err := c.service()
			if err != nil {
				return err
			}
			fmt.Fprintf(out, "%s in tenant %s at %s\n", me.Actor, me.Tenant, s.url.Value)
			if len(me.RoleNames) > 0 {
				fmt.Fprintf(out, "known as: %s\n", strings.Join(me.RoleNames, ", "))
			}
			if len(me.Roles) == 0 {
				fmt.Fprintln(out, "roles: none; an administrator gives them in the configuration access")
				return nil
			}
			fmt.Fprintf(out, "roles: %s\n", strings.Join(me.Roles, ", "))
			return nil
		},
	}
	cmd.Flags().BoolVar(&operations, "operations", false, "list the operations that you may call, as the OpenAPI document names them")
	return cmd
}
