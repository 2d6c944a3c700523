package protocol_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/catalog"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

// A wake-up that locks many large entities holds their attributes once, and little besides:
// not the items that they were read from, nor the documents that they are stored as. The
// attributes of a scope may fill a good part of the memory of a function.
func TestMemory_LargeScopeIsHeldOnce(t *testing.T) {
	const entities, size = 1500, 32_000
	f := newSweepFixture(t, "memory-")
	v := f.db.WithMeter(nil)
	c := catalog.New(func() catalog.Ports { return catalog.Ports{Registry: v.Registry, Schedules: v.Registry, Sender: f} }, f.engine.Now)
	source := "package: p\nname: large\nversion: 1.0.0\nseedEntity: device\nsteps: [{label: go, functionBlock: p/pure:1, runOn: global}]\n"
	if _, _, err := c.Publish(t.Context(), harness.Caller, []byte(source), false); err != nil {
		t.Fatal(err)
	}
	random := rand.NewChaCha8([32]byte{})
	ids := make([]string, 0, entities)
	for len(ids) < entities {
		some := make([]workflow.Entity, 100)
		for i := range some {
			raw := make([]byte, size*3/4) // random, so that compression makes it little smaller
			_, _ = random.Read(raw)
			ids = append(ids, fmt.Sprintf("d%05d", len(ids)))
			some[i] = workflow.Entity{Type: "device", ID: ids[len(ids)-1], Attributes: []byte(`{"config":"` + base64.StdEncoding.EncodeToString(raw) + `"}`)}
		}
		if _, err := v.Registry.PutEntities(t.Context(), harness.Caller.Tenant, some); err != nil {
			t.Fatal(err)
		}
	}
	var id string
	discovering := peakMemory(func() {
		x, _, err := f.engine.Start(t.Context(), harness.Caller, harness.NewStartRequest("large", ids...))
		if err != nil {
			t.Fatal(err)
		}
		id = x.ID
	})
	locking := peakMemory(func() {
		if err := f.engine.Advance(t.Context(), workflow.Wakeup{Tenant: harness.Caller.Tenant, Execution: id}); err != nil {
			t.Fatal(err)
		}
	})
	x, err := v.Store.Load(t.Context(), harness.Caller.Tenant, id)
	if err != nil || x.State != sm.ExecutionRunning || x.Scope.Total() != entities || x.Scope.Chunks < entities*size/(400<<10) {
		t.Fatalf("%v: %+v", err, x)
	}
	const scope = entities * size
	if discovering > scope || locking > 5*scope/2 {
		t.Errorf("%d MB of attributes: %d MB while they are found, %d MB while they are locked", scope>>20, discovering>>20, locking>>20)
	}
}

// peakMemory is the most heap in use during a call, beyond what was in use before it. The
// collector works so often that little of it is garbage.
func peakMemory(call func()) uint64 {
	defer debug.SetGCPercent(debug.SetGCPercent(10))
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	before, peak := m.HeapAlloc, m.HeapAlloc
	ctx, stop := context.WithCancel(context.Background())
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		for ctx.Err() == nil {
			runtime.ReadMemStats(&m)
			peak = max(peak, m.HeapAlloc)
			time.Sleep(time.Millisecond)
		}
	}()
	call()
	stop()
	<-stopped
	return peak - before
}
