package doctor

import (
	"fmt"
	"io"

	"github.com/lockstep-run/lockstep/cmd/lockstep/show"
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
	Check string `json:"check"`
	Level Level  `json:"level"`
	Says  string `json:"says"`
	Next  string `json:"next,omitempty"` // what to do about it
}

// Report is everything that was found.
type Report struct {
	OK       bool      `json:"ok"` // nothing has failed
	Findings []Finding `json:"findings"`

	down error // why the service cannot be reached
}

func (r *Report) good(check, format string, args ...any) {
	r.Findings = append(r.Findings, Finding{Check: check, Level: OK, Says: fmt.Sprintf(format, args...)})
}

func (r *Report) warn(check, next, format string, args ...any) {
	r.Findings = append(r.Findings, Finding{check, Warning, fmt.Sprintf(format, args...), next})
}

func (r *Report) fail(check, next, format string, args ...any) {
	r.Findings = append(r.Findings, Finding{check, Failure, fmt.Sprintf(format, args...), next})
}

// found reports whether anything but good was found by a check since there were n
// findings.
func (r *Report) found(check string, n int) bool {
	for _, f := range r.Findings[n:] {
		if f.Check == check && f.Level != OK {
			return true
		}
	}
	return false
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

// write prints the report for people.
func (r *Report) write(out io.Writer) error {
	t := show.NewTable(out, "RESULT", "CHECK", "FOUND")
	for _, f := range r.Findings {
		t.Row([]string{string(f.Level), f.Check, f.Says})
		if f.Next != "" {
			t.Row([]string{"", "", "-> " + f.Next})
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "%d ok, %s, %s\n", r.count(OK), many(r.count(Warning), "warning"), many(r.count(Failure), "failure"))
	return err
}

// many is a number of things.
func many(n int, of string) string {
	if n == 1 {
		return "1 " + of
	}
	return fmt.Sprintf("%d %ss", n, of)
}
