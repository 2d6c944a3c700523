package engine_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/observe"
	"github.com/lockstep-run/lockstep/shared/topology"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

// telemetryFixture is a stage whose engine is listened to.
type telemetryFixture struct {
	*harness.Harness
	log      bytes.Buffer
	measured map[string][]int
}

func newTelemetryFixture(t *testing.T, change func(*harness.Harness)) *telemetryFixture {
	p := &telemetryFixture{measured: map[string][]int{}}
	o := harness.Options()
	o.Policy.MaxStepRuns = 4
	p.Harness = harness.New(t, 1, o)
	p.Engine.Log = observe.NewLog(observe.Options{Writer: &p.log, Level: slog.LevelDebug})
	p.Engine.RecordMetric = func(_ context.Context, metric string, n int) { p.measured[metric] = append(p.measured[metric], n) }
	p.RegisterBlocks()
	p.ImportDevices(harness.DeviceIDs(3)...)
	if change != nil {
		change(p.Harness)
	}
	return p
}

// logLines are those of a message, without when they were written.
func (p *telemetryFixture) logLines(message string) (all []map[string]any) {
	p.Helper()
	for line := range bytes.Lines(p.log.Bytes()) {
		var l map[string]any
		if err := json.Unmarshal(line, &l); err != nil {
			p.Fatalf("%v in %s", err, line)
		}
		delete(l, observe.Timestamp)
		if l[observe.Message] == message {
			all = append(all, l)
		}
	}
	return all
}

const twoDeviceSteps = `steps:
  - {label: one, functionBlock: p/again:1, runOn: device}
  - {label: two, functionBlock: p/again:1, runOn: device}
`

// A run is two lines of the log, one for each look that moves it, however many
// devices it is about and whatever comes between; its history has each move.
func TestRecorder_LogsOneLinePerAdvance(t *testing.T) {
	for _, n := range []int{1, 3} {
		p := newTelemetryFixture(t, nil)
		p.Publish("w", twoDeviceSteps)
		x, _, err := p.Engine.Start(t.Context(), workflow.Caller{Tenant: harness.Caller.Tenant, Actor: "ann", CorrelationID: "order-7"}, views.StartRequest{
			Workflow: "p/w", ExecuteOnParameters: &workflow.Selector{Type: "device", IDs: harness.DeviceIDs(n)},
		})
		if err != nil {
			t.Fatal(err)
		}
		p.Drain()
		p.ExpectState(x.ID, sm.ExecutionCompletedAck)
		lines := p.logLines("execution changed state")
		want := []map[string]any{
			{"from": "NEW", "to": "RUNNING"}, {"from": "RUNNING", "to": "COMPLETED_ACK"},
		}
		if len(lines) != len(want) || bytes.Count(p.log.Bytes(), []byte("\n")) != len(want) {
			t.Fatalf("%d devices: wrote %s", n, p.log.String())
		}
		for i, l := range lines {
			maps.Copy(want[i], map[string]any{
				"level": "INFO", "message": "execution changed state", "tenant": "acme", "executionId": x.ID, "correlationId": "order-7", "workflow": "p/w:1.0.0",
				"commits": l["commits"], "version": l["version"],
			})
			if fmt.Sprint(l) != fmt.Sprint(want[i]) {
				t.Errorf("wrote %v, want %v", l, want[i])
			}
		}
	}
}

