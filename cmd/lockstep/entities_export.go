package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"sync/atomic"

	"github.com/spf13/cobra"

	"github.com/lockstep-run/lockstep/cmd/lockstep/render"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// entityLine is an entity as a line of an export, which an import accepts. It leaves out version
// and token, which count what happened in this inventory.
type entityLine struct {
	Type       string          `json:"type"`
	ID         string          `json:"id"`
	Attributes json.RawMessage `json:"attributes"`
	Groups     []string        `json:"groups,omitzero"` // an import keeps the groups of an entity if the line has none
}

// writeEntityLine writes an entity as one line, without groups if they are nil.
func writeEntityLine(out io.Writer, e workflow.Entity) error {
	line := entityLine{e.Type, e.ID, e.Attributes, e.Groups}
	if len(line.Attributes) == 0 {
		line.Attributes = json.RawMessage("{}")
	}
	raw, err := workflow.EncodeJSON(line)
	if err != nil {
		return err
	}
	_, err = out.Write(append(raw, '\n'))
	return err
}

func newEntitiesExport(c *connection) *cobra.Command {
	var groups []string
	var query string
	cmd := &cobra.Command{
		Use:   "export [TYPE]...",
		Short: "Write entities to standard output as JSON lines, as \"entities import\" reads them",
		Long: `Write the entities of these types, or of all, to standard output as JSON lines, sorted by type and
id. "lockstep entities import" takes them back unchanged. The exit code is not 0 if the list is
not complete.`,
		Example: "  lockstep entities export > fleet.jsonl\n  lockstep entities export device --group core | jq .id",
		RunE: func(cmd *cobra.Command, types []string) error {
			api, err := c.newClient()
			if err != nil {
				return err
			}
			if len(types) == 0 {
				for name, err := range api.EntityTypes(cmd.Context()) {
					if err != nil {
						return render.AsServiceError(err)
					}
					types = append(types, name)
				}
			}
			var written atomic.Int64
			stop := render.StartProgressNotes(cmd.ErrOrStderr(), func() string { return fmt.Sprintf("exporting, %d entities written", written.Load()) })
			defer stop()
			out := bufio.NewWriter(render.Raw(cmd.OutOrStdout()))
			for _, name := range types {
				before := written.Load()
				for e, err := range api.Entities(cmd.Context(), workflow.Selector{Type: name, Groups: groups, Query: query}) {
					if err != nil {
						_ = out.Flush() // the caller gets err
						return render.AsServiceError(err)
					}
					if e.Groups == nil {
						e.Groups = []string{} // explicitly none, so that an import removes the groups
					}
					if err := writeEntityLine(out, e); err != nil {
						return err
					}
					written.Add(1)
				}
				if written.Load() == before && query == "" && len(groups) == 0 {
					printNote(cmd, "there is no entity of type %q%s", name, meantSelection(cmd.Context(), api, name, nil))
				}
			}
			return out.Flush()
		},
	}
	cmd.Flags().StringSliceVar(&groups, "group", nil, "only members of these groups")
	cmd.Flags().StringVar(&query, "query", "", "only where this CEL expression over attributes is true")
	return cmd
}
