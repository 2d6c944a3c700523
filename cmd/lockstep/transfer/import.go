package transfer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockstep-run/lockstep/cmd/lockstep/render"
	"github.com/lockstep-run/lockstep/shared/client"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Bounds of one import request. They bound the time of an invocation and allow progress notes.
const (
	entitiesPerRequest = 1000
	bytesPerRequest    = 1 << 20
)

// NewImport returns the verb import.
func NewImport(env render.Env, now func() time.Time) *cobra.Command {
	var only []string
	var dryRun, replace bool
	cmd := &cobra.Command{
		Use:   "import FILE",
		Short: "Import a file of \"lockstep export\" into this stage (- reads standard input)",
		Long: "Import the blocks, definitions and entities of a file of \"lockstep export\" into this stage. The command first\n" +
			"checks the whole file and compares it with the stage. Equal content is skipped. If the stage has anything with\n" +
			"other content, the command lists the differences and changes nothing. Blocks and definitions never change;\n" +
			"--replace replaces entities that differ. After an interruption, run the same command again.",
		Example: "  lockstep import --dry-run staging.jsonl\n  lockstep import --only blocks,definitions staging.jsonl",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := validateKinds(only); err != nil {
				return err
			}
			api, err := env.NewClient()
			if err != nil {
				return err
			}
			file, err := readFile(cmd, args[0], only)
			if err != nil {
				return err
			}
			target := &deployment{api, newProgress(cmd.ErrOrStderr(), now)}
			p, err := target.plan(cmd.Context(), file, replace)
			if err != nil {
				return err
			}
			if len(p.conflicts) > 0 {
				return &render.FileError{Path: args[0], Err: render.AsServiceError(conflictError(p.conflicts))}
			}
			if !dryRun {
				if err := target.apply(cmd.Context(), p); err != nil {
					fmt.Fprintln(cmd.ErrOrStderr(), "note: what was imported before this stays; run the command again for the rest")
					return err
				}
			}
			if err := target.noteSchedules(cmd, p, dryRun); err != nil {
				return err
			}
			return printPlan(cmd, env, p, dryRun)
		},
	}
	f := cmd.Flags()
	f.StringSliceVar(&only, "only", nil, "only these: blocks, definitions, entities")
	f.BoolVar(&dryRun, "dry-run", false, "check and compare everything, change nothing")
	f.BoolVar(&replace, "replace", false, "replace entities that differ")
	return cmd
}

// conflictError returns the error for a file that conflicts with the stage.
func conflictError(all []workflow.Issue) error {
	message := fmt.Sprintf("%d records conflict with the stage; nothing was changed", len(all))
	if len(all) == 1 {
		message = "one record conflicts with the stage; nothing was changed"
	}
	return &workflow.Error{Code: workflow.CodeConflict, Message: message, Issues: all[:min(len(all), maxIssues)]}
}

func readFile(cmd *cobra.Command, path string, only []string) (fileContent, error) {
	in := cmd.InOrStdin()
	if path != "-" {
		file, err := os.Open(path)
		if err != nil {
			return fileContent{}, render.ReadError(path, err)
		}
		defer func() { _ = file.Close() }() // it was only read
		in = file
	}
	c, err := parseFile(in, only)
	if err != nil {
		return c, &render.FileError{Path: path, Err: err}
	}
	return c, nil
}

// apply sends what the plan adds or replaces: blocks first, since definitions use
// them, and entities last.
func (s *deployment) apply(ctx context.Context, p plan) error {
	for i, b := range p.blocks {
		if _, err := s.RegisterBlock(ctx, b.value); err != nil {
			return withPosition(err, "line %d, block %s", b.line, b.value.Ref())
		}
		s.progress.report("blocks registered", i+1)
	}
	for i, d := range p.definitions {
		publish := s.Publish
		if d.value.draft {
			publish = s.PublishDraft
		}
		_, _, err := publish(ctx, d.value.source, false)
		if err == nil && d.value.archived {
			_, err = s.Archive(ctx, d.value.ref, "archived in the stage that it was exported from")
		}
		if err != nil {
			return withPosition(err, "line %d, definition %s", d.line, d.value.ref)
		}
		s.progress.report("definitions published", i+1)
	}
	var lines bytes.Buffer
	sent, pending := 0, 0
	for i, e := range p.entities {
		raw, err := workflow.EncodeJSON(toEntity(e.value))
		if err != nil {
			return err
		}
		lines.Write(append(raw, '\n'))
		if pending++; pending < entitiesPerRequest && lines.Len() < bytesPerRequest && i+1 < len(p.entities) {
			continue
		}
		if _, err := s.Import(ctx, bytes.NewReader(lines.Bytes()), client.ImportOptions{Replace: true}); err != nil {
			return withPosition(err, "entities up to line %d", e.line)
		}
		sent += pending
		pending = 0
		lines.Reset()
		s.progress.report(fmt.Sprintf("of %d entities imported", len(p.entities)), sent)
	}
	return nil
}

// withPosition adds to an error of the service the position in the file.
func withPosition(err error, format string, args ...any) error {
	var e *workflow.Error
	if !errors.As(err, &e) {
		return render.AsServiceError(err)
	}
	positioned := *e
	positioned.Message = fmt.Sprintf(format, args...) + ": " + e.Message
	return render.AsServiceError(&positioned)
}

// noteSchedules says which schedules of new definitions start executions in the stage, and which are
// paused, as they are where the version with the schedule is not the newest. Before the import it is
// not known which.
func (s *deployment) noteSchedules(cmd *cobra.Command, p plan, dryRun bool) error {
	if len(p.scheduled) == 0 {
		return nil
	}
	if dryRun {
		fmt.Fprintf(cmd.ErrOrStderr(), "note: %d new definitions have a schedule, which starts executions in this stage unless \"lockstep schedules\" shows it as paused then\n", len(p.scheduled))
		return nil
	}
	var on, paused []string
	for v, err := range s.Schedules(cmd.Context()) {
		if err != nil {
			return render.AsServiceError(err)
		}
		if name, _, _ := strings.Cut(v.Schedule, "@"); !slices.Contains(p.scheduled, name) {
			continue
		}
		if v.Paused != nil {
			paused = append(paused, v.Schedule)
		} else {
			on = append(on, v.Schedule)
		}
	}
	if len(on) > 0 {
		fmt.Fprintf(cmd.ErrOrStderr(), "note: these schedules start executions in this stage now: %s; \"lockstep schedules pause NAME\" stops one\n", joinDifferences(on))
	}
	if len(paused) > 0 {
		fmt.Fprintf(cmd.ErrOrStderr(), "note: these schedules are paused: %s; \"lockstep schedules resume NAME\" starts one\n", joinDifferences(paused))
	}
	return nil
}

// printPlan prints what the import did, or would do.
func printPlan(cmd *cobra.Command, env render.Env, p plan, dryRun bool) error {
	for _, note := range p.notes {
		fmt.Fprintln(cmd.ErrOrStderr(), "note: "+note)
	}
	if env.JSON() {
		return render.PrintJSON(cmd, map[string]any{
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
