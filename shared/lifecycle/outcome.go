package lifecycle

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// This file determines the outcome of each entity. JudgeEntity judges the jobs of one entity; the
// rest ends an execution according to these judgements.

// Outcomes holds the outcomes of the entities in the execution's scope.
type Outcomes struct {
	ExecutionFails bool // as in the need
	Result         *workflow.Result
	Unsafe         workflow.Places
	Undo           *workflow.Undo // what can be undone for the failed entities; nil for nothing
}

// UndoState is the result of undoing a job.
type UndoState int

// The states.
const (
	NotUndone  UndoState = iota
	Undone               // the rollback of the job ended OK
	UndoFailed           // it did not end OK, or may have been executed
)

// EntityJob is the result of the job of one entity in one step run.
type EntityJob struct {
	StepRun     *workflow.StepRun
	Code        workflow.JobCode // FAIL for an entity that failed an assertion
	Executed    bool             // the block was called, or may have been
	Failure     *workflow.Failure
	Undo        UndoState
	UndoFailure *workflow.Failure
	UndoTry     int  // the try in which it was to be undone
	UndoUnsent  bool // undoing failed without calling the block
}

// changed reports whether a change that is not pure remains.
func (j *EntityJob) changed() bool { return j.Executed && !j.StepRun.Pure && j.Undo != Undone }

// settledBy reports whether a job of a later try has repeated this job's work, so that the later
// job alone decides what remains. That does not settle a failed undo.
func (j *EntityJob) settledBy(later *EntityJob) bool {
	return later.StepRun.Try > j.StepRun.Try && j.Undo != UndoFailed
}

// failed reports whether the job ended in failure.
func (j *EntityJob) failed() bool {
	return j.Code == workflow.JobCodeFail || j.Code == workflow.JobCodeUnknown
}

// endUnknown reports whether it is unknown if, or how far, the block was executed.
func (j *EntityJob) endUnknown() bool { return EndUnknown(j.Code, j.Failure) }

// EndUnknown reports whether it is unknown if, or how far, a job was executed that ended with this
// code and failure.
func EndUnknown(code workflow.JobCode, why *workflow.Failure) bool {
	if code == workflow.JobCodeUnknown {
		return true
	}
	return code == workflow.JobCodeFail && why != nil && why.LeavesDoubt()
}

// inDoubt reports whether the end of the job left a doubt that only an undo or a person can settle.
func (j *EntityJob) inDoubt() bool {
	return j.Executed && canBeInDoubt(j.StepRun) && j.endUnknown()
}

// canBeUndone reports whether what remains of the job can be undone.
func (j *EntityJob) canBeUndone() bool {
	return j.StepRun.Reversible && j.Undo == NotUndone && (j.Code != workflow.JobCodeUnknown || j.StepRun.UndoHarmless)
}

// JudgeRules are the rules by which the entities of one execution are judged.
type JudgeRules struct {
	ExecutionFails bool                           // no entity succeeds, because the execution fails
	Leave          bool                           // the definition says to leave failed entities as they are
	Handled        func(r *workflow.StepRun) bool // the definition has continued after a failure of the step run
	Unfinished     bool                           // the entity is in a rollout wave that has failed or never began
	OnlyLocked     bool                           // no step of the definition runs on entities of its type

	// RoundOf returns the innermost loop around a step run, and its round; nil if there are no
	// loops.
	RoundOf func(*workflow.StepRun) (loop, index int)
}

// Judgement is the outcome of an entity. Undoable means that everything executed on it can be
// undone, and that it would then be FAILED_SAFE. Decisive is the job whose failure or change is the
// reason; nil if there is none.
type Judgement struct {
	Outcome  workflow.EntityOutcome
	Undoable bool
	Decisive *EntityJob

	obstacle *EntityJob // the job of the last try of its work that cannot be undone; nil if there is none
	changed  []string   // labels of the steps whose changes remain, ordered by step run
}

