package lines

import (
	"bytes"
	"fmt"
	"io"
	"sync"
)

// maxLine bounds a line that never ends.
const maxLine = 64 << 10

// Sink serialises the lines of all processes onto one writer.
type Sink struct {
	mu sync.Mutex
	w  io.Writer
}

// New makes a sink that writes to w.
func New(w io.Writer) *Sink { return &Sink{w: w} }

// Writer is what a process of that name writes to.
func (s *Sink) Writer(prefix string) *Writer { return &Writer{sink: s, prefix: prefix} }

func (s *Sink) line(prefix string, line []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	// One Write a line, so that a writer shared with others cannot tear it.
	out := make([]byte, 0, len(prefix)+len(line)+4)
	out = append(out, prefix...)
	out = append(out, " | "...)
	out = append(out, line...)
	s.w.Write(append(out, '\n'))
}

// Say logs a remark of the host itself about a function.
func (s *Sink) Say(prefix, format string, args ...any) {
	s.line(prefix, fmt.Appendf(nil, "lambdahost: "+format, args...))
}

// Writer passes whole lines to its sink.
type Writer struct {
	sink   *Sink
	prefix string
	mu     sync.Mutex
	rest   []byte
}

// Write never fails.
func (l *Writer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rest = append(l.rest, p...)
	for {
		end := bytes.IndexByte(l.rest, '\n')
		switch {
		case end >= 0:
			l.sink.line(l.prefix, bytes.TrimSuffix(l.rest[:end], []byte("\r")))
			l.rest = l.rest[end+1:]
		case len(l.rest) >= maxLine:
			l.sink.line(l.prefix, l.rest[:maxLine])
			l.rest = l.rest[maxLine:]
		default:
			return len(p), nil
		}
	}
}

// Flush passes on the last line of a process that died in the middle of one.
func (l *Writer) Flush() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.rest) > 0 {
		l.sink.line(l.prefix, l.rest)
		l.rest = nil
	}
}
