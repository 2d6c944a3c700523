package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lockstep-run/lockstep/cmd/lockstep/render"
)

func newSecrets(c *connection) *cobra.Command {
	return &cobra.Command{
		Use:   "secrets",
		Short: "List the secrets that workflows and blocks refer to, and whether there are any of these names",
		Long: `List the secrets that the newest versions of workflows and blocks refer to, by name, and whether
there are any of these names. Their values are where secrets.from says, and nothing shows them. Of
a value in a file it says if steps refuse it.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			api, err := c.newClient()
			if err != nil {
				return err
			}
			v, err := api.Secrets(cmd.Context())
			if err != nil {
				return render.AsServiceError(err)
			}
			if c.json() {
				return render.PrintJSON(cmd, v)
			}
			if len(v.Items) == 0 {
				fmt.Fprintln(cmd.ErrOrStderr(), "note: no workflow and no block refers to a secret")
			} else {
				t := render.NewTable(cmd.OutOrStdout(), "SECRET", "RESOLVES", "USED BY", "PROBLEM")
				for _, s := range v.Items {
					t.Row([]string{s.Name, map[bool]string{true: "yes", false: "no"}[s.Resolves], strings.Join(s.UsedBy, ", "), render.OrDash(s.Problem)})
				}
				if err := t.Flush(); err != nil {
					return err
				}
			}
			if !v.Complete {
				fmt.Fprintln(cmd.ErrOrStderr(), "note: there are more workflows or blocks than were read")
			}
			return nil
		},
	}
}
