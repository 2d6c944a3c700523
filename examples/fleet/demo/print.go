package demo

import (
	"context"
	"fmt"
	"text/tabwriter"

	"github.com/lockstep-run/lockstep/shared/cost"
	"github.com/lockstep-run/lockstep/shared/views"
)

// heading begins a part of the story.
func (d *Demo) heading(text string) { fmt.Fprintf(d.Out, "\n== %s\n", text) }

// summary prints the steps of a run and what it has consumed.
func (d *Demo) summary(ctx context.Context, x views.ExecutionView) error {
	if _, err := d.lockstep(ctx, d.Out, "steps", x.ID); err != nil {
		return err
	}
	bill, err := d.api.Cost(ctx, x.ID)
	if err != nil {
		return err
	}
	t := tabwriter.NewWriter(d.Out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(t, "COUNTED\tQUANTITY\tUNIT")
	for _, l := range bill.Lines {
		fmt.Fprintf(t, "%s\t%.1f\t%s\n", l.What, l.Quantity, l.Unit)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	jobs := 0
	for s, err := range d.api.Steps(ctx, x.ID) {
		if err != nil {
			return err
		}
		jobs += s.Jobs.Total
	}
	fmt.Fprintf(d.Out, "On AWS this run would cost %s, which is $%.2f per million jobs (prices of %s).\n",
		cost.Format(bill.Dollars), cost.PerMillion(bill.Dollars, jobs), bill.PricesAsOf)
	return nil
}
