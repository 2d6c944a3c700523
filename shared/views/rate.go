package views

import (
	"context"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

type rateReport struct{}

// WithRateReport returns a context in which report is called for each rate that may refuse the
// request, taken or not. Answers to requests have what it says in their headers.
func WithRateReport(ctx context.Context, report func(workflow.RateUse)) context.Context {
	return context.WithValue(ctx, rateReport{}, report)
}

// ReportRate reports a use of a rate to the context's function, if it has one.
func ReportRate(ctx context.Context, u workflow.RateUse) {
	if report, ok := ctx.Value(rateReport{}).(func(workflow.RateUse)); ok {
		report(u)
	}
}
