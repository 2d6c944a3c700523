package show

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
)

// Table writes aligned columns.
type Table struct{ w *tabwriter.Writer }

// NewTable begins a table with its heads.
func NewTable(out io.Writer, heads ...string) *Table {
	t := &Table{tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)}
	t.Row(heads)
	return t
}

// Row adds a row.
func (t *Table) Row(cells []string) { fmt.Fprintln(t.w, strings.Join(cells, "\t")) }

// Flush writes the table.
func (t *Table) Flush() error { return t.w.Flush() }

// Ago is how long ago a moment was, for a table.
func Ago(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	d := time.Since(t)
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds ago", int(max(d, 0).Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm ago", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh ago", int(d.Hours()))
	}
	return t.Local().Format(time.DateOnly)
}

// Clock is a moment for a table.
func Clock(t *time.Time) string {
	if t == nil {
		return "-"
	}
	return t.Local().Format(time.DateTime + " MST")
}

// Text is a text for a table, - for none.
func Text(s *string) string {
	if s == nil || *s == "" {
		return "-"
	}
	return *s
}

// Count is a number for a table, - for none.
func Count(n *int) string {
	if n == nil {
		return "-"
	}
	return fmt.Sprint(*n)
}
