package infra

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/lockstep-run/lockstep/shared/cost"
	"github.com/lockstep-run/lockstep/shared/topology"
)

// restingResources counts the resources of a template that cost money while idle.
func restingResources(t *testing.T, x *template) cost.IdleDeployment {
	queries := 0
	for _, indexes := range topology.Indexes {
		for _, index := range indexes {
			if index.Partition == topology.IndexDue.Partition {
				queries += topology.DueShards
			}
		}
	}
	return cost.IdleDeployment{
		PolledQueues: len(x.byType(t, "AWS::Lambda::EventSourceMapping")), SweepsPerMinute: len(x.byType(t, "AWS::Events::Rule")), QueriesPerSweep: queries,
		Alarms: alarmedMetrics(t, x), Dashboards: len(x.byType(t, "AWS::CloudWatch::Dashboard")),
		Metrics:          1, // stuck executions, written also as zero; the others are written only when they occur
		LogBytesPerSweep: 600,
	}
}

// alarmedMetrics counts the metrics of all alarms, each of which is billed as an alarm.
func alarmedMetrics(t *testing.T, x *template) int {
	n := 0
	for _, a := range x.byType(t, "AWS::CloudWatch::Alarm") {
		n += max(1, len(asList(a.property("Metrics")))-1) // without the expression
	}
	return n
}

func TestDeployingPage_ListsIdleCost(t *testing.T) {
	bill := cost.IdleMonth(restingResources(t, stacks()["prod"]))
	var b strings.Builder
	b.WriteString("| a month at rest | quantity | |\n| --- | --- | --- |\n")
	for _, line := range bill.Lines {
		quantity := fmt.Sprintf("%.0f", line.Quantity)
		if line.Quantity < 1 {
			quantity = fmt.Sprintf("%.3f", line.Quantity)
		}
		fmt.Fprintf(&b, "| %s | %s %s | $%.3f |\n", line.Item, quantity, line.Unit, line.Dollars)
	}
	fmt.Fprintf(&b, "| **all** | prices of %s | **$%.2f** |\n", bill.AsOf, bill.Total)

	const file, begin, end = "../docs/deploying.md", "<!-- at rest: written by go test ./infra -update -->\n", "<!-- end -->"
	page, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok := strings.Cut(string(page), begin)
	written, tail, closed := strings.Cut(rest, end)
	if !ok || !closed {
		t.Fatalf("%s lacks the markers of the table", file)
	}
	if *updateFlag && written != b.String() {
		written = b.String()
		if err := os.WriteFile(file, []byte(head+begin+written+end+tail), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if written != b.String() {
		t.Errorf("%s has\n%s\nwant\n%s", file, written, b.String())
	}
	for other, form := range map[string]string{"../README.md": "| $%.2f |", "../docs/cost.md": "[$%.2f a month](deploying.md#what-it-costs-at-rest)"} {
		text, err := os.ReadFile(other)
		if sum := fmt.Sprintf(form, bill.Total); err != nil || !strings.Contains(string(text), sum) {
			t.Errorf("%s does not say %s: %v", other, sum, err)
		}
	}
}
