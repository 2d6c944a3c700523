// Package transfer copies what operators have created from one stage to another: blocks,
// definitions and entities. Executions, locks and workers stay in their stage.
//
// format.go defines the file format, which is byte for byte the same for the same content, and the
// secrets that it leaves out. export.go writes a file. reader.go checks a whole file before
// anything is sent, plan.go compares it with the stage, and import.go sends what is missing.
package transfer

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockstep-run/lockstep/cmd/lockstep/render"
	"github.com/lockstep-run/lockstep/shared/client"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// NewExport returns the verb export.
func NewExport(env render.Env, now func() time.Time) *cobra.Command {
	var only, types []string
	cmd := &cobra.Command{
		Use:   "export FILE",
		Short: "Write blocks, definitions and entities to a file (- writes standard output)",
		Long: "Write the tenant's blocks, definitions and entities to a file of JSON lines, which \"lockstep import\" copies to\n" +
			"another stage. Two exports of the same content are equal byte for byte. The file leaves out executions, locks,\n" +
			"workers, and the values of headers and URL parameters of blocks that look secret.",
		Example: "  lockstep export staging.jsonl\n  lockstep export --only definitions - | jq .definition.name",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := validateKinds(only); err != nil {
				return err
			}
			api, err := env.NewClient()
			if err != nil {
				return err
			}
			source := &deployment{api, newProgress(cmd.ErrOrStderr(), now)}
			var done exportResult
			if args[0] == "-" {
				done, err = source.export(cmd.Context(), render.Raw(cmd.OutOrStdout()), only, types)
			} else {
				done, err = writeFile(args[0], func(out io.Writer) (exportResult, error) { return source.export(cmd.Context(), out, only, types) })
			}
			if err != nil {
				return err
			}
			if done.withheld > 0 {
				fmt.Fprintf(cmd.ErrOrStderr(), "note: %d blocks have headers or URL parameters that look secret: the file names them but leaves out their values\n", done.withheld)
			}
			switch {
			case args[0] == "-":
				return nil
			case env.JSON():
				return render.PrintJSON(cmd, done.totals)
			}
			fmt.Fprintf(cmd.OutOrStdout(), "exported %s\n", done.totals)
			return nil
		},
	}
	cmd.Flags().StringSliceVar(&only, "only", nil, "only these: "+strings.Join(kinds, ", "))
	cmd.Flags().StringSliceVar(&types, "type", nil, "only entities of these types")
	return cmd
}

func validateKinds(only []string) error {
	for _, kind := range only {
		if !slices.Contains(kinds, kind) {
			return fmt.Errorf("--only takes %s, not %q", strings.Join(kinds, ", "), kind)
		}
	}
	return nil
}

// exportResult counts what an export wrote.
type exportResult struct {
	totals
	withheld int // blocks with secrets left out
}

func (s *deployment) export(ctx context.Context, out io.Writer, only, types []string) (exportResult, error) {
	included := func(kind string) bool { return len(only) == 0 || slices.Contains(only, kind) }
	var result exportResult
	w := &writer{out: out}
	if err := w.writeHeader(); err != nil {
		return result, err
	}
	if included(kindBlocks) {
		blocks, err := s.blocks(ctx)
		if err != nil {
			return result, render.AsServiceError(err)
		}
		for _, b := range blocks {
			if len(secretFields(b)) > 0 {
				result.withheld++
			}
			if err := w.writeBlock(b); err != nil {
				return result, err
			}
		}
	}
	if included(kindDefinitions) {
		definitions, err := s.fullDefinitions(ctx)
		if err != nil {
			return result, render.AsServiceError(err)
		}
		for _, d := range definitions {
			if d.Definition == nil {
				return result, render.AsServiceError(workflow.Errorf(workflow.CodeInternal, "the service answered %s without its source", definitionRef(d)))
			}
			if err := w.writeDefinition(*d.Definition, d.Archived, d.Draft); err != nil {
				return result, err
			}
		}
	}
	if included(kindEntities) {
		if err := s.exportEntities(ctx, w, types); err != nil {
			return result, err
		}
	}
	result.totals = w.counts
	return result, w.writeEnd()
}

func (s *deployment) exportEntities(ctx context.Context, w *writer, only []string) error {
	types, err := s.entityTypes(ctx, only)
	if err != nil {
		return render.AsServiceError(err)
	}
	for _, name := range only {
		if !slices.Contains(types, name) {
			fmt.Fprintf(s.progress.out, "note: there is no entity of type %q\n", name)
		}
	}
	for _, name := range types {
		for e, err := range s.Entities(ctx, workflow.Selector{Type: name}) {
			if err != nil {
				return render.AsServiceError(err)
			}
			if err := w.writeEntity(e); err != nil {
				return err
			}
			s.progress.report("entities exported", w.counts.Entities)
		}
	}
	return nil
}

