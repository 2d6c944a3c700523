package main

import (
	"encoding/json"
	"errors"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lockstep-run/lockstep/cmd/lockstep/render"
	"github.com/lockstep-run/lockstep/shared/definition"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

func newGraph(c *connection) *cobra.Command {
	format := render.GraphFormats[0]
	cmd := &cobra.Command{
		Use:   "graph FILE|WORKFLOW",
		Short: "Draw the steps of a definition and the ways between them",
		Long: `Draw the steps of a definition, of a file or as published, and the ways between them: as text, or for Mermaid or
Graphviz. A way that is taken in the place of a failure is dashed, and has the arrow !> in text.`,
		Example: "  lockstep graph upgrade.yaml\n  lockstep graph fleet/upgrade_firmware:1 --format mermaid\n  lockstep graph upgrade.yaml --format dot | dot -Tsvg > upgrade.svg",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			source, err := definitionSource(cmd, c, args[0])
			if err != nil {
				return err
			}
			d, err := definition.Parse(source)
			if err != nil {
				return &render.FileError{Path: args[0], Err: err}
			}
			drawn, err := render.Graph(d, format)
			if err != nil {
				return err
			}
			if c.json() {
				return render.PrintJSON(cmd, map[string]string{"format": format, "graph": drawn})
			}
			_, err = cmd.OutOrStdout().Write([]byte(drawn))
			return err
		},
	}
	cmd.Flags().StringVar(&format, "format", format, strings.Join(render.GraphFormats, ", "))
	return cmd
}

// definitionSource returns the content of a file, or else the source of a published workflow: the
// newest version that the reference matches.
func definitionSource(cmd *cobra.Command, c *connection, arg string) ([]byte, error) {
	ref, wrong := workflow.ParseRef(arg)
	if _, err := os.Stat(arg); err == nil || wrong != nil {
		return readSource(cmd, arg)
	}
	api, err := c.newClient()
	if err != nil {
		return nil, err
	}
	if ref.Version == "" {
		var versions []string
		for v, err := range api.Versions(cmd.Context(), ref.Package, ref.Name) {
			if err != nil {
				return nil, hintNotFound(render.AsServiceError(err), "%s", definitionsHint(arg))
			}
			versions = append(versions, v.Version)
		}
		ref.Version = ref.Newest(versions)
	}
	d, err := api.Definition(cmd.Context(), ref)
	if err != nil {
		return nil, hintNotFound(render.AsServiceError(err), "there is no file %s either; %s", arg, definitionsHint(arg))
	}
	if d.Definition == nil {
		return nil, errors.New("the service has sent no source of " + arg)
	}
	return json.RawMessage(*d.Definition), nil
}
