package render

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/mattn/go-isatty"

	"github.com/lockstep-run/lockstep/shared/views"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// ProgressBar is one line that is rewritten on a terminal, and a line per change
// elsewhere.
type ProgressBar struct {
	out          io.Writer
	terminal     bool
	last         string
	HasData      bool // something has been read
	disconnected bool // the last read has failed
}

// NewProgressBar makes one that writes there.
func NewProgressBar(out io.Writer) *ProgressBar {
	f, ok := out.(*os.File)
	return &ProgressBar{out: out, terminal: ok && isatty.IsTerminal(f.Fd())}
}

const barWidth = 24

// ConnectionLost says once that the service does not answer.
func (b *ProgressBar) ConnectionLost(err error) {
	if b.disconnected {
		return
	}
	b.disconnected = true
	b.Clear()
	fmt.Fprintf(b.out, "lost the connection (%v); trying again\n", err)
}

// Update writes how a run stands, if that has changed.
func (b *ProgressBar) Update(x views.ExecutionView) {
	b.HasData = true
	if b.disconnected {
		b.disconnected, b.last = false, ""
		b.Clear()
		fmt.Fprintln(b.out, "connected again")
	}
	jobs := x.Progress.Jobs
	filled := 0
	if x.Status == sm.StatusCompleted { // what it skipped was counted until it was
		jobs.Total = jobs.Completed + jobs.Failed
	}
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
		line += ", " + DescribeWaiting(x.Waiting)
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

// Clear takes the line away.
func (b *ProgressBar) Clear() {
	if b.terminal {
		fmt.Fprint(b.out, "\r\x1b[K")
	}
}
