package catalog_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-run/lockstep/shared/catalog"
	"github.com/lockstep-run/lockstep/shared/sim"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// TestCatalog_SummarisesEnds: ends of several days, workflows, versions and tenants, in pages of any size.
func TestCatalog_SummarisesEnds(t *testing.T) {
	for _, pageItems := range []int{1, 1000} {
		w := sim.New(1)
		w.PageItems = pageItems
		c := catalog.New(func() catalog.Ports { return catalog.Ports{Registry: w.Open().Registry} }, w.Now)
		c.CountsEnds = true
		ctx, ends := context.Background(), 0
		put := func(tenant, name string, ago int, state sm.ExecutionState, took time.Duration) {
			t.Helper()
			ref, err := workflow.ParseRef(name)
			if err != nil {
				t.Fatal(err)
			}
			ends++
			e := workflow.End{Workflow: ref, Execution: fmt.Sprint("x", ends), Sequence: 9, At: w.Now().AddDate(0, 0, -ago), State: state, Took: took, Partial: took == 2*time.Second}
			for range 2 { // one that is stored again does not count again
				if err := w.Open().Registry.PutEnd(ctx, tenant, e); err != nil {
					t.Fatal(err)
				}
			}
		}
		for n := range 20 {
			put(ann.Tenant, "p/w:1.0.0", 0, sm.ExecutionCompleted, time.Duration(n+1)*time.Second)
		}
		put(ann.Tenant, "p/w:2.0.0", 6, sm.ExecutionFailedUnsafe, 30*24*time.Hour)
		put(ann.Tenant, "p/w:2.0.0", 7, sm.ExecutionFailedSafe, time.Second)
		put(ann.Tenant, "p/wide:1.0.0", 1, sm.ExecutionCancelled, 0)
		put(ann.Tenant, "p/wide:1.0.0", 1, sm.ExecutionFailedSafe, 5*time.Second)
		put("other", "p/w:1.0.0", 0, sm.ExecutionCompleted, time.Hour)

		wide := views.WorkflowMetrics{
			Workflow: "p/wide", Count: 2, Ends: views.EndCounts{FailedSafe: 1, Cancelled: 1},
			Seconds: views.DurationSummary{Sum: 5, Max: 5, Median: 0, P95: 5}, Durations: []int{1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
		}
		month := 30 * 24 * time.Hour.Seconds()
		one := views.WorkflowMetrics{
			Workflow: "p/w", Count: 21, Ends: views.EndCounts{Completed: 20, FailedUnsafe: 1}, Partial: 1,
			Seconds: views.DurationSummary{Sum: 210 + month, Max: month, Median: 11, P95: 20}, Durations: []int{1, 4, 10, 5, 0, 0, 0, 0, 0, 0, 0, 1},
		}
		week := views.MetricsSummary{
			From: workflow.EndDay(w.Now().AddDate(0, 0, -6)), Through: workflow.EndDay(w.Now()), Counting: true, Complete: true,
			DurationBounds: workflow.DurationBounds(), Workflows: []views.WorkflowMetrics{one, wide},
		}
		for _, q := range []struct {
			ref  string
			days int
			want func() views.MetricsSummary
		}{
			{"", 0, func() views.MetricsSummary { return week }},
			{"p/w", 7, func() views.MetricsSummary { v := week; v.Workflows = v.Workflows[:1]; return v }},
			{"p/none", 7, func() views.MetricsSummary { v := week; v.Workflows = []views.WorkflowMetrics{}; return v }},
			{"p/wide:1", 2, func() views.MetricsSummary {
				v := week
				v.From, v.Workflows = workflow.EndDay(w.Now().AddDate(0, 0, -1)), v.Workflows[1:]
				return v
			}},
			{"p/wide:2", 1, func() views.MetricsSummary {
				v := week
				v.From, v.Workflows = v.Through, []views.WorkflowMetrics{}
				return v
			}},
		} {
			got, err := c.MetricsSummary(ctx, ann, q.ref, q.days)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(q.want(), got); diff != "" {
				t.Errorf("%q for %d days: %s", q.ref, q.days, diff)
			}
		}
		if _, err := c.MetricsSummary(ctx, ann, "nonsense", 1); !workflow.Is(err, workflow.CodeInvalid) {
			t.Errorf("a workflow that is none: %v", err)
		}
	}
}
