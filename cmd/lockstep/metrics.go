package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockstep-run/lockstep/cmd/lockstep/render"
	"github.com/lockstep-run/lockstep/shared/views"
)

func newMetrics(c *connection) *cobra.Command {
	var workflow string
	var days int
	cmd := &cobra.Command{
		Use:   "metrics",
		Short: "Count how executions have ended and how long they took, by workflow",
		Long: `Count how executions have ended and how long they took, by workflow. An execution that was retried has
several ends, each of which counts. It took the time since it was created, or retried. DURATIONS has those
that took up to a time, and more than the one before. Executions are counted while "observe.metrics" is on.`,
		Example: "  lockstep metrics --days 30\n  lockstep metrics --workflow fleet/upgrade_firmware:2",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			api, err := c.newClient()
			if err != nil {
				return err
			}
			s, err := api.MetricsSummary(cmd.Context(), workflow, days)
			if err != nil {
				return render.AsServiceError(err)
			}
			if !s.Counting {
				printNote(cmd, "executions are not counted: set observe.metrics (docs/observability.md)")
			}
			if !s.Complete {
				printNote(cmd, "there are more than one request counts: those before %s are missing, and some of the day before it are counted; ask for one workflow, or for fewer days", s.From)
			}
			if c.json() {
				return render.PrintJSON(cmd, s)
			}
			if len(s.Workflows) == 0 {
				printNote(cmd, "nothing has ended since %s", s.From)
			}
			return printMetrics(cmd, s)
		},
	}
	cmd.Flags().StringVar(&workflow, "workflow", "", "only this workflow, package/name or with a version")
	cmd.Flags().IntVar(&days, "days", 7, "how many days, today among them: 1 to 92")
	return cmd
}

func printMetrics(cmd *cobra.Command, s views.MetricsSummary) error {
	t := render.NewTable(cmd.OutOrStdout(), "WORKFLOW", "ENDS", "COMPLETED", "PARTIAL", "FAILED_SAFE", "FAILED_UNSAFE", "CANCELLED", "MEDIAN", "P95", "MAX", "DURATIONS")
	for _, w := range s.Workflows {
		t.Row([]string{
			w.Workflow, fmt.Sprint(w.Count), fmt.Sprint(w.Ends.Completed), fmt.Sprint(w.Partial), fmt.Sprint(w.Ends.FailedSafe), fmt.Sprint(w.Ends.FailedUnsafe), fmt.Sprint(w.Ends.Cancelled),
			shownSeconds(w.Seconds.Median), shownSeconds(w.Seconds.P95), shownSeconds(w.Seconds.Max), shownDurations(s.DurationBounds, w.Durations),
		})
	}
	return t.Flush()
}

// shownSeconds is a duration for people: to the millisecond below a minute, otherwise to the second.
func shownSeconds(seconds float64) string {
	d := time.Duration(seconds * float64(time.Second))
	if d < time.Minute {
		return d.Round(time.Millisecond).String()
	}
	return shortDuration(d.Round(time.Second))
}

// shortDuration is a duration without the units at its end that are zero.
func shortDuration(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// shownDurations are the counts that are not zero, with their bounds.
func shownDurations(bounds []int64, counts []int) string {
	var shown []string
	for i, n := range counts {
		switch {
		case n == 0:
		case i < len(bounds):
			shown = append(shown, fmt.Sprintf("%d to %s", n, shortDuration(time.Duration(bounds[i])*time.Second)))
		case i > 0:
			shown = append(shown, fmt.Sprintf("%d longer", n))
		}
	}
	return strings.Join(shown, ", ")
}
