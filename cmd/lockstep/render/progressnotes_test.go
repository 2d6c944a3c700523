package render

import (
	"strings"
	"testing"
	"time"
)

// lineWriter passes on what is written, as it comes.
type lineWriter chan string

func (c lineWriter) Write(p []byte) (int, error) {
	c <- string(p)
	return len(p), nil
}

func TestStartProgressNotes_StopsAfterStop(t *testing.T) {
	written := make(lineWriter)
	stop := startProgressNotes(written, "importing 5 lines", time.Millisecond)
	for range 2 {
		if line := <-written; !strings.HasPrefix(line, "note: still importing 5 lines, for ") {
			t.Errorf("it said %q", line)
		}
	}
	go func() { // what is being said when it is stopped
		for range written {
		}
	}()
	stop()
	stop()
	close(written) // a line after this would panic
}
