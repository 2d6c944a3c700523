package main

import (
	"net/url"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockstep-run/lockstep/cmd/lockstep/render"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// auditTarget formats the path of a request and what its body named.
func auditTarget(e workflow.AuditEntry) string {
	target, err := url.PathUnescape(e.Target)
	if err != nil {
		target = e.Target
	}
	if e.Subject != "" {
		target += " " + e.Subject
	}
	return render.OneLine(target)
}

func newAudit(c *connection) *cobra.Command {
	var f workflow.AuditFilter
	var since, until string
	var limit int
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "List who has changed what, and why, newest first",
		Long: `List the requests that have changed something, newest first: commands on executions, definitions that
were published, archived or restored, changes of the inventory and of schedules. Starts of executions are
not among them; "lockstep list" and "lockstep status" say who has started one. STATUS is that of
the answer, - if the service died before it could store it.`,
		Example: "  lockstep audit --since 7d --by ann@example.com\n  lockstep audit --verb archiveDefinition",
		RunE: func(cmd *cobra.Command, _ []string) error {
			for text, at := range map[*string]*time.Time{&since: &f.After, &until: &f.Before} {
				if *text == "" {
					continue
				}
				var err error
				if *at, err = parseSince(*text, time.Now()); err != nil {
					return err
				}
			}
			api, err := c.newClient()
			if err != nil {
				return err
			}
			nothing := "nobody has changed anything"
			if f != (workflow.AuditFilter{}) {
				nothing = "no change matches; without filters, the list shows which callers and operations there are"
			}
			if f.Actor == "" && cmd.Flags().Changed("actor") {
				printNote(cmd, "--actor is who asks; to list what somebody has changed, use --by")
			}
			return printListOrNote(cmd, c, api.Audit(cmd.Context(), f), limit,
				[]string{"WHEN", "ACTOR", "VERB", "TARGET", "STATUS", "REASON"},
				func(e workflow.AuditEntry) []string {
					status := "-"
					if e.Status != nil {
						status = strconv.Itoa(*e.Status)
					}
					return []string{render.Ago(e.At), e.Actor, e.Verb, auditTarget(e), status, orDash(e.Reason)}
				}, nothing)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.Actor, "by", "", "only by this caller")
	flags.StringVar(&f.Verb, "verb", "", "only this operation, as the OpenAPI document names it, such as cancelExecution")
	flags.StringVar(&f.Execution, "execution", "", "only commands on this execution")
	flags.StringVar(&since, "since", "", "only since then: a time (RFC 3339), or a duration such as 7d or 12h (default: 31 days)")
	flags.StringVar(&until, "until", "", "only before then")
	flags.IntVar(&limit, "limit", 100, "maximum number; 0 for all")
	return cmd
}
