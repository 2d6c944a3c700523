package lifecycle

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// What became of each entity. JudgeEntity judges the jobs of one entity, the rest of the
// file ends an execution by the judgements.

// Outcomes is what the execution has made of the entities of its scope.
type Outcomes struct {
	ExecutionFails bool // as the need said
	Result         *workflow.Result
	Unsafe         workflow.Places
	Undo           *workflow.Undo // what can be undone of the entities that failed; nil for nothing
	TooLarge       bool           // the sets are too large for the state item: no lock is released early
}

// UndoState is what has become of the undoing of a job.
type UndoState int

// The states.
const (
	NotUndone  UndoState = iota
	Undone               // the rollback of the job ended with OK
	UndoFailed           // it did not, or may have been executed
)

// EntityJob is what became of the job of one entity in one step run.
type EntityJob struct {
	StepRun     *workflow.StepRun
	Code        workflow.JobCode // FAIL for an entity that an assertion failed
	Executed    bool             // the block was called, or may have been
	Failure     *workflow.Failure
	Undo        UndoState
	UndoFailure *workflow.Failure
	UndoTry     int  // the try in which it was to be undone
	UndoUnsent  bool // the undoing has failed, and its block was not called
}

// changed reports whether something remains that is not pure.
func (j *EntityJob) changed() bool { return j.Executed && !j.StepRun.Pure && j.Undo != Undone }

// settledBy reports whether a job of a later try has done the work of this one again, so that it
// alone says what remains. A failed undo is not settled by that.
func (j *EntityJob) settledBy(later *EntityJob) bool {
	return later.StepRun.Try > j.StepRun.Try && j.Undo != UndoFailed
}

// failed reports whether the job ended in failure.
func (j *EntityJob) failed() bool {
	return j.Code == workflow.JobCodeFail || j.Code == workflow.JobCodeUnknown
}

// endUnknown reports whether nobody knows whether, or how far, the block was executed.
func (j *EntityJob) endUnknown() bool { return EndUnknown(j.Code, j.Failure) }

// EndUnknown reports whether nobody knows whether, or how far, a job was executed that ended
// with a code and a failure.
func EndUnknown(code workflow.JobCode, why *workflow.Failure) bool {
	if code == workflow.JobCodeUnknown {
		return true
	}
	return code == workflow.JobCodeFail && why != nil && why.LeavesCallRunning()
}

// inDoubt reports whether the end of the job left a doubt that only an undo or a person can
// settle.
func (j *EntityJob) inDoubt() bool {
	return j.Executed && canBeInDoubt(j.StepRun) && j.endUnknown()
}

// canBeUndone reports whether the rest of the job can be undone.
func (j *EntityJob) canBeUndone() bool {
	return j.StepRun.Reversible && j.Undo == NotUndone && (j.Code != workflow.JobCodeUnknown || j.StepRun.UndoHarmless)
}

// JudgeRules are the rules by which the entities of one execution are judged.
type JudgeRules struct {
	ExecutionFails bool                           // no entity succeeds, because the execution does not
	Leave          bool                           // the definition says to leave entities that failed as they are
	Handled        func(r *workflow.StepRun) bool // the definition has continued after a failure of the step run
	Unfinished     bool                           // the entity is in a wave of a rollout that has failed, or that never began

	// TimeOf is the innermost loop around a step run, and which time of it; nil where there are
	// no loops.
	TimeOf func(*workflow.StepRun) (loop, index int)
}

// Judgement is the outcome of an entity. Undoable says that it would be FAILED_SAFE if
// everything executed on it were undone, which is possible. Decisive is the job whose failure,
// or change, is the reason, nil if there is none.
type Judgement struct {
	Outcome  workflow.EntityOutcome
	Undoable bool
	Decisive *EntityJob

	obstacle *EntityJob // the job that cannot be undone, of the last try of its work; nil if there is none
	changed  []string   // labels of the steps whose changes remain, in the order of their step runs
}

