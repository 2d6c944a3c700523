package render

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/mattn/go-isatty"

	"github.com/lockstep-run/lockstep/shared/views"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// ProgressBar shows the progress of an execution: on a terminal as one line that it rewrites,
// elsewhere as a line for each change.
type ProgressBar struct {
	out          io.Writer
	terminal     bool
	lastLine     string
	try, filled  int  // last filled width, and its try
	HasData      bool // the execution has been read at least once
	disconnected bool // the last read failed
}

// NewProgressBar returns a bar that writes to out.
func NewProgressBar(out io.Writer) *ProgressBar {
	f, ok := Raw(out).(*os.File)
	return &ProgressBar{out: out, terminal: ok && isatty.IsTerminal(f.Fd())}
}

const barWidth = 24

// ConnectionLost prints once that the service does not answer.
func (b *ProgressBar) ConnectionLost(err error) {
	if b.disconnected {
		return
	}
	b.disconnected = true
	b.Clear()
	fmt.Fprintf(b.out, "lost the connection (%v); retrying\n", err)
}

// Update prints the progress if it has changed.
func (b *ProgressBar) Update(x views.ExecutionView) {
	b.HasData = true
	if b.disconnected {
		b.disconnected, b.lastLine = false, ""
		b.Clear()
		fmt.Fprintln(b.out, "connected again")
	}
	jobs := x.Progress.Jobs
	if x.Status == sm.StatusCompleted { // the total still counts skipped jobs
		jobs.Total = jobs.Completed + jobs.Failed
	}
	filled := b.fill(x, jobs.Completed, jobs.Total)
	line := fmt.Sprintf("%-20s [%s%s] %d/%d jobs", x.State, strings.Repeat("#", filled), strings.Repeat(".", barWidth-filled), jobs.Completed, jobs.Total)
	if jobs.Failed > 0 {
		line += fmt.Sprintf(", %d failed", jobs.Failed)
	}
	if x.CurrentStep != nil {
		line += ", step " + *x.CurrentStep
	}
	if text := jobProgress(x.Progress); text != "" {
		line += " (" + text + ")"
	}
	if x.Waiting != nil {
		line += ", " + DescribeWait(x)
	}
	if line == b.lastLine {
		return
	}
	b.lastLine = line
	if b.terminal {
		b.Clear()
		fmt.Fprint(b.out, line)
		return
	}
	fmt.Fprintln(b.out, line)
}

// jobProgress returns the progress that the running jobs report, "" if they report none.
func jobProgress(p views.Progress) string {
	if p.Percent == nil {
		return ""
	}
	text := fmt.Sprintf("%.0f %%", *p.Percent)
	if p.Message != nil {
		text += ", " + OneLine(*p.Message)
	}
	return text
}

// fill returns how much of the bar to fill: the share of completed jobs, scaled by the share of
// steps that have been entered. So entering the next step does not set the bar back, and nothing
// else does within a try.
func (b *ProgressBar) fill(x views.ExecutionView, completed, total int) int {
	filled, steps := 0, x.Progress.Steps
	if total > 0 {
		filled = barWidth * completed / total
		if x.Status != sm.StatusCompleted && steps.Total > 0 {
			filled = barWidth * completed * min(steps.Done+1, steps.Total) / (total * steps.Total)
		}
	}
	if x.Try == b.try {
		filled = max(filled, b.filled)
	}
	filled = min(filled, barWidth)
	b.try, b.filled = x.Try, filled
	return filled
}

// Clear removes the line from a terminal.
func (b *ProgressBar) Clear() {
	if b.terminal {
		fmt.Fprint(Raw(b.out), "\r\x1b[K")
	}
}

// NoteInterval is the time between two progress notes. Work that takes less prints none.
const NoteInterval = 2 * time.Second

// StartProgressNotes prints a note every NoteInterval, with the text of what, until the caller
// calls stop. Once stop has returned, nothing more is printed.
func StartProgressNotes(out io.Writer, what func() string) (stop func()) {
	return startProgressNotes(out, what, NoteInterval)
}

func startProgressNotes(out io.Writer, what func() string, interval time.Duration) (stop func()) {
	stopped, done := make(chan struct{}), make(chan struct{})
	started := time.Now()
	go func() {
		defer close(done)
		t := time.NewTicker(interval)
		defer t.Stop()
		for {
			select {
			case <-t.C:
				fmt.Fprintf(out, "note: still %s, for %ds\n", what(), int(time.Since(started).Seconds()))
			case <-stopped:
				return
			}
		}
	}()
	var once sync.Once
	return func() {
		once.Do(func() { close(stopped) })
		<-done
	}
}
