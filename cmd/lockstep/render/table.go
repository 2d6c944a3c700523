package render

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
func NewTable(out io.Writer, columns ...string) *Table {
	t := &Table{tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)}
	t.Row(columns)
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

// Time is a moment for a table.
func Time(t *time.Time) string {
	if t == nil {
		return "-"
	}
	return t.Local().Format(time.DateTime + " MST")
}

// OrDash is a text for a table, - for none.
func OrDash(s *string) string {
	if s == nil || *s == "" {
		return "-"
	}
	return *s
}

// CountOrDash is a number for a table, - for none.
func CountOrDash(n *int) string {
	if n == nil {
		return "-"
	}
	return fmt.Sprint(*n)
}
