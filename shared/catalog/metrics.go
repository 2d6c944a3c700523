package catalog

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// Limits of a summary.
const (
	defaultMetricsDays = 7
	maxCountedEnds     = 100_000 // ends that one request reads: about 15 MB
)

// MetricsSummary counts how executions have ended in the last days, today among them: those of one
// workflow, of all its versions or of some, or of all workflows. It begins with today, and stops where
// there are too many for one request.
func (c *Catalog) MetricsSummary(ctx context.Context, caller workflow.Caller, ref string, days int) (s views.MetricsSummary, err error) {
	var only workflow.Ref
	if ref != "" {
		if only, err = workflow.ParseRef(ref); err != nil {
			return s, err
		}
	}
	if days == 0 {
		days = defaultMetricsDays
	}
	today := c.now().UTC()
	s = views.MetricsSummary{Through: workflow.EndDay(today), Counting: c.CountsEnds, Complete: true, DurationBounds: workflow.DurationBounds()}
	s.From = s.Through
	counts, read, registry := map[string]*endCounter{}, 0, c.openPorts().Registry
	for n := range days {
		day := workflow.EndDay(today.AddDate(0, 0, -n))
		for page := (workflow.Page{Limit: workflow.MaxPageSize}); ; {
			if read >= maxCountedEnds {
				s.Complete, s.Workflows = false, summaries(counts)
				return s, nil
			}
			fullName := ""
			if ref != "" {
				fullName = only.FullName()
			}
			list, err := registry.Ends(ctx, caller.Tenant, day, fullName, page)
			if err != nil {
				return s, err
			}
			read += len(list.Items)
			for i := range list.Items {
				if e := &list.Items[i]; ref == "" || only.Matches(e.Workflow.Version) {
					name := e.Workflow.FullName()
					if counts[name] == nil {
						counts[name] = newEndCounter(name)
					}
					counts[name].add(e)
				}
			}
			if page.Token = list.NextToken; page.Token == "" {
				break
			}
		}
		s.From = day
	}
	s.Workflows = summaries(counts)
	return s, nil
}

// endCounter counts the ends of a workflow.
type endCounter struct {
	views.WorkflowMetrics
	took []time.Duration
}

func newEndCounter(name string) *endCounter {
	return &endCounter{WorkflowMetrics: views.WorkflowMetrics{Workflow: name, Durations: make([]int, len(workflow.DurationBounds())+1)}}
}

func (c *endCounter) add(e *workflow.End) {
	c.Count++
	switch e.State {
	case sm.ExecutionCompleted:
		c.Ends.Completed++
	case sm.ExecutionFailedSafe:
		c.Ends.FailedSafe++
	case sm.ExecutionFailedUnsafe:
		c.Ends.FailedUnsafe++
	case sm.ExecutionCancelled:
		c.Ends.Cancelled++
	}
	if e.Partial {
		c.Partial++
	}
	c.took = append(c.took, e.Took)
	at := slices.IndexFunc(workflow.DurationBounds(), func(bound int64) bool { return e.Took <= time.Duration(bound)*time.Second })
	if at < 0 {
		at = len(c.Durations) - 1
	}
	c.Durations[at]++
}

// summaries lists the workflows, those with the most ends first.
func summaries(counts map[string]*endCounter) []views.WorkflowMetrics {
	all := []views.WorkflowMetrics{}
	for _, c := range counts {
		slices.Sort(c.took)
		var sum time.Duration
		for _, d := range c.took {
			sum += d
		}
		n := len(c.took)
		c.Seconds = views.DurationSummary{
			Sum: sum.Seconds(), Max: c.took[n-1].Seconds(), Median: c.took[(n-1)/2].Seconds(), P95: c.took[(95*n+99)/100-1].Seconds(),
		}
		all = append(all, c.WorkflowMetrics)
	}
	slices.SortFunc(all, func(a, b views.WorkflowMetrics) int {
		return cmp.Or(b.Count-a.Count, cmp.Compare(a.Workflow, b.Workflow))
	})
	return all
}
