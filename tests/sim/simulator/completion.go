package simulator

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/lockstep-run/lockstep/shared/engine"
	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/sim/harness"
	"github.com/lockstep-run/lockstep/tests/sim/invariant"
	"github.com/lockstep-run/lockstep/tests/sim/oracle"
)

// maxSimulatedTime is the time within which everything must have ended, whatever went wrong.
const maxSimulatedTime = 10 * time.Hour

// acknowledgeInterval is how often an operator acknowledges executions that wait for one, once
// the scenario has no actions left.
const acknowledgeInterval = 3 * time.Minute

// nextRound returns when an operator acknowledges executions next, if any waits for that.
func (w *simulation) nextRound() (at time.Time, do func()) {
	if !w.scenario.FaultProfile.SweeperEnabled {
		return w.endWithoutSweeper()
	}
	if w.isBusy() || w.checker.AwaitingOperator() == 0 {
		return at, nil
	}
	if w.nextRoundAt.IsZero() {
		w.nextRoundAt = w.Now().Add(acknowledgeInterval)
		if over := w.startedAt.Add(w.scenario.FaultProfile.FaultsUntil + acknowledgeInterval); over.After(w.nextRoundAt) {
			w.nextRoundAt = over
		}
	}
	return w.nextRoundAt, w.acknowledgeAll
}

// endWithoutSweeper ends a simulation without a sweeper: messages alone must have ended every
// execution that does not wait for time or for an operator.
func (w *simulation) endWithoutSweeper() (at time.Time, do func()) {
	if len(w.actions)+len(w.deferred) > 0 || len(w.running) > 0 || w.LifecycleQueue().Len() > 0 || w.PoolQueue("default").Len() > 0 || w.deliversSoon() {
		return at, nil
	}
	w.checkSleepers()
	if w.checker.AwaitingOperator() > 0 {
		return w.Now(), w.acknowledgeAll
	}
	for _, id := range w.executionIDs() {
		if !w.waitsForTime(id, 0) {
			w.checker.Failf("no waiting execution is forgotten", "no message is left, but %s", w.describeUnfinished())
		}
	}
	w.scenario.FaultProfile.SweeperEnabled, w.scenario.FaultProfile.FaultsUntil = true, 0 // from now on the sweeper ends the rest
	w.lastSweep = w.Now().Truncate(time.Minute)
	return at, nil
}

// checkSleepers requires, once no message is left, that every execution that waits for a lock waits
// for one that is held, or reserved by an execution whose reservations are valid. Operators act
// later.
func (w *simulation) checkSleepers() {
	for _, id := range w.executionIDs() {
		x := w.checker.ExecutionByID(id)
		if b := x.BlockedBy; x.State == sm.ExecutionScheduled && b != nil && b.Execution != id && !w.checker.Blocks(b) {
			w.checker.Failf("nobody sleeps for a released entity", "%s waits for %s of %s, which is free", id, b.Entity, b.Execution)
		}
	}
}

// waitsForTime reports whether an execution has ended or waits for something that only a timer
// ends.
func (w *simulation) waitsForTime(id string, depth int) bool {
	x := w.checker.ExecutionByID(id)
	switch {
	case oracle.Acknowledged(x.State) || invariant.HasNoKeyYet(x):
		return true
	case depth > len(w.executions)+4:
		return false
	case x.State == sm.ExecutionBlockedWaiting:
		return x.Wait.Kind == workflow.WaitCondition && !w.startConditionHolds()
	case x.State == sm.ExecutionWaiting && (x.Wait.Kind == workflow.WaitChild || x.Wait.Kind == workflow.WaitChildInput):
		children := []string{x.Wait.Child}
		if x.Wait.Child == "" || len(x.Threads) > 0 { // of a set, or in branches
			children = w.openChildren(id)
		}
		return len(children) > 0 && w.allWaitForTime(children, depth)
	case x.State == sm.ExecutionScheduled && x.BlockedBy != nil:
		if x.BlockedBy.Execution == id {
			return true // others changed the locks several times while it took them, so it retries by its timer
		}
		var holders []string
		for _, one := range x.BlockedBy.Holders() {
			holders = append(holders, one.Execution)
		}
		return w.allWaitForTime(holders, depth)
	}
	return false
}

// allWaitForTime reports whether none of some executions has ended, and all of them wait for
// something that only a timer ends.
func (w *simulation) allWaitForTime(ids []string, depth int) bool {
	return !slices.ContainsFunc(ids, func(id string) bool {
		return oracle.Acknowledged(w.checker.ExecutionByID(id).State) || !w.waitsForTime(id, depth+1)
	})
}

// openChildren returns the children of an execution that have not ended.
func (w *simulation) openChildren(id string) (open []string) {
	for _, child := range w.executionIDs() {
		if x := w.checker.ExecutionByID(child); x.Parent != nil && x.Parent.Execution == id && !oracle.Acknowledged(x.State) {
			open = append(open, child)
		}
	}
	return open
}

// startConditionHolds evaluates the only startWhen condition that generated definitions have.
func (w *simulation) startConditionHolds() bool {
	e, err := w.Catalog.Entity(ctx, harness.Caller, workflow.EntityKey{Type: "device", ID: "d000"})
	var is struct{ Ready bool }
	return err == nil && json.Unmarshal(e.Attributes, &is) == nil && is.Ready
}