// JudgeEntity judges an entity by its jobs, in the order of their step runs.
func JudgeEntity(jobs []EntityJob, rules JudgeRules) Judgement {
	if len(jobs) == 0 {
		if rules.ExecutionFails { // nothing was done on it, and nothing will be
			return Judgement{Outcome: workflow.EntityFailedSafe}
		}
		return Judgement{Outcome: workflow.EntitySkipped}
	}
	last := map[[3]int]int{} // the last try that counts, by step and time: it has done the work of earlier ones again
	workOf := func(r *workflow.StepRun) [3]int {
		if rules.TimeOf == nil {
			return [3]int{r.StepIndex}
		}
		loop, index := rules.TimeOf(r)
		return [3]int{r.StepIndex, loop, index}
	}
	for i := range jobs {
		if r := jobs[i].StepRun; r.SupersededBy == 0 {
			last[workOf(r)] = max(last[workOf(r)], r.Try)
		}
	}
	var failure, doubt, obstacle, change *EntityJob
	var changed []string
	for i := range jobs {
		j := &jobs[i]
		if j.failed() && j.StepRun.SupersededBy == 0 && last[workOf(j.StepRun)] == j.StepRun.Try && (j.inDoubt() || !rules.Handled(j.StepRun)) && failure == nil {
			failure = j
		}
		if !j.changed() {
			continue
		}
		change = j
		if !slices.Contains(changed, j.StepRun.Label) {
			changed = append(changed, j.StepRun.Label)
		}
		if j.inDoubt() && doubt == nil {
			doubt = j
		}
		if !j.canBeUndone() && (obstacle == nil || obstacle.settledBy(j) && workOf(obstacle.StepRun) == workOf(j.StepRun)) {
			obstacle = j
		}
	}
	v := Judgement{Outcome: workflow.EntityFailedUnsafe, Decisive: cmp.Or(obstacle, failure, change), obstacle: obstacle, changed: changed}
	if failure != nil && obstacle != nil && (obstacle.Undo != UndoFailed || failure.StepRun.Try > obstacle.UndoTry) {
		v.Decisive = failure // it failed there; that something cannot be undone is said with it
	}
	switch {
	case failure == nil && !rules.ExecutionFails && !rules.Unfinished:
		return Judgement{Outcome: workflow.EntitySucceeded}
	case failure == nil && !rules.ExecutionFails && !anyChanged(jobs):
		return Judgement{Outcome: workflow.EntitySkipped}
	case change == nil:
		v.Outcome, v.Decisive = workflow.EntityFailedSafe, failure
	case rules.ExecutionFails:
	case rules.Leave && doubt == nil && !rules.Unfinished:
		v.Outcome, v.Decisive = workflow.EntityLeft, failure
	default:
		v.Undoable = obstacle == nil && (!rules.Leave || rules.Unfinished)
	}
	return v
}

// anyChanged reports whether a job has changed the entity, undone or not.
func anyChanged(jobs []EntityJob) bool {
	return slices.ContainsFunc(jobs, func(j EntityJob) bool { return j.Executed && !j.StepRun.Pure })
}

// Reason says in a failure why an entity has its outcome: where it failed, and of one that is unsafe,
// why it cannot be undone and what else remains.
func (v Judgement) Reason() *workflow.Failure {
	j := v.Decisive
	if j == nil {
		return nil
	}
	why := workflow.Failure{Code: workflow.FailureChangesRemain, Step: j.StepRun.Label}
	if v.Outcome != workflow.EntityFailedUnsafe && j.Failure != nil {
		why.Code, why.Message = j.Failure.Code, j.Failure.Message
		return why.Truncated()
	}
	if code, text := j.reason(); code != "" {
		why.Code, why.Message = code, text
	} else {
		why.Message = text
	}
	if v.Outcome == workflow.EntityFailedUnsafe {
		rest := v.remaining()
		why.Message = workflow.Truncate(why.Message, max(workflow.MaxShortMessage/4, workflow.MaxShortMessage-len(rest))) + rest
	}
	return why.Truncated()
}

// reason is why a job leaves its entity unsafe; without a code, that changes remain.
func (j *EntityJob) reason() (code, text string) {
	switch {
	case j.Undo == UndoFailed:
		text = fmt.Sprintf("the rollback of step %q has failed", j.StepRun.Label)
		if j.UndoFailure != nil {
			code, text = j.UndoFailure.Code, text+": "+j.UndoFailure.Message
		}
		return code, text
	case j.Code == workflow.JobCodeUnknown:
		return workflow.FailureWorkerCrash, fmt.Sprintf("the worker stopped during step %q: whether the block was executed is unknown", j.StepRun.Label)
	case j.Failure != nil:
		return j.Failure.Code, j.Failure.Message
	case !j.StepRun.Reversible:
		return "", fmt.Sprintf("step %q was executed and has no rollback", j.StepRun.Label)
	}
	return "", fmt.Sprintf("what step %q changed was not undone", j.StepRun.Label)
}

// remaining is what is to be said of an unsafe entity beside the job that decided: why it cannot be
// undone, if that is another, and which other steps have changed it.
func (v Judgement) remaining() (text string) {
	named := []string{v.Decisive.StepRun.Label}
	if o := v.obstacle; o != nil && o != v.Decisive {
		_, why := o.reason()
		text, named = "; "+workflow.Truncate(why, workflow.MaxShortMessage/4), append(named, o.StepRun.Label)
	}
	others := slices.DeleteFunc(slices.Clone(v.changed), func(label string) bool { return slices.Contains(named, label) })
	if len(others) > 0 {
		text += "; changes of these steps remain, too: " + workflow.Truncate(firstLabels(others), workflow.MaxShortMessage/4)
	}
	return text
}

