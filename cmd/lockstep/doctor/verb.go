package doctor

import (
	"context"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockstep-run/lockstep/cmd/lockstep/upkeep"
	"github.com/lockstep-run/lockstep/shared/client"
)

// patience bounds one request, and the whole examination.
const (
	requestPatience = 15 * time.Second
	patience        = 2 * time.Minute
)

// Setting is what the verb is given besides.
type Setting struct {
	Version string                                   // of the command
	Named   func(cmd *cobra.Command) bool            // the service's address is
	Cloud   func(ctx context.Context) (Cloud, error) // with the caller's credentials
	Now     func() time.Time
	Failed  func(down error) error // ends the command: the report has told why. down is why the service cannot be reached, if it cannot
}

// Verb is the verb that examines a deployment.
func Verb(s upkeep.Shell, set Setting) *cobra.Command {
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
			ctx, cancel := context.WithTimeout(cmd.Context(), patience)
			defer cancel()
			report := &Report{Findings: []Finding{}, Unchecked: []string{}}
			url := ""
			if name != "" {
				url = examineStack(ctx, set, report, name)
				if url == "" && !set.Named(cmd) {
					report.skip("address")
					report.warn("address", "Name it: --url or LOCKSTEP_URL.", "the service was not asked: the stack does not say where it is")
					return tell(cmd, s, set, report)
				}
			}
			if set.Named(cmd) {
				url = ""
			}
			if err := examineService(ctx, s, set, report, url); err != nil {
				return err
			}
			return tell(cmd, s, set, report)
		},
	}
	cmd.Flags().StringVar(&name, "stack", "", "the CloudFormation stack that the engine is part of")
	return cmd
}

func examineStack(ctx context.Context, set Setting, report *Report, name string) (url string) {
	account, err := set.Cloud(ctx)
	if err != nil {
		report.fail("credentials", "Set AWS_PROFILE or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, and AWS_REGION.", "AWS cannot be asked: %v", err)
		return ""
	}
	s := &stack{Cloud: account, report: report, now: set.Now}
	return s.examine(ctx, name)
}

// examineService asks the service at url, or where the shell says if that is empty.
func examineService(ctx context.Context, s upkeep.Shell, set Setting, report *Report, url string) error {
	look := &service{report: report, now: set.Now, command: set.Version, tap: &tap{now: set.Now}}
	api, err := s.Connect(func(o *client.Options) {
		if url != "" {
			o.URL = url
		}
		url = o.URL
		look.tap.next = o.HTTP.Transport
		o.HTTP = &http.Client{Transport: look.tap, Timeout: requestPatience}
		o.Retries = -1 // what passes by itself is worth knowing
	})
	if err != nil {
		return err
	}
	look.Client = api
	look.examine(ctx, url)
	return nil
}

func tell(cmd *cobra.Command, s upkeep.Shell, set Setting, report *Report) error {
	failures := report.count(Failure)
	report.OK = failures == 0
	var err error
	if s.JSON() {
		err = s.Print(cmd, report)
	} else {
		err = report.write(cmd.OutOrStdout())
	}
	if err == nil && failures > 0 {
		err = set.Failed(report.down)
	}
	return err
}
