package main

import (
	"strings"
	"testing"

	"github.com/lockstep-run/lockstep/shared/views"
)

func TestMetrics_PrintsDurationsForPeople(t *testing.T) {
	summary := views.MetricsSummary{
		From: "2026-11-15", Through: "2026-11-21", Counting: true, Complete: true, DurationBounds: []int64{1, 60, 3600, 86400},
		Workflows: []views.WorkflowMetrics{{
			Workflow: "p/w", Count: 7, Ends: views.EndCounts{Completed: 4, FailedSafe: 1, FailedUnsafe: 2}, Partial: 3,
			Seconds: views.DurationSummary{Sum: 9, Max: 7260, Median: 0.25, P95: 60}, Durations: []int{4, 1, 0, 1, 1},
		}},
	}
	url := serveAnswers(t, map[string]any{"GET /metrics/summary": summary})
	got := runCommand(t, "metrics", url)
	row := strings.Join(strings.Fields(strings.Split(got.stdout, "\n")[1]), " ")
	if want := "p/w 7 4 3 1 2 0 250ms 1m 2h1m 4 to 1s, 1 to 1m, 1 to 24h, 1 longer"; got.code != 0 || row != want || got.stderr != "" {
		t.Errorf("exit %d, %q, want %q\n%s", got.code, row, want, got.stderr)
	}
	summary.Counting, summary.Complete, summary.Workflows = false, false, nil
	got = runCommand(t, "metrics", serveAnswers(t, map[string]any{"GET /metrics/summary": summary}), "--days", "92")
	for _, want := range []string{"set observe.metrics", "those before 2026-11-15 are missing", "nothing has ended since 2026-11-15"} {
		if !strings.Contains(got.stderr, want) {
			t.Errorf("no %q in %s", want, got.stderr)
		}
	}
}
