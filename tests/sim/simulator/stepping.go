package simulator

import (
	"math/rand/v2"
	"time"

	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
)

// steppingStream is the stream of random numbers for executions that are held or stepped through.
const steppingStream = 113

// drawStepping lets some executions be held or stepped through, in one scenario of 11. Operators who
// do not know what they wait for let them go on, too.
func (p *scenario) drawStepping() {
	r := rand.New(rand.NewPCG(p.Seed, steppingStream))
	if r.IntN(11) > 0 || !p.FaultProfile.SweeperEnabled || p.RestoreDrill != nil {
		return
	}
	for i := range p.Actions {
		a := &p.Actions[i]
		if hold, step := r.IntN(3) == 0, r.IntN(2) == 0; (a.Kind == actionStart || a.Kind == actionStartTwice) && !a.Probe {
			a.Hold, a.Stepping = hold, step
		}
	}
	for range r.IntN(6) {
		p.Actions = append(p.Actions, action{At: time.Duration(r.IntN(240_000)) * time.Millisecond, Kind: actionNext, ExecutionIndex: r.IntN(4), Choice: r.IntN(12)})
	}
}

// stepOn lets an operator react to an execution that begins to wait for one: after a while, it goes
// on. Sometimes two requests say so at once.
func (w *simulation) stepOn(before, after *workflow.Execution) {
	wait := after.Wait
	if wait == nil || wait.Kind != workflow.WaitHold && wait.Kind != workflow.WaitStep || before != nil && before.Wait != nil && before.Wait.Event == wait.Event {
		return
	}
	r := w.drawFor(after.ID, "next", wait.Step, int(wait.Event))
	all, requests := wait.Kind == workflow.WaitStep && r.IntN(12) == 0, 1+r.IntN(5)/4
	for range requests {
		w.after(within(r, 20*time.Second), func() { w.sendNext(after.ID, *wait, all) })
	}
}

// sendNext lets an execution go on that waits for an operator, and repeats that until it is
// answered.
func (w *simulation) sendNext(id string, wait workflow.Wait, all bool) {
	w.spawn("operator", -1, func() error {
		if wait.Kind == workflow.WaitHold {
			w.plans.Released(id)
		} else {
			w.plans.NextSent(id, wait.Event, all)
		}
		_, err := w.Engine.NextStep(ctx, harness.Caller, id, views.NextRequest{Reason: "go on", Sequence: wait.Event, All: all})
		return err
	}, func(p *process) {
		switch {
		case p.task.Crashed() || p.err != nil && isTransient(p.err):
			w.tryLater(func() { w.sendNext(id, wait, all) })
		case p.err != nil && !workflow.Is(p.err, workflow.CodeIllegalTransition) && !workflow.Is(p.err, workflow.CodeNotFound):
			w.checker.Failf("an operation is accepted or refused", "next of %s: %v", id, p.err)
		}
	})
}

// letGoOn lets an execution go on, whatever it waits for.
func (w *simulation) letGoOn(id string, choice int) error {
	w.plans.NextSent(id, 0, choice%6 == 0)
	_, err := w.Engine.NextStep(ctx, harness.Caller, id, views.NextRequest{Reason: "go on", All: choice%6 == 0})
	w.expectInHistory(err, id, sm.EventExecutionResumed)
	return err
}
