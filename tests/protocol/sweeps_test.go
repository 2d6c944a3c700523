package protocol_test

import (
	"context"
	"fmt"
	"hash/fnv"
	"log/slog"
	"slices"
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

// sweepFixture is an engine on real tables of its own.
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
	f := &sweepFixture{T: t, db: openTables(t.Context(), tables), meter: new(cost.Meter), now: startTime}
	options := harness.Options()
	options.Parallelism = 4
	f.engine = engine.New(engine.Deps{
		Now: func() time.Time { return f.now }, NewID: uuid.NewString, Nonce: uuid.NewString, Backoff: func(int) {},
		OpenPorts: func() port.Ports {
			v := f.db.WithMeter(f.meter)
			return port.Ports{Store: v.Store, Locks: v.Locks, Packs: v.Packs, Sender: f, Registry: v.Registry, Workers: v.Workers, Schedules: v.Registry, Meter: noMeter{}}
		},
		Log: slog.New(slog.DiscardHandler),
	}, options, "test")
	c := catalog.New(func() catalog.Ports {
		v := f.db.WithMeter(nil)
		return catalog.Ports{Registry: v.Registry, Schedules: v.Registry, Sender: f}
	}, f.engine.Now)
	if _, err := c.RegisterBlock(t.Context(), harness.Caller, workflow.Block{Package: "p", Name: "pure", Version: "1.0.0", Pure: true}); err != nil {
		t.Fatal(err)
	}
	source := "package: p\nname: night\nversion: 1.0.0\ncron: {schedule: \"* * * * *\", concurrency: true}\nsteps: [{label: go, functionBlock: p/pure:1, runOn: global}]\n"
	if _, _, err := c.Publish(t.Context(), harness.Caller, []byte(source), false); err != nil {
		t.Fatal(err)
	}
	return f
}

// SendWakeups keeps the wake-ups.
func (f *sweepFixture) SendWakeups(_ context.Context, _ time.Duration, wakeups ...workflow.Wakeup) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.wakeups = append(f.wakeups, wakeups...)
	return nil
}

func (f *sweepFixture) SendAnnouncements(context.Context, time.Duration, ...workflow.Announcement) error {
	return nil
}

func (f *sweepFixture) SendDeliveries(context.Context, ...*workflow.Delivery) error { return nil }

func (f *sweepFixture) QueuedWakeups(context.Context) (int, error) { return 0, nil }

func (f *sweepFixture) SendPacks(context.Context, time.Time, []*workflow.PackMessage) ([]workflow.PackKey, error) {
	return nil, nil
}

// wakeupsByExecution counts the wake-ups whose reason has a prefix.
func (f *sweepFixture) wakeupsByExecution(prefix string) map[string]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	count := map[string]int{}
	for _, w := range f.wakeups {
		if strings.HasPrefix(w.Reason, prefix) {
			count[w.Execution]++
		}
	}
	return count
}

func (f *sweepFixture) sweep() (scheduler.SweepResult, error) {
	return scheduler.Sweep(f.Context(), f.engine, harness.LivenessTimeouts, topology.DueShards)
}

