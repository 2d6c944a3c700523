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

	"github.com/lockstep-run/lockstep/shared/sim/fate"
	"github.com/lockstep-run/lockstep/shared/sim/stage"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// setting lets steps ask for attributes: "one" of every device, "two" of d000
// alone.
func setting(c stage.Call) *stage.Outcome {
	switch {
	case c.Step == "one":
		return &stage.Outcome{Set: map[string]any{"version": "2.0", "by": "one"}}
	case c.Step == "two" && c.Entity == "d000":
		return &stage.Outcome{Set: map[string]any{"by": "two"}}
	}
	return nil
}

// entity reads a device as it stands in the inventory.
func entity(s *stage.Stage, id string) (e workflow.Entity) {
	s.Helper()
	key := workflow.EntityKey{Type: "device", ID: id}
	s.Without(func() {
		found, err := s.Open().Registry.Entities(context.Background(), stage.Caller.Tenant, []workflow.EntityKey{key}, true)
		if err != nil {
			s.Fatal(err)
		}
		e = found[key]
	})
	return e
}

func attributes(t testing.TB, e workflow.Entity) map[string]any {
	t.Helper()
	var all map[string]any
	if err := json.Unmarshal(e.Attributes, &all); err != nil {
		t.Fatal(err)
	}
	return all
}

func updating(t testing.TB, devices int) *stage.Stage {
	s := open(t, devices)
	s.Publish("w", steps("one again device", "two again device"))
	s.Script = setting
	return s
}

// What jobs ask for is applied when the run completes, the later step's last, and
// each entity carries the token of the lock under which that was done.
func TestUpdatesAreApplied(t *testing.T) {
	for _, devices := range []int{1, 5} {
		s := updating(t, devices)
		id := s.Start("w", stage.Names(devices)...)
		settle(s)
		s.Ends(id, sm.ExecutionCompletedAck)
		for _, name := range stage.Names(devices) {
			e, by := entity(s, name), "one"
			if name == "d000" {
				by = "two"
			}
			if diff := cmp.Diff(map[string]any{"name": name, "version": "2.0", "by": by}, attributes(t, e)); diff != "" {
				t.Errorf("%s: %s", name, diff)
			}
			held := slices.ContainsFunc(s.Called, func(c stage.Call) bool {
				return c.Entity == name && strings.HasPrefix(c.Fence, fmt.Sprintf("%010d-", e.Token))
			})
			if e.Version != 2 || e.Token == 0 || !held {
				t.Errorf("%s has version %d and token %d", name, e.Version, e.Token)
			}
		}
	}
}

// A run that does not complete changes nothing in the inventory.
func TestNothingIsAppliedAfterAFailure(t *testing.T) {
	s := updating(t, 2)
	s.Script = func(c stage.Call) *stage.Outcome {
		if c.Step == "two" {
			return &stage.Outcome{Fail: "NO"}
		}
		return setting(c)
	}
	s.Start("w", stage.Names(2)...)
	settle(s)
	if e := entity(s, "d000"); e.Version != 1 || e.Token != 0 {
		t.Errorf("%+v", e)
	}
}

// Whoever applies updates may die, or lose a reply, at every entity: each is
// written once all the same.
func TestUpdatesAreAppliedOnce(t *testing.T) {
	for _, fault := range []fate.Fault{fate.CrashBefore, fate.CrashAfter, fate.LostReply, fate.Throttled, fate.Repeated} {
		for n := 1; n <= 3; n++ {
			s := updating(t, 3)
			count := 0
			s.Faults = func(c fate.Call) fate.Fault {
				if c.Name == "registry.replace_entity" {
					if count++; count == n {
						return fault
					}
				}
				return fate.None
			}
			id := s.Start("w", stage.Names(3)...)
			settle(s)
			s.Ends(id, sm.ExecutionCompletedAck)
			if count < 3 {
				t.Fatalf("%s at entity %d: only %d written", fault, n, count)
			}
			for _, name := range stage.Names(3) {
				if e := entity(s, name); e.Version != 2 || attributes(t, e)["version"] != "2.0" {
					t.Errorf("%s at entity %d: %s is %+v %s", fault, n, name, e, e.Attributes)
				}
			}
		}
	}
}

// An import that comes between the reading and the writing of an entity stays,
// and the updates are applied to it.
func TestUpdatesMeetAnImport(t *testing.T) {
	s := updating(t, 1)
	struck := false
	s.Faults = func(c fate.Call) fate.Fault {
		if c.Name == "registry.replace_entity" && !struck {
			struck = true
			return fate.Throttled
		}
		return fate.None
	}
	apply := s.Task("run", func() { s.Start("w", "d000"); settle(s) })
	if !apply.Until("registry.replace_entity") {
		t.Fatal("nothing is applied")
	}
	imported := workflow.Entity{Type: "device", ID: "d000", Attributes: json.RawMessage(`{"name":"new","version":"1.0"}`)}
	if _, err := s.Open().Registry.PutEntities(context.Background(), stage.Caller.Tenant, []workflow.Entity{imported}); err != nil {
		t.Fatal(err)
	}
	apply.Finish()
	e := entity(s, "d000")
	if diff := cmp.Diff(map[string]any{"name": "new", "version": "2.0", "by": "two"}, attributes(t, e)); diff != "" || e.Version != 3 {
		t.Errorf("version %d: %s", e.Version, diff)
	}
}

// A handler that stands still in the middle of applying, while another settles
// the run and a later one takes the lock and completes, writes nothing when it
// goes on.
func TestLateUpdatesAreFenced(t *testing.T) {
	s := updating(t, 1)
	late := s.Task("late", func() {
		s.Start("w", "d000")
		s.Drain()
	})
	if !late.Until("registry.replace_entity") {
		t.Fatal("nothing is applied")
	}
	s.Advance(2 * time.Hour)
	settle(s)
	s.Script = func(c stage.Call) *stage.Outcome {
		return &stage.Outcome{Set: map[string]any{"by": "later"}}
	}
	next := s.Start("w", "d000")
	settle(s)
	s.Ends(next, sm.ExecutionCompletedAck)
	late.Finish()
	settle(s)
	if e := entity(s, "d000"); attributes(t, e)["by"] != "later" || e.Version != 3 {
		t.Errorf("%+v %s", e, e.Attributes)
	}
}

// Updates that would make an entity larger than the inventory takes fail the step
// that asks for them, while that can still be undone.
func TestUpdatesThatGrowTooLarge(t *testing.T) {
	s := updating(t, 1)
	half := strings.Repeat("x", workflow.MaxAttributes*2/3)
	s.Script = func(c stage.Call) *stage.Outcome {
		return &stage.Outcome{Set: map[string]any{c.Step: half}}
	}
	id := s.Start("w", "d000")
	settle(s)
	x := s.Ends(id, sm.ExecutionFailedSafeAck)
	if x.Error == nil || x.Error.Code != "LIMIT" || x.Error.Step != "two" || x.Error.Entity != "device/d000" {
		t.Errorf("%+v", x.Error)
	}
	if e := entity(s, "d000"); e.Version != 1 {
		t.Errorf("%+v", e)
	}
}
