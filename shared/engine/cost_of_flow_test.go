package engine_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

// units returns what has been read and written so far, over all tables.
func units(s *harness.Harness) (read, written float64) {
	c := s.Consumed()
	for _, n := range c.ReadUnits {
		read += n
	}
	for _, n := range c.WriteUnits {
		written += n
	}
	return read, written
}

// A signal costs a write unit with its request and, with the wake-up that takes it, one more and
// two read units. The last write here is also the end of the execution.
func TestCost_OfASignal(t *testing.T) {
	s := newHarness(t, 1)
	s.Publish("w", "steps:\n  - {label: gate, wait: {signal: {name: go}}}\n")
	id := s.StartWith(harness.NewStartRequest("w"))
	s.Drain()
	reads, writes := units(s)
	if _, err := signal(s, id, "go", `{"n":1}`, "a"); err != nil {
		t.Fatal(err)
	}
	readsOfRequest, writesOfRequest := units(s)
	s.Drain()
	s.ExpectState(id, sm.ExecutionCompletedAck)
	readsInAll, writesInAll := units(s)
	if readsOfRequest != reads || writesOfRequest != writes+1 || readsInAll != reads+2 || writesInAll != writes+2 {
		t.Errorf("the request took %v and %v units, in all %v and %v", readsOfRequest-reads, writesOfRequest-writes, readsInAll-reads, writesInAll-writes)
	}
}

// Each repetition of a loop costs as much as the one before: a step of one job, here of a pure
// block. It adds about 50 bytes to the item of the execution, and a read of 4 KB is one unit.
func TestCost_OfAnIteration(t *testing.T) {
	cost := func(repetitions int) (read, written float64) {
		s := newHarness(t, 1)
		s.Publish("w", fmt.Sprintf("steps:\n  - label: each\n    loop: {over: '${[%s]}', as: n}\n    workflow: {steps: [{label: one, functionBlock: p/pure:1, runOn: global, parameters: {n: '${n}'}}]}\n", strings.TrimSuffix(strings.Repeat("0,", repetitions), ",")))
		reads, writes := units(s)
		id := s.StartWith(harness.NewStartRequest("w"))
		s.Drain()
		s.RunFor(10 * time.Minute)
		s.ExpectState(id, sm.ExecutionCompletedAck)
		read, written = units(s)
		return read - reads, written - writes
	}
	read20, written20 := cost(20)
	read40, written40 := cost(40)
	read80, written80 := cost(80)
	if read, written := (read40-read20)/20, (written40-written20)/20; read != 3 || written < 2 || written > 2.2 {
		t.Errorf("a repetition among the first 40 costs %v read and %v write units", read, written)
	}
	if read, written := (read80-read40)/40, (written80-written40)/40; read > 5 || written < 2 || written > 2.2 {
		t.Errorf("a repetition among the next 40 costs %v read and %v write units", read, written)
	}
}
