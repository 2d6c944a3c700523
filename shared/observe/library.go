package observe

import (
	"io"
	"strings"
)

// contentLines are the beginnings of lines that net/http writes to the standard logger and that
// continue with content: of a response that nobody asked for, or of a panic.
var contentLines = []string{
	"Unsolicited response received on idle HTTP channel",
	"http: panic serving",
	"http2: panic serving",
}

// LibraryLog returns a writer for the standard logger, whose flags must be 0. It passes each line
// on, but removes the content from lines of net/http. A Transport has no logger of its own, and a
// Server without one uses the standard logger.
func LibraryLog(write func(line string)) io.Writer { return libraryLog(write) }

type libraryLog func(line string)

func (write libraryLog) Write(p []byte) (int, error) {
	line := strings.TrimSuffix(string(p), "\n")
	for _, known := range contentLines {
		if strings.HasPrefix(line, known) {
			line = known + " (" + Redacted + ")"
		}
	}
	write(line)
	return len(p), nil
}
