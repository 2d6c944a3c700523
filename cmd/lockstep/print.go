package main

import (
	"encoding/json"
	"fmt"
	"iter"

	"github.com/spf13/cobra"

	"github.com/lockstep-run/lockstep/cmd/lockstep/render"
)

// printJSON writes one indented document.
func printJSON(cmd *cobra.Command, v any) error {
	e := json.NewEncoder(cmd.OutOrStdout())
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// printNote says something beside the output, on standard error.
func printNote(cmd *cobra.Command, format string, args ...any) {
	fmt.Fprintf(cmd.ErrOrStderr(), "note: "+format+"\n", args...)
}

// countItems counts what comes of a list; an error counts too, for then nothing is
// known of what there is.
func countItems[T any](items iter.Seq2[T, error], n *int) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for item, err := range items {
			*n++
			if !yield(item, err) {
				return
			}
		}
	}
}

// printOne writes one thing: as a row of the table that its list would be, or as
// JSON.
func printOne[T any](cmd *cobra.Command, c *connection, v T, columns []string, row func(T) []string) error {
	if c.output == "json" {
		return printJSON(cmd, v)
	}
	t := render.NewTable(cmd.OutOrStdout(), columns...)
	t.Row(row(v))
	return t.Flush()
}

// printList writes a list that comes in pages: rows as they arrive for people,
// one JSON array for programs. limit 0 is everything.
func printList[T any](cmd *cobra.Command, c *connection, items iter.Seq2[T, error], limit int, columns []string, row func(T) []string) error {
	out := cmd.OutOrStdout()
	if c.output == "json" {
		all := []T{}
		for item, err := range items {
			if err != nil {
				return asServiceError(err)
			}
			if all = append(all, item); limit > 0 && len(all) == limit {
				break
			}
		}
		return printJSON(cmd, all)
	}
	t := render.NewTable(out, columns...)
	n := 0
	for item, err := range items {
		if err != nil {
			if n > 0 {
				_ = t.Flush() // what has come so far; err is the news
			}
			return asServiceError(err)
		}
		t.Row(row(item))
		if n++; limit > 0 && n == limit {
			break
		}
	}
	return t.Flush()
}

// printListOrNote is printList that says so where there is nothing.
func printListOrNote[T any](cmd *cobra.Command, c *connection, items iter.Seq2[T, error], limit int, columns []string, row func(T) []string, emptyNote string) error {
	n := 0
	err := printList(cmd, c, countItems(items, &n), limit, columns, row)
	if n == 0 && err == nil {
		printNote(cmd, "%s", emptyNote)
	}
	return err
}
