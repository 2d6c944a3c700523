package lambdahost

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

func TestPrefixWriter_WritesWholeLines(t *testing.T) {
	var out bytes.Buffer
	sink := newLogSink(&out)
	a, b := sink.writer("a"), sink.writer("b")
	fmt.Fprint(a, "one\ntw")
	fmt.Fprint(b, "other\r\n\n")
	fmt.Fprint(a, "o\nunfinished")
	sink.logf("a", "message %d", 1)
	a.Flush()
	a.Flush()
	if want := "a | one\nb | other\nb | \na | two\na | lambdahost: message 1\na | unfinished\n"; out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}

func TestPrefixWriter_SplitsEndlessLine(t *testing.T) {
	var out bytes.Buffer
	w := newLogSink(&out).writer("a")
	fmt.Fprint(w, strings.Repeat("x", 200_000))
	w.Flush()
	for line := range strings.Lines(out.String()) {
		if len(line) > 70_000 {
			t.Errorf("a line has %d bytes", len(line))
		}
	}
	if n := strings.Count(out.String(), "x"); n != 200_000 {
		t.Errorf("%d bytes written, want 200000", n)
	}
}
