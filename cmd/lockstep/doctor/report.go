package doctor

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/lockstep-run/lockstep/cmd/lockstep/render"
)

// Level is how serious a finding is.
type Level string

// A warning is something that may be meant, or that passes. A failure is not.
const (
	OK      Level = "ok"
	Warning Level = "warning"
	Failure Level = "failure"
)

// Finding is what one check has come to.
type Finding struct {
	Check   string `json:"check"`
	Level   Level  `json:"level"`
	Message string `json:"says"`
	Action  string `json:"next,omitempty"` // what to do about it
}

// Report is everything that was found.
type Report struct {
	OK       bool      `json:"ok"` // nothing has failed
	Findings []Finding `json:"findings"`

	// Unchecked are the checks of which some or all could not be made.
	Unchecked []string `json:"unchecked"`

	unreachable error // why the service cannot be reached
}

// pass says that all is well with something, unless a part of it was not looked at.
func (r *Report) pass(check, format string, args ...any) {
	if !slices.Contains(r.Unchecked, check) {
		r.Findings = append(r.Findings, Finding{Check: check, Level: OK, Message: fmt.Sprintf(format, args...)})
	}
}

// skip says that these checks could not be made whole.
func (r *Report) skip(checks ...string) {
	for _, check := range checks {
		if !slices.Contains(r.Unchecked, check) {
			r.Unchecked = append(r.Unchecked, check)
		}
	}
}

func (r *Report) warn(check, next, format string, args ...any) {
	r.Findings = append(r.Findings, Finding{check, Warning, fmt.Sprintf(format, args...), next})
}

func (r *Report) fail(check, next, format string, args ...any) {
	r.Findings = append(r.Findings, Finding{check, Failure, fmt.Sprintf(format, args...), next})
}

// hasProblems reports whether anything but good was found by a check.
func (r *Report) hasProblems(check string) bool {
	return slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.Check == check && f.Level != OK })
}

func (r *Report) count(level Level) int {
	n := 0
	for _, f := range r.Findings {
		if f.Level == level {
			n++
		}
	}
	return n
}

// writeTable prints the report for people.
func (r *Report) writeTable(out io.Writer) error {
	t := render.NewTable(out, "RESULT", "CHECK", "FOUND")
	for _, f := range r.Findings {
		t.Row([]string{string(f.Level), f.Check, f.Message})
		if f.Action != "" {
			t.Row([]string{"", "", "-> " + f.Action})
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if len(r.Unchecked) > 0 {
		fmt.Fprintf(out, "not checked, or not all of it: %s\n", strings.Join(r.Unchecked, ", "))
	}
	_, err := fmt.Fprintf(out, "%d ok, %s, %s\n", r.count(OK), pluralize(r.count(Warning), "warning"), pluralize(r.count(Failure), "failure"))
	return err
}

// pluralize is a number of things.
func pluralize(n int, of string) string {
	if n == 1 {
		return "1 " + of
	}
	return fmt.Sprintf("%d %ss", n, of)
}
