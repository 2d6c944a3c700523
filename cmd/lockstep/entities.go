package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lockstep-run/lockstep/cmd/lockstep/render"
	"github.com/lockstep-run/lockstep/shared/client"
	"github.com/lockstep-run/lockstep/shared/inventory"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

func newEntities(c *connection) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "entities",
		Short: "Import, list and show entities",
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
		Long:  "Import entities from JSON lines: {\"type\":\"device\",\"id\":\"sw-001\",\"attributes\":{},\"groups\":[]}.\nExisting entities are replaced. Nothing is stored if any line is invalid. A long file is sent\nin parts; if one fails, run the same command again to complete the import.",
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
				return &render.FileError{Path: args[0], Err: render.AsServiceError(err)}
			}
			if c.json() {
				return render.PrintJSON(cmd, map[string]int{"imported": n})
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
					printNote(cmd, "there is no entity of type %q", sel.Type)
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
	f.IntVar(&limit, "limit", 0, "maximum number; 0 for all")
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
				return hintNotFound(render.AsServiceError(err), "\"lockstep entities list %s\" lists the entities of this type", key.Type)
			}
			return render.PrintJSON(cmd, e)
		},
	}
}

// Bounds of one import request. On AWS it becomes a Lambda event of at most 6 MiB,
// with the body as a JSON string in which every quote takes two bytes.
const (
	importPartBytes = 3 << 20
	importPartLines = 20_000

	maxImportIssues = 50 // that one error reports
)

// importPart is some consecutive whole lines of an inventory.
type importPart struct {
	text        []byte
	linesBefore int // lines of the file before this part
	entities    int
}

// splitImport splits an inventory into parts that each fit into a request.
func splitImport(lines []byte) []importPart {
	var all []importPart
	var p importPart
	from, at, n, linesInPart := 0, 0, 0, 0
	flush := func() {
		p.text = lines[from:at]
		all = append(all, p)
		from, linesInPart, p = at, 0, importPart{linesBefore: n}
	}
	for line := range bytes.Lines(lines) {
		if linesInPart > 0 && (at-from+len(line) > importPartBytes || linesInPart == importPartLines) {
			flush()
		}
		at, n, linesInPart = at+len(line), n+1, linesInPart+1
		if len(bytes.TrimSpace(line)) > 0 {
			p.entities++
		}
	}
	if linesInPart > 0 {
		flush()
	}
	return all
}

// validateImport checks every line as the service does, so that nothing is sent if
// one is invalid.
func validateImport(source []byte) error {
	issues, err := inventory.ReadImport(bytes.NewReader(source), maxImportIssues, func(workflow.Entity) error { return nil })
	if err != nil {
		return err
	}
	return workflow.Invalid("the import is not valid; nothing was sent", issues)
}

// importEntities imports an inventory of any length and returns the number of
// entities stored. The service checks an inventory that fits into one request. A
// longer one is checked here first and sent in parts; it notes the progress, and
// what is stored if a part fails.
func importEntities(ctx context.Context, api *client.Client, lines []byte, notes io.Writer) (int, error) {
	parts := splitImport(lines)
	if len(parts) > 1 {
		if err := validateImport(lines); err != nil {
			return 0, err
		}
	}
	total, stored := 0, 0
	for _, p := range parts {
		total += p.entities
	}
	for i, p := range parts {
		what := fmt.Sprintf("importing %d entities", p.entities)
		if len(parts) > 1 {
			what += fmt.Sprintf(", part %d of %d", i+1, len(parts))
		}
		stop := render.StartProgressNotes(notes, what)
		n, err := api.ImportEntities(ctx, bytes.NewReader(p.text))
		stop()
		if err != nil {
			if len(parts) > 1 {
				fmt.Fprintf(notes, "note: %d of %d entities are stored, and perhaps some of the next %d; run the same command again to complete the import\n", stored, total, p.entities)
			}
			return stored, shiftLines(err, p.linesBefore)
		}
		if stored += n; i+1 < len(parts) {
			fmt.Fprintf(notes, "note: %d of %d entities imported\n", stored, total)
		}
	}
	return stored, nil
}

// shiftLines turns line numbers of a part into line numbers of the file.
func shiftLines(err error, lines int) error {
	var e *workflow.Error
	if lines == 0 || !errors.As(err, &e) {
		return err
	}
	shifted := *e
	shifted.Issues = nil
	for _, i := range e.Issues {
		if i.Line > 0 {
			i.Line += lines
		}
		shifted.Issues = append(shifted.Issues, i)
	}
	return &shifted
}