// createDue creates executions, and as many workers as schedules, that are due at a time.
// Executions with the zero time have no timer.
func (f *sweepFixture) createDue(executions, others int, due time.Time) {
	f.Helper()
	v, tenant := f.db.WithMeter(nil), harness.Caller.Tenant
	begin := f.created
	f.created += max(executions, others)
	err := parallel.Each(f.Context(), 8, f.created-begin, func(ctx context.Context, i int) error {
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
		f.Fatal(err)
	}
}

// costOf measures the requests that perform makes.
func (f *sweepFixture) costOf(perform func() error) workflow.Cost {
	f.Helper()
	f.meter.Take()
	if err := perform(); err != nil {
		f.Fatal(err)
	}
	return f.meter.Take()
}

// The cost of a sweep depends only on what is due: ten of a thousand executions, workers
// and schedules cost as much as ten of a hundred. The same holds for the plan of a sweep,
// which writes nothing.
func TestSweep_CostsOnlyWhatIsDue(t *testing.T) {
	f := newSweepFixture(t, "due-")
	later := startTime.Add(24 * time.Hour)
	f.now = startTime.Add(-time.Hour) // before the published schedule is due
	soon := f.now.Add(-time.Minute)
	f.createDue(0, 1, soon)
	if _, err := f.sweep(); err != nil { // so that the engine has the definitions in its cache
		t.Fatal(err)
	}
	f.wakeups = nil
	round := func(executions int) (plan, swept workflow.Cost) {
		f.createDue(executions, 10, soon)
		plan = f.costOf(func() error {
			v, err := scheduler.PlanSweep(t.Context(), f.engine, harness.LivenessTimeouts, topology.DueShards, "")
			if err == nil && (len(v.Executions) != 10 || len(v.Workers) != 10 || len(v.Schedules) != 10 || !v.Complete) {
				t.Errorf("%d executions, %d workers, %d schedules are planned", len(v.Executions), len(v.Workers), len(v.Schedules))
			}
			return err
		})
		if len(plan.WriteUnits) > 0 || len(f.wakeups) > 0 {
			t.Errorf("a plan wrote %v and sent %v", plan.WriteUnits, f.wakeups)
		}
		swept = f.costOf(func() error {
			did, err := f.sweep()
			if did.WakeupsSent != 10 || did.WorkersChanged != 10 || did.ExecutionsStarted != 10 {
				t.Errorf("swept %+v", did)
			}
			return err
		})
		f.wakeups = nil
		return plan, swept
	}
	f.createDue(45, 45, later)
	f.createDue(45, 0, time.Time{})
	plan, swept := round(10)
	f.createDue(450, 200, later)
	f.createDue(450, 0, time.Time{})
	again, sweptAgain := round(0)
	if diff := cmp.Diff(plan, again); diff != "" {
		t.Errorf("a plan costs more if more exists: %s", diff)
	}
	if diff := cmp.Diff(swept, sweptAgain); diff != "" {
		t.Errorf("a sweep costs more if more exists: %s", diff)
	}
	if nothingDue := f.costOf(func() error {
		f.now = f.now.Add(-time.Hour)
		_, err := f.sweep()
		return err
	}); nothingDue.DynamoRequests != 3*topology.DueShards || len(nothingDue.WriteUnits) > 0 {
		t.Errorf("a sweep with nothing due costs %+v", nothingDue)
	}
}

// With any number of concurrent sweeps, a schedule fires once for each fire time, and an
// execution whose packs a silent worker held is woken once.
func TestSweep_ConcurrentSweepersFireOnce(t *testing.T) {
	f := newSweepFixture(t, "once-")
	v := f.db.WithMeter(nil)
	const rounds, sweepers = 6, 4
	fired := map[string]bool{}
	for round := range rounds {
		f.now = startTime.Add(time.Duration(round+1) * time.Minute).Add(time.Second)
		worker := fmt.Sprint("w", round)
		held := func(execution string) workflow.ClaimedPack {
			return workflow.StepRunKey{Tenant: harness.Caller.Tenant, Execution: execution, Ordinal: 1, Seq: 1}.Pack(0, 1).ClaimedPack()
		}
		silent := &workflow.Worker{
			Tenant: harness.Caller.Tenant, ID: worker, State: sm.WorkerOnline, Pool: "default", DueAt: f.now,
			LastSeenAt: f.now.Add(-harness.LivenessTimeouts.Offline),
		}
		if ok, err := v.Workers.PutWorker(t.Context(), nil, silent); !ok || err != nil {
			t.Fatal(ok, err)
		}
		for _, execution := range []string{"a", "b", "a"} {
			if err := v.Workers.AddClaimedPack(t.Context(), harness.Caller.Tenant, worker, held(execution+fmt.Sprint(round))); err != nil {
				t.Fatal(err)
			}
		}
		var wg sync.WaitGroup
		changed := make([]int, sweepers)
		start := make(chan struct{})
		for i := range sweepers {
			wg.Go(func() {
				<-start
				did, err := f.sweep()
				if err != nil {
					t.Error(err)
				}
				changed[i] = did.WorkersChanged
			})
		}
		close(start)
		wg.Wait()
		if total := changed[0] + changed[1] + changed[2] + changed[3]; total != 1 {
			t.Errorf("round %d: one worker became silent, but the sweeps changed %v", round, changed)
		}
		woken := f.wakeupsByExecution("worker " + worker)
		if woken["a"+fmt.Sprint(round)] != 1 || woken["b"+fmt.Sprint(round)] != 1 || len(woken) != 2 {
			t.Errorf("round %d: woken %v", round, woken)
		}
		s, err := v.Registry.Schedule(t.Context(), harness.Caller.Tenant, "p/night")
		if err != nil {
			t.Fatal(err)
		}
		if !s.FiringAt.IsZero() || !s.LastAt.Equal(f.now.Add(-time.Second)) || fired[s.LastExecution] {
			t.Errorf("round %d: the schedule is %+v", round, s)
		}
		fired[s.LastExecution] = true
	}
	executions, err := harness.ListExecutions(t.Context(), v.Store, harness.Caller.Tenant, f.now)
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range executions {
		if !fired[id] {
			t.Errorf("%s was not started by the schedule", id)
		}
	}
	if len(executions) != rounds {
		t.Errorf("%d fire times, but %d executions", rounds, len(executions))
	}
}

// A list of what runs reads a thousand timers of a shard, the latest first, however many are due.
func TestLists_ReadAThousandTimersOfAShard(t *testing.T) {
	store := sharedDB.WithMeter(nil).Store
	var ids []string // of one shard
	for len(ids) < 1003 {
		id := uuid.Must(uuid.NewV7()).String()
		h := fnv.New32a()
		h.Write([]byte(id))
		if h.Sum32()%topology.DueShards != 0 {
			continue
		}
		ids = append(ids, id)
		x := &workflow.Execution{
			Schema: workflow.SchemaVersion, Tenant: "bounded", ID: id, State: sm.ExecutionRunning, Version: 1, Commit: id,
			CreatedAt: startTime, DueAt: startTime.Add(time.Duration(len(ids)) * time.Millisecond),
		}
		if ok, err := store.Create(t.Context(), x); !ok || err != nil {
			t.Fatal(ok, err)
		}
	}
	got, err := store.ListUnlisted(t.Context(), "bounded", startTime)
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(got)
	want := slices.Sorted(slices.Values(ids[3:]))
	if !slices.Equal(got, want) {
		t.Errorf("%d of %d are listed", len(got), len(ids))
	}
}