// outcomes returns what has become of the entities, or nil after asking for it.
func (d *decider) outcomes(executionFails bool) *Outcomes {
	if o := d.facts.Outcomes; o != nil && o.ExecutionFails == executionFails {
		return o
	}
	d.need(Need{Kind: NeedOutcomes, ExecutionFails: executionFails})
	return nil
}

// recordOutcomes records what has become of the entities of an execution that does not complete. It reports whether it did:
// it may ask for that first.
func (d *decider) recordOutcomes() bool {
	o := d.outcomes(true)
	if o != nil {
		d.execution.Result = o.Result
	}
	return o != nil
}

// anyEntityFailed reports whether a job of an entity, or an assertion of it, has failed.
func (d *decider) anyEntityFailed() bool {
	return slices.ContainsFunc(d.execution.StepRuns, func(r workflow.StepRun) bool {
		return r.Kind == workflow.JobExecute && r.SupersededBy == 0 && d.node(&r).OnEntities() && r.Counts.Failed+r.Counts.Unknown+r.Unmet > 0
	})
}

func (d *decider) node(r *workflow.StepRun) *spec.Node {
	return &d.facts.Resolution.Program.Nodes[r.StepIndex]
}

// complete ends an execution whose last step is over. Where entities have failed within the
// tolerance, what was executed on them is undone first, if that is possible.
func (d *decider) complete() {
	if d.anyEntityFailed() || d.execution.Result != nil || d.execution.StoppedRollout() != nil {
		o := d.outcomes(false)
		if o == nil {
			return
		}
		d.execution.Result = o.Result
		switch {
		case o.Undo != nil:
			d.execution.Undo = o.Undo
			d.transition(sm.EventFailedEntitiesUndone, sm.ExecutionRollback, "", map[string]any{"entities": o.Undo.Entities.Len()})
			return
		case o.Unsafe.Len() > 0:
			d.endUnsafe(sm.EventExecutionClassifiedUnsafe, o, unsafeReason(o))
			return
		}
	}
	d.endCompleted(sm.EventExecutionCompleted)
}

// EventOutputMissing says why the output of an execution that completes has no value. Like
// [EventMessageDeadLettered] it belongs to no layer's transition table.
const EventOutputMissing = "output.missing" // the output of an execution that completes has no value

// endCompleted ends in COMPLETED, which must be committed before anything is written to the
// inventory. An output without a value changes nothing about that: all the work is done.
func (d *decider) endCompleted(on sm.Event) {
	if d.facts.Resolution.Program.HasOutput && !d.execution.Probe {
		o := d.facts.Output
		if o == nil {
			d.need(Need{Kind: NeedOutput})
			return
		}
		if d.execution.Output = o.Value; o.Value == nil {
			d.record(workflow.Event{Layer: string(sm.LayerWorkflow), Type: EventOutputMissing}, map[string]any{"reason": workflow.Truncate(o.Missing, workflow.MaxReasonBytes)})
		}
	}
	d.recordWorkflow(sm.EventWorkflowCompleted, sm.WorkflowRunning, sm.WorkflowCompleted, "")
	d.transition(on, sm.ExecutionCompleted, "", nil)
	if d.hasUpdates() {
		d.commitFirst()
	}
}

// endUndo ends the rollback of failed entities: the rest of the execution stands.
func (d *decider) endUndo() {
	o := d.outcomes(false)
	if o == nil {
		return
	}
	d.execution.Result = o.Result
	if o.Unsafe.Len() > 0 || o.Undo != nil {
		d.endUnsafe(sm.EventRollbackFailed, o, unsafeReason(o))
		return
	}
	if d.execution.RollbackTries > 0 && releasedUnsafe(d.execution) {
		d.endWithReleased(o)
		return
	}
	d.endCompleted(sm.EventRollbackCompleted)
}

// unsafeReason is what the history says about entities that need an operator.
func unsafeReason(o *Outcomes) map[string]any {
	data := map[string]any{}
	if o.Result != nil && len(o.Result.Named) > 0 {
		first := o.Result.Named[0]
		data["entity"], data["step"], data["because"] = first.Entity, first.Step, first.Message
	}
	return data
}

// endUnsafe ends in FAILED_UNSAFE and keeps the locks of the entities that an operator has
// to look at. The others are released by the same write.
func (d *decider) endUnsafe(on sm.Event, o *Outcomes, data map[string]any) {
	if d.execution.Error == nil && o.Result != nil && len(o.Result.Named) > 0 {
		first := o.Result.Named[0]
		d.setFailure(causeOf(first.Code), &workflow.Failure{Code: first.Code, Message: first.Message, Step: first.Step, Entity: first.Entity})
	}
	d.execution.Result = o.Result
	if !o.TooLarge {
		data["unsafe"] = o.Unsafe.Len()
		d.keepOnly(o.Unsafe)
	}
	d.end(on, sm.ExecutionFailedUnsafe, data)
}
