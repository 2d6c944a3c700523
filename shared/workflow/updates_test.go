package workflow_test

import (
	"encoding/json"
	"fmt"
	"runtime"
	"testing"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Updates are applied in their order, and what that allocates grows in proportion to them.
func TestApplyUpdates_InOrderAndLinear(t *testing.T) {
	set := func(name, value string) workflow.Update {
		return workflow.Update{Set: map[string]json.RawMessage{name: json.RawMessage(value)}}
	}
	got := workflow.ApplyUpdates(json.RawMessage(`{"a":1,"b":1}`), []workflow.Update{set("a", "2"), {Remove: []string{"a", "b"}}, set("b", "3")})
	if string(got) != `{"b":3}` {
		t.Errorf("got %s", got)
	}
	bytes := map[int]uint64{}
	for _, n := range []int{200, 2000} {
		var updates []workflow.Update
		for i := range n {
			updates = append(updates, set(fmt.Sprintf("name%04d", i), `"value"`))
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		workflow.ApplyUpdates(nil, updates)
		runtime.ReadMemStats(&after)
		bytes[n] = after.TotalAlloc - before.TotalAlloc
	}
	if bytes[2000] > 20*bytes[200] {
		t.Errorf("2000 updates take %d bytes, 200 take %d", bytes[2000], bytes[200])
	}
}
