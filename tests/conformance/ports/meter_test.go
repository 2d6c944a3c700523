package ports_test

import (
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/lockstep-run/lockstep/shared/catalog"
	"github.com/lockstep-run/lockstep/shared/cost"
	"github.com/lockstep-run/lockstep/shared/dynamo"
	"github.com/lockstep-run/lockstep/shared/topology"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

func writeCost(role string, units float64) workflow.Cost {
	return workflow.Cost{WriteUnits: map[string]float64{role: units}, DynamoRequests: 1}
}

func readCost(role string, units float64) workflow.Cost {
	return workflow.Cost{ReadUnits: map[string]float64{role: units}, DynamoRequests: 1}
}

// The cost of each write is part of the design: an index costs only when its keys
// change, and a failed condition costs as much as a write.
func TestDynamoMeter_CountsEveryUnit(t *testing.T) {
	t.Parallel()
	const executions, jobs, locks = topology.TableExecutions, topology.TableJobs, topology.TableLocks
	m := new(cost.Meter)
	v := openView(&faultInjector{}, m)
	ctx := contextWithTimeout(t, time.Minute)
	check := func(what string, want workflow.Cost) {
		t.Helper()
		if diff := cmp.Diff(want, m.Take()); diff != "" {
			t.Errorf("%s: %s", what, diff)
		}
	}
	x := newExecution("t"+uuid.NewString(), sm.ExecutionScheduled)
	x.DueAt = time.UnixMilli(1_800_000_000_000).UTC()
	commit := func(change func(*workflow.Execution), release bool) {
		t.Helper()
		next := x.Clone()
		next.Version, next.Commit = x.Version+1, uuid.NewString()
		change(next)
		if _, ok, err := v.Store.Commit(ctx, x.Version, next, workflow.CommitOptions{Release: release}); !ok || err != nil {
			t.Fatalf("committed %v: %v", ok, err)
		}
		x = next
	}
	if ok, err := v.Store.Create(ctx, x); !ok || err != nil {
		t.Fatalf("created %v: %v", ok, err)
	}
	check("create: the item and one entry in each of two indexes", writeCost(executions, 3))
	commit(func(x *workflow.Execution) { x.Reason = "changed" }, false)
	check("commit without a changed key: the item only", writeCost(executions, 1))
	commit(func(x *workflow.Execution) { x.State = sm.ExecutionRunning }, false)
	check("commit with another state: a delete and a put in one index", writeCost(executions, 3))
	commit(func(x *workflow.Execution) { x.DueAt = x.DueAt.Add(time.Second) }, false)
	check("commit with another timer", writeCost(executions, 3))
	if _, ok, err := v.Store.AddHolderWaiter(ctx, x.Tenant, workflow.BlockedBy{Execution: x.ID, Epoch: 1}, "someone"); !ok || err != nil {
		t.Fatalf("added %v: %v", ok, err)
	}
	check("add a waiter", writeCost(executions, 1))
	commit(func(x *workflow.Execution) { x.State, x.DueAt = sm.ExecutionCompletedAck, time.Time{} }, true)
	check("commit of the end: another state, no timer", writeCost(executions, 4))
	late := x.Clone()
	late.Version, late.Commit = 2, uuid.NewString()
	if _, ok, err := v.Store.Commit(ctx, 1, late, workflow.CommitOptions{}); ok || err != nil {
		t.Fatalf("committed %v: %v", ok, err)
	}
	check("a failed condition", writeCost(executions, 1))
	if _, err := v.Store.Load(ctx, x.Tenant, x.ID); err != nil {
		t.Fatal(err)
	}
	check("a strong read", readCost(executions, 1))
	if _, err := v.Store.Heads(ctx, x.Tenant, []string{x.ID, "none"}); err != nil {
		t.Fatal(err)
	}
	check("two strong reads in a batch, one of a missing item", readCost(executions, 2))

	key := workflow.EntityKey{Type: "device", ID: "a"}
	if ok, err := v.Locks.Take(ctx, x.Tenant, key, workflow.LockRequest{Execution: x.ID, Epoch: 1, Now: time.Now()}, 0); !ok || err != nil {
		t.Fatalf("taken %v: %v", ok, err)
	}
	check("a lock", writeCost(locks, 1))
	if ok, err := v.Locks.Take(ctx, x.Tenant, key, workflow.LockRequest{Execution: "other", Epoch: 1, Now: time.Now()}, 0); ok || err != nil {
		t.Fatalf("taken %v: %v", ok, err)
	}
	check("a lock that is taken", writeCost(locks, 1))

	stepRun := workflow.StepRunKey{Tenant: x.Tenant, Execution: x.ID, Ordinal: 1, Seq: 1}
	used := workflow.Cost{WriteUnits: map[string]float64{jobs: 2.5, executions: 1}, ReadUnits: map[string]float64{jobs: 1}, DynamoRequests: 3, QueueRequests: 1.1, Invocations: 0.1}
	for lane := range workflow.LanesPerShard {
		if _, err := v.Packs.AddDone(ctx, stepRun.Pack(lane, 1), workflow.LaneResult{Unsuccessful: lane%10 == 0, Cost: used}); err != nil {
			t.Fatal(err)
		}
	}
	check("256 lanes, including the last", workflow.Cost{WriteUnits: map[string]float64{jobs: 256}, DynamoRequests: 256})
}

func TestDynamoMeter_IsPerView(t *testing.T) {
	t.Parallel()
	a := new(cost.Meter)
	db := dynamo.Open(openClient(&faultInjector{}), tables)
	ctx := contextWithTimeout(t, time.Minute)
	if _, err := db.WithMeter(a).Locks.Read(ctx, "t", []workflow.EntityKey{{Type: "device", ID: "a"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := db.WithMeter(nil).Locks.Read(ctx, "t", []workflow.EntityKey{{Type: "device", ID: "a"}}); err != nil {
		t.Fatal(err)
	}
	if n := a.Take().DynamoRequests; n != 1 {
		t.Errorf("the first view counted %d requests, want 1", n)
	}
}

// What finding a version reads does not grow with the versions: one unit for the index, and
// the chosen version. With 100 versions of 8 KB it was 200 units at every start.
func TestDynamoMeter_FindingAVersionReadsOnlyTheIndex(t *testing.T) {
	t.Parallel()
	const versions, registry = 100, topology.TableRegistry
	m := new(cost.Meter)
	v := openView(&faultInjector{}, m)
	ctx, tenant := contextWithTimeout(t, time.Minute), "t"+uuid.NewString()
	for i := range versions {
		source := make([]byte, 7800)
		for n := range source {
			source[n] = byte(rand.Uint32())
		}
		version := fmt.Sprintf("1.%d.0", i)
		d := workflow.PublishedDefinition{Ref: workflow.Ref{Package: "fleet", Name: "upgrade", Version: version}, Source: source, PublishedAt: time.Now()}
		if _, err := v.Registry.PutDefinition(ctx, tenant, d); err != nil {
			t.Fatal(err)
		}
		b := workflow.Block{Package: "fleet", Name: "upgrade", Version: version, Description: base64.StdEncoding.EncodeToString(source)}
		if _, err := v.Registry.PutBlock(ctx, tenant, b); err != nil {
			t.Fatal(err)
		}
	}
	for _, kind := range []workflow.VersionKind{workflow.DefinitionVersions, workflow.BlockVersions} {
		ref := workflow.Ref{Package: "fleet", Name: "upgrade", Version: "1"}
		find := func() float64 {
			m.Take()
			newest, err := catalog.NewestVersion(ctx, v.Registry, tenant, kind, ref)
			if err != nil || newest.Version != "1.99.0" {
				t.Fatalf("%s: found %+v, %v", kind, newest, err)
			}
			return m.Take().ReadUnits[registry]
		}
		all := find()
		if all < 190 {
			t.Errorf("%s: %v units without an index, want about 200", kind, all)
		}
		t.Logf("%s: %v units without an index", kind, all)
		if one := find(); one != 1 {
			t.Errorf("%s: %v units with an index, want 1", kind, one)
		}
	}
	exact := workflow.Ref{Package: "fleet", Name: "upgrade", Version: "1.99.0"}
	if _, err := v.Registry.Definition(ctx, tenant, exact); err != nil {
		t.Fatal(err)
	}
	if _, err := v.Registry.Block(ctx, tenant, exact); err != nil {
		t.Fatal(err)
	}
	if got := m.Take().ReadUnits[registry]; got != 4 {
		t.Errorf("the two chosen versions cost %v units, want 4", got)
	}
}
