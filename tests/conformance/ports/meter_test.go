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
	indexWrites := -1 // of the last commit, as predicted; -1 if there was none
	check := func(what string, want workflow.Cost) {
		t.Helper()
		got := m.Take()
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", what, diff)
		}
		if predicted := float64(1 + indexWrites); indexWrites >= 0 && got.WriteUnits[executions] != predicted {
			t.Errorf("%s: %v units were predicted", what, predicted)
		}
		indexWrites = -1
	}
	x := newExecution("t"+uuid.NewString(), sm.ExecutionScheduled)
	x.DueAt = time.UnixMilli(1_800_000_000_000).UTC()
	commit := func(change func(*workflow.Execution), release bool) {
		t.Helper()
		next := x.Clone()
		next.Version, next.Commit = x.Version+1, uuid.NewString()
		change(next)
		indexWrites = next.IndexWritesAfter(x)
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
	commit(func(x *workflow.Execution) { x.State = sm.ExecutionLocking }, false)
	check("commit with a state that is only passed, listed as the one before", writeCost(executions, 1))
	commit(func(x *workflow.Execution) { x.DueAt = x.DueAt.Add(time.Second) }, false)
	check("commit with another timer", writeCost(executions, 3))
	if _, ok, err := v.Store.AddHolderWaiter(ctx, x.Tenant, workflow.BlockedBy{Execution: x.ID, Epoch: 1}, "someone"); !ok || err != nil {
		t.Fatalf("added %v: %v", ok, err)
	}
	check("add a waiter", writeCost(executions, 1))
	commit(func(x *workflow.Execution) { x.State, x.DueAt = sm.ExecutionCompletedAck, time.Time{} }, true)
	check("commit of the end: another state, no timer", writeCost(executions, 4))
	ended := x

	x = newExecution(x.Tenant, sm.ExecutionLocking)
	x.DueAt = x.CreatedAt.Add(time.Minute)
	indexWrites = x.IndexWritesAfter(new(workflow.Execution))
	if ok, err := v.Store.Create(ctx, x); !ok || err != nil {
		t.Fatalf("created %v: %v", ok, err)
	}
	check("create one that is found by its timer: the item and one entry", writeCost(executions, 2))
	commit(func(x *workflow.Execution) { x.State = sm.ExecutionRunning }, false)
	check("commit of its running: the item only", writeCost(executions, 1))
	commit(func(x *workflow.Execution) { x.State = sm.ExecutionWaiting }, false)
	check("commit of a state that is listed: its entry, and the mark of its timer", writeCost(executions, 4))
	commit(func(x *workflow.Execution) { x.State = sm.ExecutionRunning }, false)
	check("commit of its running again", writeCost(executions, 4))
	commit(func(x *workflow.Execution) { x.State, x.DueAt = sm.ExecutionCompletedAck, time.Time{} }, true)
	check("commit of its end: one entry, no timer", writeCost(executions, 3))
	x = ended
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
	if _, err := db.WithMeter(a).Locks.Read(ctx, "t", []workflow.EntityKey{{Type: "device", ID: "a"}}, true); err != nil {
		t.Fatal(err)
	}
	if _, err := db.WithMeter(nil).Locks.Read(ctx, "t", []workflow.EntityKey{{Type: "device", ID: "a"}}, true); err != nil {
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

// Many entities of a type are queried where that costs less than to get each, and never cost much
// more than that. What is read is the same.
func TestDynamoMeter_QueriesDenseEntities(t *testing.T) {
	t.Parallel()
	const all = 2400
	m := new(cost.Meter)
	v := openView(&faultInjector{}, m)
	ctx := contextWithTimeout(t, time.Minute)
	tenant := "t" + uuid.NewString()
	var small, large []workflow.Entity
	for i := range all {
		attributes := fmt.Appendf(nil, `{"n":%d}`, i)
		small = append(small, workflow.Entity{Type: "small", ID: fmt.Sprintf("e%06d", i), Attributes: attributes})
		if i < all/4 {
			noise := make([]byte, 3000)
			for j := range noise {
				noise[j] = byte(rand.N(256))
			}
			large = append(large, workflow.Entity{Type: "large", ID: fmt.Sprintf("e%06d", i), Attributes: fmt.Appendf(nil, `{"n":%d,"noise":%q}`, i, base64.StdEncoding.EncodeToString(noise))})
		}
	}
	for _, entities := range [][]workflow.Entity{small, large} {
		if _, err := v.Registry.PutEntities(ctx, tenant, entities); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		what     string
		entities []workflow.Entity
		every    int     // one of so many is read
		most     float64 // units for each that is read, strongly
	}{
		{"all", small, 1, 0.06},
		{"every second", small, 2, 0.11},
		{"every eighth", small, 8, 1.15},
		{"every twentieth, fewer than are worth a query", small, 20, 1.01},
		{"all of 3 KB", large, 1, 1.15},
	} {
		for _, strong := range []bool{true, false} {
			var keys []workflow.EntityKey
			for i := 0; i < len(c.entities); i += c.every {
				keys = append(keys, c.entities[i].Key())
			}
			missing := workflow.EntityKey{Type: c.entities[0].Type, ID: "e000000x"}
			m.Take()
			got, err := v.Registry.Entities(ctx, tenant, append(keys, missing), strong)
			if err != nil {
				t.Fatal(err)
			}
			most := c.most
			if !strong {
				most /= 2
			}
			if used := m.Take().ReadUnits[topology.TableRegistry] / float64(len(keys)); used > most {
				t.Errorf("%s, strong %v: %.3f units for each, want at most %.3f", c.what, strong, used, most)
			}
			if _, found := got[missing]; len(got) != len(keys) || found {
				t.Errorf("%s: %d of %d entities", c.what, len(got), len(keys))
			}
			for i, key := range keys {
				if want := c.entities[i*c.every].Attributes; string(got[key].Attributes) != string(want) {
					t.Fatalf("%s: %s has %.80s, want %.80s", c.what, key, got[key].Attributes, want)
				}
			}
		}
	}
}
