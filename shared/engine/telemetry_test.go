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

// fixture records the log lines and metrics of the engine.
type fixture struct {
	*harness.Harness
	log      bytes.Buffer
	measured map[string][]int
}

func newFixture(t *testing.T, change func(*harness.Harness)) *fixture {
	f := &fixture{measured: map[string][]int{}}
	o := harness.Options()
	o.Policy.MaxStepRuns = 4
	f.Harness = harness.New(t, 1, o)
	f.Engine.Log = observe.NewLog(observe.Options{Writer: &f.log, Level: slog.LevelDebug})
	f.Engine.RecordMetric = func(_ context.Context, metric string, n int) { f.measured[metric] = append(f.measured[metric], n) }
	f.RegisterBlocks()
	f.ImportDevices(harness.DeviceIDs(3)...)
	if change != nil {
		change(f.Harness)
	}
	return f
}

// logLines returns the log lines with a message, without their timestamps.
func (f *fixture) logLines(message string) (all []map[string]any) {
	f.Helper()
	for line := range bytes.Lines(f.log.Bytes()) {
		var l map[string]any
		if err := json.Unmarshal(line, &l); err != nil {
			f.Fatalf("%v in %s", err, line)
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

// An execution writes two log lines, one for each wake-up that changes its state,
// however many devices it has. Its history has each transition.
func TestRecorder_LogsOneLinePerAdvance(t *testing.T) {
	for _, n := range []int{1, 3} {
		f := newFixture(t, nil)
		f.Publish("w", twoDeviceSteps)
		x, _, err := f.Engine.Start(t.Context(), workflow.Caller{Tenant: harness.Caller.Tenant, Actor: "ann", CorrelationID: "order-7"}, views.StartRequest{
			Workflow: "p/w", ExecuteOnParameters: &workflow.Selector{Type: "device", IDs: harness.DeviceIDs(n)},
		})
		if err != nil {
			t.Fatal(err)
		}
		f.Drain()
		f.ExpectState(x.ID, sm.ExecutionCompletedAck)
		lines := f.logLines("execution changed state")
		want := []map[string]any{
			{"from": "NEW", "to": "RUNNING"}, {"from": "RUNNING", "to": "COMPLETED_ACK"},
		}
		if len(lines) != len(want) || bytes.Count(f.log.Bytes(), []byte("\n")) != len(want) {
			t.Fatalf("%d devices: wrote %s", n, f.log.String())
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

// Parameters, labels, results and texts of blocks never appear in a log line, however
// the execution ends.
func TestRecorder_OmitsPayloads(t *testing.T) {
	const mark = "hunter2"
	f := newFixture(t, nil)
	f.Publish("w", `parameters: {type: object, properties: {key: {type: string}}}
steps:
  - {label: one, functionBlock: p/again:1, runOn: device, parameters: {key: "${parameters.key}"}}
  - {label: two, functionBlock: p/once:1, runOn: device, parameters: {n: "${int(parameters.key)}"}}
`)
	f.Publish("v", "config:\n  startWhen: {condition: 'int(parameters.key) > 1', deadline: 1m}\n"+twoDeviceSteps)
	f.Script = func(c harness.BlockCall) *harness.Outcome {
		if c.Entity == "d002" {
			return &harness.Outcome{FailCode: "BROKEN", Result: json.RawMessage(`{"is":"` + mark + `"}`)}
		}
		return &harness.Outcome{Result: json.RawMessage(`{"is":"` + mark + `"}`), SetAttributes: map[string]any{"note": mark}}
	}
	var ids []string
	for name, devices := range map[string][]string{"w": {"d000", "d002"}, "v": {"d001"}} {
		ids = append(ids, f.StartWith(views.StartRequest{
			Workflow: "p/" + name, Parameters: json.RawMessage(`{"key":"` + mark + `"}`), Labels: map[string]string{"l": mark},
			ExecuteOnParameters: &workflow.Selector{Type: "device", IDs: devices},
		}))
	}
	if !f.RunUntilIdle(2 * time.Hour) {
		t.Fatal("the executions do not end")
	}
	for _, id := range ids {
		if x := f.Load(id); x.Cause == "" {
			t.Errorf("%s should have failed: %s", id, x.State)
		}
	}
	if f.log.Len() == 0 || strings.Contains(f.log.String(), mark) {
		t.Errorf("wrote %s", f.log.String())
	}
	for _, l := range f.logLines("execution changed state") {
		if l["to"] == "FAILED_SAFE" && (l["cause"] == nil || l["code"] == nil) {
			t.Errorf("cause or code is missing: %v", l)
		}
	}
}

// The wait for a lock is measured once it is longer than a minute.
func TestRecorder_MeasuresLockAge(t *testing.T) {
	f := newFixture(t, nil)
	f.Publish("w", twoDeviceSteps)
	f.Start("w", "d000")
	b := f.Start("w", "d000")
	f.ExpectState(b, sm.ExecutionScheduled)
	for range 3 {
		f.Advance(40 * time.Second)
		if err := f.Engine.Advance(t.Context(), workflow.Wakeup{Tenant: harness.Caller.Tenant, Execution: b}); err != nil {
			t.Fatal(err)
		}
	}
	if got := f.measured[topology.MetricLockAge]; !slices.Equal(got, []int{80, 120}) {
		t.Errorf("measured %v", got)
	}
	f.Drain()
	f.ExpectState(b, sm.ExecutionCompletedAck)
	if got := f.measured[topology.MetricLockAge]; len(got) != 2 || len(f.measured) != 1 {
		t.Errorf("measured %v", f.measured)
	}
}

// A limit that stops an endless execution is measured once; an execution that ends by
// itself is not measured.
func TestRecorder_MeasuresGuardStops(t *testing.T) {
	t.Run("step runs", func(t *testing.T) {
		f := newFixture(t, nil)
		f.Publish("w", "steps:\n  - {label: again, functionBlock: p/again:1, runOn: device, repeat: {count: 99}}\n")
		id := f.Start("w", "d000")
		f.Drain()
		if x := f.Load(id); x.Cause != workflow.CauseLimit {
			t.Errorf("ended %s, %s", x.State, x.Cause)
		}
		if got := f.measured[topology.MetricGuardStops]; !slices.Equal(got, []int{1}) {
			t.Errorf("measured %v", got)
		}
	})
	t.Run("nested children", func(t *testing.T) {
		f := newFixture(t, nil)
		f.Publish("w", "steps:\n  - {label: again, workflowReference: {workflow: p/w, mode: dispatch}}\n")
		f.Start("w")
		if !f.RunUntilIdle(2 * time.Hour) {
			t.Fatal("the executions do not end")
		}
		if got := f.measured[topology.MetricGuardStops]; !slices.Equal(got, []int{1}) {
			t.Errorf("measured %v", got)
		}
	})
	t.Run("no limit", func(t *testing.T) {
		f := newFixture(t, nil)
		f.Publish("w", twoDeviceSteps)
		f.Start("w", "d000")
		f.Drain()
		if len(f.measured) != 0 {
			t.Errorf("measured %v", f.measured)
		}
	})
}

// A failed execution is counted once, by how it ended. What becomes of it afterwards is not
// counted.
func TestRecorder_MeasuresFailedExecutions(t *testing.T) {
	for _, c := range []struct {
		name, steps, fails string
		state              sm.ExecutionState
		want               map[string][]int
	}{
		{"safe", "one pure device", "one EXECUTE d000", sm.ExecutionFailedSafeAck, map[string][]int{topology.MetricFailedSafe: {1}}},
		{"unsafe", "one forever device", "one EXECUTE d000", sm.ExecutionFailedUnsafe, map[string][]int{topology.MetricFailedUnsafe: {1}}},
		{"unclaimed", "one far device", "", sm.ExecutionFailedSafeAck, map[string][]int{topology.MetricFailedSafe: {1}, topology.MetricUnclaimed: {1}}},
		{"well", "one pure device", "", sm.ExecutionCompletedAck, map[string][]int{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFixture(t, nil)
			f.RegisterBlock(workflow.Block{Name: "far", Pure: true, Pool: "nobody"})
			f.Publish("w", stepsYAML(c.steps))
			if c.fails != "" {
				f.Script = failCalls(c.fails)
			}
			id := f.Start("w", "d000")
			f.RunFor(3 * time.Hour)
			f.ExpectState(id, c.state)
			if c.state == sm.ExecutionFailedUnsafe {
				if _, err := f.Engine.Acknowledge(t.Context(), harness.Caller, id, "seen"); err != nil {
					t.Fatal(err)
				}
			}
			if !maps.EqualFunc(f.measured, c.want, slices.Equal) {
				t.Errorf("measured %v, want %v", f.measured, c.want)
			}
		})
	}
}
