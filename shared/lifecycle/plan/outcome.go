package plan

import (
	"fmt"
	"slices"

	"github.com/lockstep-run/lockstep/shared/lifecycle"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Released replaces the token of an entity that the execution has released after an earlier try.
const Released = -1

// ForRollback plans which jobs of an executed step run a rollback wave must undo, from the plan of
// the step run and its packs: every job that was executed or may have been, with the result of its
// latest attempt that has one.
//
// held has the current lock tokens, which may be newer than those under which the step run was
// executed. Jobs of an entity that is no longer held cannot be undone. Jobs of an entity that was
// released are left out: the work on it stands.
func ForRollback(executed JobPlan, packs []*workflow.Pack, held map[workflow.EntityKey]int64) JobPlan {
	final := LatestRecords(packs)
	var p JobPlan
	jobs := executed.Jobs
	if len(jobs) > 0 && jobs[0].Item != nil { // the last item first
		jobs = slices.Clone(jobs)
		slices.Reverse(jobs)
	}
	for _, j := range jobs {
		rec, ok := final[j.Index]
		if !ok || !rec.Executed() {
			continue
		}
		undo := j
		if j.Entity != nil {
			if undo.Token, ok = held[*j.Entity]; !ok {
				return JobPlan{Plan: lifecycle.Plan{Cause: workflow.CauseStepFailed, Problem: &workflow.Failure{
					Code: workflow.FailureEntityNotHeld, Entity: j.Entity.String(),
					Message: fmt.Sprintf("%s is no longer part of the execution, so its changes cannot be undone", j.Entity),
				}}}
			}
			if undo.Token == Released {
				continue
			}
		}
		undo.Index, undo.Result, undo.ResultRef = len(p.Jobs), rec.Result, rec.ResultRef
		p.Jobs = append(p.Jobs, undo)
	}
	p.Plan.Jobs = len(p.Jobs)
	return p
}

// LatestRecords merges the packs of a step run into one record for each job, by index. A later
// attempt replaces an earlier one, unless it was not executed. A result is kept until a later
// attempt has one. The reference of a result that is stored separately names its pack.
func LatestRecords(packs []*workflow.Pack) map[int]workflow.JobRecord {
	ordered := slices.Clone(packs)
	slices.SortFunc(ordered, func(a, b *workflow.Pack) int { return a.Key.Attempt - b.Key.Attempt })
	latest := make(map[int]workflow.JobRecord)
	for _, p := range ordered {
		for _, rec := range p.Jobs {
			old, seen := latest[rec.Index]
			if seen && old.Code.Executed() && !rec.Executed() {
				continue
			}
			if rec.ResultRef != nil {
				rec.ResultRef = rec.ResultRef.InPack(p.Key)
			}
			if rec.Result == nil && rec.ResultRef == nil {
				rec.Result, rec.ResultRef = old.Result, old.ResultRef
			}
			latest[rec.Index] = rec
		}
	}
	return latest
}

// FirstInDoubt returns the failure of the first job about which it is unknown whether, or how far,
// it was executed; nil if there is none.
func FirstInDoubt(jobs int, latest map[int]workflow.JobRecord, name func(index int) string) *workflow.Failure {
	for i := range jobs {
		rec := latest[i]
		if !rec.Executed() || !lifecycle.EndUnknown(rec.Code, rec.Failure) {
			continue
		}
		why := workflow.Failure{Code: workflow.FailureWorkerCrash, Message: "a worker crashed; whether the block was executed is unknown"}
		if rec.Failure != nil {
			why = *rec.Failure
		}
		why.Entity = name(i)
		return &why
	}
	return nil
}

// CountResults counts the jobs of a step run by result. Jobs without a record were not executed or,
// in a step run of a pipeline whose lanes are all over, were skipped. entityName returns the
// "type/id" of a job; "" for a global call.
func CountResults(jobs int, latest map[int]workflow.JobRecord, entityName func(index int) string) workflow.Counts {
	var counts workflow.Counts
	for i := range jobs {
		rec := latest[i]
		switch rec.Code {
		case workflow.JobCodeOK:
			counts.OK++
		case workflow.JobCodeFail:
			counts.Failed++
			if !rec.Executed() {
				counts.Unsent++
			}
			if counts.Failure == nil && rec.Failure != nil {
				why := *rec.Failure
				why.Entity = entityName(i)
				counts.Failure = &why
			}
		case workflow.JobCodeUnknown:
			counts.Unknown++
			if counts.UnknownEntity == "" {
				counts.UnknownEntity = entityName(i)
			}
		default:
			counts.NotExecuted++
		}
	}
	return counts
}