func (w *simulation) executionIDs() (ids []string) {
	for id := range w.States(harness.Caller.Tenant) {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

func (w *simulation) acknowledgeAll() {
	w.nextRoundAt = time.Time{}
	states := w.States(harness.Caller.Tenant)
	for _, id := range w.executionIDs() {
		if !oracle.AwaitsOperator(states[id]) {
			continue
		}
		if w.retryAnew(id) {
			continue
		}
		a := action{Kind: actionAcknowledge, Choice: w.faultPlan.intN(12)}
		switch kept := w.checker.ExecutionByID(id).Kept; {
		case w.otherVerbs >= 6:
		case kept != nil && kept.Len() > 0: // some are checked, the rest is tried again
			a.Kind = []actionKind{a.Kind, actionRetry, actionRetry, actionUnlock}[w.faultPlan.intN(4)]
			w.otherVerbs++
		case w.otherVerbs < 3:
			a.Kind = []actionKind{a.Kind, a.Kind, a.Kind, actionRetry, actionUnlock}[w.faultPlan.intN(5)]
			w.otherVerbs++
		}
		w.operateOn(a, id)
	}
}

// describeUnfinished describes the executions that have not ended, and what they wait for.
func (w *simulation) describeUnfinished() string {
	var unfinished []string
	for _, id := range w.executionIDs() {
		x := w.checker.ExecutionByID(id)
		if oracle.Acknowledged(x.State) {
			continue
		}
		text := fmt.Sprintf("%s %s is in %s", id, x.Workflow, x.State)
		if b := x.BlockedBy; b != nil {
			text += fmt.Sprintf(", blocked by %s for %s", b.Execution, b.Entity)
		}
		if x.Wait != nil {
			text += fmt.Sprintf(", waits for %s until %s", x.Wait.Kind, x.Wait.Until)
		}
		if !x.DueAt.IsZero() {
			text += fmt.Sprintf(", due %s", x.DueAt.Sub(w.startedAt))
		}
		unfinished = append(unfinished, text)
	}
	return strings.Join(unfinished, "; ")
}

// checkFinalState checks the final state, once nothing is left to happen.
func (w *simulation) checkFinalState() *invariant.Violation {
	for _, id := range w.executionIDs() {
		if x := w.checker.ExecutionByID(id); !oracle.Acknowledged(x.State) {
			return &invariant.Violation{Invariant: "every execution ends", Text: "nothing is left to happen: " + w.describeUnfinished()}
		}
	}
	if v := w.checkUnrequested(); v != nil {
		return v
	}
	w.Faults = nil
	w.plans.CheckStarted()
	if v := w.checkFollowUps(); v != nil {
		return v
	}
	if v := w.checkRemoved(); v != nil {
		return v
	}
	if l := w.Locks(); len(l) > 0 {
		return &invariant.Violation{Invariant: "an ended execution holds no locks", Text: fmt.Sprintf("%+v", l)}
	}
	for _, id := range w.executionIDs() {
		stored := w.History(id)
		if v := w.checker.CheckStoredHistory(id, stored); v != nil {
			return v
		}
		if v := w.checkStoredOutcomes(id); v != nil {
			return v
		}
		if v := w.checkOutcome(id); v != nil {
			return v
		}
	}
	return nil
}

// checkUnrequested returns a violation if an execution exists that no client requested.
func (w *simulation) checkUnrequested() *invariant.Violation {
	for _, id := range w.executionIDs() {
		x := w.checker.ExecutionByID(id)
		if x.Parent == nil && x.FollowUpOf == nil && len(x.Labels) == 0 && !w.checker.PredatesRestore(id) && !slices.Contains(w.executions, id) {
			return &invariant.Violation{Invariant: "one execution per request", Text: "no start request was answered with " + id}
		}
	}
	return nil
}

// checkStoredOutcomes checks that what became of the entities of an execution is read as it was
// decided, where it is stored in items of its own.
func (w *simulation) checkStoredOutcomes(id string) *invariant.Violation {
	x := w.checker.ExecutionByID(id)
	if x.Result == nil || x.Result.Stored == nil || !x.DiscardedAt.IsZero() || w.checker.PredatesRestore(id) {
		return nil
	}
	w.storedOutcomes++
	read := w.Load(id)
	if err := engine.ReadOutcomes(context.Background(), w.Open().Packs, read); err != nil || !maps.EqualFunc(read.Result.Sets, x.Result.Sets, workflow.Places.Equal) {
		return &invariant.Violation{Invariant: "what became of each entity is told", Text: fmt.Sprintf("%s has decided %v, but stored %v: %v", id, x.Result.Sets, read.Result.Sets, err)}
	}
	return nil
}

// checkOutcome checks how an execution ended, if that follows from its jobs' outcomes.
func (w *simulation) checkOutcome(id string) *invariant.Violation {
	x := w.checker.ExecutionByID(id)
	d := w.corpus.definition(x.Workflow.Name)
	if c := x.Cancellation; c != nil && c.Rollback == workflow.RollbackNever {
		return nil
	}
	if w.checker.PredatesRestore(id) {
		return nil // the restored tables lack part of what it did
	}
	if d.Unpredictable || x.Probe || x.Try > 1 || x.Parent != nil || x.Cause == workflow.CauseUnclaimed || x.Cause == workflow.CauseInternal || len(x.StepRuns) == 0 {
		return nil
	}
	var failures []string
	s := *w.Harness
	s.TB = &recordingTB{failures: &failures}
	s.CheckOutcome(id, d.BlocksByLabel(), d.HandledSteps(), d.FailureTolerance)
	if len(failures) > 0 {
		return &invariant.Violation{Invariant: "executions end as their jobs' outcomes imply", Text: strings.Join(failures, "\n")}
	}
	return nil
}

// recordingTB is a testing.TB that records errors.
type recordingTB struct {
	panickingTB
	failures *[]string
}

func (j *recordingTB) Errorf(f string, a ...any) {
	*j.failures = append(*j.failures, fmt.Sprintf(f, a...))
}
