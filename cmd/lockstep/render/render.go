// Package render holds what the verbs of the command share: how they reach the service, the errors
// that decide the exit code, and output for people and for programs.
//
// escape.go keeps others' texts from controlling a terminal, describe.go describes the state of an
// execution and the verbs that it accepts, and progress.go shows the progress of long work.
package render

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockstep-run/lockstep/shared/client"
)

// Env is what the verbs of packages doctor and transfer get from the command line. Its functions
// read the flags, so they work only while a command runs.
type Env struct {
	// NewClient returns a client for the service that the flags name. It sends nothing.
	NewClient func(adjust ...func(*client.Options)) (*client.Client, error)
	// JSON reports whether the output is for programs.
	JSON func() bool
}

// PrintJSON writes one indented document.
func PrintJSON(cmd *cobra.Command, v any) error {
	e := json.NewEncoder(Raw(cmd.OutOrStdout()))
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// PrintJSONLine writes one document on a line of its own.
func PrintJSONLine(cmd *cobra.Command, v any) error {
	e := json.NewEncoder(Raw(cmd.OutOrStdout()))
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// Ago formats how long ago a time was, "-" for the zero time. After two days it
// is the date.
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

// Time formats a time in the local zone, "-" for nil.
func Time(t *time.Time) string {
	if t == nil {
		return "-"
	}
	return t.Local().Format(time.DateTime + " MST")
}

// OrDash returns the text, "-" for nil or empty.
func OrDash(s *string) string {
	if s == nil || *s == "" {
		return "-"
	}
	return *s
}

// CountOrDash formats a number, "-" for nil.
func CountOrDash(n *int) string {
	if n == nil {
		return "-"
	}
	return fmt.Sprint(*n)
}
