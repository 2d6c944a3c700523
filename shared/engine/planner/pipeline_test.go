package planner_test

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/engine/definitions"
	"github.com/lockstep-run/lockstep/shared/engine/dispatch"
	"github.com/lockstep-run/lockstep/shared/engine/planner"
	"github.com/lockstep-run/lockstep/shared/engine/port"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

// fixture is an execution whose first step runs have been committed and not dispatched.
type fixture struct {
	*harness.Harness
	planner   *planner.Planner
	execution *workflow.Execution
	sender    *countingSender
	reads     int // how often the entities of the scope were read
}

// countingSender counts packs. From failAt packs on it refuses all.
type countingSender struct {
	port.Sender
	lanes  map[int]bool
	failAt int
}

func (s *countingSender) SendPacks(_ context.Context, _ time.Time, packs []*workflow.PackMessage) ([]workflow.PackKey, error) {
	if s.failAt > 0 && len(s.lanes) >= s.failAt {
		return nil, context.DeadlineExceeded
	}
	for _, m := range packs {
		s.lanes[m.Key.Lane] = true
	}
	return nil, nil
}

// newFixture makes an execution over entities with step runs of the definition's steps, all
// on devices. They are one pipeline if pipeline is set.
func newFixture(tb testing.TB, source string, entities int, pipeline bool) *fixture {
	tb.Helper()
	f := &fixture{Harness: harness.New(tb, 1, harness.Options()), sender: &countingSender{lanes: map[int]bool{}}}
	f.RegisterBlocks()
	f.Publish("w", source)
	view := f.Open()
	program, problem, err := new(definitions.Cache).Program(tb.Context(), view.Registry, harness.Caller.Tenant, workflow.Ref{Package: "p", Name: "w", Version: "1.0.0"}, nil)
	if err != nil || problem != nil {
		tb.Fatal(problem, err)
	}
	scope := make([]workflow.ScopeEntity, entities)
	for i := range scope {
		key := workflow.EntityKey{Type: "device", ID: fmt.Sprintf("d%06d", i)}
		scope[i] = workflow.ScopeEntity{Key: key, Token: 1, Attributes: json.RawMessage(`{"name":"x","wanted":true}`)}
	}
	f.execution = &workflow.Execution{
		Tenant: harness.Caller.Tenant, ID: f.NewID(), State: sm.ExecutionRunning, Try: 1,
		Scope: workflow.Scope{Counts: map[string]int{"device": entities}, Inline: scope},
	}
	for i, n := range program.Nodes {
		r := workflow.StepRun{
			Seq: i + 1, Try: 1, StepIndex: i, Label: n.Label, Ordinal: 1, Kind: workflow.JobExecute, Status: sm.StepRunning,
			EnteredAt: f.Now(), DispatchedAt: f.Now(), Block: "p/once:1.0.0", Jobs: entities, PackSize: 1, MaxAttempts: 1,
		}
		if pipeline {
			r.Pipeline = 1
		}
		f.execution.StepRuns = append(f.execution.StepRuns, r)
	}
	f.planner = &planner.Planner{
		Tenant: f.execution.Tenant, Execution: f.execution.ID, Program: program, MaxResultBytes: 1 << 20, MaxPlanCost: harness.Options().MaxPlanCost,
		Dispatcher: &dispatch.Dispatcher{Packs: view.Packs, Sender: f.sender, Limits: harness.Options().Dispatch},
		Input:      func(context.Context) (*workflow.Input, error) { return &workflow.Input{}, nil },
		Entities: func(_ context.Context, s workflow.Scope) ([]workflow.ScopeEntity, error) {
			f.reads++
			return s.Inline, nil
		},
	}
	return f
}

// start sends what is sent once the step runs have been committed, as a wake-up does that
// has planned the first of them.
func (f *fixture) start(planned bool) error {
	ctx, first := f.Context(), &f.execution.StepRuns[0]
	if planned {
		if _, err := f.planner.Plan(ctx, f.execution, first); err != nil {
			return err
		}
	}
	if first.Pipeline > 0 {
		_, err := f.planner.StartPipeline(ctx, f.execution, first, f.Now())
		return err
	}
	_, err := f.planner.Dispatcher.Dispatch(ctx, f.planner.StepRun(f.execution, first), f.Now(), workflow.Cost{})
	return err
}

const twoSteps = `steps:
  - {label: one, functionBlock: p/once:1, runOn: device, condition: "entity.wanted", parameters: {name: "${entity.name}"}}
  - {label: two, functionBlock: p/once:1, runOn: device, parameters: {was: "${one.result}"}}
`

const parallelTwoSteps = "config: {executionStrategy: {parallel: true}}\n" + twoSteps

// allocated returns how many bytes fn allocates.
func allocated(fn func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	fn()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// A pipeline reads its scope once for each step run, not once for each lane, and its allocations
// grow in proportion to the entities. That also holds for a wake-up that has not planned the step
// run itself.
func TestStartPipeline_GrowsLinearly(t *testing.T) {
	for _, planned := range []bool{true, false} {
		bytes := map[int]uint64{}
		for _, n := range []int{300, 3000} {
			f := newFixture(t, parallelTwoSteps, n, true)
			bytes[n] = allocated(func() {
				if err := f.start(planned); err != nil {
					t.Fatal(err)
				}
			})
			if len(f.sender.lanes) != n || f.reads > 2 {
				t.Errorf("%d lanes of %d sent, the scope read %d times", len(f.sender.lanes), n, f.reads)
			}
		}
		if bytes[3000] > 15*bytes[300] {
			t.Errorf("planned %t: 3000 entities take %d bytes, 300 take %d", planned, bytes[3000], bytes[300])
		}
	}
}

// The packs of a large pipeline are sent in slices, so that what a wake-up has sent before
// it is cut off stays sent.
func TestStartPipeline_SendsInSlices(t *testing.T) {
	for _, pipeline := range []bool{true, false} {
		f := newFixture(t, parallelTwoSteps, 1000, pipeline)
		f.sender.failAt = 300
		if err := f.start(true); err == nil {
			t.Error("the failure is not reported")
		}
		if sent := len(f.sender.lanes); sent < 300 || sent == 1000 {
			t.Errorf("pipeline %t: %d packs were sent before the failure, want some", pipeline, sent)
		}
	}
}

func BenchmarkStart(b *testing.B) {
	for _, n := range []int{10_000, 30_000, 100_000} {
		for _, pipeline := range []bool{false, true} {
			b.Run(fmt.Sprintf("entities=%d/parallel=%t", n, pipeline), func(b *testing.B) {
				f := newFixture(b, parallelTwoSteps, n, pipeline)
				f.planner.MaxPlanCost = 1000 * uint64(n)
				b.ReportAllocs()
				for b.Loop() {
					f.planner.ClearCache()
					if err := f.start(true); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