// What a run is about, and what blocks say, never stands in a line, however it ends.
func TestRecorder_OmitsPayloads(t *testing.T) {
	const mark = "hunter2"
	p := newTelemetryFixture(t, nil)
	p.Publish("w", `parameters: {type: object, properties: {key: {type: string}}}
steps:
  - {label: one, functionBlock: p/again:1, runOn: device, parameters: {key: "${parameters.key}"}}
  - {label: two, functionBlock: p/once:1, runOn: device, parameters: {n: "${int(parameters.key)}"}}
`)
	p.Publish("v", "config:\n  startWhen: {condition: 'int(parameters.key) > 1', deadline: 1m}\n"+twoDeviceSteps)
	p.Script = func(c harness.BlockCall) *harness.Outcome {
		if c.Entity == "d002" {
			return &harness.Outcome{FailCode: "BROKEN", Result: json.RawMessage(`{"is":"` + mark + `"}`)}
		}
		return &harness.Outcome{Result: json.RawMessage(`{"is":"` + mark + `"}`), SetAttributes: map[string]any{"note": mark}}
	}
	var ids []string
	for name, devices := range map[string][]string{"w": {"d000", "d002"}, "v": {"d001"}} {
		ids = append(ids, p.StartWith(views.StartRequest{
			Workflow: "p/" + name, Parameters: json.RawMessage(`{"key":"` + mark + `"}`), Labels: map[string]string{"l": mark},
			ExecuteOnParameters: &workflow.Selector{Type: "device", IDs: devices},
		}))
	}
	if !p.RunUntilIdle(2 * time.Hour) {
		t.Fatal("it never ends")
	}
	for _, id := range ids {
		if x := p.Load(id); x.Cause == "" {
			t.Errorf("%s was meant to fail: %s", id, x.State)
		}
	}
	if p.log.Len() == 0 || strings.Contains(p.log.String(), mark) {
		t.Errorf("wrote %s", p.log.String())
	}
	for _, l := range p.logLines("execution changed state") {
		if l["to"] == "FAILED_SAFE" && (l["cause"] == nil || l["code"] == nil) {
			t.Errorf("it does not say why: %v", l)
		}
	}
}

// A run that goes on waiting for a lock says for how long, once it is long.
func TestRecorder_MeasuresLockAge(t *testing.T) {
	p := newTelemetryFixture(t, nil)
	p.Publish("w", twoDeviceSteps)
	p.Start("w", "d000")
	b := p.Start("w", "d000")
	p.ExpectState(b, sm.ExecutionScheduled)
	for range 3 {
		p.Advance(40 * time.Second)
		if err := p.Engine.Advance(t.Context(), workflow.Wakeup{Tenant: harness.Caller.Tenant, Execution: b}); err != nil {
			t.Fatal(err)
		}
	}
	if got := p.measured[topology.MetricLockAge]; !slices.Equal(got, []int{80, 120}) {
		t.Errorf("measured %v", got)
	}
	p.Drain()
	p.ExpectState(b, sm.ExecutionCompletedAck)
	if got := p.measured[topology.MetricLockAge]; len(got) != 2 || len(p.measured) != 1 {
		t.Errorf("measured %v", p.measured)
	}
}

// Each of the bounds on what would go on and on counts when it stops a run, once; what
// ends by itself does not.
func TestRecorder_MeasuresGuardStops(t *testing.T) {
	t.Run("steps", func(t *testing.T) {
		p := newTelemetryFixture(t, nil)
		p.Publish("w", "steps:\n  - {label: again, functionBlock: p/again:1, runOn: device, repeat: {count: 99}}\n")
		id := p.Start("w", "d000")
		p.Drain()
		if x := p.Load(id); x.Cause != workflow.CauseLimit {
			t.Errorf("ended %s, %s", x.State, x.Cause)
		}
		if got := p.measured[topology.MetricGuardStops]; !slices.Equal(got, []int{1}) {
			t.Errorf("measured %v", got)
		}
	})
	t.Run("runs of runs", func(t *testing.T) {
		p := newTelemetryFixture(t, nil)
		p.Publish("w", "steps:\n  - {label: again, workflowReference: {workflow: p/w, mode: dispatch}}\n")
		p.Start("w")
		if !p.RunUntilIdle(2 * time.Hour) {
			t.Fatal("it never ends")
		}
		if got := p.measured[topology.MetricGuardStops]; !slices.Equal(got, []int{1}) {
			t.Errorf("measured %v", got)
		}
	})
	t.Run("nothing", func(t *testing.T) {
		p := newTelemetryFixture(t, nil)
		p.Publish("w", twoDeviceSteps)
		p.Start("w", "d000")
		p.Drain()
		if len(p.measured) != 0 {
			t.Errorf("measured %v", p.measured)
		}
	})
}
