package oracle

import (
	"slices"

	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// The rules by which the simulation judges states, ages, locks and jobs. They are written from the
// words of the design, apart from the code that they judge: none of the rules in this file calls a
// method or a function of the product. So a mistake in the product's own form of a rule is detected,
// and not shared. The rest of the package calls none that decides what it judges (see
// states_test.go), but some that only read values: sets of places, ids of jobs, whether a step run
// is open.

// beforeLocks are the states before LOCKING, in which an execution holds nothing.
var beforeLocks = []sm.ExecutionState{"NEW", "VALID", "BLOCKED_WAITING", "READY", "RESOURCE_DISCOVERY", "RESOURCES_DISCOVERED", "SCHEDULED"}

// acknowledged are the states in which the engine has nothing left to do and no lock is held.
var acknowledged = []sm.ExecutionState{"COMPLETED_ACK", "FAILED_SAFE_ACK", "FAILED_UNSAFE_ACK", "CANCELLED_ACK"}

// terminalEvents are the events that end a try, by the state in which it ends. An acknowledged
// state has the event of the state before it.
var terminalEvents = map[sm.ExecutionState]sm.Event{
	"COMPLETED": "execution.completed", "COMPLETED_ACK": "execution.completed",
	"FAILED_SAFE": "execution.failed_safe", "FAILED_SAFE_ACK": "execution.failed_safe",
	"FAILED_UNSAFE": "execution.failed_unsafe", "FAILED_UNSAFE_ACK": "execution.failed_unsafe",
	"CANCELLED": "execution.cancelled", "CANCELLED_ACK": "execution.cancelled",
}

// HoldsLocks reports whether an execution in a state holds what it has taken at its current epoch.
// The states that hold nothing are a closed list. A missing execution holds nothing.
func HoldsLocks(s sm.ExecutionState) bool {
	return s != "" && !slices.Contains(beforeLocks, s) && !slices.Contains(acknowledged, s)
}

// Terminal reports whether an execution in a state has ended, acknowledged or not.
func Terminal(s sm.ExecutionState) bool { return terminalEvents[s] != "" }

// TerminalEvent is the event that ended an execution in a state, "" if it has not ended.
func TerminalEvent(s sm.ExecutionState) sm.Event { return terminalEvents[s] }

// Acknowledged reports whether an execution in a state needs nothing more and holds nothing.
func Acknowledged(s sm.ExecutionState) bool { return slices.Contains(acknowledged, s) }

// AwaitsOperator reports whether an execution in a state holds locks until an operator acts.
func AwaitsOperator(s sm.ExecutionState) bool { return s == "FAILED_UNSAFE" || s == "CANCELLED" }

// Owner decides whether an execution holds a lock or reserves one.
type Owner struct {
	State        sm.ExecutionState
	Epoch        int64
	Kept         *workflow.Places // nil for all its entities
	Narrowed     int64
	AwaitsPerson bool // it waits for one that waits for an operator
}

// OwnerOf returns what the state item of an execution says. x may be nil.
func OwnerOf(x *workflow.Execution) Owner {
	if x == nil {
		return Owner{}
	}
	return Owner{State: x.State, Epoch: x.Epoch, Kept: x.Kept, Narrowed: x.Narrowed, AwaitsPerson: x.BlockedBy != nil && x.BlockedBy.NeedsPerson}
}

// Reserves reports whether the reservations of the execution are valid: until it has its locks, or
// needs none. While it waits for an execution that an operator has to look at, it keeps nobody else
// out.
func (o Owner) Reserves() bool {
	if o.State == "LOCKING" {
		return true
	}
	return slices.Contains(beforeLocks, o.State) && !o.AwaitsPerson
}

// Age orders executions by their creation time, which their IDs contain. A child is as old as its
// outermost ancestor.
func Age(x *workflow.Execution) string {
	if x.Parent != nil {
		return x.Parent.Root
	}
	return x.ID
}

// Older reports whether an age belongs to an execution that was created before another one.
func Older(age, than string) bool { return age < than }

// HoldersOf returns who holds a lock, alone or with others, as its item says.
func HoldersOf(l workflow.Lock) map[string]workflow.Holder {
	all := map[string]workflow.Holder{}
	for id, h := range l.Holders {
		all[id] = h
	}
	if l.Owner != "" {
		all[l.Owner] = workflow.Holder{Epoch: l.OwnerEpoch, Token: l.Token, Since: l.Since, Place: l.Place}
	}
	return all
}

// HolderOf returns the entry of an execution in a lock that it has taken at an epoch.
func HolderOf(l workflow.Lock, id string, epoch int64) (workflow.Holder, bool) {
	h, ok := HoldersOf(l)[id]
	return h, ok && h.Epoch == epoch
}

// Executed reports whether a job has, or may have, done something: it has ended OK, has failed
// after its block was called, or its outcome is unknown.
func Executed(rec workflow.JobRecord) bool {
	switch rec.Code {
	case workflow.JobCodeOK, workflow.JobCodeUnknown:
		return true
	case workflow.JobCodeFail:
		return rec.Failure == nil || !rec.Failure.Unsent
	}
	return false
}

// Final reports whether a pack is finished or cancelled, so that it does not change any more.
func Final(p *workflow.Pack) bool {
	return p.State == workflow.PackFinished || p.State == workflow.PackCancelled
}

// Over reports whether an execution does nothing more by itself: it has settled, or has ended and
// waits for an operator. A cancelled execution that has still to settle has a timer; one that has ended
// unsafely may have one, too, which a later write drops. While its events are published for what its end starts, it has one
// in any case: then what was executed says whether it can settle.
func Over(x *workflow.Execution) bool {
	publishing := len(x.OnEnd) > 0 && x.Announced < x.Sequence
	return Acknowledged(x.State) || x.State == "FAILED_UNSAFE" || AwaitsOperator(x.State) && (x.DueAt.IsZero() || publishing && slices.ContainsFunc(x.StepRuns, hasExecuted))
}

// hasExecuted reports whether blocks were called or executions started in a step run.
func hasExecuted(r workflow.StepRun) bool {
	return (r.Kind == workflow.JobExecute || r.Child != nil) && r.Counts.OK+r.Counts.Failed+r.Counts.Unknown > 0
}

// NeverBegan reports whether a child has found, before it began, that nobody waits for it any more.
func NeverBegan(x *workflow.Execution) bool {
	return x.StartedAt.IsZero() && x.Cancellation != nil && x.Cancellation.Source == "parent"
}
