package protocol_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/lockstep-run/lockstep/shared/catalog"
	"github.com/lockstep-run/lockstep/shared/cost"
	"github.com/lockstep-run/lockstep/shared/dynamo"
	"github.com/lockstep-run/lockstep/shared/engine"
	"github.com/lockstep-run/lockstep/shared/engine/port"
	"github.com/lockstep-run/lockstep/shared/engine/scheduler"
	"github.com/lockstep-run/lockstep/shared/parallel"
	"github.com/lockstep-run/lockstep/shared/topology"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

// sweepFixture is an engine over real tables of its own, and whoever sweeps there.
type sweepFixture struct {
	*testing.T
	db      *dynamo.DB
	engine  *engine.Engine
	meter   *cost.Meter
	now     time.Time
	created int

	mu      sync.Mutex
	wakeups []workflow.Wakeup
}

func newSweepFixture(t *testing.T, tables string) *sweepFixture {
	n := &sweepFixture{T: t, db: openTables(t.Context(), tables), meter: new(cost.Meter), now: startTime}
	options := harness.Options()
	options.Parallelism = 4
	n.engine = engine.New(engine.Deps{
		Now: func() time.Time { return n.now }, NewID: uuid.NewString, Nonce: uuid.NewString, Backoff: func(int) {},
		OpenPorts: func() port.Ports {
			v := n.db.WithMeter(n.meter)
			return port.Ports{Store: v.Store, Locks: v.Locks, Packs: v.Packs, Sender: n, Registry: v.Registry, Workers: v.Workers, Schedules: v.Registry, Meter: noMeter{}}
		},
		Log: slog.New(slog.DiscardHandler),
	}, options, "test")
	c := catalog.New(func() catalog.Ports {
		v := n.db.WithMeter(nil)
		return catalog.Ports{Registry: v.Registry, Schedules: v.Registry, Sender: n}
	}, n.engine.Now)
	if _, err := c.RegisterBlock(t.Context(), harness.Caller, workflow.Block{Package: "p", Name: "pure", Version: "1.0.0", Pure: true}); err != nil {
		t.Fatal(err)
	}
	source := "package: p\nname: night\nversion: 1.0.0\ncron: {schedule: \"* * * * *\", concurrency: true}\nsteps: [{label: go, functionBlock: p/pure:1, runOn: global}]\n"
	if _, _, err := c.Publish(t.Context(), harness.Caller, []byte(source), false); err != nil {
		t.Fatal(err)
	}
	return n
}

// SendWakeups keeps what would have been sent; nothing is offered.
func (n *sweepFixture) SendWakeups(_ context.Context, _ time.Duration, looks ...workflow.Wakeup) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.wakeups = append(n.wakeups, looks...)
	return nil
}

func (n *sweepFixture) SendPacks(context.Context, time.Time, []*workflow.PackMessage) ([]workflow.PackKey, error) {
	return nil, nil
}

// wakeupsByExecution counts the looks that were sent by run, of those whose reason begins so.
func (n *sweepFixture) wakeupsByExecution(reason string) map[string]int {
	n.mu.Lock()
	defer n.mu.Unlock()
	count := map[string]int{}
	for _, l := range n.wakeups {
		if strings.HasPrefix(l.Reason, reason) {
			count[l.Execution]++
		}
	}
	return count
}

func (n *sweepFixture) sweep() (scheduler.SweepResult, error) {
	return scheduler.Sweep(n.Context(), n.engine, harness.LivenessTimeouts, topology.DueShards)
}

// createDue makes so many executions, polling workers and schedules, due at a moment;
// executions with the zero one have no alarm.
func (n *sweepFixture) createDue(executions, others int, due time.Time) {
	n.Helper()
	v, tenant := n.db.WithMeter(nil), harness.Caller.Tenant
	begin := n.created
	n.created += max(executions, others)
	err := parallel.Each(n.Context(), 8, n.created-begin, func(ctx context.Context, i int) error {
		name := fmt.Sprintf("n%06d", begin+i)
		if i < executions {
			x := &workflow.Execution{Schema: 1, Tenant: tenant, ID: name, State: sm.ExecutionScheduled, Version: 1, Commit: "c", DueAt: due}
			if ok, err := v.Store.Create(ctx, x); err != nil || !ok {
				return fmt.Errorf("execution %s: %v %w", name, ok, err)
			}
		}
		if i >= others {
			return nil
		}
		w := &workflow.Worker{Tenant: tenant, ID: name, State: sm.WorkerOnline, Pool: "default", LastSeenAt: due.Add(-harness.LivenessTimeouts.Unreachable), DueAt: due}
		if ok, err := v.Workers.PutWorker(ctx, nil, w); err != nil || !ok {
			return fmt.Errorf("worker %s: %v %w", name, ok, err)
		}
		s := spec.Schedule{
			Tenant: tenant, Name: "p/" + name, Workflow: workflow.Ref{Package: "p", Name: "night", Version: "1.0.0"},
			Cron: &spec.Cron{Schedule: "0 4 * * *", Concurrency: true}, NextAt: due,
		}
		if ok, err := v.Registry.PutSchedule(ctx, s); err != nil || !ok {
			return fmt.Errorf("schedule %s: %v %w", name, ok, err)
		}
		return nil
	})
	if err != nil {
		n.Fatal(err)
	}
}

// costOf is what something reads and writes, and how many calls it makes.
func (n *sweepFixture) costOf(what func() error) workflow.Cost {
	n.Helper()
	n.meter.Take()
	if err := what(); err != nil {
		n.Fatal(err)
	}
	return n.meter.Take()
}

