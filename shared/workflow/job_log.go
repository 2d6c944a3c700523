package workflow

import (
	"encoding/json"
	"log/slog"
	"slices"
	"strings"
	"time"
)

// LogLevel is how much a line of a job's log matters.
type LogLevel string

// The levels, from the least.
const (
	LogDebug LogLevel = "DEBUG"
	LogInfo  LogLevel = "INFO"
	LogWarn  LogLevel = "WARN"
	LogError LogLevel = "ERROR"
)

// LogLevels are the levels, from the least.
func LogLevels() []LogLevel { return []LogLevel{LogDebug, LogInfo, LogWarn, LogError} }

// AtLeast reports whether the level matters as much as another one.
func (l LogLevel) AtLeast(other LogLevel) bool {
	return slices.Index(LogLevels(), l) >= slices.Index(LogLevels(), other)
}

// LogLevelOf is the level of a level of package slog, which knows more.
func LogLevelOf(l slog.Level) LogLevel {
	switch {
	case l < slog.LevelInfo:
		return LogDebug
	case l < slog.LevelWarn:
		return LogInfo
	case l < slog.LevelError:
		return LogWarn
	}
	return LogError
}

// ParseLogLevel is the level that a program in another language names, INFO for a word that is none: a
// line that has been written is not lost for its level.
func ParseLogLevel(s string) LogLevel {
	switch l := LogLevel(strings.ToUpper(s)); l {
	case LogDebug, LogWarn, LogError:
		return l
	case "WARNING":
		return LogWarn
	case "CRITICAL", "FATAL":
		return LogError
	}
	return LogInfo
}

// LogLine is one line of a job's log.
type LogLine struct {
	At    time.Time `json:"at"`
	Level LogLevel  `json:"level"`
	Text  string    `json:"text"`
}

// NewLogLine is a line within its bounds.
func NewLogLine(at time.Time, level LogLevel, text string) LogLine {
	return LogLine{At: at.UTC().Truncate(time.Millisecond), Level: level, Text: Truncate(strings.TrimRight(text, "\r\n"), maxLogText)}
}

// JobLogs is the end of what a job has logged, and how many lines were before that. A value does not
// change.
type JobLogs struct {
	Lines   []LogLine `json:"l,omitempty"`
	Dropped int       `json:"d,omitempty"`
}

// The bounds of logs. A job of a pack with many jobs has an equal share of what the pack has room for.
const (
	MaxLogBytes     = 8 << 10  // of one job
	MaxPackLogBytes = 96 << 10 // of all jobs of a pack
	maxLogText      = 2 << 10  // of one line, in bytes
	logLineBytes    = 40       // what a line counts besides its text
)

// LogShare is how many bytes of log each job of the pack keeps.
func (p *Pack) LogShare() int { return min(MaxLogBytes, MaxPackLogBytes/max(1, len(p.Jobs))) }

// Bytes is how many bytes the log has: those of its texts, and 40 for each line.
func (l *JobLogs) Bytes() (n int) {
	if l != nil {
		for i := range l.Lines {
			n += l.Lines[i].bytes()
		}
	}
	return n
}

// Within is the line, cut to what a log of at most limit bytes keeps of it.
func (l LogLine) Within(limit int) LogLine {
	l.Text = Truncate(l.Text, max(limit-logLineBytes, 0))
	return l
}

func (l *LogLine) bytes() int { return len(l.Text) + logLineBytes }

// With is the log with more lines. Of what is more than the limit, in bytes, the oldest lines are dropped.
func (l *JobLogs) With(limit int, more ...LogLine) *JobLogs {
	all := &JobLogs{}
	if l != nil {
		*all = *l
	}
	all.Lines = slices.Concat(all.Lines, more)
	room := limit
	for i := len(all.Lines) - 1; i >= 0; i-- {
		line := &all.Lines[i]
		*line = line.Within(limit)
		if room -= line.bytes(); room < 0 {
			all.Dropped += i + 1
			all.Lines = all.Lines[i+1:]
			break
		}
	}
	return all
}

// Without is the log when there is no room for it: how many lines it had.
func (l *JobLogs) Without() *JobLogs {
	if l == nil {
		return nil
	}
	return &JobLogs{Dropped: l.Dropped + len(l.Lines)}
}

// Has reports whether the log has a line.
func (l *JobLogs) Has(line LogLine) bool { return l != nil && slices.Contains(l.Lines, line) }

// LogLines is a log as a program in any language writes it. Only the text matters: a word that is no
// level is INFO, and what is no time is left out. What is no line is left out too, and a string is the
// text of one: no job fails for what it has logged.
type LogLines []writtenLogLine

type writtenLogLine struct {
	At    string `json:"at,omitempty"`
	Level string `json:"level,omitempty"`
	Text  string `json:"text"`
}

// UnmarshalJSON reads the lines of any JSON value.
func (l *LogLines) UnmarshalJSON(text []byte) error {
	var v any
	if err := json.Unmarshal(text, &v); err != nil {
		return err
	}
	lines, ok := v.([]any)
	if !ok {
		lines = []any{v}
	}
	*l = nil
	for _, line := range lines {
		switch line := line.(type) {
		case string:
			*l = append(*l, writtenLogLine{Text: line})
		case map[string]any:
			var written writtenLogLine
			written.At, _ = line["at"].(string)
			written.Level, _ = line["level"].(string)
			if written.Text, ok = line["text"].(string); ok {
				*l = append(*l, written)
			}
		}
	}
	return nil
}

// Lines are the lines; one that does not say when it was written has no time.
func (l LogLines) Lines() (lines []LogLine) {
	for _, line := range l {
		at, err := time.Parse(time.RFC3339, line.At)
		if year := at.UTC().Year(); err != nil || year < 1970 || year > 9998 { // what a document can hold
			at = time.Time{}
		}
		lines = append(lines, LogLine{At: at, Level: ParseLogLevel(line.Level), Text: line.Text})
	}
	return lines
}
