package transfer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockstep-run/lockstep/cmd/lockstep/render"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// One request carries so many entities at most, and so many bytes: what an
// invocation takes is bounded, and progress can be told.
const (
	entitiesPerRequest = 1000
	bytesPerRequest    = 1 << 20
)

// NewImport is the verb that gives a stage what a file has.
func NewImport(s render.Env, now func() time.Time) *cobra.Command {
	var only []string
	var dryRun, replace bool
	cmd := &cobra.Command{
		Use:   "import FILE",
		Short: "Give this stage what \"lockstep export\" has written (- reads standard input)",
		Long: "Give this stage the blocks, definitions and entities of a file that \"lockstep export\" has written. The whole file\n" +
			"is checked, and compared with what is there, before anything is changed: what is the same is left alone, and if anything\n" +
			"is there with other content, nothing is changed and each difference is told. Blocks and definitions never change; entities\n" +
			"that differ are replaced with --replace. An import that was interrupted is simply run again.",
		Example: "  lockstep import --dry-run staging.jsonl\n  lockstep import --only blocks,definitions staging.jsonl",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := validateKinds(only); err != nil {
				return err
			}
			api, err := s.NewClient()
			if err != nil {
				return err
			}
			file, err := readFile(cmd, s, args[0], only)
			if err != nil {
				return err
			}
			target := &deployment{api, newProgress(cmd.ErrOrStderr(), now)}
			p, err := target.plan(cmd.Context(), file, replace)
			if err != nil {
				return markServiceError(s, err)
			}
			if len(p.conflicts) > 0 {
				return s.FileError(args[0], s.ServiceError(conflictError(p.conflicts)))
			}
			if !dryRun {
				if err := target.apply(cmd.Context(), p); err != nil {
					fmt.Fprintln(cmd.ErrOrStderr(), "note: what was imported before this stays; run it again for the rest")
					return markServiceError(s, err)
				}
			}
			return printPlan(cmd, s, p, dryRun)
		},
	}
	f := cmd.Flags()
	f.StringSliceVar(&only, "only", nil, "only these: blocks, definitions, entities")
	f.BoolVar(&dryRun, "dry-run", false, "check and compare everything, change nothing")
	f.BoolVar(&replace, "replace", false, "replace entities that are there with other content")
	return cmd
}

// conflictError is the error that there are these conflicts.
func conflictError(all []workflow.Issue) error {
	message := fmt.Sprintf("%d things of it do not fit what is there; nothing was changed", len(all))
	if len(all) == 1 {
		message = "one thing of it does not fit what is there; nothing was changed"
	}
	return &workflow.Error{Code: workflow.CodeConflict, Message: message, Issues: all[:min(len(all), maxIssues)]}
}

func readFile(cmd *cobra.Command, s render.Env, path string, only []string) (fileContent, error) {
	in := cmd.InOrStdin()
	if path != "-" {
		file, err := os.Open(path)
		if err != nil {
			return fileContent{}, s.ReadError(path, err)
		}
		defer func() { _ = file.Close() }() // it was only read
		in = file
	}
	c, err := parseFile(in, only)
	if err != nil {
		return c, s.FileError(path, err)
	}
	return c, nil
}

// apply sends what is planned: blocks first, since definitions use them, and
// entities last.
func (s *deployment) apply(ctx context.Context, p plan) error {
	for i, b := range p.blocks {
		if _, err := s.RegisterBlock(ctx, b.value); err != nil {
			return withPosition(err, "line %d, block %s", b.line, b.value.Ref())
		}
		s.progress.report("blocks registered", i+1)
	}
	for i, d := range p.definitions {
		_, _, err := s.Publish(ctx, d.value.source, false)
		if err == nil && d.value.archived {
			_, err = s.Archive(ctx, d.value.ref)
		}
		if err != nil {
			return withPosition(err, "line %d, definition %s", d.line, d.value.ref)
		}
		s.progress.report("definitions published", i+1)
	}
	var lines bytes.Buffer
	sent, pending := 0, 0
	for i, e := range p.entities {
		raw, err := marshal(toEntity(e.value))
		if err != nil {
			return err
		}
		lines.Write(append(raw, '\n'))
		if pending++; pending < entitiesPerRequest && lines.Len() < bytesPerRequest && i+1 < len(p.entities) {
			continue
		}
		if _, err := s.ImportEntities(ctx, bytes.NewReader(lines.Bytes())); err != nil {
			return withPosition(err, "entities up to line %d", e.line)
		}
		sent += pending
		pending = 0
		lines.Reset()
		s.progress.report(fmt.Sprintf("of %d entities imported", len(p.entities)), sent)
	}
	return nil
}

// withPosition says at what the service's error came.
func withPosition(err error, format string, args ...any) error {
	var e *workflow.Error
	if !errors.As(err, &e) {
		return serviceError{err}
	}
	placed := *e
	placed.Message = fmt.Sprintf(format, args...) + ": " + e.Message
	return serviceError{&placed}
}

// printPlan says what has become of everything.
func printPlan(cmd *cobra.Command, s render.Env, p plan, dryRun bool) error {
	for _, note := range p.notes {
		fmt.Fprintln(cmd.ErrOrStderr(), "note: "+note)
	}
	if p.scheduled > 0 {
		fmt.Fprintf(cmd.ErrOrStderr(), "note: %d new definitions have a schedule, and start runs here by themselves; \"lockstep archive\" keeps one from it\n", p.scheduled)
	}
	if s.JSON() {
		return s.PrintJSON(cmd, map[string]any{
			"dryRun": dryRun, kindBlocks: p.counts[kindBlocks], kindDefinitions: p.counts[kindDefinitions], kindEntities: p.counts[kindEntities],
		})
	}
	t := render.NewTable(cmd.OutOrStdout(), "KIND", "NEW", "REPLACED", "UNCHANGED")
	for _, kind := range kinds {
		n := p.counts[kind]
		t.Row([]string{kind, strconv.Itoa(n.New), strconv.Itoa(n.Replaced), strconv.Itoa(n.Unchanged)})
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if dryRun {
		fmt.Fprintln(cmd.OutOrStdout(), "nothing was changed: this was a dry run")
	}
	return nil
}

// markServiceError marks an error that came from the service as its answer.
func markServiceError(s render.Env, err error) error {
	var answer serviceError
	if errors.As(err, &answer) {
		return s.ServiceError(err)
	}
	return err
}