// A sweep costs what is due, whatever else there is: ten of a thousand executions
// cost as much as ten of a hundred, and so do workers and schedules; and so does
// the plan of a sweep, which writes nothing.
func TestSweep_CostsOnlyWhatIsDue(t *testing.T) {
	n := newSweepFixture(t, "due-")
	later := startTime.Add(24 * time.Hour)
	n.now = startTime.Add(-time.Hour) // the schedule that was published is never due
	soon := n.now.Add(-time.Minute)
	n.createDue(0, 1, soon)
	if _, err := n.sweep(); err != nil { // an engine that is warm keeps definitions
		t.Fatal(err)
	}
	n.wakeups = nil
	round := func(executions int) (plan, swept workflow.Cost) {
		n.createDue(executions, 10, soon)
		plan = n.costOf(func() error {
			v, err := scheduler.PlanSweep(t.Context(), n.engine, harness.LivenessTimeouts, topology.DueShards, "")
			if err == nil && (len(v.Executions) != 10 || len(v.Workers) != 10 || len(v.Schedules) != 10 || !v.Complete) {
				t.Errorf("%d executions, %d workers, %d schedules are planned", len(v.Executions), len(v.Workers), len(v.Schedules))
			}
			return err
		})
		if len(plan.WriteUnits) > 0 || len(n.wakeups) > 0 {
			t.Errorf("a plan writes %v and sends %v", plan.WriteUnits, n.wakeups)
		}
		swept = n.costOf(func() error {
			did, err := n.sweep()
			if did.WakeupsSent != 10 || did.WorkersChanged != 10 || did.ExecutionsStarted != 10 {
				t.Errorf("swept %+v", did)
			}
			return err
		})
		n.wakeups = nil
		return plan, swept
	}
	n.createDue(45, 45, later)
	n.createDue(45, 0, time.Time{})
	plan, swept := round(10)
	n.createDue(450, 200, later)
	n.createDue(450, 0, time.Time{})
	again, sweptAgain := round(0)
	if diff := cmp.Diff(plan, again); diff != "" {
		t.Errorf("a plan costs more where more exists: %s", diff)
	}
	if diff := cmp.Diff(swept, sweptAgain); diff != "" {
		t.Errorf("a sweep costs more where more exists: %s", diff)
	}
	if none := n.costOf(func() error {
		n.now = n.now.Add(-time.Hour)
		_, err := n.sweep()
		return err
	}); none.DynamoRequests != 3*topology.DueShards || len(none.WriteUnits) > 0 {
		t.Errorf("a sweep with nothing to do: %+v", none)
	}
}

// However many sweep at once, over the real tables: a moment is fired once, and
// the runs whose packs a silent worker held are told once.
func TestSweep_ConcurrentSweepersFireOnce(t *testing.T) {
	n := newSweepFixture(t, "once-")
	v := n.db.WithMeter(nil)
	const rounds, sweepers = 6, 4
	fired := map[string]bool{}
	for round := range rounds {
		n.now = startTime.Add(time.Duration(round+1) * time.Minute).Add(time.Second)
		worker := fmt.Sprint("w", round)
		held := func(run string) workflow.ClaimedPack {
			return workflow.StepRunKey{Tenant: harness.Caller.Tenant, Execution: run, Ordinal: 1, Seq: 1}.Pack(0, 1).ClaimedPack()
		}
		silent := &workflow.Worker{
			Tenant: harness.Caller.Tenant, ID: worker, State: sm.WorkerOnline, Pool: "default", DueAt: n.now,
			LastSeenAt: n.now.Add(-harness.LivenessTimeouts.Offline),
		}
		if ok, err := v.Workers.PutWorker(t.Context(), nil, silent); !ok || err != nil {
			t.Fatal(ok, err)
		}
		for _, run := range []string{"a", "b", "a"} {
			if err := v.Workers.AddClaimedPack(t.Context(), harness.Caller.Tenant, worker, held(run+fmt.Sprint(round))); err != nil {
				t.Fatal(err)
			}
		}
		var all sync.WaitGroup
		moved := make([]int, sweepers)
		start := make(chan struct{})
		for i := range sweepers {
			all.Go(func() {
				<-start
				did, err := n.sweep()
				if err != nil {
					t.Error(err)
				}
				moved[i] = did.WorkersChanged
			})
		}
		close(start)
		all.Wait()
		if total := moved[0] + moved[1] + moved[2] + moved[3]; total != 1 {
			t.Errorf("round %d: one worker has fallen silent, %v times", round, moved)
		}
		woken := n.wakeupsByExecution("worker " + worker)
		if woken["a"+fmt.Sprint(round)] != 1 || woken["b"+fmt.Sprint(round)] != 1 || len(woken) != 2 {
			t.Errorf("round %d: told %v", round, woken)
		}
		s, err := v.Registry.Schedule(t.Context(), harness.Caller.Tenant, "p/night")
		if err != nil {
			t.Fatal(err)
		}
		if !s.FiringAt.IsZero() || !s.LastAt.Equal(n.now.Add(-time.Second)) || fired[s.LastExecution] {
			t.Errorf("round %d: the schedule is %+v", round, s)
		}
		fired[s.LastExecution] = true
	}
	exist := 0
	for _, state := range sm.ExecutionStates() {
		ids, err := v.Store.ListByState(t.Context(), harness.Caller.Tenant, state, "", 100)
		if err != nil {
			t.Fatal(err)
		}
		exist += len(ids)
		for _, id := range ids {
			if !fired[id] {
				t.Errorf("%s is of no moment", id)
			}
		}
	}
	if exist != rounds {
		t.Errorf("%d moments, and %d runs", rounds, exist)
	}
}
