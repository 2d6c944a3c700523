package lifecycle

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

func signalled(state sm.ExecutionState, n int) *workflow.Execution {
	x := &workflow.Execution{State: state, Try: 1, SignalOrder: int64(n)}
	for i := range n {
		x.Signals = append(x.Signals, workflow.Signal{ID: fmt.Sprintf("k%d", i), Name: fmt.Sprintf("n%d", i), By: "ann", Reason: "because"})
	}
	return x
}

// Every command that moves an execution to a state that refuses signals depends on having
// seen those that came, and no other one does.
func TestDecide_EndDependsOnSignals(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	ended := map[CommandKind]int{}
	for _, c := range []Command{
		{Kind: CommandCancel}, {Kind: CommandBreak}, {Kind: CommandAcknowledge}, {Kind: CommandUnlock}, {Kind: CommandResume}, {Kind: CommandRetry},
	} {
		for _, state := range sm.ExecutionStates() {
			for _, n := range []int{0, 2} {
				x := signalled(state, n)
				d, err := Decide(x, Facts{Command: &c}, Policy{PollInterval: time.Minute}, now)
				if err != nil {
					continue // refused in this state
				}
				to := d.Next
				if to == nil {
					continue // a fact is needed first
				}
				closes := sm.AcceptsSignals(state) && !sm.AcceptsSignals(to.State)
				if closes {
					ended[c.Kind]++
				}
				if d.DependsOnSignals != closes {
					t.Errorf("%s: %s to %s: depends on signals %t", c.Kind, state, to.State, d.DependsOnSignals)
				}
				noticed := slices.ContainsFunc(to.Events, func(e workflow.Event) bool { return e.Type == EventSignalUnconsumed })
				if noticed != (closes && n > 0) || len(to.Signals) != n || len(d.Consumed) > 0 {
					t.Errorf("%s: %s to %s with %d signals: noticed %t, %d left", c.Kind, state, to.State, n, noticed, len(to.Signals))
				}
			}
		}
	}
	if ended[CommandCancel] < 10 || ended[CommandBreak] < 10 {
		t.Errorf("ends that were checked: %v", ended)
	}
}

func TestMailbox_NoticesWhatNobodyTook(t *testing.T) {
	x := signalled(sm.ExecutionRunning, 25)
	d := &decider{execution: x.Clone()}
	wait := &workflow.StepRun{Label: "wait", Wait: &workflow.StepWait{Kind: workflow.WaitSignal}}
	d.consumeSignal(x.Signals[3], wait, true)
	d.consumeSignal(x.Signals[0], wait, false)
	d.transition(sm.EventExecutionFailed, sm.ExecutionError, "", nil)
	if d.err != nil || !slices.Equal(d.decision.Consumed, []string{"k3", "k0"}) || len(d.execution.Signals) != 23 || len(x.Signals) != 25 {
		t.Fatalf("consumed %v, %d left of %d: %v", d.decision.Consumed, len(d.execution.Signals), len(x.Signals), d.err)
	}
	var types []string
	for _, e := range d.execution.Events {
		types = append(types, e.Layer+" "+e.Type)
	}
	if want := []string{"step signal.received", "step signal.received", "workflow signal.unconsumed", "execution execution.failed"}; !slices.Equal(types, want) {
		t.Errorf("recorded %v", types)
	}
	var taken, refused struct {
		Name, Reason string
		Fits         *bool
	}
	var left struct {
		Names []string
		Count int
	}
	for i, into := range []any{&taken, &refused, &left} {
		if err := json.Unmarshal(d.execution.Events[i].Data, into); err != nil {
			t.Fatal(err)
		}
	}
	if taken.Name != "n3" || taken.Fits != nil || taken.Reason != "because" || refused.Fits == nil || *refused.Fits || d.execution.Events[0].Step != "wait" || d.execution.Events[0].Actor != "ann" {
		t.Errorf("taken %+v, refused %+v", taken, refused)
	}
	if left.Count != 23 || len(left.Names) != workflow.MaxNamed || left.Names[0] != "n1" {
		t.Errorf("left %+v", left)
	}
}
