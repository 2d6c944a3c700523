package cost

import (
	"math"
	"sync"
	"testing"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

func TestNewBill_ListsTablesAndAddsUp(t *testing.T) {
	b := NewBill(workflow.Cost{
		WriteUnits:    map[string]float64{"locks": 1e6, "executions": 3e6},
		ReadUnits:     map[string]float64{"locks": 2e6},
		QueueRequests: 1e6,
		Invocations:   1e6,
	})
	want := []struct {
		item    string
		dollars float64
	}{
		{"writes to executions", 1.875},
		{"writes to locks", 0.625},
		{"reads of locks", 0.25},
		{"queue requests", 0.40},
		{"function invocations", 0.20},
		{"function time", 0.2000010 + 0.0533336}, // 30,000 s for the invocations and 8,000 s for the writes, at 0.5 GB
	}
	if len(b.Lines) != len(want) {
		t.Fatalf("%d lines, want %d: %+v", len(b.Lines), len(want), b.Lines)
	}
	total := 0.0
	for i, w := range want {
		if got := b.Lines[i]; got.Item != w.item || math.Abs(got.Dollars-w.dollars) > 1e-9 {
			t.Errorf("line %d is %s at %v, want %s at %v", i, got.Item, got.Dollars, w.item, w.dollars)
		}
		total += w.dollars
	}
	if math.Abs(b.Total-total) > 1e-9 {
		t.Errorf("total %v, want %v", b.Total, total)
	}
	if b.AsOf == "" {
		t.Error("the bill has no date of its prices")
	}
}

func TestNewBill_Empty(t *testing.T) {
	if b := NewBill(workflow.Cost{}); len(b.Lines) != 0 || b.Total != 0 {
		t.Errorf("got %+v", b)
	}
}

func TestFormat_TwoDecimalsOrTwoDigits(t *testing.T) {
	for usd, want := range map[float64]string{0: "$0.00", 0.0000123: "$0.000012", 0.005: "$0.005", 0.00999999: "$0.01", 0.01: "$0.01", 12.345678: "$12.35", 1e6: "$1000000.00", -0.001: "$0.00", -2: "-$2.00"} {
		if got := Format(usd); got != want {
			t.Errorf("Format(%v) = %s, want %s", usd, got, want)
		}
	}
}

func TestPerMillion_KeepsPrecision(t *testing.T) {
	if got := PerMillion(0.0012, 100); math.Abs(got-12) > 1e-9 {
		t.Errorf("got %v, want 12", got)
	}
	if got := PerMillion(1, 0); got != 0 {
		t.Errorf("PerMillion of no units is %v, want 0", got)
	}
}

func TestMeter_CountsConcurrentlyAndResets(t *testing.T) {
	var m Meter
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			m.Request()
			m.Write("jobs", 1.5)
			m.Read("locks", 0.5)
			m.Queue(QueueUnit + 1)
			m.Queue(0)
		})
	}
	wg.Wait()
	c := m.Take()
	if c.DynamoRequests != 50 || c.WriteUnits["jobs"] != 75 || c.ReadUnits["locks"] != 25 || c.QueueRequests != 150 {
		t.Errorf("counted %+v", c)
	}
	if again := m.Take(); !again.IsZero() {
		t.Errorf("after Take the count is %+v", again)
	}
	c.WriteUnits["jobs"] = 0
	m.Write("jobs", 1)
	if m.Take().WriteUnits["jobs"] != 1 {
		t.Error("the taken count shares a map with the meter")
	}
	var none *Meter
	none.Request()
	if got := none.Take(); !got.IsZero() {
		t.Errorf("a nil meter counted %+v", got)
	}
}

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
		t.Errorf("an empty deployment has the lines %v", b.Lines)
	}
}
