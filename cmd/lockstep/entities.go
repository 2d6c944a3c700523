package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

func newEntities(c *connection) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "entities",
		Short: "Import, list and show the inventory",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newEntitiesImport(c), newEntitiesList(c), newEntitiesShow(c))
	return cmd
}

func newEntitiesImport(c *connection) *cobra.Command {
	return &cobra.Command{
		Use:   "import FILE",
		Short: "Import entities from JSON lines (- reads standard input)",
		Long:  "Import entities from JSON lines: {\"type\":\"device\",\"id\":\"sw-001\",\"attributes\":{},\"groups\":[]}.\nEntities that exist are replaced. Nothing is stored if any line is not valid. A long file\nis sent in parts; if one is lost, the same command again completes the import.",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			api, err := c.newClient()
			if err != nil {
				return err
			}
			lines, err := readSource(cmd, args[0])
			if err != nil {
				return err
			}
			n, err := importEntities(cmd.Context(), api, lines, cmd.ErrOrStderr())
			if err != nil {
				return &fileError{args[0], asServiceError(err)}
			}
			if c.output == "json" {
				return printJSON(cmd, map[string]int{"imported": n})
			}
			fmt.Fprintf(cmd.OutOrStdout(), "imported %d entities\n", n)
			return nil
		},
	}
}

func newEntitiesList(c *connection) *cobra.Command {
	var groups []string
	var query string
	var limit int
	cmd := &cobra.Command{
		Use:     "list TYPE",
		Short:   "List entities of a type",
		Example: "  lockstep entities list device --group core --query \"entity.site == 'zrh'\"",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			api, err := c.newClient()
			if err != nil {
				return err
			}
			sel := workflow.Selector{Type: args[0], Groups: groups, Query: query}
			n := 0
			defer func() {
				switch {
				case n > 0:
				case sel.Query == "" && len(sel.Groups) == 0:
					printNote(cmd, "the inventory has no entity of type %q", sel.Type)
				default:
					printNote(cmd, "no entity of type %q matches", sel.Type)
				}
			}()
			return printList(cmd, c, countItems(api.Entities(cmd.Context(), sel), &n), limit,
				[]string{"ENTITY", "GROUPS", "VERSION", "ATTRIBUTES"},
				func(e workflow.Entity) []string {
					return []string{e.Key().String(), orDash(strings.Join(e.Groups, ",")), fmt.Sprint(e.Version), string(e.Attributes)}
				})
		},
	}
	f := cmd.Flags()
	f.StringSliceVar(&groups, "group", nil, "only members of these groups")
	f.StringVar(&query, "query", "", "only where this CEL expression over attributes is true")
	f.IntVar(&limit, "limit", 0, "how many; 0 for all")
	return cmd
}

func newEntitiesShow(c *connection) *cobra.Command {
	return &cobra.Command{
		Use:   "show TYPE/ID",
		Short: "Print one entity as JSON",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			api, err := c.newClient()
			if err != nil {
				return err
			}
			key, err := workflow.ParseEntityKey(args[0])
			if err != nil {
				return err
			}
			e, err := api.Entity(cmd.Context(), key)
			if err != nil {
				return hintNotFound(asServiceError(err), "\"lockstep entities list %s\" lists those that there are", key.Type)
			}
			return printJSON(cmd, e)
		},
	}
}
