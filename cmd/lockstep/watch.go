package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/mattn/go-isatty"
	"github.com/spf13/cobra"

	"github.com/lockstep-run/lockstep/cmd/lockstep/show"
	"github.com/lockstep-run/lockstep/shared/client"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

func newWatch(c *connection) *cobra.Command {
	return &cobra.Command{
		Use:   "watch ID",
		Short: "Follow a run to its end",
		Long:  "Follow a run to its end. Ctrl-C stops following; the run goes on.\n\nExit code 0: it completed. 1: it failed or was cancelled. 130: Ctrl-C. 143: SIGTERM.",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			api, err := c.open()
			if err != nil {
				return err
			}
			return follow(cmd, c, api, args[0], nil)
		},
	}
}

// pollEvery is how often a followed run is read.
const pollEvery = 250 * time.Millisecond

// follow shows a run's progress on standard error until it rests, then its end
// on standard output. ended, unless it is nil, sees it first.
func follow(cmd *cobra.Command, c *connection, api *client.Client, id string, ended func(views.ExecutionView)) error {
	bar := newBar(cmd.ErrOrStderr())
	x, err := api.Follow(cmd.Context(), id, pollEvery, bar.show, bar.lost)
	bar.clear()
	if err != nil && errors.Is(cmd.Context().Err(), context.Canceled) {
		return hinted(err, "the run goes on; \"lockstep watch %s\" follows it again", id)
	}
	if err != nil && bar.seen {
		return hinted(called(err), "gave up following; the run goes on where the service does: \"lockstep watch %s\" follows it again", id)
	}
	if err != nil {
		return called(err)
	}
	if ended != nil {
		ended(x)
	}
	if c.output == "json" {
		if err := printJSON(cmd, x); err != nil {
			return err
		}
	} else {
		fmt.Fprintf(cmd.OutOrStdout(), "%s  %s\n%s\n%s", x.ID, x.State, show.Sentence(x), undone(cmd, api, x))
	}
	if x.Status != sm.StatusCompleted {
		return errSilent
	}
	return nil
}

// bar is one line that is rewritten on a terminal, and a line per change
// elsewhere.
type bar struct {
	out      io.Writer
	terminal bool
	last     string
	seen     bool // something has been read
	away     bool // the last read has failed
}

func newBar(out io.Writer) *bar {
	f, ok := out.(*os.File)
	return &bar{out: out, terminal: ok && isatty.IsTerminal(f.Fd())}
}

const barWidth = 24

// lost says once that the service does not answer.
func (b *bar) lost(err error) {
	if b.away {
		return
	}
	b.away = true
	b.clear()
	fmt.Fprintf(b.out, "lost the connection (%v); trying again\n", err)
}

func (b *bar) show(x views.ExecutionView) {
	b.seen = true
	if b.away {
		b.away, b.last = false, ""
		b.clear()
		fmt.Fprintln(b.out, "connected again")
	}
	jobs := x.Progress.Jobs
	filled := 0
	if jobs.Total > 0 {
		filled = barWidth * jobs.Completed / jobs.Total
	}
	line := fmt.Sprintf("%-20s [%s%s] %d/%d jobs", x.State, strings.Repeat("#", filled), strings.Repeat(".", barWidth-filled), jobs.Completed, jobs.Total)
	if jobs.Failed > 0 {
		line += fmt.Sprintf(", %d failed", jobs.Failed)
	}
	if x.CurrentStep != nil {
		line += ", step " + *x.CurrentStep
	}
	if x.Waiting != nil {
		line += ", " + show.Waits(x.Waiting)
	}
	if line == b.last {
		return
	}
	b.last = line
	if b.terminal {
		fmt.Fprintf(b.out, "\r\x1b[K%s", line)
		return
	}
	fmt.Fprintln(b.out, line)
}

func (b *bar) clear() {
	if b.terminal {
		fmt.Fprint(b.out, "\r\x1b[K")
	}
}

// undone is a line on how many jobs a run has rolled back, if it has; without an
// answer it is nothing, for the run itself has been told.
func undone(cmd *cobra.Command, api *client.Client, x views.ExecutionView) string {
	if !x.RolledBack {
		return ""
	}
	n, failed := 0, 0
	for s, err := range api.Steps(cmd.Context(), x.ID) {
		if err != nil {
			return ""
		}
		if s.Kind != nil && *s.Kind == workflow.JobRollback {
			n, failed = n+s.Jobs.Completed, failed+s.Jobs.Failed
		}
	}
	if failed > 0 {
		return fmt.Sprintf("%d jobs were rolled back, %d could not be.\n", n, failed)
	}
	return fmt.Sprintf("%d jobs were rolled back.\n", n)
}
