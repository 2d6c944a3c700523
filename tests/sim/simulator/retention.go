package simulator

import (
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-run/lockstep/shared/views"
	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
	"github.com/lockstep-run/lockstep/tests/sim/invariant"
)

// retention is how long an ended execution is kept in the scenarios that delete executions: the
// shortest configurable time.
const retention = 30 * 24 * time.Hour

// drawRetention lets ended executions be deleted, in one scenario of sixteen. Around that time,
// operators send commands again, clients read and start, and there are faults again.
func (p *scenario) drawRetention(names []string) {
	r := rand.New(rand.NewPCG(p.Seed, 20))
	if r.IntN(16) > 0 || !p.FaultProfile.SweeperEnabled || p.RestoreDrill != nil {
		return
	}
	p.Retention, p.FaultProfile.FaultsAgainFrom = retention, retention
	kinds := []actionKind{actionStart, actionRetry, actionRetry, actionRetry, actionUnlock, actionAcknowledge, actionStrayWakeup, actionStrayWakeup, actionCancel, actionSweep, actionImport, actionRead, actionRead, actionRead}
	for range 3 + r.IntN(8) {
		a := action{At: retention + time.Duration(r.Int64N(int64(time.Duration(pick(r, 3, 8, 60))*time.Minute))).Truncate(time.Millisecond), Kind: kinds[r.IntN(len(kinds))], ExecutionIndex: r.IntN(5), Choice: r.IntN(12)}
		switch a.Kind {
		case actionStart:
			a.Definition, a.Devices, a.Parameter = names[r.IntN(len(names))], adjacentDevices(r, deviceCount), 1+r.IntN(6)
		case actionImport:
			a.Devices = []string{deviceID(r.IntN(deviceCount))}
		}
		p.Actions = append(p.Actions, a)
	}
}

// isBusy reports whether clients or operators have something to do soon. What they do when
// executions are deleted does not count before that time.
func (w *simulation) isBusy() bool {
	if len(w.deferred) > 0 || len(w.actions) == 0 || w.scenario.Retention == 0 {
		return len(w.actions)+len(w.deferred) > 0
	}
	return w.actions[0].At < w.scenario.Retention || w.elapsed() >= w.scenario.Retention
}

// lateVerbs are what operators and clients do with an execution at the moment of its deletion.
var lateVerbs = []actionKind{actionRetry, actionRetry, actionRead, actionRead, actionUnlock, actionAcknowledge, actionStrayWakeup, actionCancel}

// comeLate lets somebody do something with an execution that is about to be deleted or was just
// deleted.
func (w *simulation) comeLate(id string) {
	if w.scenario.Retention > 0 && w.elapsed() >= w.scenario.Retention && w.late.IntN(3) == 0 && w.lateCommands < 12 {
		w.lateCommands++
		w.operateOn(action{Kind: lateVerbs[w.late.IntN(len(lateVerbs))], Choice: w.late.IntN(12)}, id)
	}
}

// expire deletes a discarded item, if there is one.
func (w *simulation) expire() bool {
	item, ok := w.Expire(w.late.IntN)
	if !ok {
		return false
	}
	if w.trace != nil {
		w.trace("%s of %s is deleted", item.Name, item.Execution)
	}
	w.checker.Expired(item)
	return true
}

// read reads everything that can be seen of an execution.
func (w *simulation) read(id string) error {
	_, err := w.Query.Execution(ctx, harness.Caller, id)
	if err == nil {
		_, err = w.Query.History(ctx, harness.Caller, id, 0, workflow.Page{})
	}
	if err == nil {
		_, err = w.Query.Jobs(ctx, harness.Caller, id, views.JobFilter{}, workflow.Page{})
	}
	if err == nil {
		_, err = w.Query.Locks(ctx, harness.Caller, workflow.Page{})
	}
	return err
}

// judgeAcknowledged judges the executions that have been acknowledged since the last call, because
// those that are deleted will be missing at the end.
func (w *simulation) judgeAcknowledged() {
	for _, id := range w.checker.TakeAcknowledged() {
		if !slices.Contains(w.executionIDs(), id) {
			continue
		}
		v := w.checker.CheckHistory(id, w.History(id))
		if v == nil {
			v = w.checkOutcome(id)
		}
		if v != nil {
			w.checker.Failf(v.Invariant, "%s", v.Text)
		}
	}
}

// isOfNoExecution reports whether something stored is the large input of a start that nobody
// finished. It is written before the execution, so a client that dies in between and does not come
// back leaves it behind.
func (w *simulation) isOfNoExecution(name string) bool {
	return strings.HasPrefix(name, "the input of ") && w.checker.ExecutionByID(name[strings.LastIndexByte(name, ' ')+1:]) == nil
}

// checkRemoved returns a violation if something is left of a deleted execution, or if an execution
// still exists after its retention.
func (w *simulation) checkRemoved() *invariant.Violation {
	if w.scenario.Retention == 0 {
		return nil
	}
	left := slices.DeleteFunc(w.Remaining(), w.isOfNoExecution)
	for _, id := range w.executionIDs() {
		left = append(left, "execution "+id)
	}
	if len(left) == 0 {
		return nil
	}
	return &invariant.Violation{Invariant: "nothing is left of an execution that was removed", Text: left[0]}
}

// isRemoved reports whether an execution has been deleted. Data that a command or a read began with
// may be gone by then; the error says so in one way or another, see docs/simulation.md.
func (w *simulation) isRemoved(id string) bool {
	x := w.checker.ExecutionByID(id)
	return x != nil && !x.DiscardedAt.IsZero()
}
