package worker

import (
	"log/slog"
	"slices"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Log keeps a line with the job, for people: they see it with the job, in the page and with `lockstep
// logs`. It only notes it. The next heartbeat of the job, or whatever else is written of it, takes it
// along, so it may be called at any time.
//
// The last 8 KiB are kept of each attempt, a line counting 40 bytes more than its text, and up to 2 KiB
// of each line; in a pack of more than 12 jobs, an equal share of 96 KiB. Where that is too little, write
// a log of your own, with the id of the job in it.
func (j *Job) Log(level slog.Level, text string) {
	s := j.state()
	s.logAll([]workflow.LogLine{{Level: workflow.LogLevelOf(level), Text: text}})
}

// logAll keeps lines, without the values of secrets.
func (s *savedState) logAll(lines []workflow.LogLine) {
	if s.log == nil || len(lines) == 0 {
		return
	}
	if s.clean != nil {
		lines = slices.Clone(lines)
		for i := range lines {
			lines[i].Text = s.clean.text(lines[i].Text)
		}
	}
	s.log(lines...)
}

// stamped are lines within their bounds. Those without a time are of now.
func stamped(lines []workflow.LogLine, now time.Time) []workflow.LogLine {
	kept := make([]workflow.LogLine, 0, len(lines))
	for _, line := range lines {
		if line.At.IsZero() {
			line.At = now
		}
		kept = append(kept, workflow.NewLogLine(line.At, line.Level, line.Text))
	}
	return kept
}

// noteLogs adds lines to the log of a job. What writes the pack next takes it along.
func (s *session) noteLogs(i int, lines []workflow.LogLine) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.isRunning(i) {
		rec := &s.pack.Jobs[i]
		rec.Logs = rec.Logs.With(s.pack.LogShare(), stamped(lines, s.w.opts.Now())...)
	}
}

// addReportedLogs adds lines that another program reports of a job. A report may come twice, because its
// answer was lost: a line that says when it was written is kept once.
func (s *session) addReportedLogs(i int, lines []workflow.LogLine, now time.Time) {
	if len(lines) == 0 {
		return
	}
	rec := &s.pack.Jobs[i]
	var more []workflow.LogLine
	share := s.pack.LogShare()
	var oldest time.Time // of the lines that are kept: those before it have been dropped already
	if l := rec.Logs; l != nil && l.Dropped > 0 && len(l.Lines) > 0 {
		oldest = l.Lines[0].At
	}
	for i, line := range stamped(lines, now) {
		if lines[i].At.IsZero() || !rec.Logs.Has(line.Within(share)) && !line.At.Before(oldest) {
			more = append(more, line)
		}
	}
	rec.Logs = rec.Logs.With(share, more...)
}

// logBytes is how many bytes the logs of the jobs have.
func logBytes(jobs []workflow.JobRecord) (n int) {
	for i := range jobs {
		n += jobs[i].Logs.Bytes()
	}
	return n
}

// giveUpLogs leaves only the numbers of the lines of the logs of the pack about to be written. No job
// fails for what it has logged.
func (s *session) giveUpLogs(p *workflow.Pack) {
	for i, rec := range p.Jobs {
		rec.Logs = rec.Logs.Without()
		s.replaceRecord(p, i, rec)
	}
}
