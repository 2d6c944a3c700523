package lifecycle

import (
	"fmt"
	"strings"

	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// A try that takes its locks anew keeps results of the tries before it, and may have to undo what they
// did. Where another execution has held an entity exclusively in between, what is kept for that entity is
// outdated. Such a try dispatches nothing unless an operator has forced it.

// Outdated are the entities of a new try for which outdated results are kept.
type Outdated struct {
	Entities []OutdatedEntity
	Lost     error // why nobody can say what the tries before have done; nil if that is known
}

// OutdatedEntity is an entity that others have held exclusively since the execution released it, and for
// which a new try keeps something.
type OutdatedEntity struct {
	Entity workflow.EntityKey
	By     []string // who has held it, the first before the others; empty if that is not known any more
	Kept   Kept

	Undone string // of an execution that undoes another one: id of that one, which has released it; then nothing is kept
}

// Kept is what a new try keeps for an entity.
type Kept struct {
	Step int  // the node of the first step of which something is kept
	Undo bool // what it did there has still to be undone if the try fails, also where the step is executed again
}

// KeptOf says what a new try keeps for an entity with these jobs, in the order of their step runs; ok is
// false if that is nothing. A result stands that no try has to make again and no rollback has touched.
// What has changed something, and can be undone, would be undone by the rollback of any later try.
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

// refuseLost is the answer to the request for a try of an execution of which a restore has lost what it did.
func (d *decider) refuseLost(why error) error {
	return workflow.Errorf(workflow.CodeIllegalTransition, "execution %s cannot be retried: %w; check its entities, acknowledge it, and start another execution", d.execution.ID, why)
}

// maxOutdatedNamed is how many entities and executions a refusal names.
const maxOutdatedNamed = 10

// refuseOutdated is the answer to the request for a try that would keep outdated results.
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

// failOutdated ends a try that has just got its locks: others have held entities until then.
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

// outdatedMessage says for whom results are outdated, and what to do.
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

// labelToBeginWith is the label of the step with which a try has to begin that executes a node again.
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
