package main

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/lockstep-run/lockstep/cmd/lockstep/render"
	"github.com/lockstep-run/lockstep/shared/client"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

func newDefinitions(c *connection) *cobra.Command {
	var limit int
	cmd := &cobra.Command{
		Use:     "definitions [WORKFLOW]",
		Aliases: []string{"workflows"},
		Short:   "List published workflows and their versions, or print one version as JSON",
		Long:    "List every version of every published workflow; of PACKAGE/NAME, its versions; of\nPACKAGE/NAME:VERSION, print the newest version that matches, with its source, as JSON.",
		Example: "  lockstep definitions\n  lockstep definitions fleet/upgrade_firmware\n  lockstep definitions fleet/upgrade_firmware:1",
		RunE: func(cmd *cobra.Command, args []string) error {
			api, err := c.newClient()
			if err != nil {
				return err
			}
			all := api.Definitions(cmd.Context())
			if len(args) > 0 {
				ref, err := workflow.ParseRef(args[0])
				if err != nil {
					return err
				}
				if ref.Version != "" {
					d, err := api.Definition(cmd.Context(), ref)
					if err != nil {
						return hintNotFound(asServiceError(err), "\"lockstep definitions\" lists those that there are")
					}
					return printJSON(cmd, d)
				}
				all = api.Versions(cmd.Context(), ref.Package, ref.Name)
			}
			err = printList(cmd, c, all, limit,
				[]string{"WORKFLOW", "PUBLISHED", "BY", "ARCHIVED"},
				func(d client.Definition) []string {
					archived := "-"
					if d.Archived {
						archived = "yes"
					}
					return []string{d.Package + "/" + d.Name + ":" + d.Version, render.Time(d.PublishedAt), render.OrDash(d.PublishedBy), archived}
				})
			return hintNotFound(err, "\"lockstep definitions\" lists those that there are")
		},
	}
	cmd.Flags().IntVar(&limit, "limit", 0, "how many; 0 for all")
	return cmd
}

// definitionsHint says where to find a run's workflow, or runs at all.
func definitionsHint(ref string) string {
	name, _, _ := strings.Cut(ref, ":")
	return "\"lockstep definitions\" lists what is published; \"lockstep definitions " + name + "\" its versions"
}