// JudgeEntity judges an entity by its jobs, which are ordered by step run.
func JudgeEntity(jobs []EntityJob, rules JudgeRules) Judgement {
	switch {
	case slices.ContainsFunc(jobs, func(j EntityJob) bool { return j.Executed || j.failed() }):
	case rules.ExecutionFails: // nothing was done on it, and nothing will be
		return Judgement{Outcome: workflow.EntityFailedSafe}
	case rules.OnlyLocked && !rules.Unfinished: // it was locked for work without entities, which is done
		return Judgement{Outcome: workflow.EntitySucceeded}
	default:
		return Judgement{Outcome: workflow.EntitySkipped}
	}
	last := map[[3]int]int{} // the last try that counts, by step and round: it has repeated the work of earlier tries
	workOf := func(r *workflow.StepRun) [3]int {
		if rules.RoundOf == nil {
			return [3]int{r.StepIndex}
		}
		loop, index := rules.RoundOf(r)
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
		v.Decisive = failure // it failed there; what cannot be undone is added to the message
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

// Reason returns, as a failure, why an entity has its outcome: where it failed and, if it is
// unsafe, why it cannot be undone and what else remains.
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

// reason returns why a job leaves its entity unsafe. Without a code it means that changes remain.
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

// remaining returns what else to say about an unsafe entity: why it cannot be undone, if another
// job than the decisive one is the cause, and which other steps have changed it.
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

// outcomes returns the outcomes of the entities, or nil after asking for them.
func (d *decider) outcomes(executionFails bool) *Outcomes {
	if o := d.facts.Outcomes; o != nil && o.ExecutionFails == executionFails {
		return o
	}
	d.need(Need{Kind: NeedOutcomes, ExecutionFails: executionFails})
	return nil
}

// recordOutcomes records the outcomes of the entities of an execution that does not complete. It
// reports whether it did; it may have to ask for them first.
func (d *decider) recordOutcomes() bool {
	o := d.outcomes(true)
	if o != nil {
		d.execution.Result = o.Result
	}
	return o != nil
}

// anyEntityFailed reports whether a job or an assertion has failed for any entity.
func (d *decider) anyEntityFailed() bool {
	return slices.ContainsFunc(d.execution.StepRuns, func(r workflow.StepRun) bool {
		return r.Kind == workflow.JobExecute && r.SupersededBy == 0 && d.node(&r).OnEntities() && r.Counts.Failed+r.Counts.Unknown+r.Unmet > 0
	})
}

// anyEntitySkipped reports whether there may be entities on which no step was executed although the
// definition has steps for them. It reports false only if each type of entity has a step that was
// executed on all entities of that type, in one step run or in all waves of one rollout.
func (d *decider) anyEntitySkipped() bool {
	x := d.execution
	if x.Probe {
		return false
	}
	for entityType, n := range x.Scope.Counts {
		if d.facts.Resolution.Program.RunsOn(entityType) && (x.Scope.Only != nil || d.mostExecuted(entityType) < n) {
			return true
		}
	}
	return false
}

// mostExecuted returns the largest number of entities of a type on which one step was executed in
// one step run, or in the waves of one rollout.
func (d *decider) mostExecuted(entityType string) (most int) {
	type step struct{ index, rollout int }
	waves, sums := map[[3]int]int{}, map[step]int{}
	for i := range d.execution.StepRuns {
		r := &d.execution.StepRuns[i]
		if r.Kind != workflow.JobExecute || d.node(r).EntityType() != entityType {
			continue
		}
		executed := r.JobCount() - r.Counts.NotExecuted // a branch that was closed has not called its block for all
		most = max(most, executed)
		if around := d.execution.StepRunBySeq(r.In); around == nil || d.node(around).Rollout == nil {
			continue
		}
		wave, of := [3]int{r.StepIndex, r.In, r.Index}, step{r.StepIndex, r.In}
		if before := waves[wave]; executed > before {
			waves[wave], sums[of] = executed, sums[of]+executed-before
		}
		most = max(most, sums[of])
	}
	return most
}

func (d *decider) node(r *workflow.StepRun) *spec.Node {
	return &d.facts.Resolution.Program.Nodes[r.StepIndex]
}

// complete ends an execution whose last step is over. It judges the entities if some may have failed
// or been skipped. If entities have failed within the tolerance, the work on them is undone first,
// if that is possible.
func (d *decider) complete() {
	if d.anyEntityFailed() || d.execution.Result != nil || d.execution.StoppedRollout() != nil || d.anyEntitySkipped() {
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
// inventory. A missing output does not change that, because all the work is done.
func (d *decider) endCompleted(on sm.Event) {
	if d.facts.Resolution.Program.HasOutput && !d.execution.Probe {
		o := d.facts.Output
		if o == nil {
			d.need(Need{Kind: NeedOutput})
			return
		}
		if d.execution.Output = o.Value; o.Value == nil {
			d.execution.Output = &workflow.Value{Inline: json.RawMessage("null")}
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

// unsafeReason returns what the history says about entities that need an operator.
func unsafeReason(o *Outcomes) map[string]any {
	data := map[string]any{}
	if o.Result != nil && len(o.Result.Named) > 0 {
		first := o.Result.Named[0]
		data["entity"], data["step"], data["because"] = first.Entity, first.Step, first.Message
	}
	return data
}

// endUnsafe ends in FAILED_UNSAFE and keeps the locks of the entities that an operator must look
// at. The same write releases the others.
func (d *decider) endUnsafe(on sm.Event, o *Outcomes, data map[string]any) {
	if d.execution.Error == nil && o.Result != nil && len(o.Result.Named) > 0 {
		first := o.Result.Named[0]
		d.setFailure(causeOf(first.Code), &workflow.Failure{Code: first.Code, Message: first.Message, Step: first.Step, Entity: first.Entity})
	}
	d.execution.Result = o.Result
	data["unsafe"] = o.Unsafe.Len()
	if !d.keepOnly(o.Unsafe) { // there is no room to name them: all that it holds stay locked
		data["locked"] = d.execution.Scope.Total()
		if d.execution.Kept != nil {
			data["locked"] = d.execution.Kept.Len()
		}
	}
	d.end(on, sm.ExecutionFailedUnsafe, data)
}
