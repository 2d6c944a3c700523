package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockstep-run/lockstep/cmd/lockstep/render"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

func newFailures(c *connection) *cobra.Command {
	var since, name string
	var groups []string
	var limit int
	cmd := &cobra.Command{
		Use:   "failures",
		Short: "List the entities that did not succeed, those of the newest execution first",
		Long: `List the entities that did not succeed in an execution that has ended, those of the newest execution
first. Those whose turn never came are SKIPPED, and so are those that were left out because they were
locked: of these, each execution keeps the first 20. Items of a foreach are no entities: "lockstep jobs"
lists them. LATER names an execution in which the entity has succeeded since. An execution that was
created more than 31 days before --since is not looked at.`,
		Example: "  lockstep failures --since 7d\n  lockstep failures --since 2026-11-21T05:00:00Z --workflow fleet/upgrade_firmware --group core",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			api, err := c.newClient(noteSkipped(cmd))
			if err != nil {
				return err
			}
			f := views.FailureFilter{Groups: groups}
			if since != "" {
				if f.Since, err = parseSince(since, time.Now()); err != nil {
					return err
				}
			}
			if name != "" {
				if f.Workflow, err = workflow.ParseRef(name); err != nil {
					return err
				}
			}
			unexplained := false
			defer func() {
				if unexplained {
					printNote(cmd, "an entity without a code did not fail itself, or its execution keeps the reasons of others: it was rolled back with the rest, or its turn never came; \"lockstep status EXECUTION\" says why the execution ended, \"lockstep jobs EXECUTION --entity ENTITY\" what was done on the entity")
				}
			}()
			return printListOrNote(cmd, c, api.Failures(cmd.Context(), f), limit,
				[]string{"ENTITY", "OUTCOME", "STEP", "CODE", "MESSAGE", "ENDED", "EXECUTION", "LATER"},
				func(e views.FailedEntityView) []string {
					unexplained = unexplained || e.Code == nil
					ended := "-"
					if e.EndedAt != nil {
						ended = render.Ago(*e.EndedAt)
					}
					return []string{
						e.Entity, string(e.Outcome), render.OrDash(e.Step), render.OrDash(e.Code), render.OrDash(e.Message), ended, e.Execution, render.OrDash(e.SucceededLater),
					}
				}, "no entity failed")
		},
	}
	f := cmd.Flags()
	f.StringVar(&since, "since", "", "only executions that ended since then: a time (RFC 3339), or a duration such as 7d or 12h")
	f.StringVar(&name, "workflow", "", "only this workflow, PACKAGE/NAME[:VERSION]")
	f.StringSliceVar(&groups, "group", nil, "only entities in these groups (repeatable, comma-separated)")
	f.IntVar(&limit, "limit", 100, "maximum number; 0 for all")
	return cmd
}

// parseSince reads a time, or a duration before now; a day is 24 hours.
func parseSince(text string, now time.Time) (time.Time, error) {
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return at, nil
	}
	if days, ok := strings.CutSuffix(text, "d"); ok {
		if n, err := strconv.Atoi(days); err == nil && n >= 0 && n < 100_000 {
			return now.Add(-time.Duration(n) * 24 * time.Hour), nil
		}
	}
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	return time.Time{}, fmt.Errorf("--since wants a duration such as 7d or 12h, or a time such as 2026-11-21T22:00:00Z, not %q", text)
}
