package cost

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Bill is a count with its price.
type Bill struct {
	Lines []views.CostLine // only what was consumed, in a fixed order
	Total float64          // US dollars
	AsOf  string           // date of the price table
}

// NewBill makes the bill of a count at current prices.
func NewBill(c workflow.Cost) Bill { return Current.Bill(c) }

// Bill makes the bill of a count.
func (p Prices) Bill(c workflow.Cost) Bill {
	b := Bill{AsOf: p.Date}
	for _, table := range slices.Sorted(maps.Keys(c.WriteUnits)) {
		b.add("writes to "+table, c.WriteUnits[table], "write units", p.WriteUnits/1e6)
	}
	for _, table := range slices.Sorted(maps.Keys(c.ReadUnits)) {
		b.add("reads of "+table, c.ReadUnits[table], "read units", p.ReadUnits/1e6)
	}
	b.add("queue requests", c.QueueRequests, "requests of 64 KB", p.Queue/1e6)
	b.add("function invocations", c.Invocations, "invocations", p.Invocations/1e6)
	b.add("function time", c.Invocations*assumedGB*assumedSeconds, "GB-seconds, assumed", p.GBSecond)
	return b
}

func (b *Bill) add(what string, quantity float64, unit string, each float64) {
	if quantity == 0 {
		return
	}
	line := views.CostLine{Item: what, Quantity: quantity, Unit: unit, Dollars: quantity * each}
	b.Lines = append(b.Lines, line)
	b.Total += line.Dollars
}

// PerMillion is what a million pieces of work cost, of which n cost usd. It
// carries the detail that one piece's price, far below a cent, cannot show.
func PerMillion(usd float64, n int) float64 {
	if n <= 0 {
		return 0
	}
	return usd / float64(n) * 1e6
}

// Format prints money as $0.00. An amount below half a cent is $0.00.
func Format(usd float64) string {
	cents := math.Round(usd * 100)
	if cents < 0 {
		return fmt.Sprintf("-$%.2f", -cents/100)
	}
	return fmt.Sprintf("$%.2f", math.Abs(cents)/100) // no minus before a zero
}
