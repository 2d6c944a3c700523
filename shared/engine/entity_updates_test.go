package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-run/lockstep/shared/sim/faults"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

// setAttributes requests attribute updates: step "one" for every device, step "two" for
// d000 only.
func setAttributes(c harness.BlockCall) *harness.Outcome {
	switch {
	case c.Step == "one":
		return &harness.Outcome{SetAttributes: map[string]any{"version": "2.0", "by": "one"}}
	case c.Step == "two" && c.Entity == "d000":
		return &harness.Outcome{SetAttributes: map[string]any{"by": "two"}}
	}
	return nil
}

// loadEntity reads a device from the inventory.
func loadEntity(s *harness.Harness, id string) (e workflow.Entity) {
	s.Helper()
	key := workflow.EntityKey{Type: "device", ID: id}
	s.WithoutFaults(func() {
		entities, err := s.Open().Registry.Entities(context.Background(), harness.Caller.Tenant, []workflow.EntityKey{key}, true)
		if err != nil {
			s.Fatal(err)
		}
		e = entities[key]
	})
	return e
}

func decodeAttributes(t testing.TB, e workflow.Entity) map[string]any {
	t.Helper()
	var all map[string]any
	if err := json.Unmarshal(e.Attributes, &all); err != nil {
		t.Fatal(err)
	}
	return all
}

func newUpdateHarness(t testing.TB, devices int) *harness.Harness {
	s := newHarness(t, devices)
	s.Publish("w", stepsYAML("one again device", "two again device"))
	s.Script = setAttributes
	return s
}

// Requested updates are applied when the execution completes, in the order of the
// steps, and each entity carries the token of the lock under which it was written.
func TestApplyUpdates_WritesOnCompletionUnderLockToken(t *testing.T) {
	for _, devices := range []int{1, 5} {
		s := newUpdateHarness(t, devices)
		id := s.Start("w", harness.DeviceIDs(devices)...)
		settle(s)
		s.ExpectState(id, sm.ExecutionCompletedAck)
		for _, name := range harness.DeviceIDs(devices) {
			e, by := loadEntity(s, name), "one"
			if name == "d000" {
				by = "two"
			}
			if diff := cmp.Diff(map[string]any{"name": name, "version": "2.0", "by": by}, decodeAttributes(t, e)); diff != "" {
				t.Errorf("%s: %s", name, diff)
			}
			held := slices.ContainsFunc(s.BlockCalls, func(c harness.BlockCall) bool {
				return c.Entity == name && strings.HasPrefix(c.Fence, fmt.Sprintf("%010d-", e.Token))
			})
			if e.Version != 2 || e.Token == 0 || !held {
				t.Errorf("%s has version %d and token %d", name, e.Version, e.Token)
			}
		}
	}
}

// An execution that does not complete changes nothing in the inventory.
func TestApplyUpdates_SkipsFailedExecution(t *testing.T) {
	s := newUpdateHarness(t, 2)
	s.Script = func(c harness.BlockCall) *harness.Outcome {
		if c.Step == "two" {
			return &harness.Outcome{FailCode: "NO"}
		}
		return setAttributes(c)
	}
	s.Start("w", harness.DeviceIDs(2)...)
	settle(s)
	if e := loadEntity(s, "d000"); e.Version != 1 || e.Token != 0 {
		t.Errorf("%+v", e)
	}
}

