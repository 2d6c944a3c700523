package engine_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/sim/faults"
	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

// What a start reads ahead for the version that was started before is not what it executes, if there
// is a newer one.
func TestStart_TakesTheNewestVersionThoughItHasReadAheadForAnother(t *testing.T) {
	s := harness.New(t, 1, harness.Options())
	s.RegisterBlocks()
	s.ImportDevices("a")
	ctx := context.Background()
	publish := func(version, config, block string) {
		if _, _, err := s.Catalog.Publish(ctx, harness.Caller, []byte("package: p\nname: w\nversion: "+version+"\nseedEntity: device\n"+config+"steps: [{label: one, functionBlock: p/"+block+":1, runOn: device}]\n"), false); err != nil {
			t.Fatal(err)
		}
	}
	archive := func(version string) {
		if err := s.Catalog.Archive(ctx, harness.Caller, workflow.Ref{Package: "p", Name: "w", Version: version}); err != nil {
			t.Fatal(err)
		}
	}
	start := func(version, block string) {
		t.Helper()
		id := s.Start("w", "a")
		settle(s)
		x := s.ExpectState(id, sm.ExecutionCompletedAck)
		if want := (workflow.Ref{Package: "p", Name: "w", Version: version}); x.Workflow != want || x.Blocks["p/"+block+":1"] == "" || len(x.Blocks) != 1 {
			t.Errorf("started %s with blocks %v, want %s with %s", x.Workflow, x.Blocks, want, block)
		}
	}
	publish("1.0.0", "", "pure")
	start("1.0.0", "pure")
	start("1.0.0", "pure")
	publish("1.1.0", "config: {startWhen: {condition: 'true'}}\n", "again")
	start("1.1.0", "again")
	start("1.1.0", "again")
	archive("1.1.0")
	start("1.0.0", "pure")
}

// Until its Idempotency-Key is bound, a start may turn out to be another execution, or to be refused:
// nothing is stored under its id before.
func TestStart_StoresNothingAheadOfItsKey(t *testing.T) {
	s := harness.New(t, 1, harness.Options())
	s.RegisterBlocks()
	devices := fourDigitIDs(20) // their scope does not fit into the state item
	s.ImportDevices(devices...)
	s.Publish("w", stepsYAML("one pure device"))
	for n := range 2 { // the second one reads ahead
		var calls []string
		s.Faults = func(c faults.Call) faults.Fault {
			calls = append(calls, c.Name)
			return faults.None
		}
		req := views.StartRequest{Workflow: "p/w", Parameters: []byte("{}"), IdempotencyKey: fmt.Sprint(n), ExecuteOnParameters: &workflow.Selector{Type: "device", IDs: devices}}
		if _, _, err := s.Engine.Start(context.Background(), harness.Caller, req); err != nil {
			t.Fatal(err)
		}
		bound, saved := slices.Index(calls, "registry.bind_idempotency_key"), slices.Index(calls, "store.save_scope")
		if bound < 0 || saved < bound {
			t.Errorf("start %d: the scope is call %d, the key call %d of %v", n, saved, bound, calls)
		}
	}
}

// The reads of a start that it makes side by side share nothing, whichever of them fails: run with the race
// detector. A read that was only too early is made again, and the start goes on; where the version cannot be read, the
// start fails, and the next one succeeds.
func TestStart_ReadsSideBySide(t *testing.T) {
	for _, failing := range []string{"", "registry.versions_revision", "registry.version_index", "registry.entities_weakly", "locks.read_weakly"} {
		t.Run("failing "+failing, func(t *testing.T) {
			options := harness.Options()
			options.Parallelism = 4
			s := harness.New(t, 1, options)
			s.RegisterBlocks()
			devices := harness.DeviceIDs(3)
			s.ImportDevices(devices...)
			s.Publish("w", stepsYAML("one pure device"))
			settleStarted := func(id string) {
				t.Helper()
				settle(s)
				s.ExpectState(id, sm.ExecutionCompletedAck)
			}
			settleStarted(s.Start("w", devices...)) // from now on the version is guessed
			for round := range 5 {
				if failing == "registry.version_index" {
					s.Advance(time.Minute) // the indexes are read again
				}
				var mu sync.Mutex
				failed := 0
				s.Faults = func(c faults.Call) faults.Fault {
					mu.Lock()
					defer mu.Unlock()
					if c.Name == failing && failed == 0 {
						failed++
						return faults.Throttled
					}
					return faults.None
				}
				req := views.StartRequest{Workflow: "p/w", Parameters: []byte("{}"), ExecuteOnParameters: &workflow.Selector{Type: "device", IDs: devices}}
				x, _, err := s.Engine.Start(context.Background(), harness.Caller, req)
				s.Faults = nil
				if failing != "" && failed == 0 {
					t.Errorf("round %d: %s was not called", round, failing)
				}
				if err != nil && failing != "registry.version_index" {
					t.Errorf("round %d: %v", round, err)
				}
				if err != nil {
					x, _, err = s.Engine.Start(context.Background(), harness.Caller, req)
				}
				if err != nil {
					t.Fatal(err)
				}
				settleStarted(x.ID)
				if len(x.Blocks) != 1 || x.Workflow.Version != "1.0.0" {
					t.Errorf("round %d: %s with blocks %v", round, x.Workflow, x.Blocks)
				}
			}
		})
	}
}
