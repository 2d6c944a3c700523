package doctor

import (
	"context"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockstep-run/lockstep/cmd/lockstep/render"
	"github.com/lockstep-run/lockstep/shared/client"
)

// totalTimeout bounds one request, and the whole examination.
const (
	requestTimeout = 15 * time.Second
	totalTimeout   = 2 * time.Minute
)

// Options is what the verb is given besides.
type Options struct {
	Version   string                                 // of the command
	URLSet    func(cmd *cobra.Command) bool          // the service's address is
	OpenAWS   func(ctx context.Context) (AWS, error) // with the caller's credentials
	Now       func() time.Time
	ExitError func(down error) error // ends the command: the report has told why. down is why the service cannot be reached, if it cannot
}

// NewCommand is the verb that examines a deployment.
func NewCommand(s render.Env, opts Options) *cobra.Command {
	var name string
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Examine a deployment and say what to do next",
		Long: "Examine a deployment: that the service answers, what the caller may do, versions and clocks, dead letters, what is\n" +
			"overdue, workers. With --stack and credentials of AWS, the parts of the stack too: functions, tables, queues, mappings,\n" +
			"schedule, alarms; its output ApiUrl is the address then, unless one is named. Nothing is changed.\n\n" +
			"Exit codes: 0 if nothing has failed (warnings may be meant), 1 if anything has, 4 if the service is unreachable.",
		Example: "  lockstep doctor\n  AWS_PROFILE=ops lockstep doctor --stack Lockstep-prod\n  lockstep doctor --output json | jq '.findings[] | select(.level == \"failure\")'",
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), totalTimeout)
			defer cancel()
			report := &Report{Findings: []Finding{}, Unchecked: []string{}}
			url := ""
			if name != "" {
				url = checkStack(ctx, opts, report, name)
				if url == "" && !opts.URLSet(cmd) {
					report.skip("address")
					report.warn("address", "Name it: --url or LOCKSTEP_URL.", "the service was not asked: the stack does not say where it is")
					return printReport(cmd, s, opts, report)
				}
			}
			if opts.URLSet(cmd) {
				url = ""
			}
			if err := checkService(ctx, s, opts, report, url); err != nil {
				return err
			}
			return printReport(cmd, s, opts, report)
		},
	}
	cmd.Flags().StringVar(&name, "stack", "", "the CloudFormation stack that the engine is part of")
	return cmd
}

func checkStack(ctx context.Context, opts Options, report *Report, name string) (url string) {
	account, err := opts.OpenAWS(ctx)
	if err != nil {
		report.fail("credentials", "Set AWS_PROFILE or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, and AWS_REGION.", "AWS cannot be asked: %v", err)
		return ""
	}
	s := &stackCheck{AWS: account, report: report, now: opts.Now}
	return s.checkAll(ctx, name)
}

// checkService asks the service at url, or where the shell says if that is empty.
func checkService(ctx context.Context, s render.Env, opts Options, report *Report, url string) error {
	checker := &serviceCheck{report: report, now: opts.Now, commandVersion: opts.Version, transport: &timingTransport{now: opts.Now}}
	api, err := s.NewClientWith(func(o *client.Options) {
		if url != "" {
			o.URL = url
		}
		url = o.URL
		checker.transport.next = o.HTTP.Transport
		o.HTTP = &http.Client{Transport: checker.transport, Timeout: requestTimeout}
		o.Retries = -1 // what passes by itself is worth knowing
	})
	if err != nil {
		return err
	}
	checker.Client = api
	checker.checkAll(ctx, url)
	return nil
}

func printReport(cmd *cobra.Command, s render.Env, opts Options, report *Report) error {
	failures := report.count(Failure)
	report.OK = failures == 0
	var err error
	if s.JSON() {
		err = s.PrintJSON(cmd, report)
	} else {
		err = report.writeTable(cmd.OutOrStdout())
	}
	if err == nil && failures > 0 {
		err = opts.ExitError(report.unreachable)
	}
	return err
}
