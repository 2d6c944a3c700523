package lifecycle

import (
	"github.com/lockstep-run/lockstep/shared/lifecycle/draft"
	"github.com/lockstep-run/lockstep/shared/lifecycle/visits"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Facts and the types below are what goes into a decision and comes out of it, as
// package draft says it.
type (
	Facts       = draft.Facts
	Resolved    = draft.Resolved
	Ready       = draft.Ready
	Discovered  = draft.Discovered
	ChildAnswer = draft.ChildAnswer
	Blocker     = draft.Blocker
	Discarded   = draft.Discarded
	LockAnswer  = draft.LockAnswer
	Plan        = draft.Plan
	Report      = draft.Report
	Command     = draft.Command
	CommandKind = draft.CommandKind
	Need        = draft.Need
	NeedKind    = draft.NeedKind
	Policy      = draft.Policy
	Decision    = draft.Decision
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
	NeedDiscarded      = draft.NeedDiscarded
)

// CodeNotHeld is the code of a failure because of an entity that the run does not
// hold.
const CodeNotHeld = visits.CodeNotHeld

// PlanNeed is the need of the plan of a step run.
func PlanNeed(r *workflow.StepRun) Need { return draft.PlanNeed(r) }

// LeftBehind reports whether something that a run has executed stands that is not
// pure and has not been undone.
func LeftBehind(x *workflow.Execution) bool { return visits.LeftBehind(x) }
