package cost

import (
	"math"
	"testing"
)

func TestIdleMonth_ListsEveryCharge(t *testing.T) {
	b := IdleMonth(IdleDeployment{PolledQueues: 2, SweepsPerMinute: 1, QueriesPerSweep: 12, Alarms: 10, Dashboards: 1, Metrics: 1, LogBytesPerSweep: 1 << 10})
	want := map[string]float64{
		"polling by the mappings":    2 * 15 * 43800 * 0.40e-6,
		"reads by the sweeper":       43800 * 6 * 0.125e-6,
		"invocations of the sweeper": 43800 * 0.20e-6,
		"time of the sweeper":        43800 * 0.025 * 0.0000133334,
		"log of the sweeper":         43800.0 / (1 << 20) * 0.5,
		"alarms":                     1,
		"dashboard":                  3,
		"metrics of the engine":      0.3,
	}
	total := 0.0
	for _, line := range b.Lines {
		if math.Abs(line.Dollars-want[line.Item]) > 1e-9 {
			t.Errorf("%s is %v, want %v", line.Item, line.Dollars, want[line.Item])
		}
		total += want[line.Item]
	}
	if len(b.Lines) != len(want) || math.Abs(b.Total-total) > 1e-9 {
		t.Errorf("%d lines, total %v; want %d, %v", len(b.Lines), b.Total, len(want), total)
	}
	if b := IdleMonth(IdleDeployment{}); len(b.Lines) != 0 {
		t.Errorf("nothing at all costs %v", b.Lines)
	}
}
