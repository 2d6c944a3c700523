package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"

	"github.com/spf13/cobra"

	"github.com/lockstep-run/lockstep/cmd/lockstep/render"
	"github.com/lockstep-run/lockstep/cmd/lockstep/transfer"
	"github.com/lockstep-run/lockstep/shared/client"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

func newEntities(c *connection) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "entities",
		Short: "Import, synchronise, export, list, show, change and delete entities",
		Long: `Import, synchronise, export, list, show, change and delete entities. TYPE/ID, such as device/sw-001, may also be
written as two words.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newEntitiesImport(c), newEntitiesList(c), newEntitiesShow(c), newEntitiesHistory(c),
		newEntitiesPatch(c), newEntitiesDelete(c), newEntitiesExport(c), newEntitiesSync(c))
	return cmd
}

func newEntitiesImport(c *connection) *cobra.Command {
	var fromLine int
	var replace bool
	cmd := &cobra.Command{
		Use:   "import FILE",
		Short: "Import entities from JSON lines (- reads standard input)",
		Long:  "Import entities from JSON lines: {\"type\":\"device\",\"id\":\"sw-001\",\"attributes\":{},\"groups\":[]}.\nThe attributes of a line are set, and all others of an entity stay, such as those that blocks have\nset; so do its groups if the line has none. With --replace an entity has afterwards what its line\nsays, and nothing else. Nothing is stored if any line is invalid. A long file is sent\nin parts, which are repeated after server errors. If one fails for good, the error says from\nwhich line to continue (--from-line); to import a line twice is harmless.",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if fromLine < 1 {
				return errors.New("--from-line: the first line is 1")
			}
			api, err := c.newClient()
			if err != nil {
				return err
			}
			lines, err := readSource(cmd, args[0])
			if err != nil {
				return err
			}
			if transfer.IsExport(lines) {
				return &render.FileError{Path: args[0], Err: fmt.Errorf("this is a file of \"lockstep export\": \"lockstep import %s --only entities\" imports its entities", args[0])}
			}
			n, err := importEntities(cmd.Context(), api, lines, fromLine, replace, cmd.ErrOrStderr())
			if err != nil && !bytes.HasPrefix(bytes.TrimSpace(lines), []byte("{")) {
				err = withHint(err, "each line is a JSON object such as {\"type\":\"device\",\"id\":\"sw-001\"}; other formats, such as CSV, are not read")
			}
			if err != nil {
				return hintContinue(&render.FileError{Path: args[0], Err: render.AsServiceError(err)}, args[0], replace)
			}
			if c.json() {
				return render.PrintJSON(cmd, map[string]int{"imported": n})
			}
			fmt.Fprintf(cmd.OutOrStdout(), "imported %d entities\n", n)
			return nil
		},
	}
	cmd.Flags().IntVar(&fromLine, "from-line", 1, "continue an import at this line; the lines before it are checked, but not sent")
	cmd.Flags().BoolVar(&replace, "replace", false, "replace entities instead of merging the lines into them")
	return cmd
}

// importEntities imports an inventory of any length from a line on, and prints its progress every
// few seconds.
func importEntities(ctx context.Context, api *client.Client, lines []byte, fromLine int, replace bool, notes io.Writer) (int, error) {
	var progress atomic.Pointer[client.ImportProgress]
	stop := render.StartProgressNotes(notes, func() string {
		if p := progress.Load(); p != nil {
			return fmt.Sprintf("importing, %d of %d lines stored", p.Line, p.Lines)
		}
		return "importing"
	})
	defer stop()
	return api.Import(ctx, bytes.NewReader(lines), client.ImportOptions{
		FirstLine: fromLine, Replace: replace,
		Progress: func(p client.ImportProgress) { progress.Store(&p) },
	})
}

// hintContinue adds to the error of a partial import from which line to continue.
func hintContinue(err error, file string, replace bool) error {
	var partly *client.ImportError
	if !errors.As(err, &partly) {
		return err
	}
	more := ""
	if replace {
		more = " --replace"
	}
	return withHint(err, "all before line %d of %d is stored; continue with \"lockstep entities import %s --from-line %d%s\"", partly.NextLine, partly.Lines, file, partly.NextLine, more)
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
					printNote(cmd, "there is no entity of type %q%s", sel.Type, meantSelection(cmd.Context(), api, sel.Type, nil))
				default:
					printNote(cmd, "no entity of type %q matches%s", sel.Type, meantSelection(cmd.Context(), api, sel.Type, sel.Groups))
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
	f.IntVar(&limit, "limit", 0, "maximum number; 0 for all")
	return cmd
}

func newEntitiesHistory(c *connection) *cobra.Command {
	return &cobra.Command{
		Use:   "history TYPE/ID",
		Short: "List the last ten executions that locked an entity, newest first",
		Long: `List the last ten executions that locked an entity, newest first, with how each ended and what
became of the entity in it. Of executions with a shared lock only those are listed that made the
lock a shared one.`,
		Example: "  lockstep entities history device/sw-001",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			api, err := c.newClient()
			if err != nil {
				return err
			}
			key, err := workflow.ParseEntityKey(args[0])
			if err != nil {
				return err
			}
			err = printListOrNote(cmd, c, api.EntityExecutions(cmd.Context(), key), 0,
				[]string{"EXECUTION", "WORKFLOW", "STATE", "OUTCOME", "ENTITY", "ENDED"},
				func(e views.EntityExecutionView) []string {
					if e.Workflow == nil {
						return []string{e.ID, "-", "removed", "-", "-", "-"}
					}
					ended := "-"
					if e.EndedAt != nil {
						ended = render.Ago(*e.EndedAt)
					}
					return []string{e.ID, e.Workflow.String(), string(*e.State), render.OrDash((*string)(e.Outcome)), render.OrDash((*string)(e.EntityOutcome)), ended}
				}, "no execution has locked "+key.String())
			return hintNoEntity(cmd.Context(), api, key, err)
		},
	}
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
				return hintNoEntity(cmd.Context(), api, key, render.AsServiceError(err))
			}
			return render.PrintJSON(cmd, e)
		},
	}
}
