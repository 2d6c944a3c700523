package show

import (
	"strings"
	"testing"
	"time"
)

// told passes on what is written, as it comes.
type told chan string

func (c told) Write(p []byte) (int, error) {
	c <- string(p)
	return len(p), nil
}

func TestMeanwhile(t *testing.T) {
	said := make(told)
	stop := meanwhile(said, "importing 5 lines", time.Millisecond)
	for range 2 {
		if line := <-said; !strings.HasPrefix(line, "note: still importing 5 lines, for ") {
			t.Errorf("it said %q", line)
		}
	}
	go func() { // what is being said when it is stopped
		for range said {
		}
	}()
	stop()
	stop()
	close(said) // a line after this would panic
}
