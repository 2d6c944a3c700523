package main

import (
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
)

// printJSON writes one indented document.
func printJSON(cmd *cobra.Command, v any) error {
	e := json.NewEncoder(cmd.OutOrStdout())
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// table writes aligned columns.
type table struct{ w *tabwriter.Writer }

func newTable(out io.Writer, heads ...string) *table {
	t := &table{tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)}
	t.row(heads)
	return t
}

func (t *table) row(cells []string) { fmt.Fprintln(t.w, strings.Join(cells, "\t")) }

func (t *table) flush() error { return t.w.Flush() }

// printList writes a list that comes in pages: rows as they arrive for people,
// one JSON array for programs. limit 0 is everything.
func printList[T any](cmd *cobra.Command, c *connection, items iter.Seq2[T, error], limit int, heads []string, row func(T) []string) error {
	out := cmd.OutOrStdout()
	if c.output == "json" {
		all := []T{}
		for item, err := range items {
			if err != nil {
				return called(err)
			}
			if all = append(all, item); limit > 0 && len(all) == limit {
				break
			}
		}
		return printJSON(cmd, all)
	}
	t := newTable(out, heads...)
	n := 0
	for item, err := range items {
		if err != nil {
			_ = t.flush() // err is the news
			return called(err)
		}
		t.row(row(item))
		if n++; limit > 0 && n == limit {
			break
		}
	}
	return t.flush()
}

// ago is how long ago a moment was, for a table.
func ago(t time.Time) string {
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

func clock(t *time.Time) string {
	if t == nil {
		return "-"
	}
	return t.Local().Format(time.DateTime)
}

func text(s *string) string {
	if s == nil || *s == "" {
		return "-"
	}
	return *s
}

func count(n *int) string {
	if n == nil {
		return "-"
	}
	return fmt.Sprint(*n)
}
