// Package cost turns what an execution has consumed into money.
//
//   - meter.go has the counter of the adapters, one for each unit of work, so that each
//     execution is charged for its own calls only.
//   - prices.go has the price table, with its date and its source.
//   - bill.go makes the bill of a count, and that of an idle deployment.
//   - estimate.go estimates what work will consume.
//
// Nothing here calls a service: the adapters count what the services report.
package cost

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Bill is the price of a count.
type Bill struct {
	Lines []views.CostLine // only what was consumed, in a fixed order
	Total float64          // US dollars
	AsOf  string           // date of the price table, ISO 8601
}

// NewBill makes the bill of a count at the current prices.
func NewBill(c workflow.Cost) Bill { return Current.Bill(c) }

// Bill makes the bill of a count at these prices.
func (p Prices) Bill(c workflow.Cost) Bill {
	b := Bill{AsOf: p.Date}
	writes := 0.0
	for _, table := range slices.Sorted(maps.Keys(c.WriteUnits)) {
		writes += c.WriteUnits[table]
		b.add("writes to "+table, c.WriteUnits[table], "write units", p.WriteUnits/1e6)
	}
	for _, table := range slices.Sorted(maps.Keys(c.ReadUnits)) {
		b.add("reads of "+table, c.ReadUnits[table], "read units", p.ReadUnits/1e6)
	}
	b.add("queue requests", c.QueueRequests, "requests of 64 KB", p.Queue/1e6)
	b.add("function invocations", c.Invocations, "invocations", p.Invocations/1e6)
	b.add("function time", functionGB*(c.Invocations*invocationSeconds+writes*writeSeconds), "GB-seconds, estimated", p.GBSecond)
	return b
}

func (b *Bill) add(item string, quantity float64, unit string, price float64) {
	if quantity == 0 {
		return
	}
	line := views.CostLine{Item: item, Quantity: quantity, Unit: unit, Dollars: quantity * price}
	b.Lines = append(b.Lines, line)
	b.Total += line.Dollars
}

// PerMillion returns the price of a million units of work if n of them cost usd. It shows
// differences that disappear in the price of one unit, which is far below a cent. It is 0 if n is
// not positive.
func PerMillion(usd float64, n int) float64 {
	if n <= 0 {
		return 0
	}
	return usd / float64(n) * 1e6
}

// Format prints US dollars as $0.00, rounded to cents. For less than a cent it prints the first two
// digits that are not zero, as $0.000014.
func Format(usd float64) string {
	if usd > 0 && usd < 0.01 {
		return "$" + strings.TrimRight(strconv.FormatFloat(usd, 'f', 1-int(math.Floor(math.Log10(usd))), 64), "0")
	}
	cents := math.Round(usd * 100)
	if cents < 0 {
		return fmt.Sprintf("-$%.2f", -cents/100)
	}
	return fmt.Sprintf("$%.2f", math.Abs(cents)/100) // no minus sign before zero
}

// IdleDeployment is a deployment without executions and requests: its resources that are billed by
// the month, and the work of its sweeper.
type IdleDeployment struct {
	PolledQueues     int // queues that an event source mapping polls
	SweepsPerMinute  int
	QueriesPerSweep  int // queries of empty indexes in one sweep
	Alarms           int
	Dashboards       int
	Metrics          int // custom metrics that it writes while idle
	LogBytesPerSweep float64
}

const (
	minutesPerMonth = 730 * 60    // AWS bills a month as 730 hours
	pollsPerMinute  = 5 * 60 / 20 // an event source mapping keeps five long polls of 20 seconds
	gigabyte        = 1 << 30

	emptyQuery = 0.5  // read units of an eventually consistent query without results
	sweeperGB  = 0.25 // half of the memory of the average function
)

// IdleMonth returns the bill of an idle month at the current prices. It leaves out tables, queues,
// functions and the HTTP API, which are billed by storage and requests.
func IdleMonth(d IdleDeployment) Bill { return Current.IdleMonth(d) }

// IdleMonth returns the bill of an idle month at these prices.
func (p Prices) IdleMonth(d IdleDeployment) Bill {
	b, sweeps := Bill{AsOf: p.Date}, float64(d.SweepsPerMinute*minutesPerMonth)
	b.add("polling by the mappings", float64(d.PolledQueues*pollsPerMinute*minutesPerMonth), "requests of 64 KB", p.Queue/1e6)
	b.add("reads by the sweeper", sweeps*float64(d.QueriesPerSweep)*emptyQuery, "read units", p.ReadUnits/1e6)
	b.add("invocations of the sweeper", sweeps, "invocations", p.Invocations/1e6)
	b.add("time of the sweeper", sweeps*sweeperGB*sweeperSeconds, "GB-seconds, assumed", p.GBSecond)
	b.add("log of the sweeper", sweeps*d.LogBytesPerSweep/gigabyte, "GB", p.LogGB)
	b.add("alarms", float64(d.Alarms), "alarms", p.Alarm)
	b.add("dashboard", float64(d.Dashboards), "dashboards", p.Dashboard)
	b.add("metrics of the engine", float64(d.Metrics), "metrics", p.Metric)
	return b
}
