package lambdahost

import (
	"bytes"
	"fmt"
	"io"
	"sync"
)

// maxLineBytes is where a line without an end is split.
const maxLineBytes = 64 << 10

// logSink writes the lines of all processes to one writer.
type logSink struct {
	mu sync.Mutex
	w  io.Writer
}

func newLogSink(w io.Writer) *logSink { return &logSink{w: w} }

// writer returns the writer for the output of a process.
func (s *logSink) writer(prefix string) *prefixWriter { return &prefixWriter{sink: s, prefix: prefix} }

func (s *logSink) writeLine(prefix string, line []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	// One Write per line: other users of the writer cannot split it.
	out := make([]byte, 0, len(prefix)+len(line)+4)
	out = append(out, prefix...)
	out = append(out, " | "...)
	out = append(out, line...)
	s.w.Write(append(out, '\n'))
}

// logf logs a message of the host about a function.
func (s *logSink) logf(prefix, format string, args ...any) {
	s.writeLine(prefix, fmt.Appendf(nil, "lambdahost: "+format, args...))
}

// prefixWriter writes whole lines to its sink.
type prefixWriter struct {
	sink    *logSink
	prefix  string
	mu      sync.Mutex
	partial []byte
}

// Write never fails.
func (l *prefixWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.partial = append(l.partial, p...)
	for {
		end := bytes.IndexByte(l.partial, '\n')
		switch {
		case end >= 0:
			l.sink.writeLine(l.prefix, bytes.TrimSuffix(l.partial[:end], []byte("\r")))
			l.partial = l.partial[end+1:]
		case len(l.partial) >= maxLineBytes:
			l.sink.writeLine(l.prefix, l.partial[:maxLineBytes])
			l.partial = l.partial[maxLineBytes:]
		default:
			return len(p), nil
		}
	}
}

// Flush writes the unfinished last line of a process.
func (l *prefixWriter) Flush() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.partial) > 0 {
		l.sink.writeLine(l.prefix, l.partial)
		l.partial = nil
	}
}
