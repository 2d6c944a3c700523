package render

import (
	"io"
	"os"
	"slices"
	"strings"
	"unicode/utf8"
)

// Table writes aligned columns. On a terminal it cuts long texts, so that a row stays in its line.
type Table struct {
	out   io.Writer
	width int // of the terminal, 0 for none
	rows  [][]string
}

// NewTable starts a table with its column heads.
func NewTable(out io.Writer, columns ...string) *Table {
	t := &Table{out: out}
	if f, ok := Raw(out).(*os.File); ok {
		t.width = terminalWidth(f)
	}
	t.Row(columns)
	return t
}

// Row adds a row.
func (t *Table) Row(cells []string) {
	line := make([]string, len(cells))
	for i, c := range cells {
		line[i] = OneLine(c)
	}
	t.rows = append(t.rows, line)
}

// columnGap is the number of spaces between columns.
const columnGap = 2

// Flush writes the table.
func (t *Table) Flush() error {
	var widths []int
	for _, row := range t.rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	if t.width > 0 {
		fit(widths, t.rows[0], t.width)
	}
	var text strings.Builder
	for _, row := range t.rows {
		for i, cell := range row {
			if n := utf8.RuneCountInString(cell); n > widths[i] {
				cell = string([]rune(cell)[:widths[i]-1]) + "…"
			} else if i < len(row)-1 {
				cell += strings.Repeat(" ", widths[i]-n)
			}
			if i > 0 {
				text.WriteString(strings.Repeat(" ", columnGap))
			}
			text.WriteString(cell)
		}
		text.WriteByte('\n')
	}
	_, err := io.WriteString(t.out, text.String())
	return err
}

// leastWidth is the width below which no column is cut.
const leastWidth = 10

// fit narrows the widest columns until a row fits the width, or until they are as narrow as they may be. The first
// column, which says what the row is about, and ids are not cut: people copy them.
func fit(widths []int, heads []string, width int) {
	total := -columnGap
	for _, w := range widths {
		total += w + columnGap
	}
	for total > width {
		widest := -1
		for i, w := range widths {
			cut := i > 0 && !slices.Contains([]string{"ID", "EXECUTION"}, heads[i]) && w > max(leastWidth, utf8.RuneCountInString(heads[i]))
			if cut && (widest < 0 || w > widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			return
		}
		widths[widest]--
		total--
	}
}
