package cost

import (
	"math"
	"testing"
)

func TestAnInstallAtRest(t *testing.T) {
	b := Rest(Resting{Queues: 2, Sweeps: 1, Queries: 12, Alarms: 10, Dashboards: 1, Metrics: 1, LogBytes: 1 << 10})
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
		if math.Abs(line.Dollars-want[line.What]) > 1e-9 {
			t.Errorf("%s is %v, want %v", line.What, line.Dollars, want[line.What])
		}
		total += want[line.What]
	}
	if len(b.Lines) != len(want) || math.Abs(b.Total-total) > 1e-9 {
		t.Errorf("%d lines, total %v; want %d, %v", len(b.Lines), b.Total, len(want), total)
	}
	if b := Rest(Resting{}); len(b.Lines) != 0 {
		t.Errorf("nothing at all costs %v", b.Lines)
	}
}
