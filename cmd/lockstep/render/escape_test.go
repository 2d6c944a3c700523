package render

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// hostile has what a terminal would act on: control sequences, an operating system
// command, a carriage return, C1 controls, a byte that is not UTF-8, and characters of the
// bidirectional algorithm.
const hostile = "a\x1b[2Jb\x1b]0;title\x07c\rd\u009be\u202ef\u2066g\x9bh\x00i\u2028j"

func wantHarmless(t *testing.T, what, got string) {
	t.Helper()
	if strings.ContainsAny(got, "\x1b\x07\r\x00\u009b\u202e\u2066\u2028") || strings.Contains(got, "\x9bh") {
		t.Errorf("%s prints %q", what, got)
	}
	if !strings.Contains(got, `\x1b[2Jb`) || !strings.Contains(got, `\u202ef`) {
		t.Errorf("%s does not show what was there: %q", what, got)
	}
}

func TestEscaped_PrintsNoControlCharacters(t *testing.T) {
	var out bytes.Buffer
	w := Escaped(&out)
	if n, err := fmt.Fprintf(w, "%s\tä€𝄞\n", hostile); n != len(hostile)+len("\tä€𝄞\n") || err != nil {
		t.Errorf("wrote %d bytes, %v", n, err)
	}
	wantHarmless(t, "a line", out.String())
	if !strings.HasSuffix(out.String(), "\tä€𝄞\n") {
		t.Errorf("other text has changed: %q", out.String())
	}
	out.Reset()
	table := NewTable(w, "A", "B")
	table.Row([]string{hostile, "x\ny\tz"})
	if err := table.Flush(); err != nil {
		t.Fatal(err)
	}
	wantHarmless(t, "a table", out.String())
	if lines := strings.Count(out.String(), "\n"); lines != 2 || !strings.Contains(out.String(), `x\ny\tz`) {
		t.Errorf("a cell has left its row: %q", out.String())
	}
	message := hostile + "\nCOMPLETED"
	wantHarmless(t, "a description", DescribeExecution(views.ExecutionView{
		Status: sm.StatusFailed, State: sm.ExecutionFailedUnsafe, Error: &views.FailureView{Message: message},
	}))
	if s := DescribeWaiting(&views.Waiting{Kind: workflow.WaitCondition, Condition: &message}); strings.Contains(s, "\n") {
		t.Errorf("a description has lines: %q", s)
	}
}

// JSON is for programs and not escaped, and neither are the terminal's own control sequences.
func TestRaw_IsNotEscaped(t *testing.T) {
	var out bytes.Buffer
	cmd := &cobra.Command{}
	cmd.SetOut(Escaped(&out))
	if err := PrintJSON(cmd, "a\u202eb"); err != nil || out.String() != "\"a\u202eb\"\n" {
		t.Errorf("%q, %v", out.String(), err)
	}
	out.Reset()
	bar := NewProgressBar(Escaped(&out))
	bar.terminal = true
	step := hostile
	bar.Update(views.ExecutionView{State: sm.ExecutionRunning, CurrentStep: &step})
	rest, found := strings.CutPrefix(out.String(), "\r\x1b[K")
	if !found {
		t.Errorf("the line is not rewritten: %q", out.String())
	}
	wantHarmless(t, "the progress", rest)
}
