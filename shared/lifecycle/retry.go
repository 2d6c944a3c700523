package lifecycle

import (
	"fmt"
	"slices"
	"time"

	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// beginRetry begins a new try of a failed execution: at the step that failed, at the first that was
// rolled back, or at the one that the operator names. An execution that still holds its locks
// continues under them, with the entities that it still holds. Any other execution starts again
// from READY, and so does one with a business key. An execution that has never asked for locks
// waits once more for its start conditions.
func (d *decider) beginRetry(c Command, data map[string]any) error {
	to := sm.ExecutionReady
	if d.execution.State == sm.ExecutionFailedUnsafe && !d.holdsNothing() && d.execution.Scope.HeldEpoch == d.execution.Epoch {
		to = sm.ExecutionRunning
	}
	if d.execution.State == sm.ExecutionFailedSafeAck && d.execution.Epoch == 0 {
		to = sm.ExecutionValid
	}
	if to == sm.ExecutionRunning && d.execution.Key != "" {
		// It must take its key before it does anything, and may fail to. Until an operator has
		// looked, nobody else may have its entities.
		return workflow.Errorf(workflow.CodeIllegalTransition,
			"execution %s has the key %q and holds locks, and a retry takes the key before the locks: acknowledge it, which releases them, and retry it after that", d.execution.ID, d.execution.Key)
	}
	if _, err := sm.TransitionExecution(d.execution.State, sm.EventExecutionRetried, to); err != nil {
		return d.refusal(c, err)
	}
	if ok, err := d.mayRetryUnder(to); !ok {
		return err
	}
	if err := d.mayTryAgain(); err != nil {
		return err
	}
	if at := wallEnd(d.execution); !at.IsZero() && !d.now.Before(at) {
		return workflow.Errorf(workflow.CodeLimit, "execution %s was to take %s with all its tries (limits.wall), and that time is over: start another execution", d.execution.ID, d.execution.Limits.Wall.Std())
	}
	if d.facts.Resolution == nil {
		d.need(Need{Kind: NeedResolution})
		return nil
	}
	if p := d.facts.Resolution.Invalid(); p != nil {
		return workflow.Errorf(workflow.CodeIllegalTransition, "cannot retry execution %s: %s", d.execution.ID, p.Message)
	}
	program := d.facts.Resolution.Program
	if to == sm.ExecutionRunning && d.execution.Kept != nil && d.facts.KeptJobs == nil {
		d.need(Need{Kind: NeedKeptJobs})
		return nil
	}
	from, resume := d.beginning(program, to)
	if c.FromStep != "" {
		var err error
		if from, resume, err = d.beginningAt(program, c.FromStep, to); err != nil {
			return err
		}
	}
	asked := c.Entities
	if d.execution.KeptBranches = nil; asked != "all" {
		d.execution.KeptBranches = d.branchesToKeep(from, resume, to)
	}
	keeps := d.isKept()
	switch c.Entities {
	case "":
		c.Entities = "failed"
		if d.execution.RolledBack || d.executedAgain(from, resume, keeps) || d.choosesAgain(from, keeps) {
			c.Entities = "all"
		}
	case "failed":
		if d.choosesAgain(from, keeps) {
			return invalidRequest("entities", fmt.Sprintf("the execution chooses its way again from %q on, and may pass a step in which entities have failed: want all", program.Nodes[from].Label))
		}
		if d.executedAgain(from, resume, keeps) {
			return invalidRequest("entities", fmt.Sprintf("the execution has gone back, and has executed a step from %q on more than once: want all", program.Nodes[from].Label))
		}
	case "all":
	default:
		return invalidRequest("entities", "want failed or all")
	}
	if r := d.repeatedUnasked(from, resume, to, keeps, c.Entities == "failed", asked == "all"); r != nil && c.FromStep == "" {
		return workflow.Errorf(workflow.CodeIllegalTransition,
			"a retry begins with %q, and would execute step %q once more, which completed and can neither be repeated nor undone: check it, then retry from %q", program.Nodes[from].Label, r.Label, program.Nodes[from].Label)
	}
	d.decision.WakeWaiters = to == sm.ExecutionReady && d.execution.State == sm.ExecutionFailedUnsafe // after a restore it may still hold its locks, some of them with unknown places
	if to == sm.ExecutionRunning && d.execution.Kept != nil && d.facts.Entities == nil {
		d.need(Need{Kind: NeedEntities})
		return nil
	}
	d.resetForTry(from, resume, c.Entities == "failed", to)
	if d.execution.Forced = c.Force; c.Force {
		data["force"] = true
	}
	if restored := d.execution.MinFencingToken > 0; to == sm.ExecutionReady && (!c.Force || restored) {
		if d.facts.Outdated == nil {
			d.need(Need{Kind: NeedOutdated})
			return nil
		}
		if lost := d.facts.Outdated.Lost; lost != nil {
			return d.refuseLost(lost)
		}
		if outdated := d.facts.Outdated.Entities; len(outdated) > 0 && !c.Force {
			return d.refuseOutdated(outdated)
		}
	}
	if kept := d.execution.KeptBranches; kept != nil {
		data["kept"] = d.branchLabels(from, kept.Index)
	}
	data["from"], data["entities"], data["try"] = program.Nodes[from].Label, c.Entities, d.execution.Try
	d.transition(sm.EventExecutionRetried, to, c.Actor, data)
	return nil
}

// mayTryAgain refuses a new try if the state item has no space for it.
func (d *decider) mayTryAgain() error {
	if d.execution.Try >= workflow.MaxTries || d.execution.Sequence >= workflow.MaxEvents {
		return workflow.Errorf(workflow.CodeLimit, "execution %s has had %d tries and %d events, and at most %d and %d are allowed: start another execution",
			d.execution.ID, d.execution.Try, d.execution.Sequence, workflow.MaxTries, workflow.MaxEvents)
	}
	if only := d.execution.Kept; d.execution.Needs() > 1 && (only == nil && !d.hasRoomFor(0) || only != nil && !d.hasRoomFor(len(only.String()))) {
		return workflow.Errorf(workflow.CodeLimit, "the state of execution %s takes %d KiB and has no room for another try: acknowledge it and start another execution", d.execution.ID, (d.execution.ItemBytes+1023)>>10)
	}
	return nil
}

func invalidRequest(path, message string) error {
	return workflow.Invalid("the request is not valid", []workflow.Issue{{Path: path, Code: "invalid", Message: message}})
}

// stepNamed returns the step with which a new try is to begin, from the label in a field of a
// request.
func stepNamed(p *spec.Program, label, field, verb string) (int, error) {
	at := p.IndexOf(label)
	if at < 0 {
		return at, invalidRequest(field, fmt.Sprintf("the definition has no step %q%s", label, workflow.DidYouMean(label, p.Labels())))
	}
	if around := p.OutsideBranches(at); around != at {
		return at, invalidRequest(field, fmt.Sprintf("step %q is in a branch: %s %q, which executes all of them", label, verb, p.Nodes[around].Label))
	}
	return at, nil
}

// repeatedUnasked returns the first step run that the new try would execute again although it
// should not be repeated; nil if there is none. Such a step run is on the path, at or after the
// beginning of the try, has completed, was not undone, and either its block can be neither repeated
// nor undone, or it has started an execution that has changed something or that nobody waits for.
//
// A retry of the failed entities keeps jobs that exist for each entity or item. If somebody has
// explicitly asked for a retry of all entities, repeating them is intended.
func (d *decider) repeatedUnasked(from int, resume *workflow.StepRun, to sm.ExecutionState, keeps func(*workflow.StepRun) bool, onlyFailed, askedForAll bool) *workflow.StepRun {
	begun, first := false, d.firstOf(from)
	if resume != nil {
		first = resume.Seq
	}
	for _, r := range d.path() {
		begun = begun || r.Seq == first
		switch {
		case !begun || keeps(r) || r.Kind != workflow.JobExecute && r.Child == nil:
		case r.Counts.OK == 0 || r.Status != sm.StepCompleted && r.StepIndex == from: // what has failed is meant to be executed again
		case r.Wait != nil && r.Wait.Asked && d.node(r).OnResume == nil: // and a block that has asked to wait is to be called again
		case r.Repeatable() && !r.IsForgotten() || r.Reversible:
		case !d.node(r).HasJobForEach():
			return r
		case onlyFailed && d.inLoopOf(r, resume) || askedForAll:
		case d.node(r).OnEntities() && to == sm.ExecutionRunning && d.execution.Kept != nil: // its successful jobs were for entities that have been released
		default:
			return r
		}
	}
	return nil
}

// choosesAgain reports whether a try that begins at the node may take another path than the one
// before: a switch or a failure handler chooses at or after it.
func (d *decider) choosesAgain(from int, keeps func(*workflow.StepRun) bool) bool {
	return slices.ContainsFunc(d.execution.StepRuns, func(r workflow.StepRun) bool {
		return r.Forward() && r.SupersededBy == 0 && !keeps(&r) && r.StepIndex >= from && (r.Route > 0 && !d.facts.Resolution.Program.Encloses(r.StepIndex, from) || r.Handled > 0 || r.Next != "")
	})
}

// inLoopOf reports whether a step run is in the innermost loop or rollout in which the try begins
// and continues, or whether both are outside of any. Only there can entities already be finished
// with the work of the try: loops in which it does not begin are repeated as a whole. The number of
// rounds of a loop with a condition depends on what the rounds did, so there only the round in
// which the try begins counts.
func (d *decider) inLoopOf(r, begin *workflow.StepRun) bool {
	loop, _ := d.execution.RoundOf(r)
	if begin == nil || loop == 0 {
		return loop == 0
	}
	if l := d.node(d.execution.StepRunBySeq(loop)).Loop; l != nil && l.While != "" {
		return d.execution.SameRound(r, begin)
	}
	for begin != nil && begin.In != loop {
		begin = d.execution.StepRunBySeq(begin.In)
	}
	return begin != nil
}

// executedAgain reports whether a try that begins at the step would repeat a step on entities that
// was executed more than once, because the execution has gone back. Then no entity is known to be
// finished with it.
func (d *decider) executedAgain(from int, resume *workflow.StepRun, keeps func(*workflow.StepRun) bool) bool {
	if d.execution.WentBack == 0 {
		return false
	}
	type place struct{ step, time int } // each round of a loop, or wave of a rollout, is separate work
	first, seen, begun := d.firstOf(from), map[place]int{}, false
	if resume != nil {
		first = resume.Seq
	}
	for _, r := range d.path() {
		begun = begun || r.Seq == first
		if r.Kind != workflow.JobExecute && !r.IsSet() || keeps(r) || !begun && (resume == nil || !d.execution.SameRound(r, resume)) || r.Iteration > 1 {
			continue
		}
		at := place{step: r.StepIndex}
		if rollout, wave := d.execution.WaveOf(r); rollout != nil {
			at.time = wave
		}
		if resume != nil && d.inLoopOf(r, resume) {
			_, at.time = d.execution.RoundOf(r)
		}
		if seen[at]++; seen[at] > 1 && d.node(r).HasJobForEach() {
			return true
		}
	}
	return false
}

// firstOf returns the number of the first step run of the step on the path; 0 if there is none.
func (d *decider) firstOf(at int) int {
	for _, r := range d.path() {
		if r.StepIndex == at {
			return r.Seq
		}
	}
	return 0
}

// lastReachedStep returns the last step that any try has entered.
func (d *decider) lastReachedStep() int {
	at := 0
	for i := range d.execution.StepRuns {
		if r := &d.execution.StepRuns[i]; r.Forward() {
			at = max(at, r.StepIndex)
		}
	}
	return at
}

// standsBefore tells what a try leaves as it is that begins at the step, or in the step run if
// there is one: the step runs on the path before it, those in branches that it keeps, and those on which
// these rest.
func (d *decider) standsBefore(from int, resume *workflow.StepRun) func(*workflow.StepRun) bool {
	x, p := d.execution, d.facts.Resolution.Program
	last := map[Place]int{} // a repetition that was already finished for all has no step run
	for _, r := range d.path() {
		if resume == nil && r.StepIndex == from || resume != nil && r.Seq == resume.Seq {
			break
		}
		at := PlaceOf(x, p, r)
		last[at] = max(last[at], r.Seq)
	}
	keeps := d.isKept()
	for _, r := range d.path() {
		if keeps(r) {
			at := PlaceOf(x, p, r)
			last[at] = max(last[at], r.Seq)
		}
	}
	return func(r *workflow.StepRun) bool { return last[PlaceOf(x, p, r)] >= r.Seq }
}

// openedFor returns the step runs around the place where a try begins, by number: the try opens
// these steps again.
func (d *decider) openedFor(from int, resume *workflow.StepRun) map[int]bool {
	first, last := d.execution.StepRunSeq+1, map[int]int{} // by step
	if resume != nil {
		first = resume.Seq
	} else if seq := d.firstOf(from); seq > 0 {
		first = seq
	}
	for i := range d.execution.StepRuns {
		if r := &d.execution.StepRuns[i]; r.Seq < first && r.Forward() && d.facts.Resolution.Program.Encloses(r.StepIndex, from) {
			last[r.StepIndex] = r.Seq
		}
	}
	opened := map[int]bool{}
	for _, seq := range last {
		opened[seq] = true
	}
	return opened
}

// resetForTry resets the execution for a new try. Step runs of earlier tries from that step on are
// superseded. A retry of the failed entities does not supersede step runs on entities: entities
// whose job ended OK keep that result.
func (d *decider) resetForTry(from int, resume *workflow.StepRun, onlyFailed bool, to sm.ExecutionState) {
	x := d.execution
	nodes := d.facts.Resolution.Program.Nodes
	isBefore, opened := d.standsBefore(from, resume), d.openedFor(from, resume)
	if x.ResumeSeq = 0; resume != nil {
		x.ResumeSeq = resume.Seq
	}
	if resume != nil && x.WentBack == 0 {
		x.WentBack = x.Try
	}
	for i := range x.StepRuns {
		r := &x.StepRuns[i]
		if opened[r.Seq] && r.Status != sm.StepCompleted && r.SupersededBy == 0 {
			r.SupersededBy = x.Try + 1 // the try opens the step again
		}
		if !r.Forward() || isBefore(r) || r.SupersededBy > 0 {
			continue
		}
		if n := &nodes[r.StepIndex]; onlyFailed && (r.HasJobs() || r.IsSet()) && n.HasJobForEach() && d.inLoopOf(r, resume) {
			continue
		}
		r.SupersededBy = x.Try + 1
	}
	if x.PastScopes == nil {
		x.PastScopes = map[int]workflow.Scope{}
	}
	x.PastScopes[x.Try] = x.Scope
	x.Try++
	x.PC, x.Iteration, x.OnlyFailed, x.NextSeq, x.RollbackTries = from, 0, onlyFailed, 0, 0
	x.Resumes = 0
	x.EndedAt, x.Cause, x.Reason, x.Error, x.RolledBack, x.Cancellation, x.Undo, x.Acknowledged = time.Time{}, "", "", nil, false, nil, nil, nil
	x.Output, x.Threads, x.UpdatesApplied, x.Wait, x.BlockedBy, x.Dropped, x.DroppedCount = nil, nil, false, nil, nil, nil, 0
	d.setDeadline()
	if to == sm.ExecutionRunning {
		d.tryKept()
	} else {
		d.keepLastEnd()
		x.Kept, x.Narrowed, x.Scope.Only, x.Result = nil, 0, nil, nil
		x.StartedAt, x.LockSince, x.Unlocked = time.Time{}, time.Time{}, false
		d.pin()
	}
	x.StepRuns = slices.Clone(x.StepRuns)
}