// The handler that applies updates may crash, or lose a reply, at every entity: each
// entity is still written once.
func TestApplyUpdates_WritesEachEntityOnceDespiteFaults(t *testing.T) {
	for _, fault := range []faults.Fault{faults.CrashBefore, faults.CrashAfter, faults.LostReply, faults.Throttled, faults.Repeated} {
		for n := 1; n <= 3; n++ {
			s := newUpdateHarness(t, 3)
			count := 0
			s.Faults = func(c faults.Call) faults.Fault {
				if c.Name == "registry.replace_entity" {
					if count++; count == n {
						return fault
					}
				}
				return faults.None
			}
			id := s.Start("w", harness.DeviceIDs(3)...)
			settle(s)
			s.ExpectState(id, sm.ExecutionCompletedAck)
			if count < 3 {
				t.Fatalf("%s at entity %d: only %d written", fault, n, count)
			}
			for _, name := range harness.DeviceIDs(3) {
				if e := loadEntity(s, name); e.Version != 2 || decodeAttributes(t, e)["version"] != "2.0" {
					t.Errorf("%s at entity %d: %s is %+v %s", fault, n, name, e, e.Attributes)
				}
			}
		}
	}
}

// An import between the read and the write of an entity is kept, and the updates are
// applied to it.
func TestApplyUpdates_KeepsConcurrentImport(t *testing.T) {
	s := newUpdateHarness(t, 1)
	throttled := false
	s.Faults = func(c faults.Call) faults.Fault {
		if c.Name == "registry.replace_entity" && !throttled {
			throttled = true
			return faults.Throttled
		}
		return faults.None
	}
	apply := s.StartTask("apply", func() { s.Start("w", "d000"); settle(s) })
	if !apply.RunUntil("registry.replace_entity") {
		t.Fatal("no update is written")
	}
	imported := workflow.Entity{Type: "device", ID: "d000", Attributes: json.RawMessage(`{"name":"new","version":"1.0"}`)}
	if _, err := s.Open().Registry.PutEntities(context.Background(), harness.Caller.Tenant, []workflow.Entity{imported}); err != nil {
		t.Fatal(err)
	}
	apply.Finish()
	e := loadEntity(s, "d000")
	if diff := cmp.Diff(map[string]any{"name": "new", "version": "2.0", "by": "two"}, decodeAttributes(t, e)); diff != "" || e.Version != 3 {
		t.Errorf("version %d: %s", e.Version, diff)
	}
}

// A handler that pauses while it applies updates, until another handler has settled the
// execution and a later execution has taken the lock and completed, writes nothing
// when it continues.
func TestApplyUpdates_FencesStaleHandler(t *testing.T) {
	s := newUpdateHarness(t, 1)
	late := s.StartTask("late", func() {
		s.Start("w", "d000")
		s.Drain()
	})
	if !late.RunUntil("registry.replace_entity") {
		t.Fatal("no update is written")
	}
	s.Advance(2 * time.Hour)
	settle(s)
	s.Script = func(c harness.BlockCall) *harness.Outcome {
		return &harness.Outcome{SetAttributes: map[string]any{"by": "later"}}
	}
	next := s.Start("w", "d000")
	settle(s)
	s.ExpectState(next, sm.ExecutionCompletedAck)
	late.Finish()
	settle(s)
	if e := loadEntity(s, "d000"); decodeAttributes(t, e)["by"] != "later" || e.Version != 3 {
		t.Errorf("%+v %s", e, e.Attributes)
	}
}

// Updates that would make an entity too large for the inventory fail the step that
// requests them, while it can still be undone.
func TestApplyUpdates_RejectsOversizedEntity(t *testing.T) {
	s := newUpdateHarness(t, 1)
	half := strings.Repeat("x", workflow.MaxAttributesBytes*2/3)
	s.Script = func(c harness.BlockCall) *harness.Outcome {
		return &harness.Outcome{SetAttributes: map[string]any{c.Step: half}}
	}
	id := s.Start("w", "d000")
	settle(s)
	x := s.ExpectState(id, sm.ExecutionFailedSafeAck)
	if x.Error == nil || x.Error.Code != "LIMIT" || x.Error.Step != "two" || x.Error.Entity != "device/d000" {
		t.Errorf("%+v", x.Error)
	}
	if e := loadEntity(s, "d000"); e.Version != 1 {
		t.Errorf("%+v", e)
	}
}
