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
	sm "github.com/lockstep-run/lockstep/statemachines"
)

func newWatch(c *connection) *cobra.Command {
	return &cobra.Command{
		Use:   "watch ID",
		Short: "Follow a run to its end",
		Long:  "Follow a run to its end. Ctrl-C stops following; the run goes on.\n\nExit code 0: it completed. 1: it failed or was cancelled.",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			api, err := c.open()
			if err != nil {
				return err
			}
			return follow(cmd, c, api, args[0])
		},
	}
}

// pollEvery is how often a followed run is read.
const pollEvery = 250 * time.Millisecond

// follow shows a run's progress on standard error until it rests, then its end
// on standard output.
func follow(cmd *cobra.Command, c *connection, api *client.Client, id string) error {
	bar := newBar(cmd.ErrOrStderr())
	x, err := api.Wait(cmd.Context(), id, pollEvery, bar.show)
	bar.clear()
	if err != nil && errors.Is(cmd.Context().Err(), context.Canceled) { //nolint:nilerr // Ctrl-C stops following, which is no failure
		fmt.Fprintf(cmd.ErrOrStderr(), "the run goes on; \"lockstep watch %s\" follows it again\n", id)
		return nil
	}
	if err != nil {
		return called(err)
	}
	if c.output == "json" {
		if err := printJSON(cmd, x); err != nil {
			return err
		}
	} else {
		fmt.Fprintf(cmd.OutOrStdout(), "%s  %s\n%s\n", x.ID, x.State, show.Sentence(x))
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
}

func newBar(out io.Writer) *bar {
	f, ok := out.(*os.File)
	return &bar{out: out, terminal: ok && isatty.IsTerminal(f.Fd())}
}

const barWidth = 24

func (b *bar) show(x views.ExecutionView) {
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