// writeFile writes a complete file or none: it writes to another name and renames. What is no file, such as a device
// or a pipe, is written to directly, because a rename would put a file in its place.
func writeFile(path string, write func(io.Writer) (exportResult, error)) (exportResult, error) {
	found, err := os.Stat(path)
	if err == nil && !found.Mode().IsRegular() {
		return writeInto(path, os.O_WRONLY, write)
	}
	target := path
	if real, err := filepath.EvalSymlinks(path); err == nil {
		target = real // keep a link a link
	}
	temp := target + ".part"
	result, err := writeInto(temp, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, write)
	var failed *os.PathError
	if errors.As(err, &failed) && failed.Op == "open" {
		return result, fmt.Errorf("cannot write %s: %w", path, failed.Err)
	}
	if err == nil {
		err = os.Rename(temp, target)
	}
	if err != nil {
		err = errors.Join(err, os.Remove(temp))
	}
	return result, err
}

func writeInto(path string, flag int, write func(io.Writer) (exportResult, error)) (exportResult, error) {
	file, err := os.OpenFile(path, flag, 0o600)
	if err != nil {
		return exportResult{}, err
	}
	out := bufio.NewWriter(file)
	result, err := write(out)
	if err == nil {
		err = out.Flush()
	}
	if closed := file.Close(); err == nil {
		err = closed
	}
	return result, err
}

// deployment reads the blocks, definitions and entities of a stage.
type deployment struct {
	*client.Client
	progress *progress
}

func (s *deployment) blocks(ctx context.Context) ([]workflow.Block, error) {
	var all []workflow.Block
	for b, err := range s.Blocks(ctx) {
		if err != nil {
			return nil, err
		}
		all = append(all, normalizeBlock(b))
		s.progress.report("blocks read", len(all))
	}
	slices.SortFunc(all, func(a, b workflow.Block) int { return compareRefs(a.Ref(), b.Ref()) })
	return all, nil
}

// definitionHeaders returns the definitions without their sources, sorted.
func (s *deployment) definitionHeaders(ctx context.Context) ([]client.Definition, error) {
	var all []client.Definition
	for d, err := range s.Definitions(ctx) {
		if err != nil {
			return nil, err
		}
		all = append(all, d)
	}
	slices.SortFunc(all, func(a, b client.Definition) int { return compareRefs(definitionRef(a), definitionRef(b)) })
	return all, nil
}

// fullDefinitions returns the definitions with their sources, sorted.
func (s *deployment) fullDefinitions(ctx context.Context) ([]client.Definition, error) {
	all, err := s.definitionHeaders(ctx)
	for i := range all {
		if err != nil {
			return nil, err
		}
		all[i], err = s.Definition(ctx, definitionRef(all[i]))
		s.progress.report("definitions read", i+1)
	}
	return all, err
}

func definitionRef(d client.Definition) workflow.Ref {
	return workflow.Ref{Package: d.Package, Name: d.Name, Version: d.Version}
}

// compareRefs orders by package and name, and versions by their numbers.
func compareRefs(a, b workflow.Ref) int {
	v, _ := workflow.ParseSemver(a.Version) // stored versions are valid
	w, _ := workflow.ParseSemver(b.Version)
	return cmp.Or(cmp.Compare(a.Package, b.Package), cmp.Compare(a.Name, b.Name), v.Compare(w))
}

// entityTypes returns the types of the stored entities. only, unless empty, limits them.
func (s *deployment) entityTypes(ctx context.Context, only []string) ([]string, error) {
	var all []string
	for name, err := range s.EntityTypes(ctx) {
		if err != nil {
			return nil, err
		}
		if len(only) == 0 || slices.Contains(only, name) {
			all = append(all, name)
		}
	}
	return all, nil
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// progress prints the progress of long work, at most every render.NoteInterval.
type progress struct {
	out  io.Writer
	now  func() time.Time
	last time.Time
}

func newProgress(out io.Writer, now func() time.Time) *progress {
	return &progress{out, now, now()}
}

// report prints the count so far, unless the last note is too recent.
func (p *progress) report(what string, n int) {
	if now := p.now(); now.Sub(p.last) >= render.NoteInterval {
		p.last = now
		fmt.Fprintf(p.out, "note: %d %s\n", n, what)
	}
}
