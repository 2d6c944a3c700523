package demo

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/lockstep-run/lockstep/shared/cost"
	"github.com/lockstep-run/lockstep/shared/views"
)

// printf adds a line to the story. Where it goes is for people: a write that fails
// changes nothing about the outcome.
func (d *Demo) printf(format string, a ...any) { fmt.Fprintf(d.Out, format+"\n", a...) }

// heading begins a part of the story.
func (d *Demo) heading(format string, a ...any) { d.printf("\n== "+format+"\n", a...) }

// countText says how many devices run what, such as "100 x 2.0.0".
func countText(counts map[string]int) string {
	var texts []string
	for _, v := range slices.Sorted(maps.Keys(counts)) {
		texts = append(texts, fmt.Sprintf("%d x %s", counts[v], v))
	}
	return strings.Join(texts, ", ")
}

// printSummary prints the steps of a run and what it has consumed.
func (d *Demo) printSummary(ctx context.Context, x views.ExecutionView) error {
	d.printf("\n$ lockstep steps %s\n", x.ID)
	if code, _, err := d.runLockstep(ctx, "steps", x.ID); err != nil {
		return err
	} else if code != 0 {
		return fmt.Errorf("lockstep steps %s: exit code %d", x.ID, code)
	}
	bill, err := d.api.Cost(ctx, x.ID)
	if err != nil {
		return err
	}
	jobs := 0
	for s, err := range d.api.Steps(ctx, x.ID) {
		if err != nil {
			return err
		}
		jobs += s.Jobs.Total
	}
	d.printf("\n%s", costSummary(bill, jobs)) // no advice on "lockstep cost": the run is gone with its stack when this ends
	return nil
}

// costSummary sums a bill up.
func costSummary(bill views.CostView, jobs int) string {
	sum := func(units map[string]float64) (n float64) {
		for _, v := range units {
			n += v
		}
		return n
	}
	return fmt.Sprintf(
		"counted: %.1f write units and %.1f read units in %d requests to DynamoDB, %.0f requests to SQS, for %d jobs\n"+
			"on AWS:  %s this run, %s per million such runs, %s per million jobs",
		sum(bill.WriteUnits), sum(bill.ReadUnits), bill.DynamoRequests, bill.QueueRequests, jobs,
		cost.Format(bill.Dollars), cost.Format(cost.PerMillion(bill.Dollars, 1)), cost.Format(cost.PerMillion(bill.Dollars, jobs)))
}
