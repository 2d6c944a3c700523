package engine_test

import (
	"testing"

	sm "github.com/lockstep-run/lockstep/statemachines"
)

// A path changes only what it names of an object that was set as a whole, and replaces what is no object.
func TestFlow_PathOfAnObjectSetAsAWhole(t *testing.T) {
	s := newHarness(t, 0)
	s.Publish("w", `steps:
  - {label: whole, set: {x: {a: 1, b: [2]}, y: '${{"a": 1, "b": {"c": 2}}}', z: "text ${1 + 1}"}}
  - {label: part, set: {x.a: 3, y.b.d: [4], z.a: '${vars.x.b}'}}
output: {x: "${vars.x}", y: "${vars.y}", z: "${vars.z}"}
`)
	id := s.Start("w")
	settle(s)
	x := s.ExpectState(id, sm.ExecutionCompletedAck)
	if want := `{"x":{"a":3,"b":[2]},"y":{"a":1,"b":{"c":2,"d":[4]}},"z":{"a":[2]}}`; x.Output == nil || string(x.Output.Inline) != want {
		t.Errorf("%+v, want %s", x.Output, want)
	}
}
