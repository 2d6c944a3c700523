package lines_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/lockstep-run/lockstep/localstack/lambdahost/lines"
)

func TestWholeLinesOfMany(t *testing.T) {
	var out bytes.Buffer
	sink := lines.New(&out)
	a, b := sink.Writer("a"), sink.Writer("b")
	fmt.Fprint(a, "one\ntw")
	fmt.Fprint(b, "other\r\n\n")
	fmt.Fprint(a, "o\nrest")
	sink.Say("a", "remark %d", 1)
	a.Flush()
	a.Flush()
	if want := "a | one\nb | other\nb | \na | two\na | lambdahost: remark 1\na | rest\n"; out.String() != want {
		t.Errorf("got\n%s", out.String())
	}
}

func TestLineThatNeverEnds(t *testing.T) {
	var out bytes.Buffer
	w := lines.New(&out).Writer("a")
	fmt.Fprint(w, strings.Repeat("x", 200_000))
	w.Flush()
	for line := range strings.Lines(out.String()) {
		if len(line) > 70_000 {
			t.Errorf("a line of %d bytes", len(line))
		}
	}
	if n := strings.Count(out.String(), "x"); n != 200_000 {
		t.Errorf("%d bytes arrived", n)
	}
}
