package transfer

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockstep-run/lockstep/cmd/lockstep/render"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// NewExport is the verb that writes what a stage has to a file.
func NewExport(s render.Env, now func() time.Time) *cobra.Command {
	var only, types []string
	cmd := &cobra.Command{
		Use:   "export FILE",
		Short: "Write blocks, definitions and inventory to a file (- writes standard output)",
		Long: "Write the tenant's blocks, definitions and inventory to a file of JSON lines, from which \"lockstep import\" makes\n" +
			"another stage the same. Two exports of the same are the same byte for byte. Runs, locks, workers and the values of\n" +
			"headers, and of parameters in blocks' addresses, that look secret are left out.",
		Example: "  lockstep export staging.jsonl\n  lockstep export --only definitions - | jq .definition.name",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := validateKinds(only); err != nil {
				return err
			}
			api, err := s.NewClient()
			if err != nil {
				return err
			}
			source := &deployment{api, newProgress(cmd.ErrOrStderr(), now)}
			var done exportResult
			if args[0] == "-" {
				done, err = source.export(cmd.Context(), cmd.OutOrStdout(), only, types)
			} else {
				done, err = writeFile(args[0], func(out io.Writer) (exportResult, error) { return source.export(cmd.Context(), out, only, types) })
			}
			if err != nil {
				return markServiceError(s, err)
			}
			if done.withheld > 0 {
				fmt.Fprintf(cmd.ErrOrStderr(), "note: %d blocks have headers, or parameters in their addresses, that look secret: their values are not in the file, and their lines say so\n", done.withheld)
			}
			switch {
			case args[0] == "-":
				return nil
			case s.JSON():
				return s.PrintJSON(cmd, done.totals)
			}
			fmt.Fprintf(cmd.OutOrStdout(), "exported %s\n", done.totals)
			return nil
		},
	}
	cmd.Flags().StringSliceVar(&only, "only", nil, "only these: "+strings.Join(kinds, ", "))
	cmd.Flags().StringSliceVar(&types, "type", nil, "of the entities only those of these types")
	return cmd
}

func validateKinds(only []string) error {
	for _, kind := range only {
		if !slices.Contains(kinds, kind) {
			return fmt.Errorf("--only is of %s, not %q", strings.Join(kinds, ", "), kind)
		}
	}
	return nil
}

// exportResult is what has come of an export.
type exportResult struct {
	totals
	withheld int // blocks with something left out
}

// serviceError is an error of the service, as the shell has to know.
type serviceError struct{ error }

func (r serviceError) Unwrap() error { return r.error }

func (s *deployment) export(ctx context.Context, out io.Writer, only, types []string) (exportResult, error) {
	with := func(kind string) bool { return len(only) == 0 || slices.Contains(only, kind) }
	var done exportResult
	w := &writer{out: out}
	if err := w.writeHeader(); err != nil {
		return done, err
	}
	if with(kindBlocks) {
		blocks, err := s.blocks(ctx)
		if err != nil {
			return done, serviceError{err}
		}
		for _, b := range blocks {
			if len(secretFields(b)) > 0 {
				done.withheld++
			}
			if err := w.writeBlock(b); err != nil {
				return done, err
			}
		}
	}
	if with(kindDefinitions) {
		definitions, err := s.fullDefinitions(ctx)
		if err != nil {
			return done, serviceError{err}
		}
		for _, d := range definitions {
			if d.Definition == nil {
				return done, serviceError{workflow.Errorf(workflow.CodeInternal, "the service answered %s without its source", definitionRef(d))}
			}
			if err := w.writeDefinition(*d.Definition, d.Archived); err != nil {
				return done, err
			}
		}
	}
	if with(kindEntities) {
		if err := s.exportEntities(ctx, w, types); err != nil {
			return done, err
		}
	}
	done.totals = w.counts
	return done, w.writeEnd()
}

func (s *deployment) exportEntities(ctx context.Context, w *writer, only []string) error {
	types, err := s.entityTypes(ctx, only)
	if err != nil {
		return serviceError{err}
	}
	for _, name := range types {
		for e, err := range s.Entities(ctx, workflow.Selector{Type: name}) {
			if err != nil {
				return serviceError{err}
			}
			if err := w.writeEntity(e); err != nil {
				return err
			}
			s.progress.report("entities exported", w.counts.Entities)
		}
	}
	return nil
}

// writeFile writes a file that is there whole or not at all.
func writeFile(path string, write func(io.Writer) (exportResult, error)) (exportResult, error) {
	temp := path + ".part"
	file, err := os.OpenFile(temp, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return exportResult{}, fmt.Errorf("%s cannot be written: %w", path, err)
	}
	out := bufio.NewWriter(file)
	done, err := write(out)
	if err == nil {
		err = out.Flush()
	}
	if closed := file.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(temp, path)
	}
	if err != nil {
		err = errors.Join(err, os.Remove(temp))
	}
	return done, err
}
