package lifecycle

import (
	"fmt"
	"strings"

	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// A try that acquires its locks again keeps results of earlier tries, and may have to undo their
// work. If another execution has held an entity exclusively in between, what is kept for that
// entity is outdated. Such a try dispatches nothing unless an operator has forced it.

// Outdated lists the entities of a new try for which outdated results are kept.
type Outdated struct {
	Entities []OutdatedEntity
	Lost     error // why the work of earlier tries is unknown; nil if it is known
}

// OutdatedEntity is an entity that others have held exclusively since the execution released it,
// and for which a new try keeps something.
type OutdatedEntity struct {
	Entity workflow.EntityKey
	By     []string // who has held it, the first one first; empty if that is no longer known
	Kept   Kept

	Undone string // for a compensation: id of the execution to undo, which has released the entity; then nothing is kept
}

// Kept is what a new try keeps for an entity.
type Kept struct {
	Step int  // node of the first step with kept results
	Undo bool // the step's work must still be undone if the try fails, even if the step is executed again
}

// KeptOf returns what a new try keeps for an entity with these jobs, which are ordered by step run;
// ok is false if it keeps nothing. A result is kept if no try must produce it again and no rollback
// has touched it. A change that can be undone is kept because the rollback of any later try would
// undo it.
func KeptOf(jobs []EntityJob) (k Kept, ok bool) {
	for i := range jobs {
		j := &jobs[i]
		result := j.StepRun.SupersededBy == 0 && j.Code == workflow.JobCodeOK && (j.Undo == NotUndone || j.UndoUnsent)
		undo := j.changed() && j.canBeUndone()
		if !ok && (result || undo) {
			k.Step, ok = j.StepRun.StepIndex, true
		}
		k.Undo = k.Undo || undo
	}
	return k, ok
}

// refuseLost returns the refusal of a retry of an execution if a restore has lost what it did.
func (d *decider) refuseLost(why error) error {
	return workflow.Errorf(workflow.CodeIllegalTransition, "execution %s cannot be retried: %w; check its entities, acknowledge it, and start another execution", d.execution.ID, why)
}

// maxOutdatedNamed bounds how many entities and executions a refusal names.
const maxOutdatedNamed = 10

// refuseOutdated returns the refusal of a retry that would keep outdated results.
func (d *decider) refuseOutdated(outdated []OutdatedEntity) error {
	p := d.facts.Resolution.Program
	e := &workflow.Error{Code: workflow.CodeConflict, Message: d.outdatedMessage(outdated)}
	for _, o := range outdated[:min(len(outdated), maxOutdatedNamed)] {
		e.Issues = append(e.Issues, workflow.Issue{Path: "entities", Code: IssueOutdated, Message: fmt.Sprintf("%s: %s held it since, and what step %q did for it stands", o.Entity, heldBy(o.By), p.Nodes[o.Kept.Step].Label)})
	}
	return e
}

// IssueOutdated is the code of the issue of each entity for which a retry would keep outdated results.
const IssueOutdated = "outdated"

// failOutdated ends a try that has just acquired its locks, because others have held entities in
// between.
func (d *decider) failOutdated(outdated []OutdatedEntity) {
	message := d.outdatedMessage(outdated)
	d.setFailure(workflow.CauseOutdated, &workflow.Failure{Code: workflow.FailureOutdated, Entity: outdated[0].Entity.String(), Message: message})
	var names []string
	for _, o := range outdated[:min(len(outdated), workflow.MaxNamed)] {
		names = append(names, o.Entity.String())
	}
	data := map[string]any{"outdated": names, "heldBy": outdated[0].By, "reason": message}
	d.failBeforeRunning(sm.EventLockRefused, data)
}

// outdatedMessage says for which entities results are outdated, and what to do.
func (d *decider) outdatedMessage(outdated []OutdatedEntity) string {
	p, first := d.facts.Resolution.Program, outdated[0]
	begin, undo := first.Kept.Step, false
	for _, o := range outdated {
		begin, undo = min(begin, o.Kept.Step), undo || o.Kept.Undo
	}
	entities := first.Entity.String()
	if n := len(outdated) - 1; n > 0 {
		entities += fmt.Sprintf(" and %d more", n)
	}
	kept, instead := fmt.Sprintf("with what step %q has done for it", p.Nodes[first.Kept.Step].Label), fmt.Sprintf("retry from %q for all entities, ", labelToBeginWith(p, begin))
	if undo {
		kept, instead = kept+", which a rollback would undo", ""
	}
	return fmt.Sprintf("%s held %s exclusively since the execution released it, and the retry would go on %s: check it, then %srerun the execution, or force the retry", heldBy(first.By), entities, kept, instead)
}

// labelToBeginWith returns the label of the step with which a try must begin to execute a node
// again.
func labelToBeginWith(p *spec.Program, node int) string {
	for at := p.Nodes[node].Parent; at >= 0; at = p.Nodes[at].Parent {
		if p.Nodes[at].Loop != nil || p.Nodes[at].Rollout != nil {
			node = at
		}
	}
	return p.Nodes[p.OutsideBranches(node)].Label
}

func heldBy(ids []string) string {
	switch n := len(ids); {
	case n == 0:
		return "executions that are not known any more have"
	case n == 1:
		return "execution " + ids[0] + " has"
	case n > maxOutdatedNamed:
		return fmt.Sprintf("executions %s and %d more have", strings.Join(ids[:maxOutdatedNamed], ", "), n-maxOutdatedNamed)
	default:
		return fmt.Sprintf("executions %s have", strings.Join(ids, ", "))
	}
}
