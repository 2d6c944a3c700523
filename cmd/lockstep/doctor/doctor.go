// Package doctor checks a deployment. It reports for each check whether it passed and, if not, what
// to do next.
//
// service.go checks the service over HTTP. stack.go reads the resources of a stack in AWS through
// the port AWS, and stack_checks.go checks them. The doctor changes nothing: to learn what the
// caller may do, it sends requests that cannot succeed.
package doctor

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockstep-run/lockstep/cmd/lockstep/render"
	"github.com/lockstep-run/lockstep/shared/client"
)

const (
	requestTimeout = 15 * time.Second // of one request to the service
	totalTimeout   = 2 * time.Minute  // of all checks
)

// Options configures the verb.
type Options struct {
	Version string                                 // of the command
	URLSet  func(cmd *cobra.Command) bool          // the caller named the service's address
	OpenAWS func(ctx context.Context) (AWS, error) // with the caller's credentials
	Now     func() time.Time
}

// NewCommand returns the verb doctor.
func NewCommand(env render.Env, opts Options) *cobra.Command {
	var stackName string
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check a deployment and say what to do next",
		Long: "Check a deployment: whether the service answers, what the caller may do, versions and clocks, dead letters,\n" +
			"overdue timers, workers. With --stack and AWS credentials, check the stack's resources too: functions, tables,\n" +
			"queues, mappings, schedule, alarms. The stack's output ApiUrl is then the address, unless you name one.\n" +
			"The doctor changes nothing.\n\n" +
			"Exit codes: 0 if no check failed (a warning may be intended), 1 if any failed, 4 if the service is unreachable.",
		Example: "  lockstep doctor\n  AWS_PROFILE=ops lockstep doctor --stack Lockstep-prod\n  lockstep doctor --output json | jq '.findings[] | select(.level == \"failure\")'",
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), totalTimeout)
			defer cancel()
			report := &Report{Findings: []Finding{}, Unchecked: []string{}}
			url := ""
			if stackName != "" {
				url = checkStack(ctx, opts, report, stackName)
				if url == "" && !opts.URLSet(cmd) {
					report.skip("address")
					report.warn("address", "Set it with --url or LOCKSTEP_URL.", "the service was not checked: the stack has no output with its address")
					return printReport(cmd, env, report)
				}
			}
			if opts.URLSet(cmd) {
				url = ""
			}
			if err := checkService(ctx, env, opts, report, url); err != nil {
				return err
			}
			if cmd.Context().Err() != nil { // the checks that it has interrupted have found nothing
				return context.Cause(cmd.Context())
			}
			return printReport(cmd, env, report)
		},
	}
	cmd.Flags().StringVar(&stackName, "stack", "", "name of the CloudFormation stack that contains the engine")
	return cmd
}

// checkStack checks a stack and returns the address of its service.
func checkStack(ctx context.Context, opts Options, report *Report, name string) (url string) {
	account, err := opts.OpenAWS(ctx)
	if err != nil {
		report.fail("credentials", "Set AWS_PROFILE or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, and AWS_REGION.", "cannot call AWS: %v", err)
		return ""
	}
	s := &stackCheck{AWS: account, report: report, now: opts.Now}
	return s.checkAll(ctx, name)
}

// checkService checks the service at url, or at the address of the flags if url is empty.
func checkService(ctx context.Context, env render.Env, opts Options, report *Report, url string) error {
	checker := &serviceCheck{report: report, now: opts.Now, commandVersion: opts.Version, transport: &timingTransport{now: opts.Now}}
	api, err := env.NewClient(func(o *client.Options) {
		if url != "" {
			o.URL = url
		}
		url = o.URL
		checker.transport.next = o.HTTP.Transport
		o.HTTP = &http.Client{Transport: checker.transport, Timeout: requestTimeout}
		o.Retries = -1 // transient errors are findings too
	})
	if err != nil {
		return err
	}
	checker.Client = api
	checker.checkAll(ctx, url)
	return nil
}

// printReport prints the report. The error, if any, only decides the exit code.
func printReport(cmd *cobra.Command, env render.Env, report *Report) error {
	failures := report.count(Failure)
	report.OK = failures == 0
	var err error
	if env.JSON() {
		err = render.PrintJSON(cmd, report)
	} else {
		err = report.writeTable(cmd.OutOrStdout())
	}
	switch {
	case err != nil || failures == 0:
		return err
	case report.unreachable != nil:
		return &render.ReportedError{Worst: render.AsServiceError(report.unreachable)}
	}
	return render.ErrSilent
}

// Level is how serious a finding is.
type Level string

// A warning may be intended, or disappear by itself. A failure never is or does.
const (
	OK      Level = "ok"
	Warning Level = "warning"
	Failure Level = "failure"
)

// Finding is one result of a check.
type Finding struct {
	Check   string `json:"check"`
	Level   Level  `json:"level"`
	Message string `json:"says"`
	Action  string `json:"next,omitempty"` // what to do next
}

// Report is the result of all checks.
type Report struct {
	OK       bool      `json:"ok"` // no check failed
	Findings []Finding `json:"findings"`

	// Unchecked lists the checks that could not be done, or not completely.
	Unchecked []string `json:"unchecked"`

	unreachable error // why the service cannot be reached, nil if it can
}

// pass adds a finding that the check passed, unless the check is incomplete.
func (r *Report) pass(check, format string, args ...any) {
	if !slices.Contains(r.Unchecked, check) {
		r.Findings = append(r.Findings, Finding{Check: check, Level: OK, Message: fmt.Sprintf(format, args...)})
	}
}

// skip marks checks as incomplete.
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

// hasProblems reports whether a check found a warning or a failure.
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
		fmt.Fprintf(out, "not checked, or not completely: %s\n", strings.Join(r.Unchecked, ", "))
	}
	_, err := fmt.Fprintf(out, "%d ok, %s, %s\n", r.count(OK), pluralize(r.count(Warning), "warning"), pluralize(r.count(Failure), "failure"))
	return err
}

// pluralize formats a number of things.
func pluralize(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
