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

	"github.com/lockstep-run/lockstep/cmd/lockstep/show"
	"github.com/lockstep-run/lockstep/cmd/lockstep/upkeep"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// One request carries so many entities at most, and so many bytes: what an
// invocation takes is bounded, and progress can be told.
const (
	perRequest      = 1000
	bytesPerRequest = 1 << 20
)

// Import is the verb that gives a stage what a file has.
func Import(s upkeep.Shell, now func() time.Time) *cobra.Command {
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
			if err := checkKinds(only); err != nil {
				return err
			}
			api, err := s.Open()
			if err != nil {
				return err
			}
			file, err := readFile(cmd, s, args[0], only)
			if err != nil {
				return err
			}
			to := &stage{api, newProgress(cmd.ErrOrStderr(), now)}
			p, err := to.plan(cmd.Context(), file, replace)
			if err != nil {
				return told(s, err)
			}
			if len(p.conflicts) > 0 {
				return s.File(args[0], s.Called(conflicting(p.conflicts)))
			}
			if !dryRun {
				if err := to.apply(cmd.Context(), p); err != nil {
					fmt.Fprintln(cmd.ErrOrStderr(), "note: what was imported before this stays; run it again for the rest")
					return told(s, err)
				}
			}
			return report(cmd, s, p, dryRun)
		},
	}
	f := cmd.Flags()
	f.StringSliceVar(&only, "only", nil, "only these: blocks, definitions, entities")
	f.BoolVar(&dryRun, "dry-run", false, "check and compare everything, change nothing")
	f.BoolVar(&replace, "replace", false, "replace entities that are there with other content")
	return cmd
}

// conflicting is the error that there are these conflicts.
func conflicting(all []workflow.Issue) error {
	message := fmt.Sprintf("%d things of it do not fit what is there; nothing was changed", len(all))
	if len(all) == 1 {
		message = "one thing of it does not fit what is there; nothing was changed"
	}
	return &workflow.Error{Code: workflow.CodeConflict, Message: message, Issues: all[:min(len(all), shown)]}
}

func readFile(cmd *cobra.Command, s upkeep.Shell, path string, only []string) (content, error) {
	in := cmd.InOrStdin()
	if path != "-" {
		file, err := os.Open(path)
		if err != nil {
			return content{}, s.Unreadable(path, err)
		}
		defer func() { _ = file.Close() }() // it was only read
		in = file
	}
	c, err := read(in, only)
	if err != nil {
		return c, s.File(path, err)
	}
	return c, nil
}

// apply sends what is planned: blocks first, since definitions use them, and
// entities last.
func (s *stage) apply(ctx context.Context, p plan) error {
	for i, b := range p.blocks {
		if _, err := s.RegisterBlock(ctx, b.value); err != nil {
			return at(err, "line %d, block %s", b.line, b.value.Ref())
		}
		s.progress.tell("blocks registered", i+1)
	}
	for i, d := range p.definitions {
		_, _, err := s.Publish(ctx, d.value.source, false)
		if err == nil && d.value.archived {
			_, err = s.Archive(ctx, d.value.ref)
		}
		if err != nil {
			return at(err, "line %d, definition %s", d.line, d.value.ref)
		}
		s.progress.tell("definitions published", i+1)
	}
	var lines bytes.Buffer
	sent, held := 0, 0
	for i, e := range p.entities {
		raw, err := marshal(entityOf(e.value))
		if err != nil {
			return err
		}
		lines.Write(append(raw, '\n'))
		if held++; held < perRequest && lines.Len() < bytesPerRequest && i+1 < len(p.entities) {
			continue
		}
		if _, err := s.ImportEntities(ctx, bytes.NewReader(lines.Bytes())); err != nil {
			return at(err, "entities up to line %d", e.line)
		}
		sent += held
		held = 0
		lines.Reset()
		s.progress.tell(fmt.Sprintf("of %d entities imported", len(p.entities)), sent)
	}
	return nil
}

// at says at what the service's error came.
func at(err error, format string, args ...any) error {
	var e *workflow.Error
	if !errors.As(err, &e) {
		return refused{err}
	}
	placed := *e
	placed.Message = fmt.Sprintf(format, args...) + ": " + e.Message
	return refused{&placed}
}

// report says what has become of everything.
func report(cmd *cobra.Command, s upkeep.Shell, p plan, dryRun bool) error {
	for _, note := range p.notes {
		fmt.Fprintln(cmd.ErrOrStderr(), "note: "+note)
	}
	if p.scheduled > 0 {
		fmt.Fprintf(cmd.ErrOrStderr(), "note: %d new definitions have a schedule, and start runs here by themselves; \"lockstep archive\" keeps one from it\n", p.scheduled)
	}
	if s.JSON() {
		return s.Print(cmd, map[string]any{
			"dryRun": dryRun, kindBlocks: p.counts[kindBlocks], kindDefinitions: p.counts[kindDefinitions], kindEntities: p.counts[kindEntities],
		})
	}
	t := show.NewTable(cmd.OutOrStdout(), "KIND", "NEW", "REPLACED", "UNCHANGED")
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

// told marks an error that came from the service as its answer.
func told(s upkeep.Shell, err error) error {
	var answer refused
	if errors.As(err, &answer) {
		return s.Called(err)
	}
	return err
}
