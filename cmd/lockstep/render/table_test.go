package render

import (
	"os"
	"strings"
	"testing"
	"unicode/utf8"
)

func filled(width int) string {
	var out strings.Builder
	t := NewTable(&out, "ID", "STATE", "ERROR", "WHY")
	t.width = width
	t.Row([]string{"0189-0000-0000", "RUNNING", strings.Repeat("é", 60), strings.Repeat("w", 30)})
	t.Row([]string{"0189-0000-0001", "-", "short", "-"})
	if err := t.Flush(); err != nil {
		panic(err)
	}
	return out.String()
}

// Only a terminal cuts texts: the longest ones first, and neither ids nor what is short.
func TestTable_CutsTheLongestTextsOnATerminal(t *testing.T) {
	whole := "ID              STATE    ERROR" + strings.Repeat(" ", 57) + "WHY\n" +
		"0189-0000-0000  RUNNING  " + strings.Repeat("é", 60) + "  " + strings.Repeat("w", 30) + "\n" +
		"0189-0000-0001  -        short" + strings.Repeat(" ", 57) + "-\n"
	for _, width := range []int{0, 117, 500} {
		if got := filled(width); got != whole {
			t.Errorf("width %d:\n%s", width, got)
		}
	}
	for width, row := range map[int]string{
		100: "0189-0000-0000  RUNNING  " + strings.Repeat("é", 42) + "…  " + strings.Repeat("w", 30),
		80:  "0189-0000-0000  RUNNING  " + strings.Repeat("é", 25) + "…  " + strings.Repeat("w", 26) + "…",
		10:  "0189-0000-0000  RUNNING  " + strings.Repeat("é", 9) + "…  " + strings.Repeat("w", 9) + "…",
	} {
		lines := strings.Split(filled(width), "\n")
		if lines[1] != row || width > 10 && utf8.RuneCountInString(row) != width {
			t.Errorf("width %d: got\n%s\nwant\n%s", width, lines[1], row)
		}
	}
}

// A file and a pipe have no width.
func TestTerminalWidth_OfAFile(t *testing.T) {
	f, err := os.Create(t.TempDir() + "/out")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	if w := NewTable(Escaped(f)).width; w != 0 {
		t.Errorf("width %d", w)
	}
}
