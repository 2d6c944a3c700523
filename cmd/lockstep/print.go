package main

import (
	"fmt"
	"iter"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lockstep-run/lockstep/cmd/lockstep/render"
	"github.com/lockstep-run/lockstep/shared/client"
)

// printNote prints a note on standard error, apart from the output.
func printNote(cmd *cobra.Command, format string, args ...any) {
	fmt.Fprintf(cmd.ErrOrStderr(), "note: "+format+"\n", args...)
}

// noteSkipped makes a client print a note about executions that a list does not tell in full.
func noteSkipped(cmd *cobra.Command) func(*client.Options) {
	return func(o *client.Options) {
		o.OnSkipped = func(ids []string) {
			printNote(cmd, "left out or incomplete, because a newer release of the service has written them or their outcomes are lost: %s", strings.Join(ids, ", "))
		}
	}
}

// countItems counts the items of a list in n. An error counts too, so that nobody
// takes the list for empty.
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

// printOne writes one item, as a row of the table that its list would be or as JSON.
func printOne[T any](cmd *cobra.Command, c *connection, v T, columns []string, row func(T) []string) error {
	if c.json() {
		return render.PrintJSON(cmd, v)
	}
	t := render.NewTable(cmd.OutOrStdout(), columns...)
	t.Row(row(v))
	return t.Flush()
}

// printText writes a text or, for programs, v as JSON.
func printText[T any](cmd *cobra.Command, c *connection, v T, err error, text string) error {
	if err != nil {
		return render.AsServiceError(err)
	}
	if c.json() {
		return render.PrintJSON(cmd, v)
	}
	fmt.Fprintln(cmd.OutOrStdout(), text)
	return nil
}

// printList writes the first limit items of a list, or all if limit is 0: a table
// for people, one JSON array for programs. It notes that there are more.
func printList[T any](cmd *cobra.Command, c *connection, items iter.Seq2[T, error], limit int, columns []string, row func(T) []string) error {
	out := cmd.OutOrStdout()
	more := false
	defer func() {
		if more {
			printNote(cmd, "these are the first %d; --limit 0 lists all", limit)
		}
	}()
	items = firstItems(items, limit, &more)
	if c.json() {
		all := []T{}
		for item, err := range items {
			if err != nil {
				return render.AsServiceError(err)
			}
			all = append(all, item)
		}
		return render.PrintJSON(cmd, all)
	}
	t := render.NewTable(out, columns...)
	n := 0
	for item, err := range items {
		if err != nil {
			if n > 0 {
				_ = t.Flush() // the rows so far; the caller gets err
			}
			return render.AsServiceError(err)
		}
		t.Row(row(item))
		n++
	}
	return t.Flush()
}

// firstItems returns the first limit items of a list, or all if limit is 0, and sets more if there are others.
func firstItems[T any](items iter.Seq2[T, error], limit int, more *bool) iter.Seq2[T, error] {
	if limit <= 0 {
		return items
	}
	return func(yield func(T, error) bool) {
		n := 0
		for item, err := range items {
			if n == limit {
				*more = err == nil
				return
			}
			if !yield(item, err) {
				return
			}
			n++
		}
	}
}

// printListOrNote is printList with a note for an empty list.
func printListOrNote[T any](cmd *cobra.Command, c *connection, items iter.Seq2[T, error], limit int, columns []string, row func(T) []string, emptyNote string) error {
	n := 0
	err := printList(cmd, c, countItems(items, &n), limit, columns, row)
	if n == 0 && err == nil {
		printNote(cmd, "%s", emptyNote)
	}
	return err
}
