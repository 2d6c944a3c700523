package lifecycle

import (
	"github.com/lockstep-run/lockstep/shared/lifecycle/draft"
	"github.com/lockstep-run/lockstep/shared/lifecycle/visits"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// What goes into a decision and comes out of it, as package draft says it at length.
type (
	// Facts is what has been learned of the world for one decision.
	Facts = draft.Facts
	// Resolved is the run's program, or what keeps it from running.
	Resolved = draft.Resolved
	// Ready is whether the run may begin.
	Ready = draft.Ready
	// Discovered is the scope of a run.
	Discovered = draft.Discovered
	// ChildAnswer is what is known of a run that a visit has started.
	ChildAnswer = draft.ChildAnswer
	// Blocker is what a lock's holder has answered to a run that waits for it.
	Blocker = draft.Blocker
	// LockAnswer is what has come of locking the scope.
	LockAnswer = draft.LockAnswer
	// Plan says on how many entities a step runs, or a rollback undoes.
	Plan = draft.Plan
	// Report is what the packs of the open step run say.
	Report = draft.Report
	// Command is what an operator asks of the execution.
	Command = draft.Command
	// CommandKind names an operator's verb.
	CommandKind = draft.CommandKind
	// Need names a fact that a decision cannot go on without.
	Need = draft.Need
	// NeedKind is the kind of a needed fact.
	NeedKind = draft.NeedKind
	// Policy is the configuration that decisions depend on.
	Policy = draft.Policy
	// Decision is what has to happen next.
	Decision = draft.Decision
)

// The facts that can be needed, and the verbs.
const (
	CommandBreak       = draft.CommandBreak
	CommandCancel      = draft.CommandCancel
	CommandAcknowledge = draft.CommandAcknowledge
	CommandRetry       = draft.CommandRetry
	CommandResume      = draft.CommandResume
	CommandUnlock      = draft.CommandUnlock
	NeedResolved       = draft.NeedResolved
	NeedReady          = draft.NeedReady
	NeedDiscovered     = draft.NeedDiscovered
	NeedBlocker        = draft.NeedBlocker
	NeedLocks          = draft.NeedLocks
	NeedPlan           = draft.NeedPlan
	NeedReport         = draft.NeedReport
	NeedClosing        = draft.NeedClosing
	NeedChild          = draft.NeedChild
	NeedChildEnd       = draft.NeedChildEnd
	NeedApplied        = draft.NeedApplied
	NeedUnneeded       = draft.NeedUnneeded
	NeedDiscarded      = draft.NeedDiscarded
)

// CodeNotApplied is the code of the error of a run that has completed, but whose updates
// of the inventory could not be written.
const CodeNotApplied = "UPDATES_NOT_APPLIED"

// CodeNotHeld is the code of a failure because of an entity that the run does not
// hold.
const CodeNotHeld = visits.CodeNotHeld

// PlanNeed is the need of the plan of a step run.
func PlanNeed(r *workflow.StepRun) Need { return draft.PlanNeed(r) }

// LeftBehind reports whether something that a run has executed stands that is not
// pure and has not been undone.
func LeftBehind(x *workflow.Execution) bool { return visits.LeftBehind(x) }
