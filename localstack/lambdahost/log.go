package lambdahost

import (
	"bytes"
	"fmt"
	"io"
	"sync"
)

// maxLine bounds a line that never ends.
const maxLine = 64 << 10

// sink serialises the lines of all processes onto one writer.
type sink struct {
	mu sync.Mutex
	w  io.Writer
}

func (s *sink) line(prefix string, line []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	// One Write a line, so that a writer shared with others cannot tear it.
	out := make([]byte, 0, len(prefix)+len(line)+4)
	out = append(out, prefix...)
	out = append(out, " | "...)
	out = append(out, line...)
	s.w.Write(append(out, '\n'))
}

// say logs a remark of the host itself about a function.
func (s *sink) say(prefix, format string, args ...any) {
	s.line(prefix, fmt.Appendf(nil, "lambdahost: "+format, args...))
}

// lines is the io.Writer a process writes to: it passes whole lines to the sink.
type lines struct {
	sink   *sink
	prefix string
	mu     sync.Mutex
	rest   []byte
}

func (l *lines) Write(p []byte) (int, error) {
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

// flush passes on the last line of a process that died in the middle of one.
func (l *lines) flush() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.rest) > 0 {
		l.sink.line(l.prefix, l.rest)
		l.rest = nil
	}
}
