package oracle

import (
	"fmt"
	"reflect"
	"slices"

	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// blockRule judges steps that call a block.
type blockRule struct{}

// checkCall compares a call of a block with the plan of its step run.
func (x *execution) checkCall(r *workflow.StepRun, index int, c Call) {
	if c.Step != r.Label || x.program.find(r.Label) < 0 {
		x.Failf(lawOrder, "job %s is one of step %q, but its step run is of %q", c.Job, c.Step, r.Label)
		return
	}
	p := x.planOf(r)
	job, ok := p.jobs[index]
	switch {
	case x.unjudged: // too little is known about who takes part
	case x.x.Probe && x.program.block(x.program.find(r.Label)).Name != "pure":
		x.Failf(lawTakesPart, "job %s of step %s is called by a probe, and its block is not pure", c.Job, r.Label)
	case p.problem != "" && r.Pipeline == 0:
		x.Failf(lawTakesPart, "job %s of step %s is called, but the step has no jobs: %s", c.Job, r.Label, p.problem)
	case !ok:
		x.Failf(lawTakesPart, "%q takes part in step %s of %s, which is for %q only", c.Entity, r.Label, x.x.ID, p.order)
	case job.entity != c.Entity:
		x.Failf(lawTakesPart, "job %s of step %s is called for %q, want %q of %q", c.Job, r.Label, c.Entity, job.entity, p.order)
	case !sameParameters(decode(c.Parameters), job.parameters):
		x.Failf(lawParameters, "job %s of step %s has for %q the parameters %s, want %v", c.Job, r.Label, c.Entity, c.Parameters, job.parameters)
	case c.Entity != "" && !reflect.DeepEqual(decode(c.Attributes), any(job.attributes)):
		x.Failf(lawParameters, "job %s of step %s has of %q the attributes %s, want %v", c.Job, r.Label, c.Entity, c.Attributes, job.attributes)
	}
}

// sameParameters compares parameters; nil equals an empty object.
func sameParameters(got any, want map[string]any) bool {
	all, _ := got.(map[string]any)
	return len(all) == 0 && len(want) == 0 || reflect.DeepEqual(all, want)
}

// checkUndo compares a call that undoes a job with that job.
func (x *execution) checkUndo(r *workflow.StepRun, c Call) {
	undone := x.x.StepRunBySeq(r.Undoes)
	if undone == nil || undone.Kind != workflow.JobExecute {
		x.Failf(lawTakesPart, "job %s undoes step run %d, which has no jobs", c.Job, r.Undoes)
		return
	}
	f := x.fateOf(undone, c.Entity)
	switch {
	case f.part != partJob:
		x.Failf(lawTakesPart, "job %s undoes what step run %d did to %q, which took no part in it", c.Job, r.Undoes, c.Entity)
	case f.ok() && !reflect.DeepEqual(decode(c.Undoes), f.result):
		x.Failf(lawParameters, "job %s undoes the result %s of %q in step %s, which was %v", c.Job, c.Undoes, c.Entity, r.Label, f.result)
	case !sameParameters(decode(c.Parameters), x.planOf(undone).jobs[f.index].parameters):
		x.Failf(lawParameters, "job %s undoes step %s of %q with the parameters %s, want %v", c.Job, r.Label, c.Entity, c.Parameters, x.planOf(undone).jobs[f.index].parameters)
	}
}

// ended requires that a step run had the jobs that it had to have, and that each was called if it
// ended OK.
func (blockRule) ended(x *execution, r *workflow.StepRun, n int, p *plan) {
	text := func() string {
		return fmt.Sprintf("%s: step run %d of %s has ended %s with %d jobs, %d skipped, %d unmet", x.x.ID, r.Seq, r.Label, r.Status, r.Jobs, r.Skipped, r.Unmet)
	}
	if r.Pipeline == 0 {
		refused := r.Status == sm.StepFailed && r.Jobs == 0 // before it had jobs
		switch {
		case p.problem != "" && !refused:
			x.Failf(lawTakesPart, "%s, but it has to fail: %s", text(), p.problem)
		case p.problem == "" && len(p.unmet) == 0 && refused && len(p.jobs) > 0 && r.Failure != nil && r.Failure.Code != workflow.FailureLimit:
			x.Failf(lawTakesPart, "%s, but it has to have jobs for %q: %+v", text(), p.order, r.Failure)
		case !refused && (r.Jobs != len(p.jobs) || r.Unmet != len(p.unmet) || r.Skipped != p.skipped):
			x.Failf(lawTakesPart, "%s; it has to have jobs for %q, %d skipped, %q unmet", text(), p.order, p.skipped, p.unmet)
		}
	}
	if r.Status != sm.StepCompleted {
		return
	}
	for index, job := range p.jobs {
		if !called(x, r, index) && !unsent(x, r, index) {
			x.Failf(lawTakesPart, "%s, but its block was not called for %q; it has to be for %q", text(), job.entity, p.order)
		}
	}
	for index := range x.records[r.Seq] {
		if _, ok := p.jobs[index]; !ok {
			x.Failf(lawTakesPart, "%s; it has a job %d for an entity that is not one of %q", text(), index, slices.Clone(p.order))
		}
	}
}

// called reports whether a block was called for a job: in its first attempt, or in the one after an attempt that a
// program may have had.
func called(x *execution, r *workflow.StepRun, index int) bool {
	for attempt := 1; attempt <= max(1, len(x.records[r.Seq][index])); attempt++ {
		job := workflow.JobID(x.x.ID, r.Seq, index, attempt)
		if x.calls[job] != nil {
			return true
		}
		if !x.polled[job] {
			return false
		}
	}
	return false
}

// unsent reports whether nobody claims to have called the block: its worker could not, its end is not
// known, or the program that had polled the job did not call it in its time.
func unsent(x *execution, r *workflow.StepRun, index int) bool {
	c, attempt := x.latest(r.Seq, index)
	return c.unsent || c.code == workflow.JobCodeUnknown || c.failed == workflow.FailureTimeout && x.polled[workflow.JobID(x.x.ID, r.Seq, index, attempt)]
}
